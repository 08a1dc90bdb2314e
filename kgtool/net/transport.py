"""The layers between a socket and Kafka's protocol: TLS and logins of a session.

One ``Transport`` per session: it holds the TLS context and the source of logins, so that stores
are read and tokens are fetched once, however many brokers there are.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kgtool.errors import KgError
from kgtool.net.dns import SocketAddress
from kgtool.net.tcp import Stream

if TYPE_CHECKING:
    import ssl

    from kgtool.config.security import Security
    from kgtool.net.auth.logins import LoginSource
    from kgtool.protocol.sasl import Mechanism


class Transport:
    """Makes streams and logins; where there is no security, plain ones without a login.

    :param trace: gets a line for each message.
    :param seconds: how long fetching a token may take.
    :raises ConfigError: a store, key or login that can't be used.
    """

    def __init__(
        self, security: Security | None, trace: Callable[[str], None] | None, seconds: float
    ) -> None:
        self.trace = trace
        self.bad_addresses: set[SocketAddress] = set()
        """Those that refused, failed or did not answer: they are tried last."""
        self.is_proven = False
        """Whether a broker has answered a request: the security settings are right then."""
        self._context: ssl.SSLContext | None = None
        self._logins: LoginSource | None = None
        if security is not None and security.tls is not None:
            from kgtool.net.tls.stream import make_context

            self._context = make_context(security.tls, security.where)
        if security is not None and security.sasl is not None:
            from kgtool.net.auth.logins import LoginSource

            self._logins = LoginSource(security.sasl, seconds)

    def explain_silence(self, error: KgError, host: str, port: int) -> Callable[[], KgError] | None:
        """Return a blocking function that explains why the first broker hung up at once.

        Only once a session; None where there was a login or an answer before.
        """
        if self._logins is not None or self.is_proven:
            return None
        self.is_proven = True
        from kgtool.net.diagnose import explain_silence

        context = self._context
        wrap = None if context is None else partial(context.wrap_socket, server_hostname=host)
        return partial(explain_silence, error, host, port, wrap)

    def stream(self, connected: socket.socket, host: str, peer: str) -> Stream:
        """Put TLS on a connected socket if need be."""
        if self._context is None:
            return Stream(connected)
        from kgtool.net.tls.stream import TlsStream

        return TlsStream(connected, self._context, host, peer)

    @property
    def login_blocks(self) -> bool:
        """Whether a login needs a token or ticket from another server."""
        return self._logins is not None and self._logins.blocks

    def mechanism(self, host: str) -> Mechanism | None:
        """Return a new login for one connection; may block where ``login_blocks``.

        :raises AuthenticationError: no token could be had.
        """
        return None if self._logins is None else self._logins.mechanism(host)
