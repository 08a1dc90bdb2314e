"""``describe --all-groups`` against Kafka's tool, and against requests that nobody decodes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.bench import tape
from tests.bench.installed import KGTOOL
from tests.bench.measure import Command, Run, in_turn, peak, seconds
from tests.bench.results import Result
from tests.bench.world import World

GROUPS, OFFSETS = 2000, 50
STREAMS = (100, 20, 50)
"""Groups, topics, partitions of each: with metadata and leader epochs, as Streams commits them."""


def measure(world: World, runs: int) -> list[Result]:
    """Time text against Kafka's tool, NDJSON against the same requests replayed bare."""
    work = f"--describe --all-groups, {GROUPS:,} × {OFFSETS}, text"
    return [*_text(world, runs, work), _ndjson(world, runs)]


def of_streams(world: World, runs: int) -> list[Result]:
    """The same where each group has many topics, and each offset metadata and a leader epoch."""
    groups, topics, partitions = STREAMS
    return _text(world, runs, f"{groups} × {topics} topics × {partitions}, metadata, text")


def _text(world: World, runs: int, work: str) -> list[Result]:
    ours = Command([KGTOOL, "--bootstrap-server", world.bootstrap, "--describe", "--all-groups"])
    theirs = Command(world.kafka("kafka-consumer-groups", "--describe", "--all-groups",
                                 "--timeout", "120000"))  # fmt: skip
    pair = in_turn(ours, theirs, runs, _same_rows)
    first = sorted(run.first_seconds for run in pair.ours)[len(pair.ours) // 2]
    return [
        Result(work, "Kafka's tool", 1 / pair.ratio, 25, faster=True, seconds=seconds(pair.ours),
               note=f"Kafka's {seconds(pair.theirs):.2f} s; first row after {first:.2f} s"),
        Result("its peak memory", "a limit", peak(pair.ours), 120, seconds=seconds(pair.ours),
               is_less_than="MiB"),
    ]  # fmt: skip


def _same_rows(ours: Run, theirs: Run) -> None:
    mine, kafkas = (_rows(run.out) for run in (ours, theirs))
    assert mine == kafkas
    assert len(mine) >= GROUPS * OFFSETS


def _rows(out: bytes) -> set[tuple[str, ...]]:
    lines = (line.split() for line in out.decode().splitlines())
    return {tuple(words) for words in lines if len(words) > 5 and words[0] != "GROUP"}


def _ndjson(world: World, runs: int) -> Result:
    argv = ["describe", "--all-groups", "-o", "ndjson"]
    recorded = tape.record(world, argv)
    ours = Command([KGTOOL, "--bootstrap-server", world.bootstrap, *argv])
    bare = Command([sys.executable, "-S", str(Path(tape.__file__).with_name("replay.py")),
                    world.bootstrap, str(recorded)])  # fmt: skip
    pair = in_turn(ours, bare, runs, _is_complete)
    return Result(
        "the same, NDJSON",
        "its bare requests",
        pair.ratio,
        6,
        seconds=seconds(pair.ours),
        note=f"bare {seconds(pair.theirs):.2f} s",
    )


def _is_complete(ours: Run, _theirs: Run) -> None:
    lines = ours.out.splitlines()
    assert len(lines) >= GROUPS * OFFSETS
    row = json.loads(lines[-1])
    assert row["current_offset"] == 3 and row["lag"] == 2


def grown(few: World, many: World, runs: int) -> list[Result]:
    """Time ten times the rows."""
    argv = ["--describe", "--all-groups", "--timeout", "600000"]
    small = Command([KGTOOL, "--bootstrap-server", few.bootstrap, *argv])
    large = Command([KGTOOL, "--bootstrap-server", many.bootstrap, *argv])
    pair = in_turn(large, small, runs)
    work = "10,000 × 100 (1 M rows)"
    return [
        Result(f"{work}, time", f"{GROUPS:,} × {OFFSETS}", pair.ratio, 11,
               seconds=seconds(pair.ours)),
        Result(f"{work}, memory", f"{GROUPS:,} × {OFFSETS}",
               peak(pair.ours) / peak(pair.theirs), 2, seconds=seconds(pair.ours),
               note=f"{peak(pair.ours):.0f} and {peak(pair.theirs):.0f} MiB"),
    ]  # fmt: skip
