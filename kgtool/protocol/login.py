"""The SASL login of one connection, which comes before all other requests.

::

    ApiVersions v0 ─▶ SaslHandshake v1 ─▶ SaslAuthenticate ─▶ … ─▶ done

ApiVersions v0, as in the Java client: every broker answers it, and the client's name follows in
the ApiVersions of the channel. A broker closes the connection at any other request before the login
is complete. A refused login is never tried again: accounts may be locked after some failures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgtool.errors import (
    AuthenticationError,
    ConnectionLost,
    KgError,
    LoginLost,
    UnsupportedVersion,
)
from kgtool.protocol import codes
from kgtool.protocol.api import api_versions, sasl_authenticate, sasl_handshake
from kgtool.protocol.codes import broker_error
from kgtool.protocol.sasl import Mechanism
from kgtool.protocol.schema import Struct

UNSUPPORTED_SASL_MECHANISM = 33
ILLEGAL_SASL_STATE = 34
MAX_STEPS = 20
"""SCRAM takes two, Kerberos three or four: a peer that takes more would never end."""

_HINTS = {
    "PLAIN": "Check username and password in sasl.jaas.config.",
    "SCRAM-SHA-256": "Check username and password in sasl.jaas.config.",
    "SCRAM-SHA-512": "Check username and password in sasl.jaas.config.",
    "OAUTHBEARER": "Check the token, its expiry and audience; the broker's log has the reason.",
    "GSSAPI": "Check principal and sasl.kerberos.service.name; the broker's log has the reason.",
    "AWS_MSK_IAM": "Check the AWS credentials, the region and the role's policy.",
}


class Login:
    """Yields requests and takes their replies until the broker has accepted the login.

    :param peer: ``host:port`` for messages.
    :param versions: the broker's versions, where they are known from an earlier login.
    """

    def __init__(
        self, peer: str, mechanism: Mechanism, versions: Mapping[int, tuple[int, int]] | None = None
    ) -> None:
        self.lifetime_ms = 0
        """The lifetime of the session (KIP-368); 0: that of the connection."""
        self._peer = peer
        self._mechanism = mechanism
        self._authenticate = self._token_version(versions) if versions else 0
        self._steps = 0

    def begin(self) -> tuple[Struct, int]:
        """Return the first request and its version."""
        return api_versions.Request(), 0

    def begin_renewal(self) -> tuple[Struct, int]:
        """Return the first request of a later login on the same connection."""
        return sasl_handshake.Request(mechanism=self._mechanism.name), 1

    def next_request(self, reply: Any) -> tuple[Struct, int] | None:
        """Take a reply; return the next request and its version, None when the login is done.

        :raises AuthenticationError: the broker, or the mechanism, refuses.
        """
        if isinstance(reply, api_versions.Response):
            offered = {row.api_key: (row.min_version, row.max_version) for row in reply.api_keys}
            self._authenticate = self._token_version(offered)
            return self.begin_renewal()
        if isinstance(reply, sasl_handshake.Response):
            self._check_handshake(reply)
            return self._token(self._mechanism.start())
        return self._on_token(reply)

    def explain_loss(self, error: KgError) -> KgError:
        """Return a better error for a connection that broke in the middle of this login."""
        if not self._steps:
            return ConnectionLost(f"{error.message.rstrip('.')} during the login.")
        return LoginLost(
            f"{error.message.rstrip('.')} during the login ({self._mechanism.name}).",
            hint=f"Some brokers refuse a login so. {_HINTS.get(self._mechanism.name, '')}".rstrip(),
        )

    def _token_version(self, offered: Mapping[int, tuple[int, int]]) -> int:
        key, best = sasl_authenticate.Request.KEY, sasl_authenticate.Request.VERSIONS.high
        handshake = offered.get(sasl_handshake.Request.KEY, (0, 0))
        if key not in offered or handshake[1] < 1:
            raise UnsupportedVersion(
                f"{self._peer} can't do SaslAuthenticate: logging in needs Kafka ≥ 1.0."
            )
        return min(best, offered[key][1])

    def _check_handshake(self, reply: Any) -> None:
        if not reply.error_code:
            return
        name = self._mechanism.name
        if reply.error_code == UNSUPPORTED_SASL_MECHANISM:
            enabled = ", ".join(sorted(reply.mechanisms)) or "none"
            raise AuthenticationError(
                f"{self._peer} does not accept sasl.mechanism={name}: enabled there: {enabled}.",
                hint="Set sasl.mechanism (and sasl.jaas.config) to one of them.",
            )
        if reply.error_code == ILLEGAL_SASL_STATE:
            raise AuthenticationError(
                f"{self._peer} is a listener without a login (no SASL).",
                hint="Set security.protocol to PLAINTEXT (or SSL, if it is SASL_SSL now), or "
                "connect to the port of the SASL listener.",
            )
        raise self._refused(reply.error_code, None)

    def _on_token(self, reply: Any) -> tuple[Struct, int] | None:
        if reply.error_code:
            raise self._refused(reply.error_code, reply.error_message)
        answer = self._mechanism.step(reply.auth_bytes)
        if answer is not None:
            return self._token(answer)
        if not self._mechanism.is_done:
            raise AuthenticationError(
                f"{self._peer} ended the {self._mechanism.name} login before it was complete."
            )
        self.lifetime_ms = max(0, reply.session_lifetime_ms)
        return None

    def _token(self, data: bytes) -> tuple[Struct, int]:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise AuthenticationError(f"The login at {self._peer} does not come to an end.")
        return sasl_authenticate.Request(auth_bytes=data), self._authenticate

    def _refused(self, number: int, message: str | None) -> AuthenticationError:
        error = broker_error(number, message)
        reason = error.message
        if number != codes.SASL_AUTHENTICATION_FAILED:
            reason = f"{error.name}: {reason}"
        name = self._mechanism.name
        return AuthenticationError(
            f"{self._peer} refused the login ({name}): {reason.rstrip('.')}.", hint=_HINTS.get(name)
        )
