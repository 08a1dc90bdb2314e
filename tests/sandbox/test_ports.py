"""The ports of brokers that are about to start."""

from __future__ import annotations

import socket

import pytest

from kgtool.errors import SandboxError
from kgtool.sandbox import broker
from tests.support import brokers


def test_a_port_is_given_once_though_nobody_listens_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "_given", set())
    among = range(broker.PORTS.start, broker.PORTS.start + 100)

    first, second = broker.free_ports(10, among), broker.free_ports(10, among)

    assert len({*first, *second}) == 20


def test_a_port_that_somebody_listens_on_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "_given", set())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

        with pytest.raises(
            SandboxError, match=f"fewer than 1 free ports between {port} and {port}"
        ):
            broker.free_ports(1, range(port, port + 1))


def test_workers_draw_ports_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "_given", set())
    monkeypatch.setattr(broker.free_ports, "__defaults__", broker.free_ports.__defaults__)
    drawn: list[set[int]] = []
    for worker in range(brokers.SHARES):
        brokers.draw_own_ports(worker)
        drawn.append(set(broker.free_ports(200)))
        broker._given.clear()
    assert len(set.union(*drawn)) == 200 * brokers.SHARES
