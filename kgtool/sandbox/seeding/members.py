"""The process that keeps the seeded groups alive: ``python -m kgtool.sandbox.seeding.members``.

Arguments: its folder (which is how it is found and ended), the bootstrap address, the Kafka
version. It writes ``ready`` into the folder once every member has its partitions and every offset
is committed, then polls until it is ended or its folder is gone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgtool.errors import SandboxError
from kgtool.sandbox import ready
from kgtool.sandbox.seeding import world
from kgtool.sandbox.seeding.group_client import ConnectWorker, HeartbeatMember, StreamsGroupMember
from kgtool.sandbox.seeding.world import SeededGroup

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer

SETTLE_S = 60.0


def main(arguments: Sequence[str]) -> None:
    """Start all members, create ``ready``, and keep the members alive."""
    folder, bootstrap, version = Path(arguments[0]), arguments[1], arguments[2]
    modern = not version.startswith("3.")
    consumers = GroupMembers(bootstrap, [live for live in world.LIVE if modern or not live.is_848])
    consumers.join_and_commit()
    open_transaction = begin_transaction(bootstrap)
    members: list[HeartbeatMember] = [
        ConnectWorker(bootstrap, world.CONNECT_GROUP, "connect-worker-1")
    ]
    poll_share_member = share_member(bootstrap) if modern else None
    if modern:
        members.append(StreamsGroupMember(bootstrap, world.STREAMS_GROUP, world.TOPOLOGY))
    for member in members:
        member.enter(SETTLE_S)
    (folder / "ready").touch()
    while folder.exists():
        consumers.poll()
        for member in members:
            member.poll()
        if poll_share_member is not None:
            poll_share_member()
        open_transaction.poll(0)
        time.sleep(0.2)


class GroupMembers:
    """Consumers of several groups, polled together in one thread."""

    def __init__(self, bootstrap: str, groups: Sequence[SeededGroup]) -> None:
        self._bootstrap = bootstrap
        self._groups = groups
        self._members: dict[str, list[Consumer]] = {}
        self._topics: dict[
            str, tuple[str, ...]
        ] = {}  # by group, what its members are subscribed to

    def join_and_commit(self) -> None:
        """Join, commit, drop the topics that are to be dropped, and commit again."""
        for live in self._groups:
            if live.was_on:
                self._subscribe(live, 1, live.was_on)
        self._settle_and_commit()
        for live in self._groups:
            self._subscribe(live, live.members, live.topics)
        self._settle_and_commit()

    def leave(self) -> None:
        """Close all members: the groups are empty."""
        for members in self._members.values():
            for member in members:
                member.close()
        self._members.clear()

    def poll(self) -> None:
        """Let every consumer send heartbeats and rebalance; the records are dropped."""
        for members in self._members.values():
            for member in members:
                member.poll(0)

    def _subscribe(self, live: SeededGroup, count: int, topics: tuple[str, ...]) -> None:
        members = self._members.setdefault(live.group, [])
        for number in range(len(members) + 1, count + 1):
            members.append(consumer(self._bootstrap, live.group, **member_settings(live, number)))
        for member in members:
            member.subscribe(list(topics))
        self._topics[live.group] = topics

    def _settle_and_commit(self) -> None:
        """Poll until the members of each group share all partitions, then commit."""
        complaint = f"The seeded groups did not settle within {SETTLE_S:.0f} s"
        ready.wait_until(self._is_settled, SETTLE_S, complaint)
        # One member commits for all: who owns what may change again meanwhile.
        for group, members in self._members.items():
            commit(members[0], world.live_offsets(group))

    def _is_settled(self) -> bool:
        for group, members in self._members.items():
            shares = [{(row.topic, row.partition) for row in m.assignment()} for m in members]
            assigned = sorted(partition for share in shares for partition in share)
            if not all(shares) or assigned != sorted(_partitions(self._topics[group])):
                self.poll()
                return False
        return True


def _partitions(topics: Sequence[str]) -> list[tuple[str, int]]:
    names = ["clicks" if topic.startswith("^") else topic for topic in topics]
    return [(name, number) for name in names for number in range(world.TOPICS[name][0])]


def member_settings(live: SeededGroup, number: int) -> dict[str, Any]:
    """librdkafka's settings for the first, second, … member of a group."""
    settings: dict[str, Any] = {
        "client.id": f"{live.group}-{number}",
        "group.protocol": live.protocol,
    }
    if live.instance:
        settings["group.instance.id"] = f"{live.instance}-{number}"
    if not live.is_848:
        settings |= {
            "partition.assignment.strategy": live.strategy,
            # How soon a member learns that another one joined.
            "heartbeat.interval.ms": 500,
        }
    return settings


