"""One connection to one broker: a ``Channel`` on the first of the host's addresses that answers.

The addresses are raced as in RFC 8305, but further than TCP: what is sent first (ApiVersions, no
secret in it) goes to each address in turn, ``STAGGER_SECONDS`` apart, and the one that answers
becomes the connection. Only that one is shown a login. One that fails before the broker is ready
makes way for the next, unless the login was refused.
"""

from __future__ import annotations

import math
import selectors
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from kgtool import __version__
from kgtool.errors import AuthenticationError, ConnectFailed, KgError, LoginLost
from kgtool.net.background import Background
from kgtool.net.line import Line
from kgtool.net.translate import SocketAddress, connect_error, numeric, resolve, unresolved
from kgtool.net.transport import Transport
from kgtool.protocol.channel import CLOSED, READY, Channel
from kgtool.protocol.sasl import Mechanism
from kgtool.protocol.schema import Struct

PROGRESS_BYTES = 4096
"""So much of an unfinished reply counts as progress; a byte now and then does not."""
CONNECT_SECONDS = 10.0
"""``socket.connection.setup.timeout.ms``: TCP, login and ApiVersions together."""
STAGGER_SECONDS = 0.25
"""How long an address that says nothing is alone (RFC 8305: the Connection Attempt Delay)."""
LIFETIME_SHARE = 0.85
"""When a login is renewed, as a share of the session's lifetime (the Java client: 0.85 to 0.95)."""


