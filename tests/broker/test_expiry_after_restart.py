"""When offsets expire right after a restart, before anything is written to the partition again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from kgtool.sandbox import ready
from kgtool.sandbox.cluster import Sandbox
from tests.broker.conftest import Kgtool
from tests.support import clients

TOPICS = ("before", "both", "after")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    root = tmp_path_factory.mktemp("restarted")
    with Sandbox.start("restarted", root=root) as cluster:
        ready.wait_for_coordinators(cluster.state)
        for topic in TOPICS:
            clients.create_topic(cluster.bootstrap, topic, 1)
        yield cluster


def member(bootstrap: str, *topics: str) -> Consumer:
    """A static member that may be away for ten minutes without being missed."""
    config = {"group_instance_id": "i", "session_timeout_ms": 600_000}
    return clients.join(bootstrap, "g", topics, **config)


def test_a_restart_makes_the_topics_of_a_static_member_that_is_back_count(
    broker: Sandbox, journaled: Callable[[Sandbox], Kgtool]
) -> None:
    """Was judged by those before: no record has the new leader epoch yet, Metadata has it. And
    delete-offsets refused what the member has partitions of or names, whatever the broker would."""
    joined = member(broker.bootstrap, "before", "both")
    joined.commit(offsets=[TopicPartition(topic, 0, 0) for topic in TOPICS], asynchronous=False)
    joined.close()
    back = member(broker.bootstrap, "both", "after")
    kgtool = journaled(broker)

    def rules() -> list[str]:
        rows = kgtool("describe", "--group", "g", "--expiry", "-o", "json").json["results"]
        return [row["rule"] for topic in TOPICS for row in rows if row["topic"] == topic]

    def refused() -> list[bool]:
        argv = [word for topic in TOPICS for word in ("--topic", topic)]
        done = kgtool("delete-offsets", "--group", "g", *argv, "--dry-run", "-o", "json")
        found = {row["topic"]: row["status"] for row in done.json["results"]}
        return [found[topic] == "failed" for topic in TOPICS]

    def asked(topic: str) -> bool:
        """Whether the broker itself refuses, as Kafka's form leaves that to it."""
        return kgtool("--delete-offsets", "--group", "g", "--topic", topic).status != 0

    assert rules() == ["subscribed", "subscribed", "commit"]
    assert refused() == [True, True, False]
    assert asked("before")
    broker.restart(broker.nodes[0].id)
    ready.wait_for_coordinators(broker.state)
    assert rules() == ["commit", "subscribed", "subscribed"]
    assert refused() == [False, True, True]
    assert [asked(topic) for topic in TOPICS] == [False, True, True]
    back.close()
