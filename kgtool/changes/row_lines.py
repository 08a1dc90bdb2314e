"""The rows of a plan or a report, of whatever kind of change, as lines for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kgtool.changes.driver import rows_of
from kgtool.changes.plan import Group
from kgtool.model import CommittedOffset
from kgtool.text import escape

SHOWN = 200
"""The rest is counted."""


def row_lines(groups: Sequence[Group]) -> Iterator[str]:
    """Say of each row what would be done, or what became of it; ``SHOWN`` at most."""
    rows = [row for group in groups for row in rows_of(group)]
    # A group may fail as a whole, without a row.
    failed = [group for group in groups if group.error is not None and not rows_of(group)]
    for row in [*failed, *rows][:SHOWN]:
        yield _line(row)
    if len(rows) > SHOWN:
        yield f"… and {len(rows) - SHOWN:,} more"


def _line(row: Any) -> str:
    topic, partition = getattr(row, "topic", None), getattr(row, "partition", None)
    number = "" if partition is None else f":{partition}"
    at = "" if topic is None else f" {escape(topic)}{number}"
    moved = _moved(row.old, row.new) if hasattr(row, "new") else ""
    why = "" if row.error is None else f": {escape(row.error.message)}"
    status = getattr(row, "status", "failed")
    return f"{status:16} {escape(row.group)}{at}{moved}{why}"


def _moved(old: CommittedOffset | None, new: CommittedOffset | None) -> str:
    """Say how an offset moves: what is skipped is never read."""
    was, becomes = (None if one is None else one.offset for one in (old, new))
    shown = ["-" if offset is None else f"{offset:,}" for offset in (was, becomes)]
    by = 0 if was is None or becomes is None else becomes - was
    what = "" if not by else f", skips {by:,}" if by > 0 else f", replays {-by:,}"
    return f" {shown[0]} → {shown[1]}{what}"
