"""Which failures are worth another try, and which of two reasons is the one to tell."""

from __future__ import annotations

from typing import Any

from kgtool.client.ops import DeadlineExceeded
from kgtool.errors import (
    BrokerError,
    KgError,
    NetworkError,
    NotKafka,
    ProtocolError,
    ResolveFailed,
    TlsFailed,
    UnsupportedVersion,
    WrongCluster,
)

PROTOCOL_TRIES = 3
_SETTLED = (TlsFailed, ResolveFailed, NotKafka, WrongCluster)


def is_final(reply: object) -> bool:
    """Whether asking again cannot change the answer."""
    return isinstance(reply, DeadlineExceeded) or not isinstance(reply, NetworkError)


def is_permanent(error: KgError) -> bool:
    """Whether asking the same broker again, however often, can't change an error."""
    if isinstance(error, BrokerError):
        return not error.retriable
    return isinstance(error, _SETTLED) or not may_get_better(error, 0)


def may_get_better(reply: object, attempt: int) -> bool:
    """Whether a failure of one connection is worth another one.

    Bytes that make no sense may be the fault of something on the way, but not many times over; and
    a certificate, a name or a port that is wrong stays so.
    """
    if isinstance(reply, UnsupportedVersion):
        return False
    if isinstance(reply, (ProtocolError, *_SETTLED)):
        return attempt < PROTOCOL_TRIES
    return isinstance(reply, NetworkError) and not isinstance(reply, DeadlineExceeded)


def keep_reason(before: Any, now: Any) -> Any:
    """Prefer the reason of an earlier failure to the bare news that time is up."""
    if isinstance(now, DeadlineExceeded) and isinstance(before, KgError):
        return before
    return now
