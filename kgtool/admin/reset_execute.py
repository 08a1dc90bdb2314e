"""Doing what a reset's plan says: look again, write, and read back what was written.

There is no compare-and-set for committed offsets. So everything is read once more just before the
first write, and what is no longer as planned is left alone; afterwards the offsets are read back,
and only what is found there counts as done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kgtool.admin.commit import Outcome, commit_offsets
from kgtool.admin.committed import Committed
from kgtool.admin.groups import describe_with_type
from kgtool.admin.reset_committed import fetch_selected
from kgtool.admin.reset_plan import GroupReset, ResetRow
from kgtool.admin.reset_rows import failed, refusal
from kgtool.client.cluster import Cluster
from kgtool.client.ops import READING_SHARE, Operation, gather, within
from kgtool.errors import BrokerError, KgError, NetworkError, OutcomeUnknown
from kgtool.model import (
    CommittedOffset,
    GroupDescription,
    ItemError,
    Target,
    TopicPartition,
)
from kgtool.protocol import codes

BeforeChange = Callable[[Sequence[ResetRow]], None]
"""Called once with every row that is about to be written, old and new offsets in it. If it raises,
nothing is written: this is the place of the journal (contract, section 5)."""


WRITING_SHARE = 0.7
"""Of the time that is left: the rest is for reading back what was written."""


class ChangedMeanwhile(KgError):
    """Somebody else committed between the plan and its execution."""

    name = "CHANGED_MEANWHILE"


class NotVerified(KgError):
    """The coordinator said yes, but something else is there now."""

    name = "NOT_VERIFIED"


def execute_resets(
    cluster: Cluster,
    plan: Sequence[GroupReset],
    *,
    force: bool = False,
    all_or_nothing: bool = False,
    before_change: BeforeChange | None = None,
) -> Operation[list[GroupReset]]:
    """Write the rows that ``would-reset``; return the plan with what became of each.

    :param force: write where a transaction is pending, too.
    :param all_or_nothing: write nothing if any row of the plan has failed, or fails the second
        look. Once writing has begun, what fails does not take back the rest.
    :param before_change: see ``BeforeChange``.
    """
    now = settle(plan, all_or_nothing)
    now = yield from within(_look_again(cluster, now, force), READING_SHARE)
    now = settle(now, all_or_nothing)
    rows = _to_write(now)
    if not rows:
        return now
    if before_change is not None:
        before_change(rows)
    outcomes = yield from within(commit_offsets(cluster, _offsets(rows)), WRITING_SHARE)
    found = yield from fetch_selected(cluster, _partitions(rows))
    return [
        reset._replace(
            rows=[
                _done(row, outcomes[row.group], found[row.group]) if _is_open(row) else row
                for row in reset.rows
            ]
        )
        for reset in now
    ]


def settle(resets: Sequence[GroupReset], all_or_nothing: bool) -> list[GroupReset]:
    """Return the rows as they stand: where all or nothing is asked for, one failure stops all."""
    has_failed = any(
        reset.error is not None or any(row.error is not None for row in reset.rows)
        for reset in resets
    )
    if not (all_or_nothing and has_failed):
        return list(resets)
    return [reset._replace(rows=[_skipped(row) for row in reset.rows]) for reset in resets]


def _is_open(row: ResetRow) -> bool:
    return row.status == "would-reset"


def _to_write(resets: Iterable[GroupReset]) -> list[ResetRow]:
    return [row for reset in resets for row in reset.rows if _is_open(row)]


def _skipped(row: ResetRow) -> ResetRow:
    return row._replace(status="skipped") if _is_open(row) else row


def _partitions(rows: Iterable[ResetRow]) -> dict[str, list[TopicPartition]]:
    parts: dict[str, list[TopicPartition]] = {}
    for row in rows:
        parts.setdefault(row.group, []).append(row.at)
    return parts


def _offsets(rows: Iterable[ResetRow]) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    for row in rows:
        if row.new is not None:
            offsets.setdefault(row.group, {})[row.at] = row.new
    return offsets


# ---------------------------------------------------------------------------------------------
# Before


def _look_again(
    cluster: Cluster, plan: list[GroupReset], force: bool
) -> Operation[list[GroupReset]]:
    """Compare groups and offsets with the plan; all groups, before the first is changed."""
    rows = _to_write(plan)
    wanted = _partitions(rows)
    if not wanted:
        return plan
    described, committed = yield from gather(
        [describe_with_type(cluster, list(wanted)), fetch_selected(cluster, wanted)]
    )
    groups = {description.group: description for description in described}
    return [
        _checked(reset, groups[reset.group], committed[reset.group], force)
        if reset.group in wanted
        else reset
        for reset in plan
    ]


def _checked(
    reset: GroupReset, now: GroupDescription, committed: Committed | KgError, force: bool
) -> GroupReset:
    was_there = reset.description is None or reset.description.error is None
    error = refusal(now, can_create=not was_there)
    if error is None and isinstance(committed, KgError):
        error = ItemError.of(committed, Target(group=reset.group))
    if error is not None:
        rows = [failed(row, error) if _is_open(row) else row for row in reset.rows]
        return reset._replace(rows=rows, error=error)
    assert not isinstance(committed, KgError)
    rows = [_compared(row, committed, force) if _is_open(row) else row for row in reset.rows]
    return reset._replace(rows=rows)


def _compared(row: ResetRow, committed: Committed, force: bool) -> ResetRow:
    value = committed.get(row.at)
    if isinstance(value, KgError):
        return failed(row, value)
    if value is not None and value.is_pending and not force:
        return failed(row, ChangedMeanwhile(
            "A transaction has begun to change this offset since the plan was made.",
            hint="Wait until it has ended, or give --force.",
        ))  # fmt: skip
    now = value.offset if value is not None else None
    if now != row.old_offset or (now is not None and not _is_same(value, row.old)):
        return failed(row, ChangedMeanwhile(
            f"The committed offset was {_shown(row.old_offset)} when the plan was made, and is "
            f"{_shown(now)} now: somebody else commits for this group.",
            hint="Look who it is (kgtool describe), then plan again.",
        ))  # fmt: skip
    return row


def _is_same(one: CommittedOffset | None, other: CommittedOffset | None) -> bool:
    """Whether two commits are the same to a consumer; null metadata reads back as empty."""
    if one is None or other is None:
        return one is other
    return (one.offset, one.metadata or "") == (other.offset, other.metadata or "")


def _shown(offset: int | None) -> str:
    return "absent" if offset is None else str(offset)


# ---------------------------------------------------------------------------------------------
# After


def _done(row: ResetRow, outcome: Outcome, found: Committed | KgError) -> ResetRow:
    """Judge one row by what the coordinator said and by what is there now."""
    error = outcome.get(row.at)
    now = found if isinstance(found, KgError) else found.get(row.at)
    is_there = isinstance(now, CommittedOffset) and _is_same(now, row.new)
    if error is None:
        if is_there or isinstance(now, KgError):  # nothing contradicts what the coordinator said
            return row._replace(status="reset")
        offset = now.offset if isinstance(now, CommittedOffset) else None
        return failed(row, NotVerified(
            f"The coordinator accepted offset {row.new_offset}, but what is read back is "
            f"{_shown(offset)}.",
            hint="Somebody else has committed right after: kgtool describe shows who.",
        ))  # fmt: skip
    if isinstance(error, NetworkError) or error.maybe_done:
        return _unanswered(row, error, is_there and not _is_same(row.old, row.new), now)
    return failed(row, _commit_error(row, error))


def _unanswered(row: ResetRow, error: KgError, is_written: bool, now: object) -> ResetRow:
    """The answer got lost: what is read back decides."""
    if is_written:
        return row._replace(status="reset")
    if isinstance(now, KgError) and error.maybe_done:
        error = OutcomeUnknown(
            f"{error.message.rstrip('.')}: it is not known whether the offset was written.",
            hint="kgtool describe tells.",
        )
    return failed(row, error)


def _commit_error(row: ResetRow, error: KgError) -> KgError:
    if error.code != codes.UNKNOWN_MEMBER_ID:
        return error
    known = codes.code(codes.UNKNOWN_MEMBER_ID)
    return BrokerError(
        known.code,
        known.name,
        f"Assignments can only be reset if the group '{row.group}' is inactive, and a member has "
        "joined it meanwhile.",
        hint="Stop its members, or wait for it with --wait-empty 60s.",
    )
