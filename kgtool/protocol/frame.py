"""Framing: length, request header, response header; nothing of any API's content.

A frame is an int32 length and that many bytes. Request header v1 is key, version, correlation id
and client id; v2, for flexible versions, adds tagged fields but keeps the client id's int16
length. Response header v0 is the correlation id, v1 adds tagged fields; ApiVersions replies with
v0 always (KIP-511), because its reader does not know yet what the other side speaks.
"""

from __future__ import annotations

import struct
from collections import deque
from itertools import islice

from kgtool.errors import DecodeError, FrameError, NotKafka
from kgtool.protocol.plan import encode
from kgtool.protocol.schema import Struct
from kgtool.protocol.wire import read_tags

API_VERSIONS_KEY = 18
MAX_FRAME = 512 * 1024 * 1024
FIRST_FRAME = 1024 * 1024
"""The first frame answers ApiVersions; real ones have less than 2 kB."""

_HEADER = struct.Struct(">hhi")
_LENGTH = struct.Struct(">i")


def encode_request(request: Struct, version: int, correlation_id: int, client_id: str) -> bytes:
    """Return the whole frame of a request."""
    client = client_id.encode()
    header = _HEADER.pack(request.KEY, version, correlation_id)
    header += struct.pack(">h", len(client)) + client
    if version in request.FLEXIBLE:
        header += b"\x00"
    body = encode(request, version)
    return _LENGTH.pack(len(header) + len(body)) + header + body


def correlation_of(frame: bytes) -> int:
    """Return the correlation id that a response begins with."""
    if len(frame) < 4:
        raise FrameError("A response of less than 4 bytes arrived.")
    return int(_LENGTH.unpack_from(frame)[0])


def skip_response_header(frame: bytes, key: int, flexible: bool) -> int:
    """Return where the body of a response begins."""
    if not flexible or key == API_VERSIONS_KEY:
        return 4
    try:
        return read_tags({}, [()], frame, 4)
    except (ValueError, IndexError) as exc:
        raise DecodeError("A response header can't be read.") from exc


class FrameBuffer:
    """Cuts what arrives into frames; holds no more than what has arrived.

    :param peer: host and port for messages.
    """

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self._pieces: deque[bytes] = deque()
        self._at = 0
        """Where in the first piece the next frame begins."""
        self._size = 0
        self._first = True

    def __len__(self) -> int:
        return self._size

    def feed(self, data: bytes) -> None:
        """Take received bytes; a large frame is joined once, when all of it is here."""
        if data:
            self._pieces.append(data)
            self._size += len(data)

    def next_frame(self) -> bytes | None:
        """Return the next whole frame without its length, or None until more has arrived.

        :raises NotKafka: the first bytes are those of another protocol.
        :raises FrameError: the length is negative or absurd.
        """
        if self._size < 4:
            return None
        length = _LENGTH.unpack(self._peek(4))[0]
        if self._first:
            self._diagnose(length)
        if length < 4 or length > MAX_FRAME:
            raise FrameError(
                f"{self.peer} announced a frame of {length} bytes: the connection is broken."
            )
        if self._size < 4 + length:
            return None
        self._first = False
        self._take(4)
        return self._take(length)

    def _peek(self, count: int) -> bytes:
        """Return up to so many of the next bytes, and leave them."""
        found = self._pieces[0][self._at : self._at + count]
        for piece in islice(self._pieces, 1, None):
            if len(found) >= count:
                break
            found += piece[: count - len(found)]
        return found

    def _take(self, count: int) -> bytes:
        """Return the next bytes, of which there are enough."""
        self._size -= count
        parts = []
        while count:
            piece, at = self._pieces[0], self._at
            part = piece[at : at + count]
            parts.append(part)
            count -= len(part)
            self._at += len(part)
            if self._at == len(piece):
                self._pieces.popleft()
                self._at = 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _diagnose(self, length: int) -> None:
        """Name the protocol when the first bytes are not Kafka's."""
        head = self._peek(5)
        if head[0] in (0x15, 0x16) and head[1] == 3:
            raise NotKafka(
                f"{self.peer} speaks TLS, and kgtool connected without it.",
                hint="Set security.protocol=SSL or SASL_SSL in the --command-config file.",
            )
        if head[:4] == b"HTTP" or head[:1] == b"<":
            raise NotKafka(
                f"{self.peer} is a web server, not a Kafka broker.",
                hint="Check host and port of --bootstrap-server.",
            )
        if not 4 <= length <= FIRST_FRAME:
            raise NotKafka(
                f"{self.peer} answers, but not in Kafka's protocol (it began with {head!r}).",
                hint="Check host and port of --bootstrap-server.",
            )
