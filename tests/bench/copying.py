"""``backup`` beside ``describe``, ``export`` beside the console consumer and bare Fetches."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from tests.bench.installed import KGTOOL
from tests.bench.measure import Command, Run, in_turn, quiet, seconds
from tests.bench.results import Result
from tests.bench.sizes import Sizes
from tests.bench.world import World


def backup(world: World, runs: int, sizes: Sizes) -> list[Result]:
    """Time a backup of everything against a look at the same, in the same run."""
    file = world.folder / "backup.jsonl"
    least = sizes.groups * sizes.offsets
    ours = Command(
        [
            KGTOOL,
            "backup",
            "--bootstrap-server",
            world.bootstrap,
            "--all-groups",
            "--out",
            str(file),
        ],
        quiet(world.folder),
        before=lambda: file.unlink(missing_ok=True),
    )
    theirs = Command([KGTOOL, "--bootstrap-server", world.bootstrap, "--describe", "--all-groups"])

    def check(_ours: Run, theirs: Run) -> None:
        rows = file.read_text().count('"offset"')
        assert rows >= least, rows
        assert theirs.out.count(b"\n") >= least

    pair = in_turn(ours, theirs, runs, check)
    work = f"backup, {sizes.groups:,} × {sizes.offsets}"
    return [Result(work, "describe of the same", pair.ratio, 1.2, seconds=seconds(pair.ours))]


def export(world: World, records: int, runs: int) -> list[Result]:
    """Time an export of ``records`` records of ``__consumer_offsets``."""
    out = world.folder / "export"
    copy = world.folder / "fetched"

    def clear() -> None:
        shutil.rmtree(out, ignore_errors=True)
        shutil.rmtree(copy, ignore_errors=True)

    ours = Command(
        [KGTOOL, "export", "--bootstrap-server", world.bootstrap, "--out", str(out)], before=clear
    )
    formatter = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
    kafkas = Command(
        world.kafka(
            "kafka-console-consumer",
            "--topic",
            "__consumer_offsets",
            "--from-beginning",
            "--formatter",
            formatter,
            "--timeout-ms",
            "5000",
        ),
        statuses=(0, 1),
    )
    fetch = Command(
        [sys.executable, str(Path(__file__).with_name("fetch.py")), world.bootstrap, str(copy)]
    )

    def same_bytes(_ours: Run, _theirs: Run) -> None:
        assert _size(out / "segments", "*/*.log") == _size(copy, "*.log")

    def as_many(_ours: Run, theirs: Run) -> None:
        offsets = sum(end for _, end in _ranges(out))
        assert theirs.out.count(b'"commitTimestamp"') >= records
        assert offsets >= records

    slow = in_turn(ours, kafkas, min(runs, 1), as_many)
    bare = in_turn(ours, fetch, runs, same_bytes)
    work = f"export, {records:,} records"
    # The console consumer waits five seconds for more before it ends: that is not its work.
    faster = (seconds(slow.theirs) - 5) / seconds(slow.ours)
    return [
        Result(
            work,
            "console consumer",
            faster,
            10,
            faster=True,
            seconds=seconds(slow.ours),
            note=f"console {seconds(slow.theirs) - 5:.1f} s",
        ),
        Result(
            work,
            "a bare Fetch loop",
            bare.ratio,
            1.5,
            seconds=seconds(bare.ours),
            note=f"bare {seconds(bare.theirs):.2f} s",
        ),
    ]


def _size(folder: Path, pattern: str) -> int:
    return sum(file.stat().st_size for file in folder.glob(pattern))


def _ranges(out: Path) -> list[tuple[int, int]]:
    about = json.loads((out / "cluster.json").read_text())
    found = []
    for topic in about["topics"]:
        if topic["name"] == "__consumer_offsets":
            found = [
                (part["log_start_offset"], part["log_end_offset"]) for part in topic["partitions"]
            ]
    return found
