"""The connections to a cluster's brokers: which one a call takes, and which one is given up.

A call to ``ANY`` goes to a connection that is ready. If it only reads and is not answered within
``HEDGE_SECONDS``, it is sent to a second broker as well; the first answer counts. A connection
whose requests make no progress for ``patience`` seconds is given up: its broker may be paused,
half-open or behind a black hole, and another broker may have taken over its groups.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kgtool.client.cluster import Cluster
from kgtool.client.ops import ANY
from kgtool.errors import ConnectFailed, ConnectionLost, KgError, TimedOut, WrongAddress
from kgtool.net.background import Background
from kgtool.net.bootstrap import Bootstrap, HostPort
from kgtool.net.connection import Connection
from kgtool.net.dns import canonical, unresolved
from kgtool.net.tasks import Slot
from kgtool.net.transport import Transport
from kgtool.protocol.channel import WITHOUT_IDENTITY, Expected

if TYPE_CHECKING:
    from kgtool.config import Settings

HEDGE_SECONDS = 1.0
API_VERSIONS = 18
_HEDGED_APIS = {3, 10, 60}
"""Metadata, FindCoordinator, DescribeCluster: reads that may be sent twice."""
SHUTDOWN_SECONDS = 0.5
"""How long a broker that stops may answer on one connection after it has closed its listener."""
TOKEN_SHARE = 0.9
"""The share of the command's time that a token may take; then its server is named as the reason."""


