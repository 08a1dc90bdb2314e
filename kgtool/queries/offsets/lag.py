"""The lag and status of committed offsets: pure functions, no requests."""

from __future__ import annotations

from typing import NamedTuple

from kgtool.errors import KgError
from kgtool.model import CommittedOffset, ItemError, Member, OffsetRow, Target, TopicPartition
from kgtool.protocol import codes

NONE_LEFT = -1
"""Instead of a time lag: only transaction markers, or aborted records, are left to read."""


class LogEnds(NamedTuple):
    """Where a partition's log begins and ends; an end is the reason why it isn't known.

    ``start`` is None where it was not asked for, and so is ``stable``, the last stable offset:
    where a reader with read_committed stops.
    """

    start: int | None
    end: int | KgError
    stable: int | None = None


def lag(offset: int | None, ends: LogEnds) -> int | None:
    """Return the number of records between a committed offset and the end of the log.

    Negative where the commit lies beyond the end; None where either is not known. Where the last
    stable offset was asked for it counts as the end, and a commit between the two has lag 0: that
    is a reader with read_uncommitted, and nothing is wrong.
    """
    if offset is None or isinstance(ends.end, KgError):
        return None
    if ends.stable is not None and offset <= ends.end:
        return max(ends.stable - offset, 0)
    return ends.end - offset


def status(committed: CommittedOffset | KgError | None, ends: LogEnds) -> str:
    """Return the status of a row (the contract's section 4)."""
    if isinstance(committed, KgError):
        return _FAILURES.get(committed.code, "error")
    if isinstance(ends.end, KgError):
        return _FAILURES.get(ends.end.code, "error")
    if committed is None:
        return "no-commit"
    if committed.is_pending:
        return "pending-transaction"
    if committed.offset is None:
        return "no-commit"
    if committed.offset > ends.end:
        return "beyond-end"
    if ends.start is not None and committed.offset < ends.start:
        return "before-start"
    return "ok"


_FAILURES: dict[int | None, str] = {
    codes.UNKNOWN_TOPIC_OR_PARTITION: "unknown-topic",
    codes.UNKNOWN_TOPIC_ID: "unknown-topic",
    codes.LEADER_NOT_AVAILABLE: "no-leader",
    codes.TOPIC_AUTHORIZATION_FAILED: "denied",
    codes.GROUP_AUTHORIZATION_FAILED: "denied",
}


class Age(NamedTuple):
    """How long the first unread record has waited, and when its topic's retention takes it."""

    lag_ms: int | None
    has_only_markers: bool
    """Whether no record is left to read, only what a transaction has written."""
    lost_at_ms: int | None


NO_AGE = Age(None, False, None)
"""It was not asked for, or nothing is left to read."""

_new = tuple.__new__
_NO_COMMIT = CommittedOffset(None, None, None)
_NO_MEMBER = (None, None, None)


def offset_row(
    group: str,
    partition: TopicPartition,
    committed: CommittedOffset | KgError | None,
    ends: LogEnds,
    member: Member | None,
    subscribed: bool | None,
    age: Age = NO_AGE,
) -> OffsetRow:
    """Return one row of ``describe --offsets``.

    There may be a million: the row is made by position and without the constructor, and the usual
    status is found at once.
    """
    offset, epoch, metadata, is_pending = (
        committed if isinstance(committed, CommittedOffset) else _NO_COMMIT
    )
    member_id, host, client_id = (
        (member.member_id, member.host, member.client_id) if member else _NO_MEMBER
    )
    start, known_end, stable = ends
    end = known_end if isinstance(known_end, int) else None
    left: int | None
    error: ItemError | None = None
    if (
        offset is not None
        and end is not None
        and (start or 0) <= offset <= end
        and stable is None
        and not is_pending
    ):
        says, left = "ok", end - offset
    else:
        says, left = status(committed, ends), lag(offset, ends)
        if says in ("denied", "error"):  # a topic without a leader or deleted is a finding instead
            reason = committed if isinstance(committed, KgError) else known_end
            if isinstance(reason, KgError):
                error = ItemError.of(reason, Target(group, *partition))
    return _new(
        OffsetRow,
        (
            group,
            partition.topic,
            partition.partition,
            offset,
            start,
            end,
            left,
            epoch,
            metadata,
            member_id,
            host,
            client_id,
            subscribed,
            says,
            age.lag_ms,
            error,
            stable,
            is_pending,
            age.has_only_markers,
            age.lost_at_ms,
        ),
    )
