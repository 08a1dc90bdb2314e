"""The contract between operations and their drivers.

An operation is a generator. It yields requests of these types and is sent the result:

``[Call(to, request), …]``
    All calls are put in flight together, pipelined per broker; the answer is a list in the same
    order whose items are responses or ``KgError`` values. Errors of the network and of the
    protocol are never raised into an operation.
``Pause(seconds)``
    The answer is ``None``, later. Retries are lists of pauses, so tests run in no time.
``Gather([operation, …])``
    Runs operations side by side, each at its own speed; the answer is the list of their results.
``Within(operation, share)``
    Runs an operation in a share of the time that is left, so that time remains for what comes
    after it; the answer is its result.
``Long(operation)``
    Runs an operation for as long as it makes progress, while the command's own time stands still;
    the answer is its result.
``Versions(to)``
    The versions that a broker offers, as ``{api key: (low, high)}``, or a ``KgError``. Costs no
    request: every connection asks for them anyway.
``HangUp(to)``
    Closes the connection to a broker with a request that was given up, so that it can't reach the
    broker later. The answer is ``None``.

``return`` gives the result. What an operation of ``Gather`` or ``Within`` raises is raised where
it is waited for, when the others have ended. Operations have no clock: when the time of a command
(or of ``Within``) is up, every call, old or new, is answered with ``DeadlineExceeded`` and every
pause ends at once. An error with ``maybe_done`` answers a request that was sent: it may only be
repeated if that is safe.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from kgtool.errors import TimedOut
from kgtool.protocol.schema import Struct

T = TypeVar("T")
K = TypeVar("K")

ANY = -1
"""The address of any broker that is connected, or can be."""


class DeadlineExceeded(TimedOut):
    """The time of the whole command is up: a retry is pointless."""


class Call(NamedTuple):
    """One request to one broker (its id, or ``ANY``); ``max_version`` caps the version used."""

    to: int
    request: Struct
    max_version: int | None = None


class Pause(NamedTuple):
    """Wait before going on; ``jitter`` 0.2 makes it a fifth shorter or longer, at random."""

    seconds: float
    jitter: float = 0.0


class Versions(NamedTuple):
    """Ask which versions a broker offers."""

    to: int


class HangUp(NamedTuple):
    """Close the connection to a broker if a request on it was given up without an answer."""

    to: int


class Gather(NamedTuple):
    """Run operations side by side."""

    operations: list[Any]


class Within(NamedTuple):
    """Run an operation in a share (0 to 1) of the time that is left."""

    operation: Any
    share: float


class Long(NamedTuple):
    """Run an operation as long as it makes progress."""

    operation: Any


Reply = Any
"""A response, or a ``KgError``."""
Operation = Generator[Any, Any, T]

BACKOFF_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.0)
"""Pauses between tries, the last one repeated (``retry.backoff.ms`` … ``retry.backoff.max.ms``)."""
JITTER = 0.2
"""``CommonClientConfigs.RETRY_BACKOFF_JITTER``: clients that fail together don't retry together."""


def cut(items: Sequence[T], size: int) -> list[list[T]]:
    """Cut a sequence into parts of at most ``size`` items."""
    return [list(items[at : at + size]) for at in range(0, len(items), size)]


def grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Return the values of each key, keys and values in their order."""
    found: dict[K, list[T]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def backoff(attempt: int) -> Pause:
    """Return the pause before try number ``attempt`` + 1, counted from 0."""
    return Pause(BACKOFF_SECONDS[min(attempt, len(BACKOFF_SECONDS) - 1)], JITTER)


def call(to: int, request: Struct, max_version: int | None = None) -> Operation[Reply]:
    """Make one call and return its reply."""
    replies = yield [Call(to, request, max_version)]
    return replies[0]


def pipelined(calls: list[Call]) -> Operation[list[Any]]:
    """Make several calls at once; no calls, no round trip."""
    if not calls:
        return []
    replies: list[Any] = yield calls
    return replies


def gather(operations: Sequence[Operation[Any]]) -> Operation[list[Any]]:
    """Run operations side by side and return their results in order."""
    if not operations:
        return []
    if len(operations) == 1:
        return [(yield from operations[0])]
    results: list[Any] = yield Gather(list(operations))
    return results


READING_SHARE = 0.5
"""Of the time that is left: the limit of each reading step before a change. A broker that is down
then leaves time for the following steps, which may not need it."""


def within(operation: Operation[T], share: float) -> Operation[T]:
    """Run an operation in a share of the time that is left, and return its result."""
    result: T = yield Within(operation, share)
    return result


def long(operation: Operation[T]) -> Operation[T]:
    """Run an operation as long as it makes progress, and return its result."""
    result: T = yield Long(operation)
    return result
