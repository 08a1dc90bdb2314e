"""A listener that takes AWS_MSK_IAM logins, as far as that can be known without AWS.

It checks the payload with botocore: the same request, signed with the same key at the same time,
must have the same signature. Kafka's broker has no such listener: Amazon's is not public.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from kgtool.protocol.api import (
    api_versions,
    list_groups,
    metadata,
    sasl_authenticate,
    sasl_handshake,
)
from kgtool.protocol.plan import decode_prefix, encode

KEYS = ("AKIDFAKE", "fake/s3cret+key")
REGION = "eu-west-1"
GROUP = "a group behind IAM"
_APIS = {
    m.Request.KEY: m
    for m in (api_versions, list_groups, metadata, sasl_authenticate, sasl_handshake)
}


def is_signed(payload: dict[str, str], host: str) -> bool:
    """Whether Amazon's own signer comes to the same signature."""
    moment = datetime.strptime(payload["x-amz-date"], "%Y%m%dT%H%M%SZ")
    request = AWSRequest("GET", f"https://{host}/?Action=kafka-cluster%3AConnect")
    with mock.patch("botocore.auth.get_current_datetime", lambda *_a, **_k: moment):
        SigV4QueryAuth(Credentials(*KEYS), "kafka-cluster", REGION, expires=900).add_auth(request)
    theirs = {k.lower(): v[0] for k, v in parse_qs(urlsplit(request.url).query).items()}
    return payload["host"] == host and all(
        payload.get(key) == value for key, value in theirs.items()
    )


class FakeMsk:
    """One broker of a cluster that is nothing but logins and one group."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]

    @contextlib.contextmanager
    def running(self) -> Iterator[str]:
        threading.Thread(target=self._accept, daemon=True).start()
        try:
            yield f"localhost:{self.port}"
        finally:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                plain, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            plain,
            self._wrapped(plain) as peer,
            peer.makefile("rb") as reader,
        ):
            is_known = False
            while frame := self._frame(reader):
                key, version, number = struct.unpack_from(">hhi", frame)
                if not is_known and key not in (17, 18, 36):
                    return  # as a broker does: first the login
                reply = self._answer(key, version, frame)
                is_known = is_known or (key == 36 and not reply.error_code)
                peer.sendall(self._pack(key, version, number, reply))

    def _wrapped(self, plain: socket.socket) -> socket.socket:
        return (
            plain if self._context is None else self._context.wrap_socket(plain, server_side=True)
        )

    def _frame(self, reader: Any) -> bytes:
        head = reader.read(4)
        return reader.read(int.from_bytes(head, "big")) if len(head) == 4 else b""

    def _answer(self, key: int, version: int, frame: bytes) -> Any:
        api = _APIS[key]
        (name,) = struct.unpack_from(">h", frame, 8)
        flexible = version in api.Request.FLEXIBLE
        body = frame[10 + name + flexible :]
        request = decode_prefix(api.Request, version, body, 0)[0]
        if key == 18:
            ranges = {number: module.Request.VERSIONS for number, module in _APIS.items()}
            rows = [
                api_versions.ApiVersion(api_key=number, min_version=low, max_version=high)
                for number, (low, high) in ranges.items()
            ]
            return api_versions.Response(api_keys=rows)
        if key == 17:
            code = 0 if request.mechanism == "AWS_MSK_IAM" else 33
            return sasl_handshake.Response(error_code=code, mechanisms=["AWS_MSK_IAM"])
        if key == 36:
            return self._login(request.auth_bytes)
        if key == 3:
            broker = metadata.Broker(node_id=1, host="localhost", port=self.port)
            return metadata.Response(brokers=[broker], cluster_id="fake", controller_id=1)
        row = list_groups.Group(group_id=GROUP, group_state="Empty", group_type="classic")
        return list_groups.Response(groups=[row])

    def _login(self, data: bytes) -> Any:
        if is_signed(json.loads(data), "localhost"):
            answer = {"version": "2020_10_22", "request-id": "1"}
            return sasl_authenticate.Response(auth_bytes=json.dumps(answer).encode())
        return sasl_authenticate.Response(error_code=58, error_message="Access denied")

    def _pack(self, key: int, version: int, number: int, reply: Any) -> bytes:
        flexible = version in _APIS[key].Request.FLEXIBLE and key != 18
        payload = struct.pack(">i", number) + b"\0" * flexible + encode(reply, version)
        return struct.pack(">i", len(payload)) + payload
