"""Running operations: tasks, the slots for their answers, and the time they may take."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from kgtool.client.ops import Operation
from kgtool.errors import KgError
from kgtool.net.connection import Connection
from kgtool.protocol.schema import Struct


class Task:
    """One running operation, and the slot that its result goes to (None: it is the whole run)."""

    __slots__ = ("operation", "result", "scope", "run", "replies", "missing", "is_single")

    def __init__(
        self, operation: Operation[Any], result: Slot | None, scope: Scope, run: int
    ) -> None:
        self.operation = operation
        self.result = result
        self.scope = scope
        self.run = run
        self.replies: list[Any] = []
        self.missing = 0
        self.is_single = False

    def await_answers(self, count: int, *, single: bool = False) -> list[Slot]:
        """Wait for ``count`` answers; ``single`` makes the answer a value instead of a list."""
        self.replies = [None] * count
        self.missing = count
        self.is_single = single
        return [Slot(self, index) for index in range(count)]

    def resume(self, value: Any) -> Any:
        """Send the answer into the operation, or raise it there; return what it yields next."""
        if isinstance(value, Raised):
            return self.operation.throw(value.error)
        return self.operation.send(value)

    def outcome(self) -> Any:
        """Return the value to send into the operation, now that all answers are there."""
        for reply in self.replies:
            if isinstance(reply, Raised):
                return reply
        return self.replies[0] if self.is_single else self.replies


class Raised(NamedTuple):
    """The error of an operation of ``Gather`` or ``Within``.

    It is raised again in the operation that waits for it, once the others have ended too.
    """

    error: KgError


class Slot:
    """The place of one answer: a second answer, or one that comes too late, is dropped."""

    __slots__ = (
        "task",
        "index",
        "request",
        "max_version",
        "is_done",
        "is_hedged",
        "connection",
        "sent_at",
        "question",
    )

    def __init__(self, task: Task, index: int) -> None:
        self.task = task
        self.index = index
        self.request: Struct | None = None
        """None: only the versions of the broker are wanted."""
        self.max_version: int | None = None
        self.is_done = False
        self.is_hedged = False
        self.connection: Connection | None = None
        self.question: int | None = None
        self.sent_at = 0.0


class Scope:
    """A deadline of several operations, and the slots that they are waiting for.

    :param seconds: from now on.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.deadline = time.monotonic() + seconds
        self.open: set[Slot] = set()

    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self.deadline
