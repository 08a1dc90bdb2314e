"""The rows of a plan, whatever it changes: which are still to be done, and which can't be.

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
    """Return a row that can't be, or was not, changed, and why."""
    known: Any = row
    if isinstance(error, KgError):
        error = ItemError.of(error, Target(known.group, known.topic, known.partition))
    done: RowT = known._replace(status=error.status, error=error)
    return done


def open_rows(*groups: Any) -> list[Any]:
    """Return the rows that are still to be done."""
    return [row for group in groups for row in group.rows if row.is_open]


def each_open(group: GroupT, change: Callable[[Any], Any]) -> GroupT:
    """Return a group with what becomes of each row that is still to be done."""

    def changed(row: Any) -> Any:
        return change(row) if row.is_open else row

    known: Any = group
    if not hasattr(known, "rows"):
        alone: GroupT = changed(known)
        return alone
    done: GroupT = known._replace(rows=list(map(changed, known.rows)))
    return done


def settle(groups: Sequence[GroupT], all_or_nothing: bool) -> list[GroupT]:
    """Return groups as they stand: where all or nothing is asked for, one failure stops all."""
    return skip(groups) if all_or_nothing and any(map(has_failed, groups)) else list(groups)


def skip(groups: Iterable[GroupT]) -> list[GroupT]:
    """Return groups with nothing left to do, as others have failed."""
    return [each_open(group, lambda row: row._replace(status="skipped")) for group in groups]


def compared(
    row: RowT, old: CommittedOffset | None, now: CommittedOffset | KgError | None,
    pending: KgError | None,
) -> RowT:  # fmt: skip
    """Return a row as it is where its offset is what the plan has shown, else failed.

    :param pending: why it is left alone where a transaction is about to change it, if it is.
    """
    if isinstance(now, KgError):
        return failed(row, now)
    if pending is not None and now is not None and now.is_pending:
        return failed(row, pending)
    return row if same_commit(now, old) else failed(row, changed_meanwhile(old, now))
