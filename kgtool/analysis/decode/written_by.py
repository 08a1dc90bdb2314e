"""The kinds of records in a log, from the notes of who read it: for ``retention.written_by``."""

from __future__ import annotations

from typing import Any

from kgtool.retention.written_by import Written

REASON = "written by"
"""Of the notes that tell what kinds of records a range of a log has."""
VERSIONS = 16
"""A number above all versions of values: the kind of a value is key type · VERSIONS + version."""


def written(notes: Any) -> list[Written]:
    """What the notes of ``REASON`` tell."""
    sums = notes.group_by(["partition", "value_kind"]).aggregate(
        [("oldest_ms", "min"), ("newest_ms", "max")]
    )
    return [
        Written(
            row["partition"],
            row["value_kind"] // VERSIONS,
            row["value_kind"] % VERSIONS,
            row["oldest_ms_min"],
            row["newest_ms_max"],
        )
        for row in sums.to_pylist()
    ]
