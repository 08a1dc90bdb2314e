"""One group with 80 % of all records: what is moved is a few blobs, and nothing is miscounted."""

from __future__ import annotations

import json
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest

from kgtool.analysis import schema
from kgtool.analysis.decode.blobs import from_bytes
from kgtool.analysis.decode.rows import DecodeOptions
from kgtool.analysis.decode.segments import split
from kgtool.analysis.input.readers.ranges import parts
from kgtool.analysis.spark.blob_rows import split_blobs
from tests.support import biglog, eventlog

pytestmark = pytest.mark.spark
RUN = (
    "import sys; from kgtool.analysis.spark import engine; engine.LEAST = 10; "
    "from kgtool.cli.app.main import main; sys.exit(main())"
)
"""With a task for each log partition, as large logs have them."""
RECORDS = 400_000


def test_no_row_is_moved_and_none_is_miscounted(tmp_path: Path) -> None:
    expected = biglog.write(tmp_path / "log", RECORDS)
    events = tmp_path / "events"
    events.mkdir()
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            RUN,
            "analyze",
            str(tmp_path / "log"),
            "-o",
            "json",
            "--conf",
            "spark.sql.shuffle.partitions=8",
            *eventlog.options(events),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
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
    # A sort would hold a task's blobs in the JVM; each has one log partition's.
    assert '"nodeName":"Sort"' not in "".join(path.read_text() for path in events.iterdir())


def test_a_blob_never_spans_two_splits(tmp_path: Path) -> None:
    """Else the blobs of the splits between them overlap it, and no row is dropped."""
    biglog.write(tmp_path, 40_000)
    (path,) = (tmp_path / "__consumer_offsets-0").iterdir()
    size = path.stat().st_size
    ranges = list(split(BytesIO(path.read_bytes()), size, size // 3))
    assert len(ranges) >= 3
    rows = [
        {"path": str(path), "partition": 0, "start": start, "end": end, "format": "segment"}
        for start, end in (ranges[0], ranges[-1])
    ]
    found = []
    for batch in split_blobs(rows, DecodeOptions(keep_all=True), parts):
        (blob,) = batch.to_pylist()
        if blob["kind"] == schema.KIND_OFFSET:
            found.append(from_bytes(blob["data"])["log_offset"].to_pylist())
    assert len(found) == 2
    for offsets in found:
        assert offsets == list(range(offsets[0], offsets[-1] + 1))
