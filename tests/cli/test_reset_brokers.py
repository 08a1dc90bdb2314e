"""Resets with two brokers of their own: leaders that come and go, and their epochs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from kgtool.sandbox.cluster import Cluster
from tests.cli import run
from tests.support import clients

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def two_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("two")
    config = {"broker.session.timeout.ms": "3000"}  # how soon a dead leader is noticed
    with Cluster.start("two", brokers=2, config=config, root=root) as cluster:
        yield cluster


def _topic(bootstrap: str, name: str, broker: int) -> str:
    """Make a topic whose only replica is on that broker."""
    admin = clients.admin(bootstrap)
    topic = NewTopic(name, 1, replica_assignment=[[broker]])
    admin.create_topics([topic])[name].result(30)
    _wait_for_leader(bootstrap, name, broker)
    return name


def _wait_for_leader(bootstrap: str, topic: str, leader: int) -> None:
    admin = clients.admin(bootstrap)

    def led() -> bool:
        found = admin.list_topics(topic, timeout=5).topics[topic].partitions
        return bool(found) and found[0].leader == leader

    clients.wait_for(led, f"{topic} to be led by {leader}")


def _epochs(bootstrap: str, topic: str, count: int) -> dict[int, int]:
    """The leader epoch of every record, as a real consumer gets them."""
    reader = clients.consumer(bootstrap, clients.unique("reader"))
    reader.assign([TopicPartition(topic, 0, 0)])
    try:
        messages = reader.consume(count, timeout=30)
        assert len(messages) == count
        return {message.offset(): message.leader_epoch() for message in messages}
    finally:
        reader.close()


def test_leader_epochs_and_leaderless_partitions(
    two_brokers: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path))
    bootstrap = f"127.0.0.1:{two_brokers.nodes[0].port}"
    led, fine = _topic(bootstrap, "led", 2), _topic(bootstrap, "fine", 1)
    line = ["--bootstrap-server", bootstrap, "reset-offsets", "--group", "g", "--create"]
    clients.produce(bootstrap, led, 3)
    for count in (4, 5):
        two_brokers.restart(2)
        _wait_for_leader(bootstrap, led, 2)
        clients.produce(bootstrap, led, count)
    clients.produce(bootstrap, fine, 2)
    epochs = _epochs(bootstrap, led, 12)
    assert len(set(epochs.values())) == 3
    for offset, epoch in epochs.items():
        argv = [*line, "--topic", led, "--to-offset", str(offset), "--execute", "--yes"]
        assert run.call(capsys, *argv).status == 0
        argv = ["--bootstrap-server", bootstrap, "describe", "--group", "g", "-o", "json"]
        (row,) = run.call(capsys, *argv).json["results"]
        assert (row["current_offset"], row["leader_epoch"]) == (offset, epoch)

    two_brokers.kill(2)
    _wait_for_leader(bootstrap, led, -1)
    argv = ["--reset-offsets", "--group", "g", "--topic", led, "--topic", fine, "--to-earliest"]
    theirs = two_brokers.run_tool(
        "kafka-consumer-groups", "--bootstrap-server", bootstrap, *argv, "--dry-run"
    )
    said = 'The partitions "led-0" have no leader'
    assert said in theirs.stdout
    began = time.monotonic()
    ours = run.call(capsys, "--bootstrap-server", bootstrap, *argv, "--execute")
    assert time.monotonic() - began < 10
    assert ours.status == 3, ours.err
    assert f"Error: {said} (group g)\n" in ours.err
    assert ours.out.split()[4:] == ["g", "fine", "0", "0"]
    assert clients.committed(bootstrap, "g") == {(led, 0): 11, (fine, 0): 0}
