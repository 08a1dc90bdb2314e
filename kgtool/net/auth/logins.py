"""The SASL mechanism of each connection, with its credentials."""

from __future__ import annotations

import _thread
import secrets
from typing import TYPE_CHECKING

from kgtool.config.logins import MECHANISMS, AwsLogin, KerberosLogin, OAuthLogin, PasswordLogin

if TYPE_CHECKING:
    from kgtool.config.security import Sasl
    from kgtool.net.auth.tokens import TokenSource
    from kgtool.protocol.sasl import Mechanism

NONCE_BYTES = 24


class LoginSource:
    """Makes the logins of a session; one token serves all of them until it expires.

    :param seconds: how long fetching a token may take.
    """

    def __init__(self, sasl: Sasl, seconds: float = 10.0) -> None:
        self._sasl = sasl
        self._seconds = seconds
        self._tokens: TokenSource | None = None
        self._lock = _thread.allocate_lock()

    @property
    def blocks(self) -> bool:
        """Whether another server is asked for a token or ticket."""
        return not isinstance(self._sasl.login, PasswordLogin | None)

    def mechanism(self, host: str) -> Mechanism:
        """Return a new login; may block while a token is fetched, in any thread.

        :param host: the broker's host; Kerberos and AWS sign it.
        :raises AuthenticationError: no token could be had.
        :raises ConfigError: the token's source can't be used.
        :raises MissingExtra: the mechanism needs a package that is not installed.
        """
        name, login = self._sasl
        if isinstance(login, PasswordLogin):
            return _password(name, login)
        if isinstance(login, OAuthLogin):
            return self._bearer(login, host)
        if isinstance(login, KerberosLogin):
            return _kerberos(login, host)
        if isinstance(login, AwsLogin):
            return _aws(login, host)
        from kgtool.protocol.sasl import Unknown

        return Unknown(name, MECHANISMS)

    def _bearer(self, login: OAuthLogin, host: str) -> Mechanism:
        from kgtool.net.auth.tokens import TokenSource
        from kgtool.protocol.sasl.oauthbearer import OAuthBearer

        with self._lock:  # many brokers, one token
            if self._tokens is None:
                self._tokens = TokenSource(login, self._seconds)
            token = self._tokens.get(host)
        return OAuthBearer(token, login.extensions)


def _password(name: str, login: PasswordLogin) -> Mechanism:
    if name == "PLAIN":
        from kgtool.protocol.sasl.plain import Plain

        return Plain(login.username, login.password.reveal())
    from kgtool.protocol.sasl.scram import Scram

    nonce = secrets.token_urlsafe(NONCE_BYTES)
    return Scram(name, login.username, login.password.reveal(), nonce, is_token=login.is_token)


def _kerberos(login: KerberosLogin, host: str) -> Mechanism:
    from kgtool.net.auth.kerberos import KerberosContext
    from kgtool.protocol.sasl.gssapi import Gssapi

    return Gssapi(KerberosContext(login, host))


def _aws(login: AwsLogin, host: str) -> Mechanism:
    import time

    from kgtool import __version__
    from kgtool.net.auth.aws import credentials, region
    from kgtool.protocol.sasl.msk_iam import MskIam

    return MskIam(
        host, credentials(login), region(login, host), time.time(), f"kgtool/{__version__}"
    )
