"""One non-blocking socket to one address: TCP, then what the transport puts on it."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from kgtool.errors import KgError, NetworkError
from kgtool.net.stream import Stream
from kgtool.net.translate import SocketAddress, connect_error, connection_error

if TYPE_CHECKING:
    from kgtool.net.connection import Connection

IN_PROGRESS = (0, 36, 115, 10035)
"""What connect_ex answers when it is on its way: Linux, macOS, Windows."""


class Line:
    """A socket that registers itself in the loop's selector.

    :param peer: host and port, for messages.
    :param owner: hears what happens.
    """

    def __init__(
        self,
        address: SocketAddress,
        peer: str,
        selector: selectors.BaseSelector,
        make_stream: Callable[[socket.socket], Stream],
        owner: Connection,
    ) -> None:
        self.address = address
        self._peer = peer
        self._selector = selector
        self._make_stream = make_stream
        self._owner = owner
        self._socket: socket.socket | None = None
        self._stream: Stream | None = None
        self._interest = 0

    @property
    def is_open(self) -> bool:
        """Whether TCP stands."""
        return self._stream is not None

    def connect(self) -> NetworkError | None:
        """Begin; return why that is impossible, if it is."""
        family, address = self.address
        try:
            self._socket = socket.socket(family, socket.SOCK_STREAM)
        except OSError as exc:
            return connect_error(exc.errno or 0, self._peer)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number = self._socket.connect_ex(address)
        if number in IN_PROGRESS:
            self._watch(selectors.EVENT_WRITE)
            return None
        self.close()
        return connect_error(number, self._peer)

    def on_event(self, mask: int) -> None:
        """Do what the selector says is possible."""
        if self._socket is None:
            return  # closed by what came before it in the same round
        if self._stream is None:
            self._finish_connect(self._socket)
            return
        if mask & selectors.EVENT_READ:
            self._read(self._stream)
        if mask & selectors.EVENT_WRITE:
            self.send(b"")

    def send(self, data: bytes) -> None:
        """Write, as far as the socket takes it; the rest follows."""
        if self._stream is None:
            return
        try:
            self._stream.write(data)
        except OSError as exc:
            self._owner.on_lost(self, connection_error(exc, self._peer))
        except KgError as error:
            self._owner.on_failed(self, error)
        else:
            self._watch_stream()

    def close(self) -> None:
        """Close the socket."""
        if self._socket is None:
            return
        if self._interest:
            self._selector.unregister(self._socket)
            self._interest = 0
        self._socket.close()
        self._socket = None
        self._stream = None

    def _finish_connect(self, connected: socket.socket) -> None:
        number = connected.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            self._owner.on_failed(self, connect_error(number, self._peer))
            return
        try:
            self._stream = self._make_stream(connected)
        except KgError as error:
            self._owner.on_failed(self, error)
            return
        self.send(b"")  # TLS begins
        if self._stream is not None:
            self._owner.on_open(self)

    def _read(self, stream: Stream) -> None:
        try:
            data = stream.read()
        except OSError as exc:
            self._owner.on_lost(self, connection_error(exc, self._peer))
            return
        except KgError as error:
            self._owner.on_failed(self, error)
            return
        self._owner.on_data(self, data)
        self._watch_stream()  # TLS may have something of its own to send

    def _watch_stream(self) -> None:
        if self._stream is not None:
            write = selectors.EVENT_WRITE if self._stream.wants_write else 0
            self._watch(selectors.EVENT_READ | write)

    def _watch(self, interest: int) -> None:
        if self._socket is None or interest == self._interest:
            return
        if self._interest:
            self._selector.modify(self._socket, interest, self)
        else:
            self._selector.register(self._socket, interest, self)
        self._interest = interest
