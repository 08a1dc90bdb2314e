"""``security.protocol`` and its settings, checked before anything is sent.

Names, defaults and refusals are those of Kafka's AdminClientConfig, SslConfigs, SaslConfigs and
DefaultSslEngineFactory. Files are not opened here: ``kgtool.net`` reads the stores.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kgtool.config.known_properties import check_classes
from kgtool.config.logins import AnyLogin, Secret, login
from kgtool.config.properties import Properties
from kgtool.errors import ConfigError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
STORE_TYPES = ("JKS", "PKCS12", "PEM")
TLS_VERSIONS = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
DNS_LOOKUPS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
"""``ClientDnsLookup``: the first is the default, all addresses of a name in turn."""


class TlsStore(NamedTuple):
    """A trust or key store: a file, or PEM texts in the configuration itself."""

    role: str
    """``truststore`` or ``keystore``, as in the names of the properties."""
    type: str
    location: str | None
    password: Secret | None
    certificates: Secret | None = None
    key: Secret | None = None
    key_password: Secret | None = None


class Tls(NamedTuple):
    """The TLS settings. Without ``trust`` the system's certificate authorities are trusted."""

    trust: TlsStore | None
    key: TlsStore | None
    check_host: bool
    protocols: tuple[str, ...]
    ciphers: tuple[str, ...]


class Sasl(NamedTuple):
    """The mechanism and its credentials; None for a mechanism that kgtool does not have."""

    mechanism: str
    login: AnyLogin | None


class Security(NamedTuple):
    """TLS and SASL settings; ``where`` names the file, for messages."""

    protocol: str
    tls: Tls | None
    sasl: Sasl | None
    where: str


def security(properties: Properties, where: str) -> Security | None:
    """Read the security of a client; None for PLAINTEXT.

    :param where: the file or context that the properties come from.
    :raises ConfigError: a value is unknown, missing or contradicts another one.
    """
    protocol = (properties.value("security.protocol") or "PLAINTEXT").upper()
    _need_one_of(PROTOCOLS, protocol, "security.protocol", where)
    if protocol == "PLAINTEXT":
        return None
    check_classes(properties, protocol, where)
    tls = tls_settings(properties, where) if protocol.endswith("SSL") else None
    sasl = None
    if protocol.startswith("SASL"):
        mechanism = properties.value("sasl.mechanism") or "GSSAPI"
        sasl = Sasl(mechanism, login(mechanism, properties, where))
    return Security(protocol, tls, sasl, where)


def canonical_names(properties: Properties, where: str) -> bool:
    """Whether bootstrap names are to be replaced by the canonical names of their addresses.

    :raises ConfigError: ``client.dns.lookup`` is neither of Kafka's two values.
    """
    value = properties.value("client.dns.lookup") or DNS_LOOKUPS[0]
    _need_one_of(DNS_LOOKUPS, value, "client.dns.lookup", where)
    return value == DNS_LOOKUPS[1]


def _need_one_of(known: tuple[str, ...], value: str, key: str, where: str) -> None:
    if value not in known:
        raise ConfigError(
            f"Invalid value {value} for configuration {key} in {where}: it must be one of "
            f"{', '.join(known)}."
        )


def tls_settings(properties: Properties, where: str) -> Tls:
    """Read the ``ssl.*`` properties.

    :raises ConfigError: as DefaultSslEngineFactory refuses them.
    """
    algorithm = properties.value("ssl.endpoint.identification.algorithm")
    if algorithm and algorithm.lower() != "https":
        raise ConfigError(
            f"ssl.endpoint.identification.algorithm={algorithm} in {where} is unknown: it is "
            "https, or empty to skip the host name check."
        )
    return Tls(
        _trust_store(properties, where),
        _key_store(properties, where),
        algorithm != "",
        _protocols(properties, where),
        _list(properties.value("ssl.cipher.suites")),
    )


def _list(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, re.split(r"\s*,\s*", text or "")))


def _protocols(properties: Properties, where: str) -> tuple[str, ...]:
    names = _list(properties.value("ssl.enabled.protocols")) or TLS_VERSIONS[2:]
    known = tuple(name for name in TLS_VERSIONS if name in names)
    if not known:
        raise ConfigError(
            f"ssl.enabled.protocols={','.join(names)} in {where} has no version that is supported: "
            f"{', '.join(TLS_VERSIONS)}."
        )
    return known


def _secret(properties: Properties, key: str) -> Secret | None:
    value = properties.value(key)
    return None if value is None else Secret(value)


def _store(properties: Properties, role: str, where: str) -> TlsStore:
    kind = (properties.value(f"ssl.{role}.type") or "JKS").upper()
    if kind not in STORE_TYPES:
        raise ConfigError(
            f"ssl.{role}.type={kind} in {where} can't be read: kgtool reads "
            f"{', '.join(STORE_TYPES)}."
        )
    texts = (
        "ssl.truststore.certificates"
        if role == "truststore"
        else ("ssl.keystore.certificate.chain")
    )
    return TlsStore(
        role,
        kind,
        properties.value(f"ssl.{role}.location") or None,
        _secret(properties, f"ssl.{role}.password"),
        _secret(properties, texts),
    )


def _trust_store(properties: Properties, where: str) -> TlsStore | None:
    store = _store(properties, "truststore", where)
    _check(store, "ssl.truststore.certificates" if store.certificates else None, where)
    return store if store.location or store.certificates else None


def _key_store(properties: Properties, where: str) -> TlsStore | None:
    key = _secret(properties, "ssl.keystore.key")
    password = _secret(properties, "ssl.key.password")
    store = _store(properties, "keystore", where)._replace(key=key, key_password=password)
    if (key is None) != (store.certificates is None):
        given, missing = "ssl.keystore.key", "ssl.keystore.certificate.chain"
        if key is None:
            given, missing = missing, given
        raise ConfigError(f"{where} has {given}, but no {missing}: a PEM key store needs both.")
    _check(store, "ssl.keystore.key" if key else None, where)
    if store.location and store.type != "PEM" and store.password is None:
        raise ConfigError(
            f"{where} has ssl.keystore.location, but no ssl.keystore.password.",
            hint="For a PEM file set ssl.keystore.type=PEM.",
        )
    return store if store.location or key is not None else None


def _check(store: TlsStore, pem: str | None, where: str) -> None:
    """Refuse contradictory settings; ``pem``: the property that holds PEM itself, if any."""
    if pem and store.type != "PEM":
        raise ConfigError(f"{where} has {pem}: that needs ssl.{store.role}.type=PEM.")
    if pem and store.location is not None:
        raise ConfigError(f"{where} has both {pem} and ssl.{store.role}.location: give one.")
    if store.password is None:
        return
    if store.type == "PEM":
        raise ConfigError(
            f"{where} has ssl.{store.role}.password, which a PEM store does not have (a PEM key's "
            "is ssl.key.password)."
        )
    if store.location is None:
        raise ConfigError(
            f"{where} has ssl.{store.role}.password, but no ssl.{store.role}.location."
        )
