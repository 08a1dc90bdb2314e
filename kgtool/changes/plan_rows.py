"""The rows of any plan: which are open, and which have failed.

A row is a named tuple with ``group``, ``topic``, ``partition``, ``status``, ``error`` and
``is_open``; a group has its ``rows``. Where a group has no parts, it is a row itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from kgtool.changes.offsets.verify import changed_meanwhile
from kgtool.errors import KgError
from kgtool.model import CommittedOffset, ItemError, Target, has_failed, same_commit

RowT = TypeVar("RowT")
GroupT = TypeVar("GroupT")


def failed(row: RowT, error: KgError | ItemError) -> RowT:
    """Return a row with an error, and the status that follows from it."""
    known: Any = row
    if isinstance(error, KgError):
        names = (getattr(known, name, None) for name in ("group", "topic", "partition"))
        error = ItemError.of(error, Target(*names))
    done: RowT = known._replace(status=error.status, error=error)
    return done


def open_rows(*groups: Any) -> list[Any]:
    """Return the open rows."""
    return [row for group in groups for row in getattr(group, "rows", (group,)) if row.is_open]


def each_open(group: GroupT, change: Callable[[Any], Any]) -> GroupT:
    """Return a group with each open row changed."""

    def changed(row: Any) -> Any:
        return change(row) if row.is_open else row

    known: Any = group
    if not hasattr(known, "rows"):
        alone: GroupT = changed(known)
        return alone
    done: GroupT = known._replace(rows=list(map(changed, known.rows)))
    return done


def settle(groups: Sequence[GroupT], all_or_nothing: bool) -> list[GroupT]:
    """Return the groups; with ``all_or_nothing`` and a failure, with every open row skipped."""
    return skip(groups) if all_or_nothing and any(map(has_failed, groups)) else list(groups)


def skip(groups: Iterable[GroupT]) -> list[GroupT]:
    """Return groups with every open row skipped."""
    return [each_open(group, lambda row: row._replace(status="skipped")) for group in groups]


def compared(
    row: RowT,
    old: CommittedOffset | None,
    now: CommittedOffset | KgError | None,
    pending: KgError | None,
) -> RowT:
    """Return a row unchanged if the current offset is the one of the plan, else failed.

    :param pending: the error where a transaction is about to change the offset, if that matters.
    """
    if isinstance(now, KgError):
        return failed(row, now)
    if pending is not None and now is not None and now.is_pending:
        return failed(row, pending)
    return row if same_commit(now, old) else failed(row, changed_meanwhile(old, now))
