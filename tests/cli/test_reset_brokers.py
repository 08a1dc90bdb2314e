"""Resets with brokers of their own: leaders that come and go, their epochs, and ACLs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from kgtool.sandbox.cluster import Sandbox
from tests.cli import run
from tests.support import clients

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def two_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    root = tmp_path_factory.mktemp("two")
    config = {"broker.session.timeout.ms": "3000"}  # how soon a dead leader is noticed
    with Sandbox.start("two", brokers=2, config=config, root=root) as cluster:
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


@pytest.mark.timed
def test_leader_epochs_and_leaderless_partitions(
    two_brokers: Sandbox,
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


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A broker with an authorizer; what nobody has written an ACL for is allowed."""
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    root = tmp_path_factory.mktemp("guarded")
    with Sandbox.start("guarded", config=config, root=root) as cluster:
        yield cluster


def _deny(bootstrap: str, kind: ResourceType, name: str, operation: AclOperation) -> None:
    """Forbid one operation and allow all others, to everybody."""
    admin = clients.admin(bootstrap)
    rules = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, "User:*", "*", allowed, permission)
        for allowed, permission in (
            (operation, AclPermissionType.DENY),
            (AclOperation.ALL, AclPermissionType.ALLOW),
        )
    ]
    for future in admin.create_acls(rules).values():
        future.result(30)
    every = AclBindingFilter(
        kind, name, ResourcePatternType.LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    clients.wait_for(
        lambda: set(admin.describe_acls(every).result(30)) >= set(rules), "the broker to know them"
    )


def test_authorisation_is_denied_per_item(
    guarded: Sandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Kafka's tool shows "Failed altering …" without the reason, and stops at the first."""
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path))
    bootstrap = guarded.bootstrap
    topics = [clients.create_topic(bootstrap, name) for name in ("free", "unread", "hidden")]
    for topic in topics:
        clients.produce(bootstrap, topic, 5)
    for group in ("may", "may-not", "unseen"):
        clients.commit(bootstrap, group, {(topic, 0): 2 for topic in topics})
    _deny(bootstrap, ResourceType.TOPIC, "unread", AclOperation.READ)
    _deny(bootstrap, ResourceType.TOPIC, "hidden", AclOperation.DESCRIBE)
    _deny(bootstrap, ResourceType.GROUP, "may-not", AclOperation.READ)
    _deny(bootstrap, ResourceType.GROUP, "unseen", AclOperation.DESCRIBE)
    argv = ["reset-offsets", "--to-latest", "--execute", "--yes", "-o", "json"]
    for topic in topics:
        argv += ["--topic", f"{topic}:0"]
    for group in ("may", "may-not", "unseen"):
        argv += ["--group", group]
    result = run.call(capsys, "--bootstrap-server", bootstrap, *argv)
    assert result.status == 3
    assert {(r["group"], r["topic"]): r["status"] for r in result.json["results"]} == {
        ("may", "free"): "reset",
        ("may", "unread"): "failed",
        ("may", "hidden"): "failed",
        ("may-not", "free"): "failed",
        ("may-not", "unread"): "failed",
        ("may-not", "hidden"): "failed",
    }
    errors = {
        (e["target"]["group"], e["target"]["topic"]): e["name"] for e in result.json["errors"]
    }
    assert errors == {
        ("may", "unread"): "TOPIC_AUTHORIZATION_FAILED",
        ("may", "hidden"): "TOPIC_AUTHORIZATION_FAILED",
        ("may-not", "free"): "GROUP_AUTHORIZATION_FAILED",
        ("may-not", "unread"): "GROUP_AUTHORIZATION_FAILED",
        ("may-not", "hidden"): "TOPIC_AUTHORIZATION_FAILED",
        ("unseen", None): "GROUP_AUTHORIZATION_FAILED",
    }
    assert clients.committed(bootstrap, "may")["free", 0] == 5
    said = "Failed altering group offsets for the following partitions: [unread-0]"
    assert f"Error: {said}: Topic authorization failed. (group may)" in result.err
    assert "It needs the ACL operation READ on topic unread." in result.err