class Pool:
    """Owns the connections.

    :param selector: the loop's selector.
    :param give: takes the answer of a slot.
    :param patience: seconds without progress after which a connection is given up.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        selector: selectors.BaseSelector,
        give: Callable[[Slot, Any], None],
        patience: float,
    ) -> None:
        self.hedged = 0
        self.patience = patience
        self._seconds = settings.timeout_ms / 1000
        self._cluster = cluster
        self._settings = settings
        self._selector = selector
        self._background = Background(selector)
        self._transport = Transport(settings.security, settings.trace, self._seconds * TOKEN_SHARE)
        self._give = give
        self._connections: dict[HostPort, Connection] = {}
        self._bootstrap = settings.bootstrap
        has_tls = settings.security is not None and settings.security.tls is not None
        self._search = Bootstrap(self._connection, self._background, has_tls=has_tls)
        self._was_reached = False
        self._needs_names = settings.canonical_names
        self._is_finding_names = False
        self._waiting: list[Slot] = []
        """Calls to any broker, while none is connected."""
        self._for_versions: list[tuple[Connection, Slot]] = []
        self._hedgeable: list[Slot] = []
        self._unreached: dict[HostPort, Connection] = {}
        """Advertised addresses that did not answer in this run: the first try of each."""
        self._again: dict[HostPort, float] = {}
        """Those where nothing listened, and since when a broker has answered elsewhere."""
        self._left: set[Connection] = set()
        """Busy connections to brokers that have left the cluster."""

    # -- calls ----------------------------------------------------------------------------

    def submit(self, to: int, slot: Slot) -> None:
        """Send the request of a slot to a broker, or to any."""
        if to == ANY:
            if self._cluster.must_bootstrap:
                self._leave_brokers()
            connection = self._any_connection()
            if connection is None:
                self._waiting.append(slot)
                self._begin_search()
            else:
                self._send_any(connection, slot)
            return
        broker = self._cluster.brokers.get(to)
        if broker is None:
            self._give(slot, ConnectFailed(f"Broker {to} is not part of the cluster now."))
        elif (wrong := self._wrong_address(to)) is not None:
            self._give(slot, wrong)
        else:
            connection = self._connection(broker.host, broker.port, self._expected(to))
            if (broker.host, broker.port) not in self._bootstrap:
                connection.advertised_by = to
            self._send(connection, slot)

    def _wrong_address(self, to: int) -> KgError | None:
        """Return the error of a broker that answers, and not where it says: no retry helps.

        It answers at an address that no broker advertises, after all that are advertised have
        failed, and where nothing listened, nothing listens then either: it may have restarted in
        between. One of several that does not answer may be restarting.
        """
        known = {(broker.host, broker.port) for broker in self._cluster.brokers.values()}
        for place in known:
            tried = self._connections.get(place)
            if tried is not None and tried.failed_at is not None:
                self._unreached.setdefault(place, tried)
            elif tried is not None and tried.is_ready:
                self._unreached.pop(place, None)
        if not known <= self._unreached.keys():
            return None
        broker = self._cluster.brokers[to]
        first = self._unreached[broker.host, broker.port]
        since = max(first.began_at + SHUTDOWN_SECONDS, first.failed_at or 0.0)
        others = (each for place, each in self._connections.items() if place not in known)
        if first.error is None or not any(each.answered_at > since for each in others):
            return None
        is_refused = (first.failed_at or 0.0) < first.began_at + self.patience / 2
        if is_refused:
            answered_at = self._again.setdefault((broker.host, broker.port), time.monotonic())
            latest = self._connections.get((broker.host, broker.port), first)
            if latest.failed_at is None or latest.began_at < answered_at:
                return None
        is_only = len(known) == 1
        return WrongAddress(
            first.error.message,
            hint=f"{'The broker answers' if is_only else 'A broker answers'} at another address: "
            f"broker {to} has this one in its advertised.listeners. Correct it there, or make it "
            "reachable from here.",
        )

    def _expected(self, node_id: int) -> Expected | None:
        """Return which broker is meant, if the cluster checks that."""
        spoken = (c.channel.versions.get(API_VERSIONS) for c in self._connections.values())
        is_checked = any(versions and versions[1] > WITHOUT_IDENTITY for versions in spoken)
        cluster_id = self._cluster.cluster_id
        return Expected(cluster_id, node_id) if cluster_id and is_checked else None

    def _leave_brokers(self) -> None:
        """Use none of the present connections: start from the bootstrap addresses again."""
        self._cluster.must_bootstrap = False
        for connection in self._connections.values():
            if connection.pending:
                self._left.add(connection)
            else:
                connection.close(ConnectFailed("closed"))

    def _send_any(self, connection: Connection, slot: Slot) -> None:
        if slot.request is not None and slot.request.KEY in _HEDGED_APIS and not slot.is_hedged:
            self._hedgeable.append(slot)
        self._send(connection, slot)

    def _send(self, connection: Connection, slot: Slot) -> None:
        slot.connection = connection
        if slot.request is not None:
            connection.send(slot, slot.request, slot.max_version)
        elif connection.is_ready:
            self._give(slot, connection.channel.versions)
        elif connection.is_closed:
            self._give(slot, connection.error)
        else:
            self._for_versions.append((connection, slot))

    def _connection(self, host: str, port: int, expected: Expected | None = None) -> Connection:
        key = (host, port)
        connection = self._connections.get(key)
        if connection is None or connection.is_closed:
            if connection is not None:
                self._hand_out(connection)
            connection = Connection(
                host,
                port,
                self._selector,
                self._background,
                self._transport,
                self._settings,
                expected,
            )
            self._connections[key] = connection
        return connection

    def _any_connection(self) -> Connection | None:
        """Return the connection that has waited the shortest for a reply."""
        ready = [c for c in self._connections.values() if c.is_ready and c not in self._left]
        return min(ready, key=_waited, default=None)

    def _begin_search(self, *, without: Connection | None = None) -> None:
        known = [(broker.host, broker.port) for broker in self._cluster.brokers.values()]
        places = [
            place
            for place in (*self._bootstrap, *known)
            if without is None or self._connections.get(place) is not without
        ]
        if self._needs_names:
            self._needs_names, self._is_finding_names = False, True
            self._background.run(partial(canonical, self._bootstrap), self._on_names)
        elif places and not self._is_finding_names:
            self._search.begin(places, time.monotonic(), persistent=self._was_reached)

    def _on_names(self, found: tuple[HostPort, ...]) -> None:
        self._is_finding_names = False
        self._bootstrap = found
        if self._waiting:
            self._begin_search()

    # -- what happens ---------------------------------------------------------------------

    def flush(self) -> None:
        """Write queued requests, except to brokers that throttle."""
        now = time.monotonic()
        for connection in list(self._connections.values()):
            if not connection.is_closed and connection.muted_until <= now:
                connection.flush()
        self.collect()

    @property
    def heard_at(self) -> float:
        """When a large part of a long answer last came (monotonic seconds)."""
        return max((c.heard_at for c in self._connections.values()), default=0.0)

    def collect(self) -> None:
        """Hand out replies and results that depend on a connection's state."""
        for connection in list(self._connections.values()):
            self._hand_out(connection)
            if connection.channel.throttle_ms:
                # KIP-219: the broker has answered already and expects a pause.
                connection.mute(connection.channel.throttle_ms / 1000)
                connection.channel.throttle_ms = 0
        waiting, self._for_versions = self._for_versions, []
        for connection, slot in waiting:
            self._send(connection, slot)
        self._advance_search()

    def _hand_out(self, connection: Connection) -> None:
        for slot, reply in connection.channel.replies():
            self._give(slot, reply)

    def _advance_search(self) -> None:
        found = self._search.step(time.monotonic())
        if found is None:
            return
        waiting, self._waiting = self._waiting, []
        if isinstance(found, Connection):
            self._was_reached = True
            self._left.discard(found)
            for slot in waiting:
                if not slot.is_done:
                    self._send_any(found, slot)
        else:
            for slot in waiting:
                self._give(slot, found)

    def on_time(self) -> None:
        """Give up connections that make no progress, and ask a second broker in time."""
        now = time.monotonic()
        for connection in list(self._connections.values()):
            connection.on_time(now)
            if connection.is_stalled(now, self.patience):
                connection.give_up(_no_answer(connection, self.patience, self._seconds))
        for slot in self._hedgeable[:]:
            is_late = now - slot.sent_at >= HEDGE_SECONDS
            if slot.is_done or is_late:
                self._hedgeable.remove(slot)
            if is_late and not slot.is_done:
                self._hedge(slot)
        self.collect()

    def _hedge(self, slot: Slot) -> None:
        self.hedged += 1
        slot.is_hedged = True
        for connection in self._connections.values():
            if connection.is_ready and connection is not slot.connection:
                self._send(connection, slot)
                return
        self._waiting.append(slot)
        self._begin_search(without=slot.connection)

    def next_due(self) -> float | None:
        """Return when there is something to do even if no socket has anything to say."""
        now = time.monotonic()
        dues = [self._search.next_due()]
        for connection in self._connections.values():
            dues.append(connection.next_due(self.patience))
            if connection.muted_until > now:
                dues.append(connection.muted_until)
        dues += [slot.sent_at + HEDGE_SECONDS for slot in self._hedgeable if not slot.is_done]
        return min((due for due in dues if due is not None), default=None)

    # -- the end --------------------------------------------------------------------------

    def why_unreached(self, waited: str) -> KgError | None:
        """Return why no broker has been found so far; None if that isn't known.

        :param waited: for how long, in words.
        """
        if self._is_finding_names:
            return unresolved(self._bootstrap[0][0], waited)
        return self._search.reason(waited)

    def hang_up(self, to: int) -> None:
        """Close the connection to a broker if a request on it was given up without an answer."""
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
        """Drop the calls of a run that ended early."""
        self._waiting.clear()
        self._for_versions.clear()
        self._hedgeable.clear()
        self._unreached.clear()
        self._again.clear()

    def close(self) -> None:
        """Close every connection."""
        for connection in list(self._connections.values()):
            connection.close(ConnectFailed("closed"))
        self._connections.clear()
        self._background.close()


def _waited(connection: Connection) -> float:
    return time.monotonic() - connection.progressed_at if connection.pending else 0.0


def timeout_hint(waited_ms: int) -> str:
    """Return what to do after so long without an answer."""
    if waited_ms < 100:
        return f"A bare number is ms: --timeout {waited_ms}s."
    return "Allow more time with --timeout, or look at that broker."


def _no_answer(connection: Connection, patience: float, whole: float) -> KgError:
    if not connection.is_ready:
        patience = connection.setup_seconds(patience)
    waited = f"{patience:.0f} s" if patience >= 1 else f"{patience * 1000:.0f} ms"
    if not connection.is_ready:
        # Where --timeout is over, that is the reason: more time might have been enough.
        kind = ConnectFailed if patience < whole else TimedOut
        return connection.waiting_for(waited) or kind(
            f"{connection.peer} did not answer within {waited}.",
            hint="Check host and port: something that is not a plaintext Kafka listener, or a "
            "firewall, may be in the way.",
        )
    return TimedOut(
        f"{connection.peer} did not answer within {waited}.",
        hint=timeout_hint(round(patience * 1000)),
    )
