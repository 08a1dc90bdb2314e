"""Drives operations over real connections: one thread, one selector, any number of brokers.

The contract between the two is in ``kgtool.client.ops``; the pool chooses the connection of a
call. The loop owns the clock: it answers everything with ``DeadlineExceeded`` when the time of the
command, or of a part of it, is up.
"""

from __future__ import annotations

import heapq
import selectors
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kgtool.client.cluster import Cluster
from kgtool.client.ops import (
    ANY,
    Call,
    DeadlineExceeded,
    Gather,
    HangUp,
    Long,
    Operation,
    Pause,
    Versions,
    Within,
)
from kgtool.errors import KgError, NetworkError
from kgtool.net.connection import Connection
from kgtool.net.pool import Pool, timeout_hint
from kgtool.net.tasks import Raised, Scope, Slot, Task
from kgtool.net.tcp import advertised_hint

if TYPE_CHECKING:
    from kgtool.config import Settings

PATIENCE_SHARE = 1 / 3
PATIENCE_SECONDS = 2.0
"""A connection without progress for a third of the command's time, but at least this long, is
given up, and its requests go to other brokers."""
LONG_PATIENCE_SECONDS = 1.0
LONG_ANSWER = 10
"""The time that a single answer may take while parts of it arrive, in timeouts."""


