"""``peek`` reads records of users' topics with every store and login."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.run import Result, call
from tests.net.test_sasl import TOKENS, logged_in, login
from tests.net.test_tls import key, trust
from tests.support.clients import commit, create_topic, produce, unique
from tests.support.secure import ALICE, BOB, SecureKafka, plain, scram

pytestmark = pytest.mark.broker

Peek = Callable[..., Result]


@pytest.fixture(scope="module")
def group(secure: SecureKafka) -> str:
    bootstrap = secure.cluster.bootstrap
    name, topic = unique("peeked"), create_topic(bootstrap, unique("t"))
    produce(bootstrap, topic, 4)
    commit(bootstrap, name, {(topic, 0): 2})
    return name


@pytest.fixture
def peek(
    secure: SecureKafka,
    group: str,
    client_file: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> Peek:
    def run(listener: str, **properties: object) -> Result:
        return call(
            capsys,
            "--bootstrap-server",
            secure.at(listener),
            "--command-config",
            client_file(**properties),
            "peek",
            group,
            "-o",
            "json",
        )

    return run


def sees(result: Result) -> None:
    assert result.status == 0, result.err
    assert [row["value"] for row in result.json["results"]] == ["value"] * 4


@pytest.mark.parametrize("name", ["trust.pem", "trust.p12", "trust.jks"])
def test_trust_stores(peek: Peek, secure: SecureKafka, name: str) -> None:
    sees(peek("TLS", **trust(secure, name)))


def test_a_certificate_that_is_no_authority(peek: Peek, secure: SecureKafka) -> None:
    given = {
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": secure.certificates / "broker.pem",
    }
    sees(peek("TLS", security_protocol="SSL", **given))
    given["ssl_truststore_location"] = secure.certificates / "client.pem"
    assert peek("TLS", security_protocol="SSL", **given).status == 4


@pytest.mark.parametrize(
    "limits",
    [
        {"ssl_enabled_protocols": "TLSv1.2"},
        {"ssl_enabled_protocols": "TLSv1.3"},
        {"ssl_cipher_suites": "TLS_AES_256_GCM_SHA384"},
        {"ssl_cipher_suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
    ],
)
def test_limits_of_tls(peek: Peek, secure: SecureKafka, limits: dict[str, str]) -> None:
    sees(peek("TLS", **trust(secure), **limits))


@pytest.mark.parametrize(
    "name", ["client.both.pem", "client.sealed.pem", "client.p12", "apart.jks"]
)
def test_key_stores(peek: Peek, secure: SecureKafka, name: str) -> None:
    sees(peek("MUTUAL", **trust(secure), **key(secure, name)))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", *TOKENS[:2]])
def test_logins(
    peek: Peek, secure: SecureKafka, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with logged_in(secure, mechanism, monkeypatch) as properties:
        listener = "OIDC" if mechanism == TOKENS[1] else "SASL"
        sees(peek(listener, **properties))


def test_a_login_over_tls_with_a_tricky_name(peek: Peek, secure: SecureKafka) -> None:
    properties = login("SCRAM-SHA-256", scram(BOB), "SASL_SSL")
    sees(peek("SASLTLS", **trust(secure) | properties))


def test_a_wrong_password_is_refused_before_a_record_is_read(
    peek: Peek, secure: SecureKafka
) -> None:
    result = peek("SASL", **login("PLAIN", plain((ALICE[0], "wrong"))))
    assert (result.status, result.err.count("\n")) == (4, 1)


def test_kerberos(peek: Peek, secure: SecureKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    with logged_in(secure, "GSSAPI", monkeypatch) as properties:
        sees(peek("KERBEROS", **properties))
