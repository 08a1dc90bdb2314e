"""The connections to a cluster's brokers: which one a call takes, and which one is of no use.

A call to ``ANY`` goes to a connection that stands. One that is not answered within
``HEDGE_SECONDS`` is sent to a second broker as well if it only asks; the first answer counts.
A connection whose requests make no progress for ``patience`` seconds is given up: its broker may
be paused, half-open or behind a black hole, and whoever coordinates in its place has to be looked
up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from kgtool.client.cluster import Cluster
from kgtool.client.ops import ANY
from kgtool.errors import ConnectFailed, ConnectionLost, KgError, TimedOut
from kgtool.net.bootstrap import Address, Bootstrap, Explain
from kgtool.net.connection import Connection
from kgtool.net.slots import Slot
from kgtool.net.translate import unresolved

HEDGE_SECONDS = 1.0
_ONLY_ASKS = {3, 10, 60}
"""Metadata, FindCoordinator, DescribeCluster: may be sent twice without a second thought."""

Give = Callable[[Slot, Any], None]
FindNames = Callable[[Callable[[tuple[Address, ...]], None]], None]


class _AnyCall(NamedTuple):
    """A call to whichever broker answers, and the connection that it went to."""

    slot: Slot
    request: Any
    cap: int | None
    connection: Connection


class Pool:
    """Owns the connections; answers go to ``give``.

    :param connect: makes a connection to ``(host, port)``.
    :param explain: finds out why connections to the addresses of ``bootstrap`` failed.
    :param patience: seconds without progress after which a connection is given up.
    :param whole: seconds that the command has.
    :param find_names: looks up other names for the bootstrap addresses first, and hands them over.
    """

    def __init__(
        self,
        cluster: Cluster,
        bootstrap: tuple[Address, ...],
        connect: Callable[[str, int], Connection],
        give: Give,
        explain: Explain,
        patience: float,
        whole: float,
        find_names: FindNames | None = None,
    ) -> None:
        self.hedged = 0
        self.patience = patience
        self._whole = whole
        self._cluster = cluster
        self._bootstrap = bootstrap
        self._make = connect
        self._give = give
        self._connections: dict[Address, Connection] = {}
        self._search = Bootstrap(self._connection, explain)
        self._was_reached = False
        self._find_names = find_names
        self._is_finding_names = False
        self._waiting: list[tuple[Slot, Any, int | None]] = []
        self._for_versions: list[tuple[Connection, Slot]] = []
        self._asked: list[_AnyCall] = []
        self._left: set[Connection] = set()
        """Connections to brokers that are not of the cluster any more, and still busy."""

    # -- calls ----------------------------------------------------------------------------

    def submit(self, to: int, slot: Slot, request: Any, cap: int | None) -> None:
        """Send a request (None: ask only for the versions) to a broker, or to any."""
        if to == ANY:
            if self._cluster.must_bootstrap:
                self._leave_brokers()
            connection = self._any_connection()
            if connection is None:
                self._waiting.append((slot, request, cap))
                self._begin_search()
            else:
                self._send_any(connection, slot, request, cap)
            return
        broker = self._cluster.brokers.get(to)
        if broker is None:
            self._give(slot, ConnectFailed(f"Broker {to} is not part of the cluster now."))
        else:
            self._send(self._connection(broker.host, broker.port), slot, request, cap)

    def _leave_brokers(self) -> None:
        """Ask none of the brokers that are connected: begin with the user's addresses again."""
        self._cluster.must_bootstrap = False
        for connection in self._connections.values():
            if connection.pending:
                self._left.add(connection)
            else:
                connection.close(ConnectFailed("closed"))

    def _send_any(self, connection: Connection, slot: Slot, request: Any, cap: int | None) -> None:
        if request is not None and not slot.is_hedged:
            self._asked.append(_AnyCall(slot, request, cap, connection))
        self._send(connection, slot, request, cap)

    def _send(self, connection: Connection, slot: Slot, request: Any, cap: int | None) -> None:
        slot.connection = connection
        if request is not None:
            connection.send(slot, request, cap)
        elif connection.is_ready:
            self._give(slot, connection.channel.versions)
        elif connection.is_closed:
            self._give(slot, connection.error)
        else:
            self._for_versions.append((connection, slot))

    def _connection(self, host: str, port: int) -> Connection:
        key = (host, port)
        connection = self._connections.get(key)
        if connection is None or connection.is_closed:
            if connection is not None:
                self._hand_out(connection)
            connection = self._make(host, port)
            self._connections[key] = connection
        return connection

    def _any_connection(self) -> Connection | None:
        """Return the connection that answers soonest: the one that has waited the shortest."""
        ready = [c for c in self._connections.values() if c.is_ready and c not in self._left]
        return min(ready, key=_waited, default=None)

    def _begin_search(self, *, without: Connection | None = None) -> None:
        known = [(broker.host, broker.port) for broker in self._cluster.brokers.values()]
        places = [
            place
            for place in (*self._bootstrap, *known)
            if without is None or self._connections.get(place) is not without
        ]
        if self._find_names is not None:
            find, self._find_names = self._find_names, None
            self._is_finding_names = True
            find(self._on_names)
        elif places and not self._is_finding_names:
            self._search.begin(places, time.monotonic(), persistent=self._was_reached)

    def _on_names(self, found: tuple[Address, ...]) -> None:
        self._is_finding_names = False
        self._bootstrap = found
        if self._waiting:
            self._begin_search()

    # -- what happens ---------------------------------------------------------------------

    def flush(self) -> None:
        """Write what there is to write."""
        now = time.monotonic()
        for connection in list(self._connections.values()):
            if not connection.is_closed and connection.muted_until <= now:
                connection.flush()
        self.collect()

    @property
    def heard_at(self) -> float:
        """When a good part of a long answer last came (monotonic seconds)."""
        return max((c.heard_at for c in self._connections.values()), default=0.0)

    def collect(self) -> None:
        """Hand out replies and whatever depends on a connection's state."""
        for connection in list(self._connections.values()):
            self._hand_out(connection)
            if connection.channel.throttle_ms:
                # KIP-219: the broker has answered already and expects us to keep quiet.
                connection.mute(connection.channel.throttle_ms / 1000)
                connection.channel.throttle_ms = 0
        for pair in self._for_versions[:]:
            connection, slot = pair
            if connection.is_ready or connection.is_closed:
                self._for_versions.remove(pair)
                known = connection.channel.versions if connection.is_ready else connection.error
                self._give(slot, known)
        self._follow_search()

    def _hand_out(self, connection: Connection) -> None:
        for slot, reply in connection.channel.replies():
            self._give(slot, reply)

    def _follow_search(self) -> None:
        found = self._search.step(time.monotonic())
        if found is None:
            return
        waiting, self._waiting = self._waiting, []
        if isinstance(found, Connection):
            self._was_reached = True
            self._left.discard(found)
            for slot, request, cap in waiting:
                if not slot.is_done:
                    self._send_any(found, slot, request, cap)
        else:
            for slot, _, _ in waiting:
                self._give(slot, found)

    def on_time(self) -> None:
        """Give up connections that make no progress, and ask a second broker in time."""
        now = time.monotonic()
        for connection in list(self._connections.values()):
            connection.on_time(now)
            if connection.is_stalled(now, self.patience):
                connection.give_up(_no_answer(connection, self.patience, self._whole))
        self._asked = [asked for asked in self._asked if not asked.slot.is_done]
        for asked in self._asked[:]:
            if _is_late(asked, now):
                self._asked.remove(asked)
                self._hedge(asked)
        self.collect()

    def _hedge(self, asked: _AnyCall) -> None:
        self.hedged += 1
        asked.slot.is_hedged = True
        for connection in self._connections.values():
            if connection.is_ready and connection is not asked.connection:
                self._send(connection, asked.slot, asked.request, asked.cap)
                return
        self._waiting.append((asked.slot, asked.request, asked.cap))
        self._begin_search(without=asked.connection)

    def next_due(self) -> float | None:
        """Return when there is something to do even if no socket has anything to say."""
        now = time.monotonic()
        dues = [self._search.next_due()]
        for connection in self._connections.values():
            dues.append(connection.next_due(self.patience))
            if connection.muted_until > now:
                dues.append(connection.muted_until)
        for asked in self._asked:
            if not asked.slot.is_done and asked.request.KEY in _ONLY_ASKS:
                dues.append(asked.slot.sent_at + HEDGE_SECONDS)
        return min((due for due in dues if due is not None), default=None)

    # -- the end --------------------------------------------------------------------------

    def why_unreached(self, waited: str) -> KgError | None:
        """Say why no broker has been found so far, while one is being looked for.

        :param waited: for how long, in words.
        """
        if self._is_finding_names:
            return unresolved(self._bootstrap[0][0], waited)
        return self._search.reason(waited)

    def hang_up(self, to: int) -> None:
        """Close the connection to a broker that still owes an answer to a request given up."""
        broker = self._cluster.brokers.get(to)
        connection = broker and self._connections.get((broker.host, broker.port))
        if connection and any(slot.is_done for slot in connection.unanswered()):
            connection.close(ConnectionLost(f"{connection.peer} did not answer in time."))
            self.collect()

    def drop_busy(self, reason: Callable[[Connection], KgError]) -> None:
        """Close the connections with open requests: their answers would come too late."""
        for connection in list(self._connections.values()):
            if connection.pending:
                connection.close(reason(connection))
        self.collect()

    def forget_calls(self) -> None:
        """Leave nothing behind of a run that ended early."""
        self._waiting.clear()
        self._for_versions.clear()
        self._asked.clear()

    def close(self) -> None:
        """Close every connection."""
        for connection in list(self._connections.values()):
            connection.close(ConnectFailed("closed"))
        self._connections.clear()


def _waited(connection: Connection) -> float:
    return time.monotonic() - connection.progressed_at if connection.pending else 0.0


def _is_late(asked: _AnyCall, now: float) -> bool:
    return asked.request.KEY in _ONLY_ASKS and now - asked.slot.sent_at >= HEDGE_SECONDS


def _no_answer(connection: Connection, patience: float, whole: float) -> KgError:
    if not connection.is_ready:
        patience = connection.setup_seconds(patience)
    waited = f"{patience:.0f} s" if patience >= 1 else f"{patience * 1000:.0f} ms"
    if not connection.is_ready:
        # Where --timeout is over, that is the reason: more time might have been enough.
        kind = ConnectFailed if patience < whole else TimedOut
        return connection.hindrance(waited) or kind(
            f"{connection.peer} did not answer within {waited}.",
            hint="Check host and port: something that is not a plaintext Kafka listener, or a "
            "firewall, may be in the way.",
        )
    return TimedOut(
        f"{connection.peer} did not answer within {waited}.",
        hint="Look at that broker, or give it more time with --timeout.",
    )
