"""What tests do with a cluster through confluent-kafka: the client that isn't ours."""

from __future__ import annotations

import itertools
import os
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kgtool.sandbox import ready

_numbers = itertools.count(1)


def unique(prefix: str) -> str:
    """A topic or group name that no other test, worker or run uses.

    Those of one prefix and process are as long as each other, and sort as they were made: 9 and 10
    did not.
    """
    return f"{prefix}-{os.getpid()}-{next(_numbers):05}-{uuid.uuid4().hex[:6]}"


UNIQUE = re.compile(r"-\d+-\d+-[0-9a-f]{6}|^console-consumer-\d+$|^polygenelubricants$")
"""The names of tests: what ``unique`` adds, a console consumer's, and one with a certain hash."""


def admin(bootstrap: str) -> AdminClient:
    return ready.admin(bootstrap)


def wait_for(
    condition: Callable[[], Any], what: str, timeout: float = 30.0, every: float = 0.1
) -> Any:
    """Poll until ``condition`` returns something true, and return that."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"timed out waiting for {what}"
        time.sleep(every)


def create_topic(
    bootstrap: str,
    name: str,
    partitions: int = 1,
    *,
    replication: int = 1,
    config: Mapping[str, str] | None = None,
) -> str:
    """Create a topic and wait until each broker knows a leader for every partition."""
    everyone = [admin(place) for place in bootstrap.split(",")]
    topic = NewTopic(name, partitions, replication, config=dict(config or {}))
    everyone[0].create_topics([topic])[name].result(timeout=30)

    def led(client: AdminClient) -> bool:
        found = client.list_topics(timeout=5).topics.get(name)
        return (
            found is not None
            and len(found.partitions) == partitions
            and all(part.leader >= 0 for part in found.partitions.values())
        )

    wait_for(lambda: all(map(led, everyone)), f"the leaders of {name}")
    return name


def delete_topics(bootstrap: str, *names: str) -> None:
    client = admin(bootstrap)  # one that nobody holds never answers
    for future in client.delete_topics(list(names)).values():
        future.result(timeout=30)


def delete_groups(bootstrap: str, *names: str) -> None:
    """Delete groups, with what they have committed."""
    client = admin(bootstrap)
    for future in client.delete_consumer_groups(list(names)).values():
        future.result(30)


def produce(
    bootstrap: str,
    topic: str,
    count: int,
    *,
    partition: int = 0,
    value: bytes = b"value",
    key: bytes | None = None,
    timestamp_ms: int = 0,
) -> None:
    """Put ``count`` records into one partition and wait until they are there."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    failures: list[Any] = []
    for _ in range(count):
        producer.produce(
            topic,
            value,
            key,
            partition,
            on_delivery=lambda error, _: failures.append(error) if error else None,
            timestamp=timestamp_ms,
        )
    left = producer.flush(30)
    assert left == 0 and not failures, (left, failures)


def consumer(bootstrap: str, group: str, **config: Any) -> Consumer:
    """A consumer; options with underscores for dots, e.g. ``group_protocol="consumer"``."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        # Nobody polls a member between two tests. Past this time it leaves its group, and
        # librdkafka hangs in a close() that still has that to tell (seen with KIP-848 groups).
        "max.poll.interval.ms": 3_600_000,
    }
    return Consumer(settings | {key.replace("_", "."): value for key, value in config.items()})


def commit(
    bootstrap: str,
    group: str,
    offsets: Mapping[tuple[str, int], int],
    metadata: str = "",
    **more: Any,
) -> None:
    """Commit as a standalone consumer (assign, no group membership), each offset with ``more``."""
    parts = [TopicPartition(t, p, o, metadata=metadata, **more) for (t, p), o in offsets.items()]
    client = consumer(bootstrap, group)
    try:

        def done() -> bool:
            try:
                for result in client.commit(offsets=parts, asynchronous=False) or []:
                    if result.error is not None:
                        raise KafkaException(result.error)
            except KafkaException as error:
                if error.args[0].retriable() or error.args[0].name() in _SOON_OVER:
                    return False
                raise
            return True

        wait_for(done, f"the commit of {group}")
    finally:
        client.close()


_SOON_OVER = {
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "_WAIT_COORD",
    "NOT_COORDINATOR",  # it moved
    "UNKNOWN_TOPIC_OR_PART",  # the coordinator hears of a new partition a moment after others
}


def join(
    bootstrap: str, group: str, topics: Iterable[str], *, timeout: float = 30.0, **config: Any
) -> Consumer:
    """Subscribe and poll until partitions are assigned; close() the consumer yourself.

    A classic member must go on polling to stay in; an hour is allowed between two polls.
    """
    client = consumer(bootstrap, group, **config)
    client.subscribe(list(topics))
    wait_for(lambda: client.poll(0.2) is not None or client.assignment(), f"{group}", timeout)
    wait_for(lambda: client.poll(0.05) is None or client.assignment(), f"{group}", timeout)
    return client


def markers_written(bootstrap: str, transactional_id: str) -> None:
    """Wait until a transaction that was ended is over: EndTxn answers before its markers lie there.

    Kafka refuses a next producer of that name (CONCURRENT_TRANSACTIONS) for so long.
    """
    Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 10_000,
        }
    ).init_transactions(30)


def committed(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """Every committed offset of a group, as confluent-kafka sees them.

    Not while coordinators move: librdkafka's admin client crashes on NOT_COORDINATOR here.
    """
    from confluent_kafka import ConsumerGroupTopicPartitions

    client = admin(bootstrap)
    request = [ConsumerGroupTopicPartitions(group)]
    answer = client.list_consumer_group_offsets(request)[group].result(timeout=30)
    parts = answer.topic_partitions or []
    for part in parts:
        if part.error is not None:
            raise KafkaException(part.error)
    return {(part.topic, part.partition): part.offset for part in parts if part.offset >= 0}


def group_ids(bootstrap: str) -> set[str]:
    client = admin(bootstrap)
    listed = client.list_consumer_groups(request_timeout=30).result()
    assert not listed.errors, listed.errors
    return {group.group_id for group in listed.valid}


def add_scram_user(bootstrap: str, name: str, password: str, kind: ScramMechanism) -> None:
    """Let a user log in, and wait until the broker knows it."""
    client = admin(bootstrap)
    wanted = UserScramCredentialUpsertion(name, ScramCredentialInfo(kind, 4096), password.encode())
    client.alter_user_scram_credentials([wanted])[name].result(timeout=30)

    def known() -> bool:
        try:
            found = client.describe_user_scram_credentials([name])[name].result(timeout=30)
        except KafkaException:
            return False
        return kind in {info.mechanism for info in found.scram_credential_infos}

    wait_for(known, f"the login of {name}")


def set_topic_config(bootstrap: str, topic: str, **config: str) -> None:
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in config.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    client = admin(bootstrap)
    for future in client.incremental_alter_configs([resource]).values():
        future.result(timeout=30)

    def known() -> bool:
        (found,) = client.describe_configs(
            [ConfigResource(ConfigResource.Type.TOPIC, topic)]
        ).values()
        now = found.result(timeout=30)
        return all(now[entry.name].value == entry.value for entry in entries)

    wait_for(known, f"the configs of {topic}")  # the controller has answered before
