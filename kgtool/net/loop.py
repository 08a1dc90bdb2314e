"""Drives operations over real connections: one thread, one selector, any number of brokers.

The contract between the two is in ``kgtool.client.ops``. A call to ``ANY`` goes to a connection
that stands; the first one is made to the bootstrap addresses, one after the other, until a broker
says what it speaks. The loop owns the clock: it answers everything with ``DeadlineExceeded`` when
the time of the command is up.
"""

from __future__ import annotations

import heapq
import selectors
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from kgtool.client.cluster import Cluster
from kgtool.client.ops import ANY, Call, DeadlineExceeded, Gather, Operation, Pause, Versions
from kgtool.errors import ConnectFailed, KgError, NetworkError, ResolveFailed
from kgtool.net.connection import Connection
from kgtool.net.diagnose import explain

CONNECT_SECONDS = 10.0
"""``socket.connection.setup.timeout.ms``: TCP and ApiVersions together."""

BOOTSTRAP_SECONDS = 2.0
"""How long a cluster that refuses every connection is given, in case it is just restarting."""


class _Task:
    """One running operation, and where its result goes."""

    __slots__ = ("operation", "parent", "slot", "run", "replies", "missing")

    def __init__(
        self, operation: Operation[Any], parent: _Task | None, slot: int, run: int
    ) -> None:
        self.operation = operation
        self.run = run
        self.parent = parent
        self.slot = slot
        self.replies: list[Any] = []
        self.missing = 0


class _Versions:
    """Token of a question for a broker's versions."""

    __slots__ = ("task",)

    def __init__(self, task: _Task) -> None:
        self.task = task


