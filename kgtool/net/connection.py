"""One connection to one broker: a ``Channel`` on the first of the host's addresses that answers.

The addresses are raced as in RFC 8305 (Happy Eyeballs), but further than TCP: the first request
(ApiVersions, no secret in it) goes to each address in turn, ``STAGGER_SECONDS`` apart, and the one
that answers becomes the connection. Only that one is sent a login. After one that fails before the
broker is ready the next is tried, unless the login was refused.
"""

from __future__ import annotations

import math
import selectors
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kgtool import __version__
from kgtool.errors import AuthenticationError, KgError, LoginLost
from kgtool.net.background import Background
from kgtool.net.dns import SocketAddress, numeric, resolve, unresolved
from kgtool.net.tcp import TcpSocket, connect_error, most_telling, of_advertised
from kgtool.net.transport import Transport
from kgtool.protocol.channel import CLOSED, READY, Channel, Expected
from kgtool.protocol.sasl import Mechanism
from kgtool.protocol.schema import Struct

if TYPE_CHECKING:
    from kgtool.config import Settings

PROGRESS_BYTES = 4096
"""The bytes of an unfinished reply that count as progress; a byte now and then does not."""
CONNECT_SECONDS = 10.0
"""``socket.connection.setup.timeout.ms``: TCP, login and ApiVersions together."""
STAGGER_SECONDS = 0.25
"""When the next address is tried beside a silent one (RFC 8305: Connection Attempt Delay)."""
LIFETIME_SHARE = 0.85
"""When a login is renewed, as a share of the session's lifetime (the Java client: 0.85 to 0.95)."""


