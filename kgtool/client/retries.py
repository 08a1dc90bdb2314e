"""Which failures are worth a retry, and which of two errors to report."""

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
    WrongAddress,
    WrongCluster,
)

PROTOCOL_TRIES = 3
_PERMANENT = (TlsFailed, ResolveFailed, NotKafka, WrongCluster)


def is_final(reply: object) -> bool:
    """Whether a retry can't change the answer."""
    return isinstance(reply, DeadlineExceeded) or not isinstance(reply, NetworkError)


def is_permanent(error: KgError) -> bool:
    """Whether retries with the same broker, however many, can't change an error."""
    if isinstance(error, BrokerError):
        return not error.retriable
    return isinstance(error, _PERMANENT) or not may_get_better(error, 0)


def may_get_better(reply: object, attempt: int) -> bool:
    """Whether a failure of one connection is worth another one.

    Invalid bytes may come from something in between, but not many times in a row; and a wrong
    certificate, name or port stays wrong.
    """
    if isinstance(reply, UnsupportedVersion | WrongAddress):
        return False
    if isinstance(reply, (ProtocolError, *_PERMANENT)):
        return attempt < PROTOCOL_TRIES
    return isinstance(reply, NetworkError) and not isinstance(reply, DeadlineExceeded)


def keep_reason(before: Any, now: Any) -> Any:
    """Return the error of an earlier failure instead of a bare ``DeadlineExceeded``."""
    if isinstance(now, DeadlineExceeded) and isinstance(before, KgError):
        return before
    return now
