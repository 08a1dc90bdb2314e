"""Every address of a name counts; and nothing that blocks stands in the way of the rest."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kgtool.config import Settings, parse_bootstrap
from kgtool.errors import KgError, NotKafka, ResolvedTooLate
from kgtool.net.session import Session
from kgtool.queries.groups.list import list_groups as list_operation
from tests.cli.run import call
from tests.net.conftest import Run
from tests.net.ear import Ear
from tests.net.test_tls import trust
from tests.support.clients import commit, create_topic, unique
from tests.support.secure import ALICE, SecureKafka, plain

pytestmark = pytest.mark.timed

NAME = "many.example.org"
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
FIRST, SECOND, THIRD = (f"127.0.{WORKER + 1}.{number}" for number in (98, 97, 96))
"""Other addresses of this machine, for the ports of brokers that all workers share."""


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Names of our own making; the rest is looked up as usual."""
    known: dict[str, list[str]] = {}
    """No addresses: no such name."""
    real = socket.getaddrinfo

    def look_up(host: bytes | str | None, port: int, *args: Any, **options: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in known:
            return real(host, port, *args, **options)
        if not known[name]:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (ip, port)) for ip in known[name]]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return known


class Silent:
    """Accepts connections and says nothing; counts them."""

    def __init__(self, ip: str, port: int) -> None:
        self._listener = socket.create_server((ip, port))
        self.accepted: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.accepted.append(self._listener.accept()[0])

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in self.accepted:
            peer.close()


class BlackHole:
    """Does not even finish the TCP handshake: its backlog is full."""

    def __init__(self, ip: str, port: int) -> None:
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((ip, port))
        self._listener.listen(0)
        self._held = [socket.socket() for _ in range(4)]
        for peer in self._held:
            peer.setblocking(False)
            peer.connect_ex((ip, port))
        self.accepted: list[socket.socket] = []

    def close(self) -> None:
        self._listener.close()
        for peer in self._held:
            peer.close()


class WebServer(Silent):
    """Answers everything as a web server does."""

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer = self._listener.accept()[0]
                self.accepted.append(peer)
                with contextlib.suppress(OSError):  # who came may have gone again
                    peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.broker
@pytest.mark.parametrize("kind", [Silent, BlackHole, WebServer])
def test_a_bad_first_address_does_not_hide_the_second(
    kind: Any, names: dict[str, list[str]], bootstrap: str
) -> None:
    """Was: the whole patience (10 s) spent on the first, and the second never tried."""
    port = parse_bootstrap(bootstrap)[0][1]
    names[NAME] = [FIRST, "127.0.0.1"]
    with (
        contextlib.closing(kind(FIRST, port)),
        Session(Settings(((NAME, port),), 20_000)) as session,
    ):
        began = time.monotonic()
        session.connect()
        assert time.monotonic() - began < 1.5
        assert session.cluster.brokers


@pytest.mark.broker
def test_a_bad_address_is_remembered(names: dict[str, list[str]], bootstrap: str) -> None:
    """Another connection to the same host goes to the good address at once."""
    port = parse_bootstrap(bootstrap)[0][1]
    names[NAME] = [FIRST, "127.0.0.1"]
    silent = Silent(FIRST, port)
    with contextlib.closing(silent), Session(Settings(((NAME, port),), 20_000)) as session:
        session.connect()
        assert len(silent.accepted) == 1
        names["other.example.org"] = names[NAME]
        connection = session.loop._pool._connection("other.example.org", port)
        until = time.monotonic() + 5
        while not connection.is_ready and time.monotonic() < until:
            session.loop._select(0.05)
        assert connection.is_ready
        assert len(silent.accepted) == 1
        connection.close(KgError("the test is over"))


@pytest.mark.broker
def test_an_address_with_a_wrong_certificate_makes_way_for_the_next(
    secure: SecureKafka, names: dict[str, list[str]], list_groups: Run
) -> None:
    """A stale record of DNS leads to somebody else's TLS listener."""
    properties = trust(secure)
    wrong, right = Ear(secure.ports["OTHER"], SECOND), None
    try:
        right = Ear(secure.ports["TLS"], THIRD, wrong.port)
        names["localhost"] = [SECOND, THIRD, "127.0.0.1"]
        result = list_groups("TLS", "--bootstrap-server", f"localhost:{wrong.port}", **properties)
        assert result.status == 0, result
        assert wrong.heard and right.heard
        names["localhost"] = [SECOND]
        result = list_groups("TLS", "--bootstrap-server", f"localhost:{wrong.port}", **properties)
        assert result.status == 4 and "is not for the host name" in result.err
    finally:
        wrong.close()
        if right is not None:
            right.close()


