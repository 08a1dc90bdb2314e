"""What could be deleted, of logs that have nothing any more, or don't tell all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis, TableOptions
from kgtool.analysis.tables.cleanup import decisions
from kgtool.changes.cleanup.plan_file import LeftOut
from tests.analysis import writer
from tests.analysis.writer import Raw
from tests.retention.truth import DATA

AT_MS = 1_795_265_000_000


def test_a_log_partition_without_a_living_offset(tmp_path: Path) -> None:
    commit = Raw(writer.offset_key("went"), writer.offset_value(5, AT_MS), AT_MS)
    gone = Raw(writer.offset_key("went"), None, AT_MS + 1)
    writer.segment(tmp_path, writer.batch(0, [commit, gone]), partition=7)
    basis = broker_settings.settings_from(None, "4.1", None, None)
    files = find_inputs([str(tmp_path)]).files
    analysis = Analysis(LocalEngine(), files, basis, None, TableOptions(plan=True, idle_ms=10_000))
    assert list(analysis.decisions()) == []


@pytest.mark.parametrize("idle_ms", [None, 10_000])
def test_an_input_that_does_not_tell_when_offsets_were_committed(idle_ms: int | None) -> None:
    dump = DATA / "export-samples" / "2.1.1.dump-log-offsets-decoder.txt"
    basis = broker_settings.settings_from(None, "2.4", None, None)
    options = TableOptions(plan=True, idle_ms=idle_ms)
    analysis = Analysis(LocalEngine(), find_inputs([str(dump)]).files, basis, None, options)
    why = "when its offsets were committed is not in the log"
    assert list(decisions(analysis.decisions())) == [LeftOut("inj-gm2-empty", why)]
