"""``list`` against Kafka's tool."""

from __future__ import annotations

from tests.bench.installed import KGTOOL
from tests.bench.measure import Command, Run, in_turn, seconds
from tests.bench.results import Result
from tests.bench.sizes import Sizes
from tests.bench.world import World


def measure(world: World, runs: int, sizes: Sizes) -> list[Result]:
    """Time both on the same broker; the names must be the same."""
    ours = Command([KGTOOL, "--bootstrap-server", world.bootstrap, "--list"])

    def same(ours: Run, theirs: Run) -> None:
        assert sorted(ours.out.split()) == sorted(theirs.out.split())
        assert len(ours.out.split()) >= sizes.groups

    pair = in_turn(ours, Command(world.kafka("kafka-consumer-groups", "--list")), runs, same)
    return [
        Result(
            f"--list, {sizes.groups:,} groups",
            "Kafka's tool",
            1 / pair.ratio,
            8,
            faster=True,
            seconds=seconds(pair.ours),
            note=f"Kafka's {seconds(pair.theirs):.2f} s",
        )
    ]
