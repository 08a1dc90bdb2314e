"""One non-blocking connection to one broker: a socket around a ``Channel``."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from typing import Any

from kgtool.errors import KgError, NetworkError, ResolveFailed
from kgtool.net.translate import connect_error, connection_error, resolve
from kgtool.protocol.channel import CLOSED, READY, VERSIONS, Channel
from kgtool.protocol.schema import Struct

RECEIVE_BYTES = 1024 * 1024
PROGRESS_BYTES = 4096
"""So much of an unfinished reply counts as progress; a byte now and then does not."""
CONNECT_SECONDS = 10.0
"""``socket.connection.setup.timeout.ms``: TCP, login and ApiVersions together."""
IN_PROGRESS = (0, 36, 115, 10035)
"""What connect_ex answers when it is on its way: Linux, macOS, Windows."""

Trace = Callable[[str], None]


class Connection:
    """Connects at once; every token sent comes back from ``replies`` exactly once.

    :param selector: the loop's selector, in which the socket registers itself.
    """

    def __init__(
        self, host: str, port: int, selector: selectors.BaseSelector, client_id: str, version: str
    ) -> None:
        shown = f"[{host}]" if ":" in host else host
        self.peer = f"{shown}:{port}"
        self.channel = Channel(self.peer, client_id, version)
        self._selector = selector
        self._socket: socket.socket | None = None
        self._unsent = bytearray()
        self._connected = False
        self._interest = 0
        self.muted_until = 0.0
        self.progressed_at = time.monotonic()
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
        self.channel.send(token, request, max_version)

    def mute(self, seconds: float) -> None:
        """Send nothing for a while: a quota was exceeded."""
        self.muted_until = max(self.muted_until, time.monotonic() + seconds)

    def stalls_at(self, patience: float) -> float | None:
        """Return when it counts as dead (monotonic seconds) unless it makes progress before."""
        if self.is_closed:
            return None
        if not self.is_ready:
            return self.progressed_at + min(patience, CONNECT_SECONDS)
        if not self.channel.pending:
            return None
        return max(self.progressed_at, self.muted_until) + patience

    def is_stalled(self, now: float, patience: float) -> bool:
        """Whether it made no progress for ``patience`` seconds although it should have."""
        due = self.stalls_at(patience)
        return due is not None and now >= due

    def on_event(self, mask: int) -> None:
        """Do what the selector says is possible."""
        if not self._connected:
            self._finish_connect()
            return
        if mask & selectors.EVENT_READ:
            self._read()
        if mask & selectors.EVENT_WRITE and not self.is_closed:
            self.flush()

    def flush(self) -> None:
        """Write what there is to write, as far as the socket takes it."""
        if not self._connected or self._socket is None:
            return
        self._unsent += self.channel.data_to_send()
        try:
            while self._unsent:
                sent = self._socket.send(memoryview(self._unsent)[:RECEIVE_BYTES])
                del self._unsent[:sent]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as exc:
            self.close(connection_error(exc, self.peer))
            return
        self._watch(selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0))

    def close(self, error: KgError) -> None:
        """End the connection; whatever has no reply yet gets ``error``."""
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
        self._connected = True
        self.channel.start()
        self.flush()

    def _read(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as exc:
            self.close(connection_error(exc, self.peer))
            return
        was, left = self.channel.state, self.channel.pending
        self.channel.receive(data)
        self._unmarked += len(data)
        # Before it is ready only the handshake's end counts: a drip must not keep it alive.
        if self.is_ready and (self.channel.pending != left or self._unmarked >= PROGRESS_BYTES):
            self.progressed_at = time.monotonic()
            self._unmarked = 0
        if self.is_closed:
            self._drop_socket()
        elif was == VERSIONS:
            self.flush()

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
