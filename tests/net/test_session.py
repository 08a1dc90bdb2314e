"""Real sockets: what a user is told when the other end is no healthy Kafka broker."""

from __future__ import annotations

import contextlib
import http.server
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgtool.client.cluster import ensure_brokers
from kgtool.client.ops import Pause, call, gather, within
from kgtool.config import Settings, settings_from_properties
from kgtool.config.properties import Properties
from kgtool.errors import ConnectFailed, KgError, NetworkError, NotKafka, ResolveFailed, TimedOut
from kgtool.model import Broker
from kgtool.net.session import Session
from kgtool.protocol.api import metadata
from kgtool.queries.groups.list import list_groups

pytestmark = pytest.mark.timed


def session(*addresses: str, timeout_ms: int = 30_000) -> Session:
    pairs = tuple((a.rpartition(":")[0], int(a.rpartition(":")[2])) for a in addresses)
    return Session(Settings(bootstrap=pairs, timeout_ms=timeout_ms))


def failure(*addresses: str, timeout_ms: int = 30_000) -> KgError:
    with session(*addresses, timeout_ms=timeout_ms) as opened, pytest.raises(KgError) as caught:
        opened.connect()
    return caught.value


@contextlib.contextmanager
def serve(handle: Callable[[socket.socket], None]) -> Iterator[str]:
    """Accept connections and hand each to ``handle`` in a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                held.append(peer)
                threading.Thread(target=_guard, args=(handle, peer), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()
        for peer in held:
            peer.close()


def _guard(handle: Callable[[socket.socket], None], peer: socket.socket) -> None:
    with contextlib.suppress(OSError, ssl.SSLError):
        handle(peer)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def test_a_port_where_nobody_listens_is_named_in_under_5_s() -> None:
    began = time.monotonic()
    port = closed_port()
    error = failure(f"127.0.0.1:{port}")
    assert isinstance(error, ConnectFailed)
    assert f"127.0.0.1:{port}" in str(error)
    assert error.exit_code == 4
    assert time.monotonic() - began < 5


def test_a_host_name_without_address_is_named() -> None:
    error = failure("no-such-host.invalid:9092")
    assert isinstance(error, ResolveFailed)
    assert "no-such-host.invalid" in str(error)


def test_a_web_server_is_recognised_at_once() -> None:
    server = http.server.HTTPServer(("127.0.0.1", 0), _Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    began = time.monotonic()
    try:
        error = failure(f"127.0.0.1:{server.server_address[1]}")
    finally:
        server.shutdown()
        server.server_close()
    assert isinstance(error, NotKafka)
    assert "web server" in str(error)
    assert time.monotonic() - began < 5


class _Quiet(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    """A server's context, and its certificate."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "cert.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost"
    command += " -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(
        [*command.split(), "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context, certificate


def test_a_tls_port_is_recognised_at_once(tls: tuple[ssl.SSLContext, Path]) -> None:
    context, _ = tls

    def handshake(peer: socket.socket) -> None:
        context.wrap_socket(peer, server_side=True)

    began = time.monotonic()
    with serve(handshake) as address:
        error = failure(address)
    assert isinstance(error, NotKafka)
    assert "speaks TLS" in str(error)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("reads", [0, 1, 100])
def test_a_tls_peer_that_hangs_up_was_spoken_to_by_tls(
    tls: tuple[ssl.SSLContext, Path], reads: int
) -> None:
    """Kind: an explanation that contradicts the settings. Siblings: closed at once after the
    handshake, in the middle of a request, after it."""
    context, certificate = tls

    def hang_up(peer: socket.socket) -> None:
        with context.wrap_socket(peer, server_side=True) as wrapped:
            if reads:
                wrapped.recv(reads)

    with serve(hang_up) as address:
        given = Properties({"security.protocol": "SSL", "ssl.truststore.type": "PEM"})
        given["ssl.truststore.location"] = str(certificate)
        settings = settings_from_properties(given, address, "client.properties", {})
        settings = settings._replace(timeout_ms=8000)
        with Session(settings) as opened, pytest.raises(KgError) as caught:
            opened.connect()
    assert "without it" not in str(caught.value)
    assert "ssl.keystore.location" in str(caught.value.hint)


def test_a_peer_that_hangs_up_is_named() -> None:
    with serve(lambda peer: peer.close()) as address:
        error = failure(address)
    assert isinstance(error, NetworkError)
    assert address in str(error)


def test_a_black_hole_costs_no_more_than_the_timeout() -> None:
    began = time.monotonic()
    with serve(lambda peer: time.sleep(30)) as address:
        error = failure(address, timeout_ms=700)
    assert isinstance(error, NetworkError)
    assert address in str(error)
    assert 0.5 < time.monotonic() - began < 3


def test_a_slow_drip_costs_no_more_than_the_timeout() -> None:
    def drip(peer: socket.socket) -> None:
        for byte in b"\x00\x00\x00\x40" + bytes(100):
            peer.send(bytes([byte]))
            time.sleep(0.1)

    began = time.monotonic()
    with serve(drip) as address:
        error = failure(address, timeout_ms=700)
    assert isinstance(error, NetworkError)
    assert time.monotonic() - began < 3


@pytest.mark.broker
def test_a_dead_bootstrap_address_costs_nothing(bootstrap: str) -> None:
    with session(f"127.0.0.1:{closed_port()}", bootstrap) as open_session:
        open_session.connect()
        assert open_session.cluster_id


@pytest.mark.broker
def test_list_takes_one_connection_and_two_requests(bootstrap: str) -> None:
    with session(bootstrap) as open_session:
        open_session.run(list_groups(open_session.cluster))
        assert open_session.loop.requests_sent == 2  # Metadata, ListGroups; ApiVersions beside


@pytest.mark.broker
def test_the_deadline_ends_pauses_and_answers_later_calls(bootstrap: str) -> None:
    def sleepy(cluster: Any) -> Any:
        yield from ensure_brokers(cluster)
        yield Pause(60)
        listing = yield from list_groups(cluster)
        return listing

    began = time.monotonic()
    with session(bootstrap, timeout_ms=400) as open_session:
        listing = open_session.run(sleepy(open_session.cluster))
    assert time.monotonic() - began < 3
    assert listing.groups == []
    assert [error.name for error in listing.errors] == [TimedOut.name]


@pytest.mark.broker
def test_gathered_operations_run_side_by_side(bootstrap: str) -> None:
    def nap(number: int) -> Any:
        yield Pause(0.3)
        return number

    began = time.monotonic()
    with session(bootstrap) as open_session:
        assert open_session.run(gather([nap(n) for n in range(20)])) == list(range(20))
    assert time.monotonic() - began < 2


@pytest.mark.broker
def test_an_operation_that_raises_leaves_the_session_usable(bootstrap: str) -> None:
    def broken() -> Any:
        yield Pause(0)
        raise ConnectFailed("on purpose")

    with session(bootstrap) as open_session:
        with pytest.raises(ConnectFailed):
            open_session.run(gather([broken(), list_groups(open_session.cluster)]))
        listing = open_session.run(list_groups(open_session.cluster))
        assert listing.errors == []


@pytest.mark.parametrize("is_within", [False, True])
def test_what_fails_beside_others_can_be_caught_where_it_is_waited_for(is_within: bool) -> None:
    """It ended the whole command, past everybody who would have gone on without it."""
    ended: list[str] = []

    def fails() -> Any:
        yield Pause(0.01)
        raise ConnectFailed("one of them")

    def goes_on() -> Any:
        yield Pause(0.05)
        ended.append("the other")

    def both() -> Any:
        try:
            yield from within(fails(), 0.5) if is_within else gather([fails(), goes_on()])
        except ConnectFailed as error:
            return str(error), list(ended)

    with session("127.0.0.1:1") as opened:
        assert opened.run(both()) == ("one of them", [] if is_within else ["the other"])
        with pytest.raises(ConnectFailed, match="one of them"):
            opened.run(gather([fails(), goes_on()]))


def test_an_address_that_the_cluster_advertises_is_called_so() -> None:
    """Stands for: a broker that can't be reached where its advertised.listeners say.

    Siblings: nothing listens, no such name, and an address that the user gave, which is no matter
    of advertised.listeners.
    """
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with session("127.0.0.1:9", f"127.0.0.1:{port}", timeout_ms=2000) as opened:
        for host, at, is_said in (
            ("localhost", port, True),
            ("no-such-host.invalid", port, True),
            ("127.0.0.1", port, False),
        ):
            opened.cluster.brokers = {7: Broker(7, host, at)}
            reply = opened.run(call(7, metadata.Request()))
            assert isinstance(reply, KgError)
            assert ("advertised.listeners" in (reply.hint or "")) == is_said, (host, reply.hint)
            assert ("Broker 7" in (reply.hint or "")) == is_said


@pytest.mark.parametrize("is_advertised", [True, False])
def test_a_part_whose_time_ends_first_says_whose_address_is_silent(is_advertised: bool) -> None:
    """Was: "Allow more time with --timeout", of a delete that waited for a wrong address: reads
    have a share of the time, which is over before the connection is given up."""

    def part() -> Any:
        try:
            return (yield from within(call(7, metadata.Request()), 0.2))
        except KgError as error:
            return error

    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        given = "127.0.0.1:9" if is_advertised else f"127.0.0.1:{port}"
        with session(given, timeout_ms=3000) as opened:
            opened.cluster.brokers = {7: Broker(7, "127.0.0.1", port)}
            reply = opened.run(part())
    assert isinstance(reply, KgError)
    assert ("Broker 7 has this address in its advertised" in (reply.hint or "")) == is_advertised
