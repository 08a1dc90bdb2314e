"""The HTTP endpoint ``/metrics``. A scrape sends no request to brokers."""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from kgtool.errors import ConfigError, KgError, UsageError

PORT = 9308
SLOW_S = 10
"""An idle connection is closed after this time."""
_PAGE = b"kgtool exporter: see /metrics\n"


def parse_listen(text: str) -> tuple[str, int]:
    """Read ``HOST:PORT``, ``[::1]:PORT`` or ``:PORT`` (every address).

    >>> parse_listen("127.0.0.1:9308")
    ('127.0.0.1', 9308)
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--listen takes HOST:PORT, not '{text}'.")
    return host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port)


def is_local(host: str) -> bool:
    """Whether only this machine can connect to an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_token(path: str) -> bytes:
    """Read the bearer token that scrapes must send.

    :raises ConfigError: it can't be read, or is empty.
    """
    try:
        token = Path(path).read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"Can't read the token file {path}: {error.strerror}.") from error
    if not token:
        raise ConfigError(f"The token file {path} is empty.")
    return token


class Server(ThreadingHTTPServer):
    """One thread per connection, so that a slow one does not delay others.

    :param metrics: returns the body.
    :param token_file: read for each scrape, so that the token can be replaced.
    :raises KgError: the address can't be listened on.
    """

    daemon_threads = True

    def __init__(
        self, host: str, port: int, metrics: Callable[[], bytes], token_file: str | None
    ) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        self.metrics = metrics
        self.token_file = token_file
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            reason = error.strerror or error
            raise KgError(f"Can't listen on {host}:{port}: {reason}.") from error


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = SLOW_S
    server_version, sys_version = "kgtool", ""

    def do_GET(self) -> None:
        """Answer a request."""
        if self.path.partition("?")[0] != "/metrics":
            known = self.path in ("/", "/-/healthy")
            self._send(200 if known else 404, _PAGE)
        elif not self._is_authorized():
            self._send(401, b"Unauthorized\n", ("WWW-Authenticate", "Bearer"))
        else:
            self._send(200, self.server.metrics())

    do_HEAD = do_GET  # noqa: N815 - the name http.server calls it by

    def _is_authorized(self) -> bool:
        if self.server.token_file is None:
            return True
        try:
            token = read_token(self.server.token_file)
        except ConfigError:
            return False
        kind, _, text = self.headers.get("Authorization", "").partition(" ")
        given = text.strip().encode("utf-8", "surrogateescape")
        return kind.lower() == "bearer" and hmac.compare_digest(given, token)

    def _send(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        kind = "text/plain; version=0.0.4; charset=utf-8"
        sizes = ("Content-Length", str(len(body)))
        for name, value in (("Content-Type", kind), sizes, *headers):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing: a scrape every few seconds is not worth a line."""