class Loop:
    """Runs operations until they end.

    :param settings: its ``timeout_ms`` is the time of the whole loop, from now on.
    :param progress: the time counts from the last progress instead (for long work).
    """

    def __init__(self, cluster: Cluster, settings: Settings, *, progress: bool = False) -> None:
        self.cluster = cluster
        self.timeout_ms = settings.timeout_ms
        self.before_waiting: Callable[[], None] | None = None
        """Called before each wait for brokers."""
        self._calls = 0
        self._progress = progress
        self._selector = selectors.DefaultSelector()
        patience = _patience(settings, progress=progress)
        self._pool = Pool(cluster, settings, self._selector, self._answer, patience)
        self._ready: deque[tuple[Task, Any]] = deque()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0
        self._run = 0
        self._whole = Scope(settings.timeout_ms / 1000)
        self._parts: list[Scope] = []
        self._answered: set[int] = set()
        self._progress_at = self._rests_since = time.monotonic()

    @property
    def requests_sent(self) -> int:
        """The number of requests, without the ApiVersions of new connections."""
        return self._calls + self._pool.hedged

    def run(self, operation: Operation[Any]) -> Any:
        """Drive an operation to its end and return its result; its errors are raised."""
        self._run += 1
        if self._progress:
            # Time between two runs, such as for reading a large file, is not a lack of progress.
            idle = time.monotonic() - self._rests_since
            self._whole.deadline += idle
            self._progress_at += idle
        root = Task(operation, None, self._whole, self._run)
        result: list[Any] = []
        # Connections that the broker closed between two runs are noticed before use.
        self._select(0.0)
        self._ready.append((root, None))
        try:
            while not result:
                while self._ready and not result:
                    task, value = self._ready.popleft()
                    self._step(task, value, result)
                if not result:
                    self._pool.flush()
                    if not self._ready:
                        self._wait()
        finally:
            # Nothing stays of an operation that ended early.
            self._ready.clear()
            self._timers.clear()
            self._parts.clear()
            self._whole.open.clear()
            self._pool.forget_calls()
            self._rests_since = time.monotonic()
        return result[0]

    def extend(self, seconds: float) -> None:
        """Give the command more time: waiting for the user does not count."""
        if not self._progress:  # ``run`` does not count it anyway
            self._whole.deadline += seconds

    @contextmanager
    def long_work(self) -> Iterator[None]:
        """Count time from the last progress, and stop the command's own clock."""
        left, before = self._whole.deadline - time.monotonic(), self._progress
        self._progress = True
        self.renew()
        try:
            yield
        finally:
            self._progress = before
            self._whole.deadline = time.monotonic() + left

    def _long(self, wish: Long) -> Operation[Any]:
        with self.long_work():
            return (yield from wish.operation)

    def renew(self) -> None:
        """Restart the command's time: for a session that serves one call after the other."""
        self._whole.deadline = time.monotonic() + self.timeout_ms / 1000
        self._progress_at = self._rests_since = time.monotonic()

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()
        self._selector.close()

    # -- operations -----------------------------------------------------------------------

    def _step(self, task: Task, value: Any, result: list[Any]) -> None:
        """Send a value into an operation and start what it yields next."""
        try:
            wish = task.resume(value)
        except StopIteration as stop:
            if task.result is None:
                result.append(stop.value)
            else:
                self._answer(task.result, stop.value)
        except KgError as error:
            if task.result is None:
                raise
            self._answer(task.result, Raised(error))
        else:
            self._start(wish, task)

    def _start(self, wish: Any, task: Task) -> None:
        if isinstance(wish, Pause):
            self._pause(wish, task)
        elif isinstance(wish, Gather):
            slots = task.await_answers(len(wish.operations))
            for slot, operation in zip(slots, wish.operations, strict=True):
                self._ready.append((Task(operation, slot, task.scope, self._run), None))
        elif isinstance(wish, Within):
            self._run_within(wish, task)
        elif isinstance(wish, Long):
            (slot,) = task.await_answers(1, single=True)
            self._ready.append((Task(self._long(wish), slot, task.scope, self._run), None))
        elif isinstance(wish, HangUp):
            self._pool.hang_up(wish.to)
            self._ready.append((task, None))
        elif isinstance(wish, Versions):
            (slot,) = task.await_answers(1, single=True)
            self._submit(wish.to, slot)
        else:
            self._call(wish, task)

    def _call(self, calls: list[Call], task: Task) -> None:
        slots = task.await_answers(len(calls))
        if not calls:
            self._ready.append((task, []))
        self._calls += len(calls)
        for slot, item in zip(slots, calls, strict=True):
            if self._progress:
                slot.question = hash(repr(item.request))
            slot.request, slot.max_version = item.request, item.max_version
            self._submit(item.to, slot)

    def _run_within(self, wish: Within, task: Task) -> None:
        (slot,) = task.await_answers(1, single=True)
        part = task.scope
        if wish.share < 1:
            part = Scope(max(0.0, part.deadline - time.monotonic()) * wish.share)
            self._parts.append(part)
        self._ready.append((Task(wish.operation, slot, part, self._run), None))

    def _submit(self, to: int, slot: Slot) -> None:
        scope = slot.task.scope
        scope.open.add(slot)
        slot.sent_at = time.monotonic()
        if scope.is_over():
            self._answer(slot, self._too_late(to))
        else:
            self._pool.submit(to, slot)

    def _answer(self, slot: Slot, value: Any) -> None:
        task = slot.task
        task.scope.open.discard(slot)
        if slot.is_done or task.run != self._run:
            return  # a second answer, or one for an operation that ended early
        slot.is_done = True
        if slot.question is not None and not isinstance(value, KgError):
            self._note_progress(slot.question)
        task.replies[slot.index] = value
        task.missing -= 1
        if not task.missing:
            self._ready.append((task, task.outcome()))

    def _note_progress(self, question: int) -> None:
        if question not in self._answered:
            self._answered.add(question)
            self._progress_at = time.monotonic()

    def _pause(self, wish: Pause, task: Task) -> None:
        import random

        seconds = wish.seconds * (1 + wish.jitter * random.uniform(-1, 1))
        due = min(time.monotonic() + seconds, task.scope.deadline)
        self._serial += 1
        item = (due, self._serial, lambda: self._ready.append((task, None)))
        heapq.heappush(self._timers, item)

    # -- time -----------------------------------------------------------------------------

    def _wait(self) -> None:
        """Sleep until a socket is ready, or a timer or deadline is due."""
        until = min([self._whole.deadline, *(part.deadline for part in self._parts)])
        if self._timers:
            until = min(until, self._timers[0][0])
        due = self._pool.next_due()
        if due is not None:
            until = min(until, due)
        if self.before_waiting is not None:
            self.before_waiting()
        self._select(max(0.0, until - time.monotonic()))
        self._pool.collect()
        if self._progress:
            for scope in (self._whole, *self._parts):
                scope.deadline = max(scope.deadline, self._progressed_until(scope.seconds))
        self._on_time()

    def _progressed_until(self, seconds: float) -> float:
        """Return the deadline of long work: ``seconds`` from its last progress.

        Progress is the first answer to a request: the same request repeated because something
        breaks every time is none. Parts of an answer count for ``LONG_ANSWER`` timeouts.
        """
        heard = min(self._pool.heard_at, self._progress_at + LONG_ANSWER * seconds)
        return max(self._progress_at, heard) + seconds

    def _select(self, seconds: float) -> None:
        for key, mask in self._selector.select(seconds):
            key.data.on_event(mask)

    def _on_time(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()
        self._pool.on_time()
        for part in self._parts[:]:
            if now >= part.deadline:
                self._parts.remove(part)
                self._give_up(part)
        if now >= self._whole.deadline:
            self._time_is_up()

    def _give_up(self, scope: Scope) -> None:
        """Answer open slots with an error; the connections stay."""
        reason = self._pool.why_unreached(f"{self.timeout_ms} ms")
        for slot in list(scope.open):
            if slot.connection is None:
                self._answer(slot, reason or self._too_late(ANY))
            else:
                waited = int((time.monotonic() - slot.sent_at) * 1000)
                error = _no_answer(slot.connection, waited)
                self._answer(slot, error.after_sending())

    def _time_is_up(self) -> None:
        """Answer everything that is open, and close connections with open requests."""

        def reason(connection: Connection) -> KgError:
            return _no_answer(connection, self.timeout_ms)

        self._pool.drop_busy(reason)
        for scope in (*self._parts, self._whole):
            self._give_up(scope)
        self._parts.clear()
        while self._timers:
            heapq.heappop(self._timers)[2]()

    def _too_late(self, to: int) -> NetworkError:
        whom = "The cluster" if to == ANY else f"Broker {to}"
        return DeadlineExceeded(
            f"{whom} was not asked: the {self.timeout_ms} ms of --timeout are over.",
            hint="Allow more time with --timeout.",
        )


def _patience(settings: Settings, *, progress: bool) -> float:
    """Return the seconds without progress after which a connection is given up."""
    if settings.request_ms is not None and settings.request_ms < settings.timeout_ms:
        return settings.request_ms / 1000
    seconds = settings.timeout_ms / 1000
    # Long work has its steps as parts (``Within``): one must hold a second try.
    least = LONG_PATIENCE_SECONDS if progress else PATIENCE_SECONDS
    return max(seconds * PATIENCE_SHARE, min(seconds, least))


def _no_answer(connection: Connection, waited_ms: int) -> KgError:
    if connection.muted_until > time.monotonic():
        # A Fetch may be delayed by either: the answer does not say which.
        quota = "a request quota"
        if connection.channel.throttled_request == "Fetch":
            quota = "a byte quota (consumer_byte_rate) or a request quota"
        said = f"{connection.peer} throttles this client: {quota} is exceeded."
        return DeadlineExceeded(said, hint="Allow more time with --timeout.")
    said = f"{connection.peer} did not answer within {waited_ms} ms."
    hint = timeout_hint(waited_ms)
    if connection.advertised_by is not None and not connection.is_ready:
        hint = advertised_hint(connection.advertised_by)
    return connection.waiting_for(f"{waited_ms} ms") or DeadlineExceeded(said, hint=hint)
