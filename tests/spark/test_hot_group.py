"""One group with 80 % of all records: what is moved is a few blobs, and nothing is miscounted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import biglog, eventlog

pytestmark = pytest.mark.spark
RUN = "import sys; from kgtool.cli.app.main import main; sys.exit(main())"
RECORDS = 400_000


def test_no_row_is_moved_and_none_is_miscounted(tmp_path: Path) -> None:
    expected = biglog.write(tmp_path / "log", RECORDS)
    events = tmp_path / "events"
    events.mkdir()
    result = subprocess.run(
        [sys.executable, "-c", RUN, "analyze", str(tmp_path / "log"), "-o", "json",
         "--conf", "spark.sql.shuffle.partitions=8",
         *eventlog.options(events)],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    (summary,) = json.loads(result.stdout)["results"]
    assert summary["quality"]["records"] == expected.records
    assert summary["live_offsets"] == expected.live_offsets
    assert summary["live_groups"] == expected.live_groups
    assert sum(row["removals"] for row in summary["removals"]) == expected.removals
    assert expected.hot_records > 0.79 * expected.records
    shuffles = [stage for stage in eventlog.stages(events) if sum(stage.records)]
    assert shuffles
    for stage in shuffles:
        assert sum(stage.records) < 1000, stage.line()
