"""The kinds of records in a log, from the notes of who read it: for ``retention.written_by``."""

from __future__ import annotations

from typing import Any

from kgtool.retention.written_by import Written

REASON = "written by"
"""Of the notes that tell what kinds of records a range of a log has."""
VERSIONS = 16
"""A number above all versions of values."""


def written(notes: Any) -> list[Written]:
    """What the notes of ``REASON`` tell: an Arrow table of ``schema.RECORDS``."""
    sums = notes.group_by(["partition", "position"]).aggregate(
        [("first_ms", "min"), ("timestamp_ms", "max")]
    )
    return [
        Written(
            row["partition"],
            row["position"] // VERSIONS,
            row["position"] % VERSIONS,
            row["first_ms_min"],
            row["timestamp_ms_max"],
        )
        for row in sums.to_pylist()
    ]
