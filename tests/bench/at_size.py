"""What memory each change takes that touches every offset of the cluster."""

from __future__ import annotations

from tests.bench.installed import KGTOOL
from tests.bench.measure import Command, Run, quiet, run
from tests.bench.results import Result
from tests.bench.sizes import Sizes
from tests.bench.world import World, groups
from tests.support import clients

GOAL_MIB = 300
TOPIC = "orders"
TIMEOUT = "10m"


def measure(world: World, sizes: Sizes) -> list[Result]:
    """Make every change once, and take it back; each is as large as the cluster.

    An independent client looks at the first, the middle and the last group after each.
    """
    count, partitions = sizes.changed
    topic = world.topic(TOPIC, partitions)
    names = groups(count)
    world.commit(topic, names, partitions)
    file = str(world.folder / "backup.jsonl")
    undo = ["undo", "last"]
    everything = ["--all-groups"]
    steps: list[tuple[list[str], int | None]] = [
        (["keep", *everything], 3),
        (["reset-offsets", *everything, "--topic", topic, "--to-offset", "4", "--execute"], 4),
        (undo, 3),
        (["delete-offsets", *everything, "--topic", topic], None),
        (undo, 3),
        (["backup", *everything, "--out", file], 3),
        (["delete", *everything], None),
        (["restore", file], 3),
        (["delete", *everything], None),
        (undo, 3),
    ]
    found = []
    for argv, expected in steps:
        done = _run(world, argv)
        for name in (names[0], names[count // 2], names[-1]):
            offsets = clients.committed(world.bootstrap, name)
            assert set(offsets.values()) == ({expected} if expected is not None else set()), argv
            assert len(offsets) in (0, partitions), (argv, name)
        found.append(
            Result(
                f"{argv[0]}, {count:,} × {partitions}",
                "peak memory",
                done.peak_mib,
                GOAL_MIB,
                seconds=done.seconds,
                is_less_than="MiB",
            )
        )
    return found


def _run(world: World, argv: list[str]) -> Run:
    asks = [] if argv[0] == "backup" else ["--yes"]
    options = ["--bootstrap-server", world.bootstrap, "--timeout", TIMEOUT, "-o", "ndjson", *asks]
    return run(Command([KGTOOL, *argv, *options], quiet(world.folder)))
