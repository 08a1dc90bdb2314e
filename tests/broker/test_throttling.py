"""A broker that throttles (KIP-124, KIP-219): kgtool keeps quiet for as long as it is told."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kgtool.client.cluster import ensure_brokers
from kgtool.client.ops import Call, call
from kgtool.config import Settings, parse_bootstrap
from kgtool.errors import KgError
from kgtool.net.connection import Connection
from kgtool.net.session import Session
from kgtool.protocol.api import list_groups, metadata
from kgtool.sandbox.cluster import Sandbox
from tests.cli.run import call as kgtool
from tests.cli.run import kgtool as apart
from tests.support import clients


@pytest.fixture
def throttled(kafka: Sandbox) -> Iterator[str]:
    """A client id that may use a thousandth of the broker's time."""
    name = clients.unique("throttled")
    quota = ["--alter", "--entity-type", "clients", "--entity-name", name]
    done = kafka.run_tool("kafka-configs", *quota, "--add-config", "request_percentage=0.1")
    assert done.returncode == 0, done.stdout + done.stderr
    yield name
    kafka.run_tool("kafka-configs", *quota, "--delete-config", "request_percentage")


def use_up(session: Session) -> Any:
    """Make requests until the broker complains; return its last answer."""
    yield from ensure_brokers(session.cluster)
    (broker,) = session.cluster.brokers
    for _ in range(200):
        replies = yield [Call(broker, metadata.Request(topics=None)) for _ in range(5)]
        assert not any(isinstance(reply, KgError) for reply in replies), replies
        if replies[-1].throttle_time_ms > 900:
            return replies[-1]
    raise AssertionError("the broker never throttled")


def test_nothing_is_sent_while_the_broker_wants_quiet(
    bootstrap: str, throttled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet, sent = list[tuple[float, float]](), list[float]()
    mute, send = Connection.mute, socket.socket.send

    def muted(connection: Connection, seconds: float) -> None:
        quiet.append((time.monotonic() + seconds, seconds))
        mute(connection, seconds)

    def noted(peer: socket.socket, data: Any, *flags: int) -> int:
        sent.append(time.monotonic())
        return send(peer, data, *flags)

    monkeypatch.setattr(Connection, "mute", muted)
    monkeypatch.setattr(socket.socket, "send", noted)
    settings = Settings(parse_bootstrap(bootstrap), 60_000, throttled)
    with Session(settings) as session:
        last = session.run(use_up(session))
        (broker,) = session.cluster.brokers
        until = max(until for until, _ in quiet)
        sent.clear()
        began = time.monotonic()
        reply = session.run(call(broker, list_groups.Request()))
        waited = time.monotonic() - began
    assert not isinstance(reply, KgError)
    assert last.throttle_time_ms / 1000 in [seconds for _, seconds in quiet]
    assert sent[0] >= until
    assert waited < last.throttle_time_ms / 1000 + 5


def test_a_quota_that_takes_all_the_time_is_named(
    bootstrap: str, throttled: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(parse_bootstrap(bootstrap), 60_000, throttled)
    with Session(settings) as session:
        session.run(use_up(session))
    config = tmp_path / "client.properties"
    config.write_text(f"client.id={throttled}\n")
    login = ("--bootstrap-server", bootstrap, "--command-config", str(config))
    result = kgtool(capsys, "describe", "--all-groups", *login, "--timeout", "800")
    assert result.status == 4, result
    assert "request quota" in result.err


@pytest.fixture
def starved(kafka: Sandbox) -> Iterator[str]:
    """A client id that may read 2 kB a second."""
    name = clients.unique("starved")
    quota = ["--alter", "--entity-type", "clients", "--entity-name", name]
    done = kafka.run_tool("kafka-configs", *quota, "--add-config", "consumer_byte_rate=2000")
    assert done.returncode == 0, done.stdout + done.stderr
    yield name
    kafka.run_tool("kafka-configs", *quota, "--delete-config", "consumer_byte_rate")


def test_a_byte_quota_only_takes_time(
    bootstrap: str, starved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stands for: a throttled Fetch has no topic in its answer, and is asked again.

    Siblings: peek, --time-lag, backup --times, and a timeout that is too short for it.
    """
    topic, group = clients.unique("starved"), clients.unique("starved")
    clients.create_topic(bootstrap, topic, 2)
    clients.produce(bootstrap, topic, 19, value=bytes(1000))  # of 20 kB in 10 s
    clients.produce(bootstrap, topic, 3, partition=1, value=bytes(1000))
    clients.commit(bootstrap, group, {(topic, 0): 0, (topic, 1): 1})
    config = tmp_path / "client.properties"
    config.write_text(f"client.id={starved}\n")
    login = ("--bootstrap-server", bootstrap, "--command-config", str(config))
    all_of_it = ("--topic", f"{topic}:0", "--after", "19", *login)
    assert kgtool(capsys, "peek", group, *all_of_it).status == 0  # the quota is used up
    at = ("--topic", f"{topic}:1", *login, "-o", "json")
    late = kgtool(capsys, "peek", group, *at, "--timeout", "900")
    assert late.status == 4 and "byte quota" in late.err, late
    commands = (
        ("peek", group, *at),
        ("describe", group, "--time-lag", *at),
        ("backup", group, "--times", "--out", str(tmp_path / "saved.jsonl"), *login),
    )
    began = time.monotonic()
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda command: apart(*command), commands))
    assert [result.status for result in results] == [0, 0, 0], results
    assert time.monotonic() - began > 1
    assert [row["offset"] for row in results[0].json["results"]] == [0, 1, 2]
    assert results[1].json["results"][0]["lag_ms"] is not None