class Connection:
    """Connects at once; every token sent comes back from ``replies`` exactly once.

    :param selector: the loop's selector, in which sockets register themselves.
    :param background: runs what blocks: looking up names, fetching tokens.
    :param transport: what lies between TCP and Kafka's protocol: TLS, a login, or nothing.
    :param setup_seconds: how long TCP, login and ApiVersions may take together, where the user
        has said so.
    """

    def __init__(
        self,
        host: str,
        port: int,
        selector: selectors.BaseSelector,
        background: Background,
        client_id: str,
        transport: Transport,
        setup_seconds: float | None,
    ) -> None:
        shown = f"[{host}]" if ":" in host else host
        self.peer = f"{shown}:{port}"
        self._client_id = client_id
        self._selector = selector
        self._background = background
        self._setup_seconds = setup_seconds
        self._transport = transport
        self._host, self._port = host, port
        self.channel = self._new_channel()
        self._addresses: list[SocketAddress] = []
        self._racing: list[Line] = []
        self._line: Line | None = None
        """The line that answered."""
        self._opening: bytes | None = None
        """What is sent first; None while there is no login yet."""
        self._queue: list[tuple[Any, Struct, int | None]] = []
        self._failures: list[KgError] = []
        self._next_address_at = math.inf
        self._log_in_again_at = math.inf
        self._is_resolving = True
        self._is_fetching_login = False
        self._is_up = False
        self.muted_until = 0.0
        self.progressed_at = time.monotonic()
        self.heard_at = 0.0
        """When a good part of an unfinished reply came (monotonic seconds)."""
        self._unmarked = 0
        found = numeric(host, port)
        if found is None:
            background.run(partial(resolve, host, port), self._on_resolved)
        else:
            self._on_resolved(found)

    def _new_channel(self) -> Channel:
        channel = Channel(self.peer, self._client_id, __version__)
        channel.trace = self._transport.trace
        return channel

    @property
    def is_ready(self) -> bool:
        """Whether the broker has said what it speaks; it stays so while a login is renewed."""
        return self._is_up and not self.is_closed

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended, or never came to be."""
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
        if time.monotonic() >= self._log_in_again_at and self.is_ready:
            self._log_in_again_at = math.inf
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
            # Whoever gives out tokens has a deadline of its own, and is not the broker.
            busy = self._is_fetching_login
            return None if busy else self.progressed_at + self.setup_seconds(patience)
        if not self.channel.pending:
            return None
        return max(self.progressed_at, self.muted_until) + patience

    def setup_seconds(self, patience: float) -> float:
        """Return how long it may take until it is ready."""
        return self._setup_seconds or min(patience, CONNECT_SECONDS)

    def is_stalled(self, now: float, patience: float) -> bool:
        """Whether it made no progress for ``patience`` seconds although it should have."""
        due = self.stalls_at(patience)
        return due is not None and now >= due

    def next_due(self, patience: float) -> float | None:
        """Return when there is something to do by itself (monotonic seconds)."""
        stalls_at = self.stalls_at(patience)
        return None if stalls_at is None else min(stalls_at, self._next_address_at)

    def on_time(self, now: float) -> None:
        """Let the next address begin if those under way say nothing."""
        if now >= self._next_address_at:
            self._begin_next()

    def hindrance(self, waited: str) -> KgError | None:
        """Return what other than the broker keeps the caller waiting; None if nothing does.

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
        """Begin with the next address; those under way go on."""
        self._next_address_at = math.inf
        while self._addresses:
            make_stream = partial(self._transport.stream, host=self._host, peer=self.peer)
            line = Line(self._addresses.pop(0), self.peer, self._selector, make_stream, self)
            error = line.connect()
            if error is None:
                self._racing.append(line)
                self._next_address_at = time.monotonic() + STAGGER_SECONDS
                return
            self._note_failure(line, error)
        if not self._racing:
            self.close(_most_telling(self._failures) or connect_error(0, self.peer))

    def _note_failure(self, line: Line, error: KgError) -> None:
        line.close()
        self._failures.append(error)
        self._transport.bad_addresses.add(line.address)

    def on_open(self, line: Line) -> None:
        """TCP stands: send what is sent first, once there is a login."""
        if self._opening is not None:
            line.send(self._opening)
        elif not self._is_fetching_login:
            self._fetch_login(self._begin)

    def _begin(self, mechanism: Mechanism | None) -> None:
        self.progressed_at = time.monotonic()  # fetching a token was not the broker's time
        if self._addresses:
            self._next_address_at = self.progressed_at + STAGGER_SECONDS
        self.channel.start(mechanism)
        self._opening = self.channel.data_to_send()
        for line in self._racing[:]:
            if line.is_open:
                line.send(self._opening)

    def _choose(self, line: Line) -> None:
        """Take the line that answered; those before it were slower."""
        self._line = line
        self._next_address_at = math.inf
        for other in self._racing:
            if other is not line:
                other.close()
                self._addresses.append(other.address)
        for slower in self._racing[: self._racing.index(line)]:
            self._transport.bad_addresses.add(slower.address)
        self._racing = []

    # -- what happens on a line -----------------------------------------------------------

    def on_data(self, line: Line, data: bytes | None) -> None:
        """Take what came; None: only TLS's own, ``b""``: the peer closed it."""
        if data is not None and self._line is None:
            if not data:
                self._on_hung_up(line, self.channel.closed_by_peer())
                return
            self._choose(line)
        if data is not None:
            self._receive(line, data)
        if not self.is_closed and self.channel.state != READY:
            self.flush()  # the next step of a login

    def on_lost(self, line: Line, error: KgError) -> None:
        """The connection broke: say in the middle of what."""
        self._on_hung_up(line, self.channel.lost(error) if line is self._line else error)

    def _on_hung_up(self, line: Line, error: KgError) -> None:
        """Find out why: a broker that hangs up at once may want something of us."""
        find_out = None
        if self._is_silent:
            find_out = self._transport.explain_silence(error, self._host, self._port)
        if find_out is None:
            self.on_failed(line, error)
            return
        line.close()
        self._background.run(find_out, partial(self.on_failed, line))

    def on_failed(self, line: Line, error: KgError) -> None:
        """There is no connection, or TLS failed: the next address, where it was not ready yet."""
        if self._is_up or isinstance(error, AuthenticationError | LoginLost):
            self.close(error)
            return
        self._note_failure(line, error)
        if line is self._line:
            self._line = self._opening = None
            self.channel = self._new_channel()
        else:
            self._racing.remove(line)
        self._begin_next()

    def _receive(self, line: Line, data: bytes) -> None:
        channel = self.channel
        was, left = channel.state, channel.pending
        if not data:
            self._on_hung_up(line, channel.closed_by_peer())
            return
        channel.receive(data)
        if channel.error is not None:
            self.on_failed(line, channel.error)
            return
        self._unmarked += len(data)
        # Before it is ready only the handshake's end counts: a drip must not keep it alive.
        if self._is_up and (channel.pending != left or self._unmarked >= PROGRESS_BYTES):
            self.progressed_at = time.monotonic()
            if channel.pending == left:
                self.heard_at = self.progressed_at
            self._unmarked = 0
        if channel.state == READY and was != READY:
            self._note_ready(line)
        if channel.answered:
            self._transport.is_proven = True

    def _note_ready(self, line: Line) -> None:
        lifetime = self.channel.session_lifetime_ms / 1000
        if lifetime:
            self._log_in_again_at = time.monotonic() + lifetime * LIFETIME_SHARE
        if not self._is_up:
            self._is_up = True
            self.progressed_at = time.monotonic()
            self._transport.bad_addresses.discard(line.address)
            self._send_queue()

    @property
    def _is_silent(self) -> bool:
        """Whether no broker of the session has answered anything but its versions."""
        return self.is_ready and not self._transport.is_proven

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
        """Renew the login (KIP-368); answers that are under way come in before its own."""
        if mechanism is not None:
            self.channel.log_in_again(mechanism)
        self._send_queue()
        self.flush()

    # -- writing and the end --------------------------------------------------------------

    def _send_queue(self) -> None:
        queue, self._queue = self._queue, []
        for item in queue:
            self.channel.send(*item)

    def flush(self) -> None:
        """Write what there is to write, as far as the socket takes it."""
        if self._line is not None:
            self._line.send(self.channel.data_to_send())

    def _lines(self) -> list[Line]:
        return self._racing if self._line is None else [self._line]

    def give_up(self, error: KgError) -> None:
        """End it because nothing came; what an address said before says more."""
        for line in self._lines():
            self._transport.bad_addresses.add(line.address)
        failures = [] if self._is_up else self._failures
        self.close(_most_telling([*failures, error]) or error)

    def close(self, error: KgError) -> None:
        """End the connection; whatever has no reply yet gets ``error``."""
        if self.channel.trace is not None and not self.is_closed:
            self.channel.trace(f"× {self.peer}: {error}")
        for line in self._lines():
            line.close()
        self._racing, self._line = [], None
        self._next_address_at = math.inf
        self.channel.fail(error)
        self._send_queue()


def _most_telling(failures: list[KgError]) -> KgError | None:
    """Return the failure that somebody has to know: that nobody answers is the least of them."""
    telling = [error for error in failures if not isinstance(error, ConnectFailed)]
    return next(iter(telling or failures[-1:]), None)
