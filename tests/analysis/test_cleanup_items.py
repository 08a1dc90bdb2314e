"""What could be deleted, of a log partition that has nothing any more."""

from __future__ import annotations

from pathlib import Path

from kgtool.analysis.input import sources
from kgtool.analysis.input.find import find
from kgtool.analysis.local import Local
from kgtool.analysis.pipeline import Analysis, Wanted
from tests.analysis import writer
from tests.analysis.writer import Raw

AT_MS = 1_795_265_000_000


def test_a_log_partition_without_a_living_offset(tmp_path: Path) -> None:
    commit = Raw(writer.offset_key("went"), writer.offset_value(5, AT_MS), AT_MS)
    gone = Raw(writer.offset_key("went"), None, AT_MS + 1)
    writer.segment(tmp_path, writer.batch(0, [commit, gone]), partition=7)
    basis = sources.basis(None, "4.1", None, None)
    files = find([str(tmp_path)]).files
    analysis = Analysis(Local(), files, basis, None, Wanted(plan=True, idle_ms=10_000))
    assert list(analysis.decisions()) == []
