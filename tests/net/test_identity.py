"""KIP-1242: a broker of 4.4 is told which one is meant, and refuses to be another."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from kgtool.config import Settings, parse_bootstrap
from kgtool.errors import ConnectFailed
from kgtool.net.session import Session
from kgtool.protocol.channel import Expected
from tests.support import brokers

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("wrong", ["cluster", "node", None])
def test_only_the_broker_that_is_meant_answers(wrong: str | None) -> None:
    """The kind: an address that leads to another broker than Metadata said it would."""
    ((host, port),) = parse_bootstrap(brokers.shared_broker("4.4.0").bootstrap)
    with Session(Settings(((host, port),), 20_000)) as session:
        session.connect()
        (node_id,), cluster_id = session.cluster.brokers, session.cluster_id or ""
        pool = session.loop._pool
        expected = pool._expected(node_id)
        assert expected == Expected(cluster_id, node_id)
        if wrong == "cluster":
            expected = Expected("AAAAAAAAAAAAAAAAAAAAAA", node_id)
        elif wrong == "node":
            expected = Expected(cluster_id, node_id + 1)
        pool._connections.pop((host, port)).close(ConnectFailed("closed"))
        connection = pool._connection(host, port, expected)
        _wait(session, lambda: connection.is_ready or connection.is_closed)
        if wrong is None:
            assert connection.is_ready, connection.error
        else:
            assert isinstance(connection.error, ConnectFailed)
            assert "another broker has this address now" in str(connection.error)


def test_older_brokers_are_not_asked_in_a_version_that_they_refuse() -> None:
    """It would cost a round trip for each connection."""
    address = parse_bootstrap(brokers.shared_broker("4.3.1").bootstrap)
    with Session(Settings(tuple(address), 20_000)) as session:
        session.connect()
        assert session.loop._pool._expected(1) is None


def _wait(session: Session, is_over: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not is_over() and time.monotonic() < until:
        session.loop._select(0.05)
