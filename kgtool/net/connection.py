"""One non-blocking connection to one broker: a socket around a ``Channel``."""

from __future__ import annotations

import math
import selectors
import socket
import time
from typing import Any

from kgtool.errors import KgError, NetworkError, ResolveFailed
from kgtool.net.stream import Stream
from kgtool.net.translate import connect_error, connection_error, resolve
from kgtool.net.transport import Transport
from kgtool.protocol.channel import CLOSED, READY, Channel
from kgtool.protocol.schema import Struct

PROGRESS_BYTES = 4096
"""So much of an unfinished reply counts as progress; a byte now and then does not."""
CONNECT_SECONDS = 10.0
"""``socket.connection.setup.timeout.ms``: TCP, login and ApiVersions together."""
LIFETIME_SHARE = 0.85
"""When a login is renewed, as a share of the session's lifetime (the Java client: 0.85 to 0.95)."""
IN_PROGRESS = (0, 36, 115, 10035)
"""What connect_ex answers when it is on its way: Linux, macOS, Windows."""


class Connection:
    """Connects at once; every token sent comes back from ``replies`` exactly once.

    :param selector: the loop's selector, in which the socket registers itself.
    :param transport: what lies between TCP and Kafka's protocol: TLS, a login, or nothing.
    :param setup_seconds: how long TCP, login and ApiVersions may take together, where the user
        has said so.
    """

    def __init__(
        self,
        host: str,
        port: int,
        selector: selectors.BaseSelector,
        client_id: str,
        version: str,
        transport: Transport | None = None,
        setup_seconds: float | None = None,
    ) -> None:
        shown = f"[{host}]" if ":" in host else host
        self.peer = f"{shown}:{port}"
        self.channel = Channel(self.peer, client_id, version)
        self._selector = selector
        self._setup_seconds = setup_seconds
        self._socket: socket.socket | None = None
        self._stream: Stream | None = None
        self._transport = transport or Transport()
        self.channel.trace = self._transport.trace
        self._host, self._port = host, port
        self._log_in_again_at = math.inf
        self._interest = 0
        self.muted_until = 0.0
        self.progressed_at = time.monotonic()
        self.heard_at = 0.0
        """When a good part of an unfinished reply came (monotonic seconds)."""
        self._unmarked = 0
        try:
            self._addresses = resolve(host, port)
        except ResolveFailed as error:
            self._addresses = []
            self.channel.fail(error)
            return
        self._connect_next(None)

    @property
    def is_ready(self) -> bool:
        """Whether the broker has said what it speaks."""
        return self.channel.state == READY

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended, or never came to be."""
        return self.channel.state == CLOSED

    @property
    def error(self) -> KgError | None:
        """Why it has ended."""
        return self.channel.error

    def send(self, token: Any, request: Struct, max_version: int | None) -> None:
        """Queue a request."""
        if not self.channel.pending:
            self.progressed_at = time.monotonic()
        if time.monotonic() >= self._log_in_again_at and self.is_ready:
            self._log_in_again()
        self.channel.send(token, request, max_version)

    def mute(self, seconds: float) -> None:
        """Send nothing for a while: a quota was exceeded."""
        self.muted_until = max(self.muted_until, time.monotonic() + seconds)

    def stalls_at(self, patience: float) -> float | None:
        """Return when it counts as dead (monotonic seconds) unless it makes progress before."""
        if self.is_closed:
            return None
        if not self.is_ready:
            return self.progressed_at + self.setup_seconds(patience)
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

    def on_event(self, mask: int) -> None:
        """Do what the selector says is possible."""
        if self._stream is None:
            self._finish_connect()
            return
        if mask & selectors.EVENT_READ:
            self._read(self._stream)
        if mask & selectors.EVENT_WRITE and not self.is_closed:
            self.flush()

    def flush(self) -> None:
        """Write what there is to write, as far as the socket takes it."""
        if self._stream is None:
            return
        try:
            self._stream.write(self.channel.data_to_send())
        except OSError as exc:
            self._lose(connection_error(exc, self.peer))
        except KgError as error:
            self.close(error)
        else:
            self._watch_stream(self._stream)

    def _watch_stream(self, stream: Stream) -> None:
        write = selectors.EVENT_WRITE if stream.wants_write else 0
        self._watch(selectors.EVENT_READ | write)

    def close(self, error: KgError) -> None:
        """End the connection; whatever has no reply yet gets ``error``."""
        if self.channel.trace is not None and not self.is_closed:
            self.channel.trace(f"× {self.peer}: {error}")
        self._drop_socket()
        self.channel.fail(error)

    def _connect_next(self, last: NetworkError | None) -> None:
        """Try the next of the host's addresses; fail with ``last`` when there is none left."""
        while self._addresses:
            family, address = self._addresses.pop(0)
            try:
                self._socket = socket.socket(family, socket.SOCK_STREAM)
            except OSError as exc:
                last = connect_error(exc.errno or 0, self.peer)
                continue
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            number = self._socket.connect_ex(address)
            if number in IN_PROGRESS:
                self._watch(selectors.EVENT_WRITE)
                return
            self._drop_socket()
            last = connect_error(number, self.peer)
        self.close(last or connect_error(0, self.peer))

    def _finish_connect(self) -> None:
        if self._socket is None:
            return
        number = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            self._drop_socket()
            self._connect_next(connect_error(number, self.peer))
            return
        try:
            stream = self._transport.stream(self._socket, self._host, self.peer)
            mechanism = self._transport.mechanism(self._host)
        except KgError as error:
            self.close(error)
            return
        self._stream = stream
        self.progressed_at = time.monotonic()  # fetching a token was not the broker's time
        self.channel.start(mechanism)
        self.flush()

    def _read(self, stream: Stream) -> None:
        try:
            data = stream.read()
        except OSError as exc:
            self._lose(connection_error(exc, self.peer))
            return
        except KgError as error:
            self.close(error)
            return
        was_ready = self.is_ready
        if data is not None:
            self._receive(data)
        if self.is_closed:
            return
        if was_ready:
            self._watch_stream(stream)  # TLS may have something of its own to send
        else:
            self.flush()

    def _receive(self, data: bytes) -> None:
        channel = self.channel
        was, left = channel.state, channel.pending
        if not data and self._is_silent:
            self._lose(channel.closed_by_peer())
            return
        channel.receive(data)
        self._unmarked += len(data)
        # Before it is ready only the handshake's end counts: a drip must not keep it alive.
        if self.is_ready and (channel.pending != left or self._unmarked >= PROGRESS_BYTES):
            self.progressed_at = time.monotonic()
            if channel.pending == left:
                self.heard_at = self.progressed_at
            self._unmarked = 0
        if self.is_ready and was != READY:
            self._note_login()
        if channel.answered:
            self._transport.is_proven = True
        if self.is_closed:
            self._drop_socket()

    @property
    def _is_silent(self) -> bool:
        """Whether no broker of the session has answered anything but its versions."""
        return self.is_ready and not self._transport.is_proven

    def _lose(self, error: KgError) -> None:
        """End a connection that broke; ask once more if security may be the reason."""
        if self._is_silent:
            error = self._transport.explain_silence(error, self._host, self._port)
        self.close(error)

    def _note_login(self) -> None:
        lifetime = self.channel.session_lifetime_ms / 1000
        if lifetime:
            self._log_in_again_at = time.monotonic() + lifetime * LIFETIME_SHARE

    def _log_in_again(self) -> None:
        self._log_in_again_at = math.inf
        try:
            mechanism = self._transport.mechanism(self._host)
        except KgError as error:
            self.close(error)
            return
        if mechanism is not None:
            self.channel.log_in_again(mechanism)

    def _watch(self, interest: int) -> None:
        if self._socket is None or interest == self._interest:
            return
        if self._interest:
            self._selector.modify(self._socket, interest, self)
        else:
            self._selector.register(self._socket, interest, self)
        self._interest = interest

    def _drop_socket(self) -> None:
        if self._socket is None:
            return
        if self._interest:
            self._selector.unregister(self._socket)
            self._interest = 0
        self._socket.close()
        self._socket = None
        self._stream = None
