"""A segment is missing in the middle of a log partition: what it had is unknown, not "never was".

Kind: an input that does not tell all is read as if it did. Siblings: a missing file of Parquet, the
middle of one of several copies, a log that the cleaner has thinned, whose gaps tell nothing.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis, TableOptions
from tests.analysis.test_lives import write as write_entries
from tests.analysis.test_unknown import SETS, Line, Rest, differences, lines, superseded
from tests.analysis.writer import segment
from tests.retention.logs import Log


def write(folder: Path, rows: list[Line], cuts: list[int], *, without: int | None = None) -> None:
    """One log partition in segments that begin at these offsets."""
    for at, (base, end) in enumerate(zip(cuts, [*cuts[1:], 1 << 60], strict=True)):
        data = b"".join(row.batch for row in rows if base <= row.offset < end)
        if at != without:
            segment(folder, data, rows[0].partition, base)


def analyzed(folder: Path, name: str, end_ms: int) -> Analysis:
    basis = broker_settings.settings_from(None, name, 60_000, 5_000)._replace(as_of_ms=end_ms)
    scenarios = (broker_settings.Scenario(basis.rules, 20_000, 5_000),)
    options = TableOptions(scenarios, 300_000, 10_000, gaps=True, plan=True)
    return Analysis(LocalEngine(1), find_inputs([str(folder)]).files, basis, None, options)


@pytest.mark.parametrize("name", SETS)
def test_what_a_missing_segment_had_is_unknown(name: str, tmp_path: Path) -> None:
    """Was: causes of removals, dates and overdue offsets as if it had had nothing, status 0."""
    count = 0
    for seed in range(3):
        rng = random.Random(f"{name} {seed}")
        rows = [row for row in lines(rng, name, quiet=True) if row.partition == 0]
        size = rows[-1].offset + 1
        cuts = [0, *sorted(rng.sample(range(1, size), 2))]
        whole, less = tmp_path / f"whole{seed}", tmp_path / f"less{seed}"
        write(whole, rows, cuts)
        write(less, rows, cuts, without=1)
        end_ms = max(row.at_ms for row in rows) + 1000
        there, here = (analyzed(folder, name, end_ms) for folder in (whole, less))
        assert (there.holes, here.holes) == ({}, {0: (cuts[1], cuts[2] - 1)})
        # Which offsets there are is what was read; a note says that newer ones may be missing.
        found = [
            each
            for each in differences(there, here)
            if not re.match(r"live\.offset:|(live|removals|groups): .*not in the whole log", each)
        ]
        assert not found, "\n".join(found[:4])
        causes = [row["cause"] for row in there.rows("removals")]
        count += len(causes) - causes.count(None)
        assert list(here.rows("overdue")) == []
    assert count, "nothing to be wrong about"


@pytest.mark.parametrize("name", ["2.4", "4.1"])
def test_what_a_damaged_batch_had_is_unknown(name: str, tmp_path: Path) -> None:
    """Was: the file was named, and causes told as if the damage had had nothing."""
    rng = random.Random(name)
    rows = [row for row in lines(rng, name, quiet=True) if row.partition == 0]
    whole, less = tmp_path / "whole", tmp_path / "less"
    write(whole, rows, [0])
    write(less, rows, [0])
    (path,) = less.rglob("*.log")
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 400] = bytes(400)
    path.write_bytes(data)
    end_ms = max(row.at_ms for row in rows) + 1000
    there, here = (analyzed(folder, name, end_ms) for folder in (whole, less))
    assert (there.holes, here.holes) == ({}, {0: None})
    found = [
        each
        for each in differences(there, here)
        if not re.match(r"live\.offset:|(live|removals|groups): .*not in the whole log", each)
    ]
    assert not found, "\n".join(found[:4])


def test_a_log_that_was_cleaned_has_gaps_and_no_holes(tmp_path: Path) -> None:
    rng = random.Random(1)
    rows = [row for row in lines(rng, "4.1", quiet=True) if row.partition == 0]
    rest = [row for row in superseded(rows, rng).lines if row.partition == 0]
    middle = rest[len(rest) // 2].offset
    cleaned = [rows[0], *(row for row in rest if 0 < row.offset < middle)]
    assert len(cleaned) < middle
    dirty = [row for row in rows if row.offset > middle + 1]
    write(tmp_path, [*cleaned, *dirty], [0, middle + 2])
    assert analyzed(tmp_path, "4.1", rows[-1].at_ms + 1000).holes == {}


def test_copies_of_a_partition_fill_each_others_holes(tmp_path: Path) -> None:
    rows = [row for row in lines(random.Random(2), "4.1", quiet=True) if row.partition == 0]
    rest = Rest(rows).lines
    cuts = [0, rest[len(rest) // 3].offset, rest[len(rest) // 2].offset]
    write(tmp_path / "a", rest, cuts, without=1)
    write(tmp_path / "b", rest, cuts)
    assert analyzed(tmp_path, "4.1", rows[-1].at_ms + 1000).holes == {}


@pytest.mark.parametrize(
    ("is_whole", "has_own", "said"),
    [(True, False, "Empty"), (False, False, None), (True, True, "Dead"), (False, True, "Dead")],
)
def test_a_group_whose_commits_are_superseded_may_be_there(
    is_whole: bool, has_own: bool, said: str | None, tmp_path: Path
) -> None:
    """Was Dead: a group that a commit made stays when its offsets are deleted (OffsetDelete), and
    what the cleaner has left of it are their tombstones."""
    log = Log()
    log.commit(1_000, group="other")
    log.commit(2_000)
    log.commit(3_000, group="other")
    log.forget(4_000)
    if has_own:
        log.end_group(4_000)
    folder = tmp_path / "__consumer_offsets-0"
    rest = log.entries if is_whole else log.entries[:1] + log.entries[2:]
    write_entries(folder, rest, 0, random.Random(1))
    rows = analyzed(folder, "4.1", 9_000).rows("groups")
    states = {row["group"]: row["group_state"] for row in rows}
    assert states == {"g": said, "other": "Empty"}
