"""``describe --all-groups`` against Kafka's tool, and against requests that nobody decodes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.bench import tape
from tests.bench.installed import KGTOOL
from tests.bench.measure import Command, Run, in_turn, peak, seconds
from tests.bench.results import Result
from tests.bench.sizes import Sizes
from tests.bench.world import World


def measure(world: World, runs: int, sizes: Sizes) -> list[Result]:
    """Time text against Kafka's tool, NDJSON against the same requests replayed bare."""
    work = f"--describe --all-groups, {sizes.groups:,} × {sizes.offsets}, text"
    rows = sizes.groups * sizes.offsets
    return [*_text(world, runs, work, rows), _own(world, runs, rows), _ndjson(world, runs, rows)]


def of_streams(world: World, runs: int, sizes: Sizes) -> list[Result]:
    """The same where each group has many topics, and each offset metadata and a leader epoch."""
    groups, topics, partitions = sizes.streams
    work = f"{groups} × {topics} topics × {partitions}, metadata, text"
    return _text(world, runs, work, groups * topics * partitions)


def _text(world: World, runs: int, work: str, rows: int) -> list[Result]:
    ours = Command([KGTOOL, "--bootstrap-server", world.bootstrap, "--describe", "--all-groups"])
    theirs = Command(
        world.kafka("kafka-consumer-groups", "--describe", "--all-groups", "--timeout", "120000")
    )

    def same_rows(ours: Run, theirs: Run) -> None:
        mine = _rows(ours.out)
        assert mine == _rows(theirs.out)
        assert len(mine) >= rows

    pair = in_turn(ours, theirs, runs, same_rows)
    first = sorted(run.first_seconds for run in pair.ours)[len(pair.ours) // 2]
    return [
        Result(
            work,
            "Kafka's tool",
            1 / pair.ratio,
            25,
            faster=True,
            seconds=seconds(pair.ours),
            note=f"Kafka's {seconds(pair.theirs):.2f} s; first row after {first:.2f} s",
        ),
        Result(
            "its peak memory",
            "a limit",
            peak(pair.ours),
            120,
            seconds=seconds(pair.ours),
            is_less_than="MiB",
        ),
    ]


def _rows(out: bytes) -> set[tuple[str, ...]]:
    lines = (line.split() for line in out.decode().splitlines())
    return {tuple(words) for words in lines if len(words) > 5 and words[0] != "GROUP"}


def _own(world: World, runs: int, rows: int) -> Result:
    """The table that a user sees who types ``kgtool describe``, against that of Kafka's form."""
    at = ["--bootstrap-server", world.bootstrap]
    ours = Command([KGTOOL, "describe", *at, "--all-groups"])
    kafkas_form = Command([KGTOOL, *at, "--describe", "--all-groups"])

    def is_complete(ours: Run, _theirs: Run) -> None:
        assert ours.out.count(b" ok\n") >= rows

    pair = in_turn(ours, kafkas_form, runs, is_complete)
    work = "the same, kgtool describe --all-groups"
    return Result(work, "Kafka's form", pair.ratio, 3, seconds=seconds(pair.ours))


def _ndjson(world: World, runs: int, rows: int) -> Result:
    argv = ["describe", "--all-groups", "-o", "ndjson"]
    recorded = tape.record(world, argv)
    ours = Command([KGTOOL, "--bootstrap-server", world.bootstrap, *argv])
    bare = Command(
        [
            sys.executable,
            "-S",
            str(Path(tape.__file__).with_name("replay.py")),
            world.bootstrap,
            str(recorded),
        ]
    )

    def is_complete(ours: Run, _theirs: Run) -> None:
        lines = ours.out.splitlines()
        assert len(lines) >= rows
        row = json.loads(lines[-1])
        assert row["current_offset"] == 3 and row["lag"] == 2

    pair = in_turn(ours, bare, runs, is_complete)
    return Result(
        "the same, NDJSON",
        "its bare requests",
        pair.ratio,
        6,
        seconds=seconds(pair.ours),
        note=f"bare {seconds(pair.theirs):.2f} s",
    )


def grown(few: World, many: World, runs: int, sizes: Sizes) -> list[Result]:
    """Time the larger world against the other one: ten times the rows."""
    argv = ["--describe", "--all-groups", "--timeout", "600000"]
    small = Command([KGTOOL, "--bootstrap-server", few.bootstrap, *argv])
    large = Command([KGTOOL, "--bootstrap-server", many.bootstrap, *argv])
    pair = in_turn(large, small, runs)
    count, offsets = sizes.many
    work = f"{count:,} × {offsets} ({count * offsets:,} rows)"
    less = f"{sizes.groups:,} × {sizes.offsets}"
    return [
        Result(f"{work}, time", less, pair.ratio, 11, seconds=seconds(pair.ours)),
        Result(
            f"{work}, memory",
            less,
            peak(pair.ours) / peak(pair.theirs),
            2,
            seconds=seconds(pair.ours),
            note=f"{peak(pair.ours):.0f} and {peak(pair.theirs):.0f} MiB",
        ),
    ]
