"""``delete-offsets`` of many groups against one run of Kafka's tool per group."""

from __future__ import annotations

import statistics

from tests.bench.installed import KGTOOL
from tests.bench.measure import Command, Run, quiet, run, seconds
from tests.bench.results import Result
from tests.bench.sizes import Sizes
from tests.bench.world import World, groups


def measure(world: World, runs: int, sizes: Sizes) -> list[Result]:
    """Delete with a journal, commit again, and delete some with Kafka's tool, in turn."""
    runs = max(runs, 1)
    count, partitions = sizes.deleted
    topic = world.topic("deleted", partitions)
    names = iter(groups(sizes.sample * runs, "theirs"))
    mine, kafkas, ratios = [], [], []
    for _ in range(runs):
        some = [
            _kafkas(world, topic, next(names), partitions)
            for _ in range(max(sizes.sample // runs, 1))
        ]
        one = _ours(world, topic, count, partitions)
        mine.append(one)
        kafkas += some
        ratios.append(seconds(some) * count / one.seconds)
    return [
        Result(
            f"delete-offsets, {count:,} × {partitions}, journaled",
            "Kafka's tool, a run per group",
            statistics.median(ratios),
            300,
            faster=True,
            seconds=seconds(mine),
            note=f"Kafka's {seconds(kafkas):.2f} s a group, {len(kafkas)} measured",
        )
    ]


def _ours(world: World, topic: str, count: int, partitions: int) -> Run:
    world.commit(topic, groups(count, "mine"), partitions)
    argv = [
        "delete-offsets",
        "--bootstrap-server",
        world.bootstrap,
        "--match",
        "mine-*",
        "--topic",
        topic,
        "--yes",
        "-o",
        "ndjson",
    ]
    done = run(Command([KGTOOL, *argv], quiet(world.folder)))
    assert done.out.count(b'"status": "deleted"') == count * partitions, done.out[:300]
    return done._replace(out=b"")


def _kafkas(world: World, topic: str, group: str, partitions: int) -> Run:
    world.commit(topic, [group], partitions)
    argv = ["--delete-offsets", "--group", group, "--topic", topic]
    done = run(Command(world.kafka("kafka-consumer-groups", *argv)))
    assert b"Successful" in done.out, done.out[:300]
    return done._replace(out=b"")