@pytest.mark.broker
@pytest.mark.parametrize("case", ["first is slow", "both are well", "two brokers", "hangs up"])
def test_a_password_goes_to_one_address_only(
    case: str, secure: SecureKafka, names: dict[str, list[str]], list_groups: Run
) -> None:
    """Two tries with a wrong password may lock an account: only who answers first hears it."""
    first = Ear(secure.ports["SASL"], SECOND)
    second = Ear(secure.ports["SASL"], THIRD, first.port)
    third = Ear(secure.ports["SASL"], "127.0.0.1", first.port)
    first.delay = 0.6 if case == "first is slow" else 0.0
    first.hangs_up_at = b"wr0ng-password" if case == "hangs up" else None
    at = f"localhost:{first.port}"
    if case == "two brokers":
        at = f"{first.address},{second.address}"
    try:
        names["localhost"] = [SECOND, THIRD, "127.0.0.1"]
        result = list_groups(
            "SASL",
            "--bootstrap-server",
            at,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_jaas_config=plain((ALICE[0], "wr0ng-password")),
        )
        time.sleep(first.delay)  # what comes late is no reason to tell it there too
        assert result.status == 4, result
        said = "closed the connection" if case == "hangs up" else "refused the login"
        assert said in result.err, result
        heard = [ear.heard.count(b"wr0ng-password") for ear in (first, second, third)]
        assert heard == ([0, 1, 0] if case == "first is slow" else [1, 0, 0])
        assert bool(second.heard) == (case == "first is slow")
        assert not third.heard
    finally:
        for ear in (first, second, third):
            ear.close()


# -- why a connection was closed at once --------------------------------------------------------


class Shy(Silent):
    """Hangs up on the first who comes, and says nothing to the others: so a probe takes long."""

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            peer = self._listener.accept()[0]
            peer.recv(65536)  # what is not read makes a reset of the end
            peer.close()
        super()._accept()


def test_finding_out_why_addresses_hang_up_takes_none_of_the_time() -> None:
    """Was: 2 s for each of them, one after the other, whatever ``--timeout`` said."""
    with contextlib.ExitStack() as stack:
        shy = [stack.enter_context(contextlib.closing(Shy("127.0.0.1", 0))) for _ in range(3)]
        places = tuple(one._listener.getsockname() for one in shy)
        began = time.monotonic()
        with Session(Settings(places, 700)) as session, pytest.raises(KgError) as caught:
            session.connect()
        assert time.monotonic() - began < 1.5
        assert "closed the connection at once" in str(caught.value)
        assert sum(len(one.accepted) for one in shy) == 3, "no listener was asked what it is"


# -- names ------------------------------------------------------------------------------------


@pytest.fixture
def slow_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Names whose servers do not answer."""
    hanging: set[str] = set()
    over = threading.Event()
    real = socket.getaddrinfo

    def look_up(host: bytes | str | None, port: int, *args: Any, **options: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else host
        if name in hanging:
            over.wait(6)
            raise socket.gaierror(-3, "Temporary failure in name resolution")
        return real(host, port, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield hanging
    over.set()


@pytest.mark.broker
def test_a_name_server_that_is_silent_costs_the_others_nothing(
    slow_names: set[str], bootstrap: str
) -> None:
    slow_names.add("slow.example.org")
    places = (("slow.example.org", 9092), *parse_bootstrap(bootstrap))
    began = time.monotonic()
    with Session(Settings(places, 20_000)) as session:
        session.run(list_operation(session.cluster))
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("canonical", [False, True])
def test_a_name_server_that_is_silent_costs_no_more_than_the_timeout(
    slow_names: set[str], canonical: bool
) -> None:
    slow_names.add("slow.example.org")
    began = time.monotonic()
    settings = Settings((("slow.example.org", 9092),), 800, canonical_names=canonical)
    with (
        Session(settings) as session,
        pytest.raises(ResolvedTooLate, match=r"slow\.example\.org") as told,
    ):
        session.connect()
    assert told.value.name == "TIMEOUT"
    assert time.monotonic() - began < 1.6


# -- what can't get better --------------------------------------------------------------------


def test_several_bad_addresses_are_told_by_the_most_telling_reason(
    names: dict[str, list[str]],
) -> None:
    """One refuses, one is a web server: that is what somebody has to know."""
    web = WebServer(FIRST, 0)
    port = web._listener.getsockname()[1]
    names[NAME] = [FIRST, SECOND]
    with contextlib.closing(web), Session(Settings(((NAME, port),), 8000)) as session:
        began = time.monotonic()
        with pytest.raises(NotKafka):
            session.connect()
        assert time.monotonic() - began < 1.5


@pytest.mark.broker
@pytest.mark.parametrize("what", ["certificate", "name", "port"])
def test_what_is_wrong_at_a_coordinator_is_told_at_once(
    what: str,
    secure: SecureKafka,
    names: dict[str, list[str]],
    list_groups: Run,
    client_file: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Bootstrap is fine; the address that the broker advertises leads elsewhere."""
    port, group = secure.ports["TLS"], unique("g")
    commit(secure.cluster.bootstrap, group, {(create_topic(secure.cluster.bootstrap, group), 0): 0})
    names["localhost"] = [] if what == "name" else [SECOND]
    said = {
        "certificate": "is not for the host name",
        "name": "can't be resolved",
        "port": "is a web server",
    }[what]
    made = {
        "certificate": lambda: Ear(secure.ports["OTHER"], SECOND, port),
        "port": lambda: WebServer(SECOND, port),
        "name": contextlib.ExitStack,
    }[what]()
    argv = ["describe", "--group", group, "--bootstrap-server", f"127.0.0.1:{port}"]
    argv += ["--command-config", client_file(**trust(secure))]
    try:
        began = time.monotonic()
        result = call(capsys, *argv)
        took = time.monotonic() - began
    finally:
        made.close()
    assert result.status == 4 and said in result.err, result
    assert took < 4, took
