"""The arithmetic of lag: pure functions, no requests."""

from __future__ import annotations

from typing import NamedTuple

from kgtool.errors import BrokerError, KgError, NetworkError
from kgtool.model import CommittedOffset
from kgtool.protocol import codes


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
    """Name what is to be said of a row (the contract's section 4)."""
    if isinstance(committed, KgError):
        return _failure(committed)
    if isinstance(ends.end, KgError):
        return _failure(ends.end)
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


def measured(committed: CommittedOffset | KgError | None, ends: LogEnds) -> tuple[str, int | None]:
    """Return ``status`` and ``lag`` of a row; at once for what nearly all rows are."""
    if isinstance(committed, CommittedOffset):
        start, end, stable = ends
        offset, _, _, is_pending = committed
        if (
            stable is None
            and offset is not None
            and isinstance(end, int)
            and not is_pending
            and (start or 0) <= offset <= end
        ):
            return "ok", end - offset
        return status(committed, ends), lag(offset, ends)
    return status(committed, ends), None


def _failure(error: KgError) -> str:
    if isinstance(error, NetworkError):
        return "error"
    if isinstance(error, BrokerError):
        return {
            codes.UNKNOWN_TOPIC_OR_PARTITION: "unknown-topic",
            codes.UNKNOWN_TOPIC_ID: "unknown-topic",
            codes.LEADER_NOT_AVAILABLE: "no-leader",
            codes.TOPIC_AUTHORIZATION_FAILED: "denied",
            codes.GROUP_AUTHORIZATION_FAILED: "denied",
        }.get(error.code or 0, "error")
    return "error"
