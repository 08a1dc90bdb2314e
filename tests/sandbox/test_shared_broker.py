"""The brokers that all other tests rely on."""

from __future__ import annotations

import pytest

from tests.support import clients


@pytest.mark.broker
def test_shared_broker_takes_commits_at_once(kafka, kafka_tool, new_topic, unique):
    topic, group = new_topic(partitions=2), unique("group")
    clients.produce(kafka.bootstrap, topic, 5, partition=1)
    clients.commit(kafka.bootstrap, group, {(topic, 1): 3})
    assert clients.committed(kafka.bootstrap, group) == {(topic, 1): 3}
    shown = kafka_tool("--describe", "--group", group)
    row = next(line.split() for line in shown.stdout.splitlines() if topic in line)
    assert row[:6] == [group, topic, "1", "3", "5", "2"]


@pytest.mark.broker
def test_391_has_the_old_coordinator(kafka_391, unique):
    topic = clients.create_topic(kafka_391.bootstrap, unique("topic"))
    clients.commit(kafka_391.bootstrap, unique("group"), {(topic, 0): 0})
    log = (kafka_391.state.node_dir(1) / "server.log").read_text()
    assert "kafka.coordinator.group.GroupMetadataManager" in log
