"""The HTTP endpoint ``/metrics``. A scrape sends no request to brokers."""

from __future__ import annotations

import hmac
import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kgtool.errors import ConfigError, KgError, UsageError

PORT = 9308
REQUEST_S = 10
"""A request must be whole after this time, however its bytes drip."""
ANSWER_S = 60
"""And the answer to it sent after this one."""
MOST = 100
"""Connections at a time, each with a thread and a file descriptor."""
PAUSE_S = 0.1
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

    A connection has a deadline in total, and there are never more than ``MOST``: the oldest one
    makes room, so that many that drip can't keep a scrape out.

    :param metrics: returns the body, in parts.
    :param token_file: read for each scrape, so that the token can be replaced.
    :raises KgError: the address can't be listened on.
    """

    daemon_threads = True
    request_queue_size = MOST

    def __init__(
        self, host: str, port: int, metrics: Callable[[], Sequence[bytes]], token_file: str | None
    ) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        self.metrics = metrics
        self.token_file = token_file
        self._open: dict[socket.socket, float] = {}
        """Connections by age, and when each must have ended (monotonic seconds)."""
        self._lock = threading.Lock()
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            reason = error.strerror or error
            raise KgError(f"Can't listen on {host}:{port}: {reason}.") from error

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; one that can't be had is waited for, and the oldest makes room."""
        try:
            taken, peer = super().get_request()
        except OSError:  # no file descriptor, no memory: accept fails at once, again and again
            self._hang_up(1)
            time.sleep(PAUSE_S)
            raise
        self._hang_up(len(self._open) - MOST + 1)
        with self._lock:
            self._open[taken] = time.monotonic() + REQUEST_S
        return taken, peer

    def answering(self, taken: socket.socket) -> None:
        """Give a connection time for its answer; it is the last to make room now."""
        with self._lock:
            if self._open.pop(taken, None) is not None:
                self._open[taken] = time.monotonic() + ANSWER_S

    def service_actions(self) -> None:
        """End what is over its time; called twice a second."""
        now = time.monotonic()
        with self._lock:
            late = [taken for taken, until in self._open.items() if until <= now]
        for taken in late:
            _shut_down(taken)

    def _hang_up(self, count: int) -> None:
        with self._lock:
            oldest = list(self._open)[: max(count, 0)]
            for taken in oldest:
                del self._open[taken]
        for taken in oldest:
            _shut_down(taken)

    def shutdown_request(self, request: Any) -> None:
        """End a connection; its thread does so when it is done."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: the peer went away, or was too slow."""


def _shut_down(taken: socket.socket) -> None:
    """Wake the connection's thread, which closes it."""
    with suppress(OSError):
        taken.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = REQUEST_S
    server_version, sys_version = "kgtool", ""

    def do_GET(self) -> None:
        """Answer a request."""
        if self.path.partition("?")[0] != "/metrics":
            known = self.path in ("/", "/-/healthy")
            self._send(200 if known else 404, _PAGE)
        elif not self._is_authorized():
            self._send(401, b"Unauthorized\n")
        else:
            self.server.answering(self.connection)
            self._send(200, *self.server.metrics())

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

    def _send(self, status: int, *body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(sum(map(len, body))))
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        for part in body if self.command != "HEAD" else ():
            self.wfile.write(part)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing: a scrape every few seconds is not worth a line."""
