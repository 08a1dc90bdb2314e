"""A real broker with every kind of secured listener, shared by the whole run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import ScramMechanism

from kgtool.sandbox import ready
from kgtool.sandbox.broker import free_ports
from kgtool.sandbox.cluster import Sandbox
from kgtool.sandbox.paths import locked
from tests.support import brokers, clients, kerberos
from tests.support.certificates import PASSWORD as STORE_PASSWORD
from tests.support.certificates import Certificates
from tests.support.kerberos import Kdc
from tests.support.oidc import AUDIENCE, ISSUER, Keys

ALICE = ("alice", "alice-s3cret")
BOB = ("b=o,b", 'b,o=b "quoted" \\ ünï')
"""Everything that SCRAM and JAAS lines have to escape."""

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_KRB5 = "com.sun.security.auth.module.Krb5LoginModule"
_VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"

LISTENERS = {
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "OTHER": "SSL",
    "EXPIRED": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "SASLTLS": "SASL_SSL",
    "SHORT": "SASL_PLAINTEXT",
    "OIDC": "SASL_PLAINTEXT",
    "OIDCTLS": "SASL_SSL",
    "KERBEROS": "SASL_PLAINTEXT",
}
"""``SHORT`` has sessions of two seconds, ``OIDC`` and ``OIDCTLS`` check tokens' signatures."""


class SecureKafka(NamedTuple):
    """The broker, and what a client of it needs to know."""

    cluster: Sandbox
    certificates: Certificates
    keys: Keys
    kdc: Kdc
    ports: dict[str, int]

    def at(self, listener: str) -> str:
        """The address of a listener."""
        if listener == "PLAINTEXT":
            return self.cluster.bootstrap
        return f"localhost:{self.ports[listener]}"


def jaas(module: str, **options: str) -> str:
    """A JAAS line, its values quoted."""
    pairs = "".join(f" {key}={_quoted(value)}" for key, value in options.items())
    return f"{module} required{pairs};"


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def plain(user: tuple[str, str]) -> str:
    return jaas(_PLAIN, username=user[0], password=user[1])


def scram(user: tuple[str, str], **options: str) -> str:
    return jaas(_SCRAM, username=user[0], password=user[1], **options)


def oauth(**options: str) -> str:
    return jaas(_OAUTH, **options)


def krb5(**options: str) -> str:
    return jaas(_KRB5, **options)


def shared() -> SecureKafka:
    """The run's secured broker; whoever asks first starts it."""
    root = Path(os.environ[brokers.VARIABLE])
    folder = root / "secure-files"
    with locked(root / "secure.lock", timeout=600):
        cluster = Sandbox.attach("secure", root=root)
        if cluster is None or cluster.dead():
            cluster = _start(root, folder)
    ports: dict[str, int] = json.loads((folder / "ports.json").read_text())
    kdc = Kdc(folder / "kdc", ports["KDC"])
    return SecureKafka(cluster, Certificates(folder / "certs"), Keys(folder), kdc, ports)


def _start(root: Path, folder: Path) -> Sandbox:
    numbers = free_ports(len(LISTENERS) + 1)
    ports = dict(zip([*LISTENERS, "KDC"], numbers, strict=True))
    certificates = Certificates(folder / "certs")
    certificates.make()
    certificates.make_java_stores()
    keys = Keys(folder)
    keys.make()
    kdc = Kdc(folder / "kdc", ports["KDC"])
    if kerberos.is_installed():
        kdc.create()
    (folder / "ports.json").write_text(json.dumps(ports))
    # The JVM reads this by itself; the broker inherits it.
    flags = f"-Djava.security.krb5.conf={kdc.folder}/krb5.conf {keys.broker_flags}"
    os.environ["JDK_JAVA_OPTIONS"] = flags
    try:
        cluster = Sandbox.start("secure", root=root, config=_config(certificates, keys, kdc, ports))
    finally:
        del os.environ["JDK_JAVA_OPTIONS"]
    if kerberos.is_installed():
        kdc.start(cluster.state.members_dir)
    ready.wait_for_coordinators(cluster.state)
    _add_scram_users(cluster)
    return cluster


def _config(certs: Certificates, keys: Keys, kdc: Kdc, ports: dict[str, int]) -> dict[str, str]:
    protocols = dict(LISTENERS)
    if not kerberos.is_installed():
        del protocols["KERBEROS"]
    places = {name: f"{name}://127.0.0.1:{ports[name]}" for name in protocols}
    config: dict[str, Any] = {
        **brokers.KEEP,
        "listeners": ",".join(places.values()),
        "advertised.listeners": ",".join(places.values()).replace("127.0.0.1", "localhost"),
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in protocols.items()),
        "delegation.token.secret.key": "for tests",
    }
    stores = {
        "tls": "broker",
        "mutual": "broker",
        "sasltls": "broker",
        "oidctls": "broker",
        "other": "other",
        "expired": "expired",
    }
    for name, store in stores.items():
        prefix = f"listener.name.{name}.ssl."
        config[f"{prefix}keystore.type"] = "PKCS12"
        config[f"{prefix}keystore.location"] = str(certs / f"{store}.p12")
        config[f"{prefix}keystore.password"] = STORE_PASSWORD
    config |= {
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": str(certs / "ca.pem"),
        "listener.name.short.connections.max.reauth.ms": "2000",
    }
    users = jaas(_PLAIN, user_alice=ALICE[1], **{"user_b=o,b": BOB[1]}).replace(
        "user_b=o,b=", '"user_b=o,b"='
    )
    unsecured = jaas(_OAUTH, unsecuredLoginStringClaim_sub="broker")
    for name in ("sasl", "sasltls", "short"):
        prefix = f"listener.name.{name}."
        config |= {
            f"{prefix}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            f"{prefix}plain.sasl.jaas.config": users,
            f"{prefix}scram-sha-256.sasl.jaas.config": f"{_SCRAM} required;",
            f"{prefix}scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
            f"{prefix}oauthbearer.sasl.jaas.config": unsecured,
        }
    for prefix in ("listener.name.oidc.", "listener.name.oidctls."):
        config |= {
            f"{prefix}sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{prefix}oauthbearer.sasl.jaas.config": f"{_OAUTH} required;",
            f"{prefix}oauthbearer.sasl.server.callback.handler.class": _VALIDATOR,
            f"{prefix}oauthbearer.sasl.oauthbearer.jwks.endpoint.url": keys.jwks.as_uri(),
            f"{prefix}oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{prefix}oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
        }
    if "KERBEROS" in protocols:
        options = {
            "useKeyTab": "true",
            "storeKey": "true",
            "isInitiator": "false",
            "keyTab": str(kdc.folder / "kafka.keytab"),
            "principal": f"kafka/localhost@{kerberos.REALM}",
        }
        config["listener.name.kerberos.sasl.enabled.mechanisms"] = "GSSAPI"
        config["listener.name.sasltls.sasl.enabled.mechanisms"] += ",GSSAPI"
        for prefix in ("listener.name.kerberos.", "listener.name.sasltls."):
            config |= {
                f"{prefix}sasl.kerberos.service.name": "kafka",
                f"{prefix}gssapi.sasl.jaas.config": jaas(_KRB5, **options),
            }
    return config


def _add_scram_users(cluster: Sandbox) -> None:
    for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        for name, password in (ALICE, BOB):
            clients.add_scram_user(cluster.bootstrap, name, password, kind)
