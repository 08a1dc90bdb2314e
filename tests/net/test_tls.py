"""TLS to real listeners: every kind of store, and what a user is told when it fails."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kgtool.client.ops import call as call_broker
from kgtool.config import settings
from kgtool.net.session import Session
from kgtool.protocol.api import offset_fetch as api
from tests.cli.run import call
from tests.net.conftest import Refused, Run
from tests.support.certificates import PASSWORD, TRICKY
from tests.support.clients import commit, create_topic, unique
from tests.support.outcomes import Outcome
from tests.support.secure import ALICE, SecureKafka, plain

pytestmark = pytest.mark.broker

TRUST = ("trust.pem", "trust.p12", "trust.jks")
KEYS = (
    "client.both.pem",
    "client.sealed.pem",
    "client.p12",
    "client.keytool.p12",
    "client.jks",
    "apart.jks",
)
TYPES = {"pem": "PEM", "p12": "PKCS12", "jks": "JKS"}


def trust(secure: SecureKafka, name: str = "trust.pem") -> dict[str, object]:
    kind = TYPES[name.rpartition(".")[2]]
    found: dict[str, object] = {
        "security_protocol": "SSL",
        "ssl_truststore_type": kind,
        "ssl_truststore_location": secure.certificates / name,
    }
    if kind != "PEM":
        found["ssl_truststore_password"] = PASSWORD
    return found


def key(secure: SecureKafka, name: str) -> dict[str, object]:
    kind = TYPES[name.rpartition(".")[2]]
    found: dict[str, object] = {
        "ssl_keystore_type": kind,
        "ssl_keystore_location": secure.certificates / name,
    }
    if kind != "PEM":
        found["ssl_keystore_password"] = PASSWORD
    if name in ("apart.jks", "client.sealed.pem"):
        found["ssl_key_password"] = TRICKY
    return found


@pytest.fixture(scope="module")
def group(secure: SecureKafka) -> str:
    """A group to be seen through every listener."""
    bootstrap = secure.cluster.bootstrap
    name, topic = unique("seen"), create_topic(bootstrap, unique("t"))
    commit(bootstrap, name, {(topic, 0): 0})
    return name


@pytest.mark.parametrize("store", TRUST)
def test_every_kind_of_trust_store(
    secure: SecureKafka, list_groups: Run, group: str, store: str
) -> None:
    result = list_groups("TLS", **trust(secure, store))
    assert result.status == 0, result.err
    assert group in result.out


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("store", TRUST)
def test_mutual_tls_with_every_kind_of_key_store(
    secure: SecureKafka, list_groups: Run, group: str, store: str, keys: str, outcome: Outcome
) -> None:
    with outcome("Logins and stores", f"mutual TLS, {keys}", TYPES[store.rpartition(".")[2]]):
        result = list_groups("MUTUAL", **trust(secure, store), **key(secure, keys))
        assert result.status == 0, result.err
        assert group in result.out


def test_kafkas_own_tool_takes_the_same_files(
    secure: SecureKafka, client_file: Callable[..., str], group: str
) -> None:
    """What these tests call a key store is one for Java too."""
    for store, keys in zip(
        TRUST, ("client.both.pem", "client.keytool.p12", "apart.jks"), strict=True
    ):
        path = client_file(**trust(secure, store), **key(secure, keys))
        done = secure.cluster.run_tool(
            "kafka-consumer-groups",
            "--bootstrap-server",
            secure.at("MUTUAL"),
            "--command-config",
            path,
            "--list",
        )
        assert group in done.stdout.splitlines(), (store, keys, done.stdout, done.stderr)


def test_pem_in_the_file_itself_on_lines_that_were_continued(
    secure: SecureKafka, list_groups: Run, group: str
) -> None:
    """A properties file loses the line breaks of continued lines; Kafka's docs show it so."""
    certificates = secure.certificates

    def joined(name: str) -> str:
        return certificates.text(name).replace("\n", " ")

    result = list_groups(
        "MUTUAL",
        security_protocol="SSL",
        ssl_truststore_type="PEM",
        ssl_truststore_certificates=joined("ca.pem"),
        ssl_keystore_type="PEM",
        ssl_keystore_key=joined("client.sealed.key"),
        ssl_keystore_certificate_chain=joined("client.pem") + joined("ca.pem"),
        ssl_key_password=TRICKY,
    )
    assert result.status == 0, result.err
    assert group in result.out


def test_java_keystore_types_are_seen_by_content(
    secure: SecureKafka, list_groups: Run, group: str
) -> None:
    """``ssl.truststore.type`` is JKS by default, and Java reads PKCS #12 under that name too."""
    given = trust(secure, "trust.p12")
    del given["ssl_truststore_type"]
    assert list_groups("TLS", **given).status == 0


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_enabled_protocols(secure: SecureKafka, list_groups: Run, group: str, version: str) -> None:
    result = list_groups("TLS", **trust(secure), ssl_enabled_protocols=version)
    assert result.status == 0, result.err
    assert group in result.out


def test_javas_names_of_cipher_suites(secure: SecureKafka, list_groups: Run, group: str) -> None:
    suites = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
    assert list_groups("TLS", **trust(secure), ssl_cipher_suites=suites).status == 0
    nonsense = list_groups("TLS", **trust(secure), ssl_cipher_suites="TLS_NONE_WITH_NOTHING")
    assert nonsense.status == 2
    assert "ssl.cipher.suites" in nonsense.err


