"""A plain socket that speaks kio: requests and answers that kgtool had no part in."""

from __future__ import annotations

import socket
import struct
from io import BytesIO
from typing import Any

from kio.serial import entity_reader, entity_writer


class KioConnection:
    """One connection to the first broker of a list; close it."""

    def __init__(self, bootstrap: str, client_id: str = "kio") -> None:
        host, _, port = bootstrap.split(",")[0].rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._client_id = client_id

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: Any, response: type[Any]) -> Any:
        """Send a request and return its answer."""
        out = BytesIO()
        schema = request.__header_schema__
        header = schema(
            request_api_key=request.__api_key__,
            request_api_version=request.__version__,
            correlation_id=1,
            client_id=self._client_id,
        )
        entity_writer(schema)(out, header)
        entity_writer(type(request))(out, request)
        body = out.getvalue()
        self._socket.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", self._take(4))
        frame = self._take(size)
        _, used = entity_reader(response.__header_schema__)(frame, 0)
        reply, _ = entity_reader(response)(frame, used)
        return reply

    def _take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            assert part, "the broker hung up"
            data += part
        return data
