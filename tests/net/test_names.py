"""``client.dns.lookup`` and ``socket.connection.setup.timeout.ms``."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from kgtool.config import Settings, parse_bootstrap
from kgtool.errors import ConnectFailed, KgError
from kgtool.net.dns import canonical
from kgtool.net.session import Session
from tests.protocol.jvm import kafka_classes


def test_canonical_names_are_javas() -> None:
    from py4j.java_gateway import JVMView

    places = ("localhost:9092", "127.0.0.1:9093")
    with kafka_classes("4.3.1") as kafka:
        java = JVMView(kafka.common._gateway_client, "default", "rj")
        texts = java.java.util.ArrayList()
        for place in places:
            texts.add(place)
        found = java.org.apache.kafka.clients.ClientUtils.parseAndValidateAddresses(
            texts, "resolve_canonical_bootstrap_servers_only"
        )
        theirs = {(address.getHostString(), address.getPort()) for address in found}
    assert set(canonical(parse_bootstrap(",".join(places)))) == theirs


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """One alias for two brokers, of which only one has a name of its own."""
    addresses = {"alias": ["10.0.0.1", "10.0.0.2"], "b1.example.org": ["10.0.0.1"]}

    def getaddrinfo(host: bytes | str, port: int, **_: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in addresses:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, 0, 0, "", (ip, port)) for ip in addresses[name]]

    def getnameinfo(address: tuple[str, int], flags: int) -> tuple[str, str]:
        if address[0] == "10.0.0.1":
            return "b1.example.org", str(address[1])
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket, "getnameinfo", getnameinfo)


def test_an_alias_becomes_the_brokers_own_names(names: None) -> None:
    assert canonical((("alias", 9092),)) == (("b1.example.org", 9092), ("10.0.0.2", 9092))
    assert canonical((("b1.example.org", 1), ("alias", 1))) == (
        ("b1.example.org", 1),
        ("10.0.0.2", 1),
    )


def test_a_name_without_an_address_is_named_when_it_is_tried(names: None) -> None:
    assert canonical((("nobody", 9092),)) == (("nobody", 9092),)
    made = Settings((("nobody", 9092),), 500, canonical_names=True)
    with Session(made) as session, pytest.raises(KgError, match="'nobody' can't be resolved"):
        session.connect()


def test_every_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch, bootstrap: str) -> None:
    """``use_all_dns_ips``: the first address refuses, the second is the broker's."""
    port = parse_bootstrap(bootstrap)[0][1]
    real = socket.getaddrinfo

    def both(host: bytes | str, number: int, **options: Any) -> list[Any]:
        if host not in ("many.example.org", b"many.example.org"):
            return real(host, number, **options)
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 0, "", (ip, number))
            for ip in ("127.0.0.99", "127.0.0.1")
        ]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    with Session(Settings((("many.example.org", port),), 10_000)) as session:
        session.connect()
        assert session.cluster.brokers


@pytest.mark.parametrize("places", [1, 2])
@pytest.mark.parametrize("milliseconds", [1, 2, 5, 20, 300])
def test_what_the_timeout_ends_is_a_timeout(milliseconds: int, places: int) -> None:
    """Wherever it had got to: the same failure has the same name each time."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        bootstrap = (silent.getsockname(), ("localhost", silent.getsockname()[1]))[:places]
        with Session(Settings(bootstrap, milliseconds)) as session, pytest.raises(KgError) as told:
            session.connect()
    assert told.value.name == "TIMEOUT"


@pytest.mark.timed
@pytest.mark.parametrize(("setup_ms", "said"), [(600, "600 ms"), (3000, "3 s")])
def test_the_set_up_of_a_connection_has_the_time_that_it_is_given(setup_ms: int, said: str) -> None:
    """Somebody accepts and says nothing; without the setting it is 2 s of these 6."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = silent.getsockname()
        began = time.monotonic()
        with (
            Session(Settings((place,), 6000, setup_ms=setup_ms)) as session,
            pytest.raises(ConnectFailed, match=f"did not answer within {said}"),
        ):
            session.connect()
        assert setup_ms / 1000 < time.monotonic() - began < 5
