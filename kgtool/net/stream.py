"""A connected socket as a stream of bytes: as it is here, in TLS in ``tls``.

Both kinds have the same methods. Nothing blocks: what the socket does not take stays in the
stream, and ``wants_write`` says that it should be watched for room.
"""

from __future__ import annotations

import socket

CHUNK = 1024 * 1024


class Stream:
    """Bytes as they are."""

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
