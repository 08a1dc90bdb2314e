"""Kerberos security contexts, through python-gssapi (the extra ``gssapi``)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kgtool.errors import AuthenticationError, ConfigError, MissingExtra

if TYPE_CHECKING:
    from kgtool.config.logins import KerberosLogin


class KerberosContext:
    """One handshake with one broker; may block while the KDC is asked for a ticket.

    :raises MissingExtra: python-gssapi is not installed.
    :raises ConfigError: the key table can't be read.
    :raises AuthenticationError: there are no usable credentials.
    """

    def __init__(self, login: KerberosLogin, host: str) -> None:
        gssapi = _library()
        self._error = gssapi.exceptions.GSSError
        flags = gssapi.RequirementFlag
        try:
            target = gssapi.Name(f"{login.service}@{host}", gssapi.NameType.hostbased_service)
            self._context = gssapi.SecurityContext(
                name=target,
                creds=_credentials(login),
                mech=gssapi.MechType.kerberos,
                flags=flags.mutual_authentication | flags.integrity,
                usage="initiate",
            )
        except self._error as error:
            raise _failed(error, login, host) from None
        self._login, self._host = login, host
        # Only this step asks the KDC, and it runs beside the loop.
        self._first: bytes | None = self._guarded(lambda: self._context.step(None))

    @property
    def complete(self) -> bool:
        """Whether both sides know each other."""
        return bool(self._context.complete)

    def step(self, token: bytes | None) -> bytes | None:
        """Take the peer's token and return the next one of ours."""
        return self._first if token is None else self._guarded(lambda: self._context.step(token))

    def wrap(self, data: bytes) -> bytes:
        """Protect a message's integrity."""
        return self._guarded(lambda: self._context.wrap(data, False).message) or b""

    def unwrap(self, data: bytes) -> bytes:
        """Check and open the peer's message."""
        return self._guarded(lambda: self._context.unwrap(data).message) or b""

    def _guarded(self, action: Any) -> bytes | None:
        try:
            result: bytes | None = action()
        except self._error as error:
            raise _failed(error, self._login, self._host) from None
        return result


def _library() -> Any:
    try:
        import gssapi
    except ImportError as error:
        raise MissingExtra(
            f"sasl.mechanism=GSSAPI needs python-gssapi ({error}).",
            hint="Install it with: pip install 'kafka-kgtool[gssapi]' (it needs Kerberos's "
            "headers: apt-get install libkrb5-dev gcc python3-dev).",
        ) from None
    return gssapi


def _credentials(login: KerberosLogin) -> Any:
    """Return the credentials of a key table or a ticket cache; None: the default ones."""
    gssapi = _library()
    if not login.keytab and not login.ticket_cache:
        return None
    name, store = None, {"ccache": login.ticket_cache}
    if login.principal:
        name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
    if login.keytab:
        path = login.keytab.removeprefix("FILE:")
        if not os.access(path, os.R_OK):
            raise ConfigError(f"Can't read the key table {path} (keyTab in sasl.jaas.config).")
        # Tickets of a key table go neither into the user's cache nor into that of another login
        # of this process.
        cache = f"MEMORY:kgtool-{abs(hash((login.keytab, login.principal)))}"
        store = {"client_keytab": login.keytab, "ccache": cache}
    return gssapi.Credentials(usage="initiate", name=name, store=store)


def _failed(error: Any, login: KerberosLogin, host: str) -> AuthenticationError:
    """Return Kerberos's own messages, which are better than those of GSS-API."""
    statuses = error.get_all_statuses(error.min_code, False)
    reason = " ".join(map(str, statuses)) or str(error)
    hint = "Run kinit, or give useKeyTab=true, keyTab and principal in sasl.jaas.config."
    if "Server" in reason or "server" in reason:
        hint = (
            f"The broker's principal should be {login.service}/{host}: check "
            "sasl.kerberos.service.name and the broker's advertised.listeners."
        )
    return AuthenticationError(
        f"Kerberos gave no ticket for {login.service}/{host}: {reason}.", hint=hint
    )