class Connection:
    """Connects at once; every token sent comes back from ``replies`` exactly once.

    :param selector: the loop's selector, in which sockets register themselves.
    :param background: runs what blocks: name lookups, fetching tokens.
    :param transport: TLS and logins, where they are configured.
    :param expected: which broker is meant, where its cluster checks that.
    """

    def __init__(
        self,
        host: str,
        port: int,
        selector: selectors.BaseSelector,
        background: Background,
        transport: Transport,
        settings: Settings,
        expected: Expected | None = None,
    ) -> None:
        shown = f"[{host}]" if ":" in host else host
        self.peer = f"{shown}:{port}"
        self._settings = settings
        self._expected = expected
        self.advertised_by: int | None = None
        """The broker whose address the cluster has named; the user has not."""
        self._selector = selector
        self._background = background
        self._transport = transport
        self._host, self._port = host, port
        self.channel = self._new_channel()
        self._addresses: list[SocketAddress] = []
        self._racing: list[TcpSocket] = []
        self._chosen: TcpSocket | None = None
        """The socket that answered."""
        self._opening: bytes | None = None
        """The first request's bytes; None while there is no login yet."""
        self._queue: list[tuple[Any, Struct, int | None]] = []
        self._failures: list[KgError] = []
        self._next_address_at = math.inf
        self._renew_login_at = math.inf
        self._is_resolving = True
        self._is_fetching_login = False
        self._is_up = False
        self.muted_until = 0.0
        self.began_at = self.progressed_at = time.monotonic()
        self.failed_at: float | None = None
        """When it ended without having been ready (monotonic seconds)."""
        self.answered_at = 0.0
        """When a reply came, likewise."""
        self.heard_at = 0.0
        """When a good part of an unfinished reply came (monotonic seconds)."""
        self._unmarked = 0
        found = numeric(host, port)
        if found is None:
            background.run(partial(resolve, host, port), self._on_resolved)
        else:
            self._on_resolved(found)

    def _new_channel(self) -> Channel:
        channel = Channel(self.peer, self._settings.client_id, __version__, self._expected)
        channel.trace = self._transport.trace
        return channel

    @property
    def is_ready(self) -> bool:
        """Whether the broker's versions are known; it stays so while a login is renewed."""
        return self._is_up and not self.is_closed

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended or failed."""
        return self.channel.state == CLOSED

    @property
    def error(self) -> KgError | None:
        """Why it has ended."""
        return self.channel.error

    @property
    def pending(self) -> int:
        """How many requests have no reply yet."""
        return self.channel.pending + len(self._queue)

    def unanswered(self) -> list[Any]:
        """Return the tokens of the requests without a reply, also of those not sent yet."""
        return [*self.channel.unanswered(), *(token for token, _, _ in self._queue)]

    def send(self, token: Any, request: Struct, max_version: int | None) -> None:
        """Queue a request."""
        if not self.pending:
            self.progressed_at = time.monotonic()
        if time.monotonic() >= self._renew_login_at and self.is_ready:
            self._renew_login_at = math.inf
            self._fetch_login(self._on_new_login)
        if self.is_closed or (self._is_up and not self._is_fetching_login):
            self.channel.send(token, request, max_version)
        else:
            self._queue.append((token, request, max_version))

    def mute(self, seconds: float) -> None:
        """Send nothing for a while: a quota was exceeded."""
        self.muted_until = max(self.muted_until, time.monotonic() + seconds)

    # -- time -----------------------------------------------------------------------------

    def stalls_at(self, patience: float) -> float | None:
        """Return when it counts as dead (monotonic seconds) unless it makes progress before."""
        if self.is_closed:
            return None
        if not self._is_up:
            # The token server has a deadline of its own.
            busy = self._is_fetching_login
            return None if busy else self.progressed_at + self.setup_seconds(patience)
        if not self.channel.pending:
            return None
        return max(self.progressed_at, self.muted_until) + patience

    def setup_seconds(self, patience: float) -> float:
        """Return how long TCP, login and ApiVersions may take together."""
        setup_ms = self._settings.setup_ms
        if setup_ms is None:
            return min(patience, CONNECT_SECONDS)
        return min(setup_ms, self._settings.timeout_ms) / 1000

    def is_stalled(self, now: float, patience: float) -> bool:
        """Whether it made no progress for ``patience`` seconds although it should have."""
        due = self.stalls_at(patience)
        return due is not None and now >= due

    def next_due(self, patience: float) -> float | None:
        """Return when ``on_time`` has something to do (monotonic seconds)."""
        stalls_at = self.stalls_at(patience)
        return None if stalls_at is None else min(stalls_at, self._next_address_at)

    def on_time(self, now: float) -> None:
        """Try the next address if those under way do not answer."""
        if now >= self._next_address_at:
            self._begin_next()

    def waiting_for(self, waited: str) -> KgError | None:
        """Return the error of a name or token server that is waited for; None if there is none.

        :param waited: for how long, in words.
        """
        if self._is_resolving:
            return unresolved(self._host, waited)
        if self._is_fetching_login:
            return AuthenticationError(
                f"There is no login for {self.peer} within {waited}: the server that issues its "
                "tokens or tickets does not answer."
            )
        return None

    # -- addresses ------------------------------------------------------------------------

    def _on_resolved(self, found: Any) -> None:
        self._is_resolving = False
        if self.is_closed:
            return
        if isinstance(found, KgError):
            self.close(found)
            return
        self._addresses = sorted(found, key=self._transport.bad_addresses.__contains__)
        self._begin_next()

    def _begin_next(self) -> None:
        """Try the next address; those under way go on."""
        self._next_address_at = math.inf
        while self._addresses:
            make_stream = partial(self._transport.stream, host=self._host, peer=self.peer)
            sock = TcpSocket(self._addresses.pop(0), self.peer, self._selector, make_stream, self)
            error = sock.connect()
            if error is None:
                self._racing.append(sock)
                self._next_address_at = time.monotonic() + STAGGER_SECONDS
                return
            self._note_failure(sock, error)
        if not self._racing:
            self.close(most_telling(self._failures) or connect_error(0, self.peer))

    def _note_failure(self, sock: TcpSocket, error: KgError) -> None:
        sock.close()
        self._failures.append(error)
        self._transport.bad_addresses.add(sock.address)

    def on_open(self, sock: TcpSocket) -> None:
        """TCP is connected: send the first request, once there is a login."""
        if self._opening is not None:
            sock.send(self._opening)
        elif not self._is_fetching_login:
            self._fetch_login(self._begin)

    def _begin(self, mechanism: Mechanism | None) -> None:
        self.progressed_at = time.monotonic()  # the broker had no part in fetching the token
        if self._addresses:
            self._next_address_at = self.progressed_at + STAGGER_SECONDS
        self.channel.start(mechanism)
        self._opening = self.channel.data_to_send()
        for sock in self._racing[:]:
            if sock.is_open:
                sock.send(self._opening)

    def _choose(self, sock: TcpSocket) -> None:
        """Take the socket that answered; those before it were slower."""
        self._chosen = sock
        self._next_address_at = math.inf
        for other in self._racing:
            if other is not sock:
                other.close()
                self._addresses.append(other.address)
        for slower in self._racing[: self._racing.index(sock)]:
            self._transport.bad_addresses.add(slower.address)
        self._racing = []

    # -- events of a socket ---------------------------------------------------------------

    def on_data(self, sock: TcpSocket, data: bytes | None) -> None:
        """Take received bytes; None: only TLS records of its own, ``b""``: the peer closed it."""
        if data is not None and self._chosen is None:
            if not data:
                self._on_hung_up(sock, self.channel.closed_error())
                return
            self._choose(sock)
        if data is not None:
            self._receive(sock, data)
        if not self.is_closed and self.channel.state != READY:
            self.flush()  # the next step of a login

    def on_lost(self, sock: TcpSocket, error: KgError) -> None:
        """The connection broke, perhaps in the middle of a login."""
        self._on_hung_up(sock, self.channel.explain_loss(error) if sock is self._chosen else error)

    def _on_hung_up(self, sock: TcpSocket, error: KgError) -> None:
        """The peer hung up: a broker that does so at once may require a login."""
        explain = None
        # No broker of the session has answered anything but ApiVersions.
        if self.is_ready and not self._transport.is_proven:
            explain = self._transport.explain_silence(error, self._host, self._port)
        if explain is None:
            self.on_failed(sock, error)
            return
        sock.close()
        self._background.run(explain, partial(self.on_failed, sock))

    def on_failed(self, sock: TcpSocket, error: KgError) -> None:
        """TCP, TLS or the protocol failed: try the next address, if it was not ready yet."""
        if self._is_up or isinstance(error, AuthenticationError | LoginLost):
            self.close(error)
            return
        self._note_failure(sock, error)
        if sock is self._chosen:
            self._chosen = self._opening = None
            self.channel = self._new_channel()
        else:
            self._racing.remove(sock)
        self._begin_next()

    def _receive(self, sock: TcpSocket, data: bytes) -> None:
        channel = self.channel
        was, left = channel.state, channel.pending
        if not data:
            self._on_hung_up(sock, channel.closed_error())
            return
        channel.receive(data)
        if channel.error is not None:
            self.on_failed(sock, channel.error)
            return
        self._unmarked += len(data)
        # Before it is ready only the end of the handshake counts, not a slow drip of bytes.
        if self._is_up and (channel.pending != left or self._unmarked >= PROGRESS_BYTES):
            self.progressed_at = time.monotonic()
            if channel.pending == left:
                self.heard_at = self.progressed_at
            else:
                self.answered_at = self.progressed_at
            self._unmarked = 0
        if channel.state == READY and was != READY:
            self._note_ready(sock)
        if channel.answered:
            self._transport.is_proven = True

    def _note_ready(self, sock: TcpSocket) -> None:
        lifetime = self.channel.session_lifetime_ms / 1000
        if lifetime:
            self._renew_login_at = time.monotonic() + lifetime * LIFETIME_SHARE
        if not self._is_up:
            self._is_up = True
            self.progressed_at = time.monotonic()
            self._transport.bad_addresses.discard(sock.address)
            self._send_queue()

    # -- logins ---------------------------------------------------------------------------

    def _fetch_login(self, done: Callable[[Mechanism | None], None]) -> None:
        def fetched(found: Mechanism | KgError | None) -> None:
            self._is_fetching_login = False
            if isinstance(found, KgError):
                self.close(found)
            elif not self.is_closed:
                done(found)

        self._is_fetching_login = True
        fetch = partial(self._transport.mechanism, self._host)
        if self._transport.login_blocks:
            self._background.run(fetch, fetched)
            return
        try:
            found: Mechanism | KgError | None = fetch()
        except KgError as error:
            found = error
        fetched(found)

    def _on_new_login(self, mechanism: Mechanism | None) -> None:
        """Renew the login (KIP-368); replies that are under way come before its own."""
        if mechanism is not None:
            self.channel.renew_login(mechanism)
        self._send_queue()
        self.flush()

    # -- writing and the end --------------------------------------------------------------

    def _send_queue(self) -> None:
        queue, self._queue = self._queue, []
        for item in queue:
            self.channel.send(*item)

    def flush(self) -> None:
        """Write queued bytes, as far as the socket takes them."""
        if self._chosen is not None:
            self._chosen.send(self.channel.data_to_send())

    def _sockets(self) -> list[TcpSocket]:
        return self._racing if self._chosen is None else [self._chosen]

    def give_up(self, error: KgError) -> None:
        """End it because nothing came; the error of an earlier address tells more."""
        for sock in self._sockets():
            self._transport.bad_addresses.add(sock.address)
        failures = [] if self._is_up else self._failures
        self.close(most_telling([*failures, error]) or error)

    def close(self, error: KgError) -> None:
        """End the connection; requests without a reply get ``error``."""
        if not self._is_up and self.failed_at is None:
            self.failed_at = time.monotonic()
        if self.advertised_by is not None and not self._is_up:
            error = of_advertised(error, self.advertised_by)
        if self.channel.trace is not None and not self.is_closed:
            self.channel.trace(f"× {self.peer}: {error}")
        for sock in self._sockets():
            sock.close()
        self._racing, self._chosen = [], None
        self._next_address_at = math.inf
        self.channel.fail(error)
        self._send_queue()