class Loop:
    """Runs operations until they end.

    :param bootstrap: ``(host, port)`` pairs, tried in the order given.
    :param timeout_ms: the time of the whole loop, from now on.
    :param progress: the time counts from the last answer instead (for long work).
    """

    def __init__(
        self,
        cluster: Cluster,
        bootstrap: tuple[tuple[str, int], ...],
        *,
        timeout_ms: int,
        client_id: str = "kgtool",
        version: str = "0",
        progress: bool = False,
    ) -> None:
        self.cluster = cluster
        self.timeout_ms = timeout_ms
        self.requests_sent = 0
        self._bootstrap = bootstrap
        self._client = (client_id, version)
        self._progress = progress
        self._selector = selectors.DefaultSelector()
        self._connections: dict[tuple[str, int], Connection] = {}
        self._connect_deadlines: dict[Connection, float] = {}
        self._ready: deque[tuple[_Task, Any]] = deque()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0
        self._run = 0
        self._any_waiting: list[tuple[Any, Any, int | None]] = []
        self._version_waiting: list[tuple[Connection, _Task]] = []
        self._candidates: list[tuple[str, int]] = []
        self._bootstrapping: Connection | None = None
        self._bootstrapping_at = ("", 0)
        self._bootstrap_errors: list[KgError] = []
        self._bootstrap_began = 0.0
        self._deadline = time.monotonic() + timeout_ms / 1000

    def run(self, operation: Operation[Any]) -> Any:
        """Drive an operation to its end and return its result; what it raises is raised here."""
        self._run += 1
        root = _Task(operation, None, 0, self._run)
        self._ready.append((root, None))
        result: list[Any] = []
        try:
            while not result:
                while self._ready:
                    task, value = self._ready.popleft()
                    self._step(task, value, result)
                if not result:
                    self._flush()
                    if not self._ready:
                        self._wait()
        finally:
            self._forget_tasks()
        return result[0]

    def extend(self, seconds: float) -> None:
        """Give the command more time: waiting that the user asked for does not count."""
        self._deadline += seconds

    def close(self) -> None:
        """Close every connection."""
        for connection in list(self._connections.values()):
            connection.close(ConnectFailed("closed"))
        self._connections.clear()
        self._selector.close()

    # -- operations -----------------------------------------------------------------------

    def _step(self, task: _Task, value: Any, result: list[Any]) -> None:
        """Send a value into an operation and start what it yields next."""
        try:
            wish = task.operation.send(value)
        except StopIteration as stop:
            if task.parent is None:
                result.append(stop.value)
            else:
                self._answer(task.parent, task.slot, stop.value)
            return
        if isinstance(wish, Pause):
            self._after(wish.seconds, task)
        elif isinstance(wish, Gather):
            task.replies = [None] * len(wish.operations)
            task.missing = len(wish.operations)
            for slot, operation in enumerate(wish.operations):
                self._ready.append((_Task(operation, task, slot, self._run), None))
        elif isinstance(wish, Versions):
            self._submit(wish.to, _Versions(task), None, None)
        else:
            task.replies = [None] * len(wish)
            task.missing = len(wish)
            for slot, item in enumerate(wish):
                self._submit_call(item, (task, slot))

    def _answer(self, task: _Task, slot: int, value: Any) -> None:
        if task.run != self._run:
            return  # a late reply to an operation that has ended early
        task.replies[slot] = value
        task.missing -= 1
        if not task.missing:
            self._ready.append((task, task.replies))

    def _after(self, seconds: float, task: _Task) -> None:
        due = min(time.monotonic() + seconds, self._deadline)
        self._serial += 1
        heapq.heappush(self._timers, (due, self._serial, lambda: self._ready.append((task, None))))

    def _forget_tasks(self) -> None:
        """Leave nothing behind of an operation that ended early."""
        self._ready.clear()
        self._timers.clear()
        self._any_waiting.clear()
        self._version_waiting.clear()

    # -- calls ----------------------------------------------------------------------------

    def _submit_call(self, item: Call, token: tuple[_Task, int]) -> None:
        self.requests_sent += 1
        self._submit(item.to, token, item.request, item.max_version)

    def _submit(self, to: int, token: Any, request: Any, max_version: int | None) -> None:
        if time.monotonic() >= self._deadline:
            self._give(token, self._too_late(to))
            return
        connection = self._any_connection() if to == ANY else self._broker_connection(to)
        if isinstance(connection, KgError):
            self._give(token, connection)
        elif connection is None:
            self._any_waiting.append((token, request, max_version))
            self._begin_bootstrap()
        else:
            self._send(connection, token, request, max_version)

    def _send(self, connection: Connection, token: Any, request: Any, cap: int | None) -> None:
        if isinstance(token, _Versions):
            if connection.is_ready:
                self._give(token, connection.channel.versions)
            elif connection.is_closed:
                self._give(token, connection.error)
            else:
                self._version_waiting.append((connection, token.task))
        else:
            connection.send(token, request, cap)

    def _give(self, token: Any, reply: Any) -> None:
        if isinstance(token, _Versions):
            self._ready.append((token.task, reply))
        else:
            self._answer(token[0], token[1], reply)

    def _broker_connection(self, broker_id: int) -> Connection | KgError:
        broker = self.cluster.brokers.get(broker_id)
        if broker is None:
            return ConnectFailed(f"Broker {broker_id} is not part of the cluster now.")
        return self._connection(broker.host, broker.port)

    def _connection(self, host: str, port: int) -> Connection:
        key = (host, port)
        connection = self._connections.get(key)
        if connection is None or connection.is_closed:
            connection = Connection(host, port, self._selector, *self._client)
            self._connections[key] = connection
            if not connection.is_closed:
                limit = time.monotonic() + CONNECT_SECONDS
                self._connect_deadlines[connection] = min(limit, self._deadline)
        return connection

    def _any_connection(self) -> Connection | None:
        for connection in self._connections.values():
            if connection.is_ready:
                return connection
        return None

    # -- bootstrap ------------------------------------------------------------------------

    def _begin_bootstrap(self) -> None:
        if self._bootstrapping is not None or self._candidates:
            return
        known = [(broker.host, broker.port) for broker in self.cluster.brokers.values()]
        self._candidates = list(dict.fromkeys([*self._bootstrap, *known]))
        self._bootstrap_errors = []
        self._bootstrap_began = time.monotonic()
        self._next_candidate()

    def _next_candidate(self) -> None:
        if self._candidates:
            self._bootstrapping_at = self._candidates.pop(0)
            self._bootstrapping = self._connection(*self._bootstrapping_at)
            return
        self._bootstrapping = None
        refused = all(
            isinstance(error, ConnectFailed) and not isinstance(error, ResolveFailed)
            for error in self._bootstrap_errors
        )
        if refused and time.monotonic() - self._bootstrap_began < BOOTSTRAP_SECONDS:
            self._serial += 1
            due = min(time.monotonic() + 0.2, self._deadline)
            heapq.heappush(self._timers, (due, self._serial, self._retry_bootstrap))
            return
        self._fail_waiting(self._bootstrap_error())

    def _retry_bootstrap(self) -> None:
        if self._bootstrapping is None and self._any_waiting:
            self._candidates = list(self._bootstrap)
            self._bootstrap_errors = []
            self._next_candidate()

    def _bootstrap_error(self) -> KgError:
        errors = self._bootstrap_errors
        if len(errors) == 1:
            return errors[0]
        told = " ".join(dict.fromkeys(error.message for error in errors))
        return ConnectFailed(
            f"None of the {len(errors)} bootstrap addresses answers as a broker. {told}",
            hint=next((error.hint for error in errors if error.hint), None),
        )

    def _fail_waiting(self, error: KgError) -> None:
        waiting, self._any_waiting = self._any_waiting, []
        for token, _, _ in waiting:
            self._give(token, error)

    def _check_bootstrap(self) -> None:
        connection = self._bootstrapping
        if connection is None:
            return
        if connection.is_ready:
            self._bootstrapping = None
            self._candidates = []
            waiting, self._any_waiting = self._any_waiting, []
            for token, request, cap in waiting:
                self._send(connection, token, request, cap)
        elif connection.is_closed:
            if connection.error is not None:
                self._bootstrap_errors.append(explain(connection.error, *self._bootstrapping_at))
            self._bootstrapping = None
            self._next_candidate()

    # -- the loop proper ------------------------------------------------------------------

    def _flush(self) -> None:
        now = time.monotonic()
        for connection in list(self._connections.values()):
            if not connection.is_closed and connection.muted_until <= now:
                connection.flush()
        self._collect()

    def _collect(self) -> None:
        """Hand out the replies of all connections, and what depends on their state."""
        for connection in list(self._connections.values()):
            replies = connection.channel.replies()
            if replies and self._progress:
                self._deadline = time.monotonic() + self.timeout_ms / 1000
            for token, reply in replies:
                self._answer(token[0], token[1], reply)
            if connection.channel.throttle_ms:
                # KIP-219: the broker has answered already and expects us to keep quiet.
                pause = connection.channel.throttle_ms / 1000
                connection.muted_until = time.monotonic() + pause
                connection.channel.throttle_ms = 0
        for pair in self._version_waiting[:]:
            connection, task = pair
            if connection.is_ready or connection.is_closed:
                self._version_waiting.remove(pair)
                versions = connection.channel.versions
                self._ready.append((task, versions if connection.is_ready else connection.error))
        self._check_bootstrap()

    def _wait(self) -> None:
        """Sleep until a socket, a timer or the deadline has something to say."""
        now = time.monotonic()
        until = self._deadline
        if self._timers:
            until = min(until, self._timers[0][0])
        for connection, limit in list(self._connect_deadlines.items()):
            if connection.is_ready or connection.is_closed:
                del self._connect_deadlines[connection]
            else:
                until = min(until, limit)
        for connection in self._connections.values():
            if connection.muted_until > now:
                until = min(until, connection.muted_until)
        for key, mask in self._selector.select(max(0.0, until - now)):
            key.data.on_event(mask)
        self._collect()
        self._on_time()

    def _on_time(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()
        for connection, limit in list(self._connect_deadlines.items()):
            if limit <= now and not connection.is_ready:
                waited = f"{CONNECT_SECONDS:.0f} s"
                if self.timeout_ms < CONNECT_SECONDS * 1000:
                    waited = f"{self.timeout_ms} ms"
                connection.close(
                    ConnectFailed(
                        f"{connection.peer} did not answer within {waited}.",
                        hint="Check host and port: something that is no plaintext Kafka "
                        "listener, or a firewall, may be in the way.",
                    )
                )
                self._collect()
        if now >= self._deadline:
            self._time_is_up()

    def _time_is_up(self) -> None:
        """Answer everything that is still open; connections with open requests are useless."""
        for connection in list(self._connections.values()):
            if connection.channel.pending:
                connection.close(
                    DeadlineExceeded(
                        f"{connection.peer} did not answer within {self.timeout_ms} ms.",
                        hint="Give it more time with --timeout, or look at that broker.",
                    )
                )
        self._collect()
        if self._any_waiting:
            error: KgError = self._too_late(ANY)
            if self._bootstrap_errors:
                error = self._bootstrap_error()
            self._fail_waiting(error)
        while self._timers:
            heapq.heappop(self._timers)[2]()

    def _too_late(self, to: int) -> NetworkError:
        whom = "The cluster" if to == ANY else f"Broker {to}"
        return DeadlineExceeded(
            f"{whom} was not asked: the {self.timeout_ms} ms of --timeout are over.",
            hint="Give it more time with --timeout.",
        )
