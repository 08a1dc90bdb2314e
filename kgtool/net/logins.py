"""Makes a login for each connection, from what the configuration says."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from kgtool.config.logins import (
    MECHANISMS,
    PasswordLogin,
)

if TYPE_CHECKING:
    from kgtool.config.security import Sasl
    from kgtool.protocol.sasl import Mechanism

NONCE_BYTES = 24


class LoginSource:
    """The logins of a session; one token serves all of them until it expires."""

    def __init__(self, sasl: Sasl) -> None:
        self._sasl = sasl

    def mechanism(self, host: str) -> Mechanism:
        """Return a new login.

        :param host: the broker's host; Kerberos and AWS sign it.
        :raises AuthenticationError: no token could be had.
        :raises ConfigError: the token's source can't be used.
        """
        name, login = self._sasl
        if isinstance(login, PasswordLogin):
            return _password(name, login)
        from kgtool.protocol.sasl import Unknown

        return Unknown(name, MECHANISMS)


def _password(name: str, login: PasswordLogin) -> Mechanism:
    if name == "PLAIN":
        from kgtool.protocol.sasl.plain import Plain

        return Plain(login.username, login.password.reveal())
    from kgtool.protocol.sasl.scram import Scram

    nonce = secrets.token_urlsafe(NONCE_BYTES)
    return Scram(name, login.username, login.password.reveal(), nonce, is_token=login.is_token)
