"""What every run of ``doctor`` must look like to a program."""

from __future__ import annotations

from typing import Any

from kgtool.queries.doctor.finding import KINDS
from tests.cli.run import Result

KEYS = [
    "finding",
    "severity",
    "group",
    "topic",
    "partition",
    "broker",
    "message",
    "evidence",
    "fix",
]
FIXED = {
    "beyond-end",
    "before-start",
    "at-risk",
    "uncommitted",
    "topic-recreated",
    "topic-gone",
    "ghost-topic",
    "expiring",
    "retention-gap",
    "loses-when-empty",
    "pending-transaction",
    "piling-up",
    "offsets-not-compacted",
    "offsets-segments",
    "denied",
}
"""The findings that come with a command: ``tests.broker.test_doctor_fixes`` runs each of them
(``denied``: ``tests.broker.test_doctor``)."""


def rows_of(result: Result) -> list[dict[str, Any]]:
    """The findings of a run with ``-o json``; no command is printed that no test runs."""
    rows: list[dict[str, Any]] = result.json["results"]
    for row in rows:
        assert list(row) == KEYS
        assert row["finding"] in KINDS
        assert row["severity"] in ("problem", "warning", "note")
        assert row["message"].endswith(".")
        assert row["fix"] is None or row["finding"] in FIXED, row
        is_cleanup = row["fix"] is not None and "cleanup plan" in row["fix"]
        assert not is_cleanup or "--idle" in row["fix"], row
    return rows


def only_row(result: Result, kind: str) -> dict[str, Any]:
    """The only finding of a run."""
    (row,) = rows_of(result)
    assert row["finding"] == kind
    return row