def consumer(bootstrap: str, group: str, **settings: Any) -> Consumer:
    """A consumer without automatic commits."""
    from confluent_kafka import Consumer

    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "log_level": 0,
            **settings,
        }
    )


def commit(member: Consumer, offsets: world.SeededOffsets, metadata: Sequence[str] = ()) -> None:
    """Commit, check every partition's own result, and try again while the group rebalances."""
    from confluent_kafka import KafkaException, TopicPartition

    texts = list(metadata) or [""] * len(offsets)
    rows = [
        TopicPartition(topic, partition, at, metadata=text)
        for ((topic, partition), at), text in zip(offsets.items(), texts, strict=True)
    ]
    deadline = time.monotonic() + 30.0
    while rows:
        try:
            results = member.commit(offsets=rows, asynchronous=False)
            failed = [row.error for row in results if row.error is not None]
            if not failed:
                return
            raise KafkaException(failed[0])
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise SandboxError(f"An offset could not be seeded: {error}") from None
        member.poll(0.1)


def begin_transaction(bootstrap: str) -> Producer:
    """A transaction that stays open: records and offsets of two groups are pending in it."""
    producer = transactional(bootstrap, "transfers-open")
    producer.begin_transaction()
    for number in range(world.TRANSFERS_OPEN):
        producer.produce(world.TRANSFERS, f"open {number}".encode(), partition=0)
    pend(producer, bootstrap, "transfers", {(world.TRANSFERS, 0): 100})
    pend(producer, bootstrap, "transfers-pending", {(world.TRANSFERS, 1): 40})
    producer.flush(30)
    return producer


def transactional(bootstrap: str, transactional_id: str) -> Producer:
    """A transactional producer whose transactions may stay open for a day."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 86_400_000,
            "message.timeout.ms": 30_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(30)
    return producer


def pend(producer: Producer, bootstrap: str, group: str, offsets: world.SeededOffsets) -> None:
    """Send offsets to the running transaction, as a consumer that never joined."""
    from confluent_kafka import TopicPartition

    reader = consumer(bootstrap, group)
    try:
        rows = [TopicPartition(topic, number, at) for (topic, number), at in offsets.items()]
        producer.send_offsets_to_transaction(rows, reader.consumer_group_metadata(), 30)
    finally:
        reader.close()


def share_member(bootstrap: str) -> Callable[[], object] | None:
    """Join the share group and read all there is; returns what keeps the member in.

    None if the library is too old.
    """
    import confluent_kafka

    kind = getattr(confluent_kafka, "ShareConsumer", None)
    if kind is None:
        return None
    _share_from_the_start(bootstrap)
    settings = {"bootstrap.servers": bootstrap, "group.id": world.SHARE_GROUP, "log_level": 0}
    member = kind(settings | {"client.id": f"{world.SHARE_GROUP}-1"})
    member.subscribe(["notifications"])
    partitions, each = world.TOPICS["notifications"]
    left, deadline = partitions * each, time.monotonic() + SETTLE_S
    while left > 0 and time.monotonic() < deadline:
        left -= len(member.poll(timeout=0.2))
    member.poll(timeout=0.2)  # what was read is acknowledged by the poll that comes after
    return lambda: member.poll(timeout=0.05)


def _share_from_the_start(bootstrap: str) -> None:
    """Let the share group begin at the start of its topics, not at the end (KIP-932)."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    entry = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    group = ConfigResource(ResourceType.GROUP, world.SHARE_GROUP, incremental_configs=[entry])
    client = ready.admin(bootstrap)  # one that is only a temporary never answers
    for done in client.incremental_alter_configs([group]).values():
        done.result(30)


if __name__ == "__main__":
    main(sys.argv[1:])