def test_large_answers_come_through(secure: SecureKafka, client_file: Callable[..., str]) -> None:
    """Many records of TLS in both directions: 60,000 partitions asked for, and answered."""
    path = client_file(**trust(secure))
    made = settings(secure.at("TLS"), path)
    assert made is not None
    topics = [api.RequestGroupTopic(name="nowhere", partitions=list(range(60_000)))]
    request = api.Request(groups=[api.RequestGroup(group_id="nobody", topics=topics)])
    with Session(made) as session:
        session.connect()
        (broker,) = session.cluster.brokers
        reply = session.run(call_broker(broker, request, 8))
    assert len(reply.groups[0].topics[0].partitions) == 60_000


FAILURES: dict[str, tuple[str, dict[str, object], str]] = {
    "untrusted": ("TLS", {"ssl_truststore_location": "stranger.pem"}, "is not trusted"),
    "another host": ("OTHER", {}, "is not for the host name localhost"),
    "expired": ("EXPIRED", {}, "has expired"),
    "no certificate of ours": ("MUTUAL", {}, "it requires a client certificate"),
    "plaintext broker": ("PLAINTEXT", {}, "listener without TLS"),
    "plaintext broker with a login": ("SASL", {}, "security.protocol=SASL_PLAINTEXT"),
    "a login is missing": ("SASLTLS", {}, "requires a login"),
}


@pytest.mark.parametrize(("listener", "given", "said"), FAILURES.values(), ids=FAILURES)
def test_a_failure_is_one_clear_sentence_in_under_5_s(
    secure: SecureKafka,
    list_groups: Run,
    listener: str,
    given: dict[str, object],
    said: str,
    request: pytest.FixtureRequest,
    refused: Refused,
) -> None:
    properties = trust(secure) | {k: secure.certificates / str(v) for k, v in given.items()}
    name = request.node.callspec.id
    result = refused(f"TLS: {name}", lambda: list_groups(listener, **properties))
    assert said in result.err
    assert secure.at(listener) in result.err


def test_the_host_name_check_can_be_switched_off(secure: SecureKafka, list_groups: Run) -> None:
    result = list_groups("OTHER", **trust(secure), ssl_endpoint_identification_algorithm="")
    assert result.status == 0, result.err
    untrusted = trust(secure) | {"ssl_truststore_location": secure.certificates / "stranger.pem"}
    result = list_groups("OTHER", **untrusted, ssl_endpoint_identification_algorithm="")
    assert result.status == 4, "without the name, the certificate must still be trusted"


PLAIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_jaas_config": plain(ALICE),
}


@pytest.mark.parametrize("given", [{}, PLAIN], ids=["no TLS", "a login without TLS"])
def test_without_tls_a_tls_listener_is_named(
    list_groups: Run, given: dict[str, object], request: pytest.FixtureRequest, refused: Refused
) -> None:
    name = request.node.callspec.id
    result = refused(f"TLS listener: {name}", lambda: list_groups("TLS", **given))
    assert "speaks TLS" in result.err


def test_a_certificate_that_the_broker_does_not_trust(
    secure: SecureKafka, list_groups: Run, refused: Refused
) -> None:
    stranger = secure.certificates / "stranger.both.pem"
    stranger.write_text(
        secure.certificates.text("stranger.key") + secure.certificates.text("stranger.pem")
    )
    given = {"ssl_keystore_type": "PEM", "ssl_keystore_location": stranger}
    result = refused(
        "TLS: a certificate of a stranger", lambda: list_groups("MUTUAL", **trust(secure), **given)
    )
    assert "refused the TLS connection" in result.err
    assert "ssl.keystore.location" in result.err


@contextmanager
def peer(handle: Callable[[socket.socket], None]) -> Iterator[str]:
    """Somebody who is no broker."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            try:
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        handle(connection)
            except OSError:
                pass

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def _web_server(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def _garbage_in_tls(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"\x16\x03\x03\x00\x05garba\x16\x03\x03")
    time.sleep(0.2)


def _hangs_up(connection: socket.socket) -> None:
    connection.recv(1)


@pytest.mark.timed
@pytest.mark.parametrize(
    ("handle", "said"),
    [
        (_web_server, "is a web server without TLS"),
        (_garbage_in_tls, "failed"),
        (_hangs_up, "TLS handshake"),
        (lambda connection: None, "connection"),
    ],
    ids=["web server", "garbage", "hangs up", "closes"],
)
def test_peers_that_are_no_brokers(
    secure: SecureKafka, client_file: Callable[..., str], capsys: Any, handle: Any, said: str
) -> None:
    path = client_file(**trust(secure))
    with peer(handle) as address:
        began = time.monotonic()
        result = call(capsys, "list", "--bootstrap-server", address, "--command-config", path)
        assert time.monotonic() - began < 5
    assert result.status == 4
    assert said in result.err
    assert address in result.err


@pytest.mark.timed
def test_a_peer_that_never_shakes_hands_costs_no_more_than_the_timeout(
    secure: SecureKafka, client_file: Callable[..., str], capsys: Any
) -> None:
    path = client_file(**trust(secure))
    with peer(lambda connection: time.sleep(3)) as address:
        began = time.monotonic()
        result = call(
            capsys,
            "list",
            "--bootstrap-server",
            address,
            "--command-config",
            path,
            "--timeout",
            "700",
        )
        assert time.monotonic() - began < 2.5
    assert result.status == 4


def test_a_server_that_is_no_broker_but_speaks_tls(
    secure: SecureKafka, client_file: Callable[..., str], capsys: Any
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates = secure.certificates
    context.load_cert_chain(certificates / "broker.pem", certificates / "broker.key")

    def answer(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            secured.recv(4096)
            secured.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    path = client_file(**trust(secure))
    with peer(answer) as address:
        result = call(capsys, "list", "--bootstrap-server", address, "--command-config", path)
    assert result.status == 4
    assert "is a web server" in result.err
