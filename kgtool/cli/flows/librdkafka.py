"""``Settings`` as librdkafka takes them: what ``peek`` reads records with.

Stores of all kinds are read by ``kgtool.net`` and handed over as PEM, tokens come from the same
places as kgtool's own; so whoever can list groups can peek.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kgtool.config import Settings
from kgtool.config.logins import AwsLogin, KerberosLogin, OAuthLogin, PasswordLogin
from kgtool.config.security import TLS_VERSIONS, Sasl, Security, Store, Tls
from kgtool.errors import ConfigError, KgError
from kgtool.net.auth.aws import bearer_token
from kgtool.net.auth.tokens import TokenSource
from kgtool.net.tls.stores import read_identity, read_trusted
from kgtool.net.tls.stream import make_context
from kgtool.text import addresses

TOKEN_SECONDS = 300
"""How long a token is taken for good whose end we do not know; then it is asked for again."""


def client_config(settings: Settings) -> dict[str, Any]:
    """Return the configuration of a librdkafka client.

    :raises ConfigError: a store or key that can't be used, or a login that librdkafka lacks.
    """
    config: dict[str, Any] = {
        "bootstrap.servers": addresses(settings.bootstrap),
        "client.id": settings.client_id,
    }
    # A broker that accepts connections and says nothing must leave time for another one.
    patience = settings.timeout_ms // 3
    config["socket.timeout.ms"] = min(max(patience, 2000), 60_000)
    setup = settings.setup_ms or min(patience, 10_000)
    config["socket.connection.setup.timeout.ms"] = min(max(setup, 1000), 60_000)
    if settings.canonical_names:
        config["client.dns.lookup"] = "resolve_canonical_bootstrap_servers_only"
    security = settings.security
    if security is None:
        return config
    config["security.protocol"] = security.protocol
    if security.tls is not None:
        config |= _tls(security.tls, security)
    if security.sasl is not None:
        config |= _sasl(security.sasl, security, settings)
    return config


def _tls(tls: Tls, security: Security) -> dict[str, Any]:

    make_context(tls, security.where)  # refuses what is wrong in our own words
    if tls.ciphers or tls.protocols != TLS_VERSIONS[2:]:
        raise ConfigError("librdkafka can't be told which versions and suites of TLS 1.3 to use.")
    config = {"ssl.endpoint.identification.algorithm": "https" if tls.check_host else "none"}
    if tls.trust is not None:
        config["ssl.ca.pem"] = _roots(tls.trust)
    if tls.key is not None:
        found = read_identity(tls.key)
        config |= {"ssl.key.pem": found.pem, "ssl.certificate.pem": found.pem}
        if found.password is not None:
            config["ssl.key.password"] = found.password
    return config


def _roots(store: Store) -> str:
    """Return what is trusted; librdkafka, unlike Java, trusts roots only."""
    from cryptography.x509 import load_pem_x509_certificates

    texts = "".join(read_trusted(store))
    if any(c.subject != c.issuer for c in load_pem_x509_certificates(texts.encode())):
        raise ConfigError("librdkafka can't trust a certificate that is not a root.")
    return texts


def _sasl(sasl: Sasl, security: Security, settings: Settings) -> dict[str, Any]:

    login = sasl.login
    if isinstance(login, PasswordLogin) and not login.is_token:
        return {
            "sasl.mechanism": sasl.mechanism,
            "sasl.username": login.username,
            "sasl.password": login.password.reveal(),
        }
    host = settings.bootstrap[0][0]
    if isinstance(login, OAuthLogin):
        source = TokenSource(login, settings.timeout_ms / 1000)
        tokens = _Tokens(lambda: source.get(host), login.extensions)
        return {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": tokens}
    if isinstance(login, AwsLogin):  # its tokens are signed URLs
        return {
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": _Tokens(lambda: bearer_token(login, host), {}),
        }
    if isinstance(login, KerberosLogin):
        config = {"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": login.service}
        if login.principal:
            config["sasl.kerberos.principal"] = login.principal
        if login.keytab:
            config["sasl.kerberos.keytab"] = login.keytab
        return config
    raise ConfigError(
        f"Records can't be read with the login in {security.where}: librdkafka does not know "
        "delegation tokens.",
        hint="Give a user and a password, or another mechanism.",
    )


class _Tokens:
    """Asked by librdkafka for tokens, in a thread of its own."""

    def __init__(self, get: Callable[[], str], extensions: dict[str, str]) -> None:
        self.error: KgError | None = None
        self._get = get
        self._extensions = extensions

    def __call__(self, _config: str) -> tuple[str, float, str, dict[str, str]]:
        """Return token, end of its life (seconds since the epoch), principal, extensions."""
        try:
            token = self._get()
        except KgError as error:
            self.error = error
            raise
        return token, time.time() + TOKEN_SECONDS, "", self._extensions
