"""``delete-offsets`` of 2,000 groups × 10 partitions against one run of Kafka's tool per group."""

from __future__ import annotations

import statistics

from tests.bench.installed import KGTOOL
from tests.bench.measure import Command, Run, quiet, run, seconds
from tests.bench.results import Result
from tests.bench.world import World, groups

GROUPS, PARTITIONS, SAMPLE = 2000, 10, 20


def measure(world: World, runs: int) -> list[Result]:
    """Delete with a journal, commit again, and delete some with Kafka's tool, in turn."""
    topic = world.topic("deleted", PARTITIONS)
    names = iter(groups(SAMPLE * runs, "theirs"))
    mine, kafkas, ratios = [], [], []
    for _ in range(runs):
        some = [_kafkas(world, topic, next(names)) for _ in range(max(SAMPLE // runs, 1))]
        one = _ours(world, topic)
        mine.append(one)
        kafkas += some
        ratios.append(seconds(some) * GROUPS / one.seconds)
    return [
        Result(f"delete-offsets, {GROUPS:,} × {PARTITIONS}, journaled",
               "Kafka's tool, a run per group", statistics.median(ratios), 300, faster=True,
               seconds=seconds(mine),
               note=f"Kafka's {seconds(kafkas):.2f} s a group, {len(kafkas)} measured")
    ]  # fmt: skip


def _ours(world: World, topic: str) -> Run:
    world.commit(topic, groups(GROUPS, "mine"), PARTITIONS)
    argv = ["delete-offsets", "--bootstrap-server", world.bootstrap, "--match", "mine-*",
            "--topic", topic, "--yes", "-o", "ndjson"]  # fmt: skip
    done = run(Command([KGTOOL, *argv], quiet(world.folder)))
    assert done.out.count(b'"status": "deleted"') == GROUPS * PARTITIONS, done.out[:300]
    return done._replace(out=b"")


def _kafkas(world: World, topic: str, group: str) -> Run:
    world.commit(topic, [group], PARTITIONS)
    argv = ["--delete-offsets", "--group", group, "--topic", topic]
    done = run(Command(world.kafka("kafka-consumer-groups", *argv)))
    assert b"Successful" in done.out, done.out[:300]
    return done._replace(out=b"")
