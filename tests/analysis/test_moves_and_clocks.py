"""A coordinator that has just moved is given time; a clock of the future is not believed."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis
from tests.analysis import writer
from tests.analysis.writer import Raw, offset_key, offset_value
from tests.support.tables import dicts

MINUTE_MS, DAY_MS = 60_000, 86_400_000
NOW_MS = time.time_ns() // 1_000_000 - DAY_MS
INTERVAL_MS = 10 * MINUTE_MS


def commit(at: int, group: str, ms: int, epoch: int = 0) -> bytes:
    raw = Raw(offset_key(group), offset_value(at, ms), ms)
    data = writer.batch(at, [raw])
    # Not under the batch's CRC.
    return data[:12] + struct.pack(">i", epoch) + data[16:]


def analysis(path: Path) -> Analysis:
    basis = broker_settings.settings_from(None, "4.1", DAY_MS, INTERVAL_MS)
    return Analysis(LocalEngine(), find_inputs([str(path)]).files, basis)


@pytest.mark.parametrize(
    ("moved", "end", "late"),
    [(None, 15, True), (5, 12, False), (5, 16, True), (-30, 15, True), (12, 20, False)],
)
def test_two_intervals_after_a_move(
    tmp_path: Path, moved: int | None, end: int, late: bool
) -> None:
    """``due`` should be gone; the coordinator moves so many minutes later (earlier: below 0)."""
    due_ms = NOW_MS
    rows = [("due", due_ms - DAY_MS, 3)]
    if moved is not None:
        rows.append(("other", due_ms + moved * MINUTE_MS, 4))
    rows.append(("last", due_ms + end * MINUTE_MS, rows[-1][2]))
    data = b"".join(commit(at, name, ms, epoch) for at, (name, ms, epoch) in enumerate(rows))
    found = analysis(writer.segment(tmp_path, data))
    assert [row["group"] for row in dicts(found, "overdue")] == (["due"] if late else [])


def test_one_record_of_the_future_is_no_end_of_the_log(tmp_path: Path) -> None:
    times = [NOW_MS - DAY_MS // 2, NOW_MS, NOW_MS + 400 * DAY_MS, NOW_MS + 5]
    data = b"".join(commit(at, f"g{at}", ms) for at, ms in enumerate(times))
    found = analysis(writer.segment(tmp_path, data))
    assert found.end_ms == NOW_MS + 5
    assert found.future_records == (1, NOW_MS + 400 * DAY_MS)
    assert dicts(found, "overdue") == []


def test_a_log_that_is_all_of_the_future_is_believed(tmp_path: Path) -> None:
    """It is this machine's clock then that is wrong."""
    data = b"".join(commit(at, f"g{at}", NOW_MS + (400 + at) * DAY_MS) for at in range(4))
    found = analysis(writer.segment(tmp_path, data))
    assert (found.end_ms, found.future_records) == (NOW_MS + 403 * DAY_MS, None)
