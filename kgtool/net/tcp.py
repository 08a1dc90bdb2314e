"""Non-blocking TCP: one socket to one address, and the stream of bytes that is put on it.

Nothing blocks: what the socket does not take stays in the stream, and ``wants_write`` says that
the socket should be watched for room. ``tls.stream`` has the same stream with TLS.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
from collections.abc import Callable
from typing import Protocol

from kgtool.errors import (
    ConnectFailed,
    ConnectionLost,
    KgError,
    NetworkError,
    ResolveFailed,
    TimedOut,
)
from kgtool.net.dns import SocketAddress

CHUNK = 1024 * 1024
IN_PROGRESS = (0, 36, 115, 10035)
"""The results of connect_ex while it is under way: Linux, macOS, Windows."""


class Stream:
    """Plain bytes on a connected socket."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._unsent = bytearray()

    @property
    def wants_write(self) -> bool:
        """Whether there is something left to send."""
        return bool(self._unsent)

    def write(self, data: bytes) -> None:
        """Take bytes to send, and send what the socket takes.

        :raises OSError: the connection broke.
        """
        self._unsent += data
        self._send()

    def read(self) -> bytes | None:
        """Return what has arrived; None if nothing has, ``b""`` at the end.

        :raises OSError: the connection broke.
        """
        try:
            return self._socket.recv(CHUNK)
        except (BlockingIOError, InterruptedError):
            return None

    def _send(self) -> None:
        try:
            while self._unsent:
                sent = self._socket.send(memoryview(self._unsent)[:CHUNK])
                del self._unsent[:sent]
        except (BlockingIOError, InterruptedError):
            pass


class Owner(Protocol):
    """What a socket tells of itself: a ``Connection``."""

    def on_open(self, sock: TcpSocket) -> None:
        """TCP is connected."""

    def on_data(self, sock: TcpSocket, data: bytes | None) -> None:
        """Take received bytes; None: only TLS records of its own, ``b""``: the peer closed it."""

    def on_lost(self, sock: TcpSocket, error: KgError) -> None:
        """The connection broke."""

    def on_failed(self, sock: TcpSocket, error: KgError) -> None:
        """TCP, TLS or the protocol failed."""


class TcpSocket:
    """A socket that connects, and registers itself in the loop's selector.

    :param peer: host and port, for messages.
    :param owner: is called with data, errors and the end.
    """

    def __init__(
        self,
        address: SocketAddress,
        peer: str,
        selector: selectors.BaseSelector,
        make_stream: Callable[[socket.socket], Stream],
        owner: Owner,
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
        """Whether TCP is connected."""
        return self._stream is not None

    def connect(self) -> NetworkError | None:
        """Begin to connect; return the error if that is impossible."""
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
            return  # closed by an earlier event of the same round
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
        except (OSError, KgError) as exc:
            self._fail(exc)
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
        self._socket = self._stream = None

    def _finish_connect(self, connected: socket.socket) -> None:
        number = connected.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            self._fail(connect_error(number, self._peer))
            return
        try:
            self._stream = self._make_stream(connected)
        except KgError as error:
            self._fail(error)
            return
        self.send(b"")  # TLS begins
        if self._stream is not None:
            self._owner.on_open(self)

    def _read(self, stream: Stream) -> None:
        try:
            data = stream.read()
        except (OSError, KgError) as exc:
            self._fail(exc)
            return
        self._owner.on_data(self, data)
        self._watch_stream()  # TLS may have something of its own to send

    def _fail(self, error: OSError | KgError) -> None:
        if isinstance(error, KgError):
            self._owner.on_failed(self, error)
        else:
            self._owner.on_lost(self, connection_error(error, self._peer))

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


class TlsLost(ConnectionLost):
    """The peer went away during the TLS handshake: perhaps it does not speak TLS."""


def connect_error(number: int, peer: str) -> NetworkError:
    """Return the error of a connection that could not be made, from an ``errno``."""
    if number == errno.ECONNREFUSED:
        return ConnectFailed(
            f"Nothing listens on {peer}.",
            hint="Check host and port, and that the broker is running.",
        )
    if number in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return ConnectFailed(f"No route to {peer}.")
    return ConnectFailed(f"Could not connect to {peer}: {os.strerror(number)}.")


def connection_error(error: OSError, peer: str) -> NetworkError:
    """Return the error of an established connection that broke."""
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return ConnectionLost(f"{peer} reset the connection.")
    reason = error.strerror or str(error)
    return ConnectionLost(f"The connection to {peer} broke: {reason}.")


def of_advertised(error: KgError, broker: int) -> KgError:
    """Return the error of an address that can't be reached; it says who has named the address."""
    if not isinstance(error, ConnectFailed | ResolveFailed | TimedOut):
        return error
    found = error.after_sending()
    found.maybe_done = error.maybe_done
    found.hint = advertised_hint(broker)
    return found


def advertised_hint(broker: int) -> str:
    """Return the hint of an address at which nothing has answered yet."""
    return (
        f"Broker {broker} has this address in its advertised.listeners: is it running, and can it "
        "be reached from here?"
    )


def most_telling(failures: list[KgError]) -> KgError | None:
    """Return the failure that tells most: any other than that nothing answers."""
    telling = [error for error in failures if not isinstance(error, ConnectFailed)]
    return next(iter(telling or failures[-1:]), None)
