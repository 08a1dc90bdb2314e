"""Every kind of client at once on a broker that forgets after a minute, and what it forgot.

The clients are confluent-kafka's and bare sockets; what the broker removed is read out of
``__consumer_offsets`` by a consumer of confluent-kafka and a few lines of ``struct``. Nothing here
asks kgtool when something expires.
"""

from __future__ import annotations

import contextlib
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from kgtool.client.cluster import find_coordinators
from kgtool.client.ops import call
from kgtool.config import Settings
from kgtool.net.session import Session
from kgtool.protocol.api import consumer_group_heartbeat, offset_commit
from kgtool.sandbox.seeding import group_client
from tests.support import clients

RETENTION_MS = 60_000
INTERVAL_MS = 5_000
CONFIG = {
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": str(INTERVAL_MS),
    "offsets.topic.num.partitions": "4",
}
HELD, LEFT = "held-topic", "left-topic"
"""Living members subscribe to the first one only; everybody commits for both."""

At = tuple[str, str, int]
"""Group, topic, partition."""


class World:
    """One broker's clients; ``settle`` makes them, ``close`` ends them."""

    def __init__(self, bootstrap: str, *, consumer_protocol: str) -> None:
        self.bootstrap = bootstrap
        self.consumer_protocol = consumer_protocol
        self._raw: list[RawMember] = []
        self._alive: list[Consumer] = []
        self._left: list[Producer] = []
        self._sockets: list[tuple[group_client.GroupClient, group_client.Membership]] = []
        self._stop = threading.Event()
        self._nurse = threading.Thread(target=self._keep_alive)

    def settle(self) -> None:
        """Make all groups; those that go empty are empty when it returns."""
        for topic in (HELD, LEFT):
            clients.create_topic(self.bootstrap, topic, 2)
        self._nurse.start()
        clients.commit(self.bootstrap, "standalone", {(HELD, 0): 1, (LEFT, 1): 1})
        clients.commit(self.bootstrap, "kept-standalone", {(HELD, 0): 1}, metadata="note")
        self._empty("kept-classic")
        if self.consumer_protocol:
            self._empty_848("kept-consumer")
        self._transactions()
        self._empty("classic-empty")
        self._live("classic-live")
        self._dropped("classic-dropped")
        self._worker("connect-live")
        if self.consumer_protocol:
            self._empty_848("consumer-empty")
        if self.consumer_protocol == "v1":
            self._live("consumer-live", group_protocol="consumer")
            # What begins with ^ is the coordinator's to resolve.
            self._live("consumer-regex", ["^held-.*"], group_protocol="consumer")
        elif self.consumer_protocol == "v0":
            self._raw.append(RawMember(self.bootstrap, "consumer-live"))
        clients.commit(self.bootstrap, "standalone", {(LEFT, 0): 1})
        # An administrator's commit into an empty group: its clock is the group's all the same.
        clients.commit(self.bootstrap, "classic-empty", {(LEFT, 1): 9})
        self._explicit_retention()  # at last: one that ends in 20 s is to be described before

    def close(self) -> None:
        """Stop every client without any of them taking leave of its group in good order."""
        self._stop.set()
        if self._nurse.is_alive():
            self._nurse.join(60)
        for socket, _ in self._sockets:
            socket.close()
        for raw in self._raw:
            raw.close()
        for member in self._alive:
            member.close()

    # --- kinds of clients --------------------------------------------------------------------

    def _join(self, group: str, topics: list[str], **config: Any) -> Consumer:
        member = clients.join(self.bootstrap, group, topics, **config)
        rows = [TopicPartition(topic, number, 5) for topic in (HELD, LEFT) for number in (0, 1)]

        def committed() -> bool:
            with contextlib.suppress(KafkaException):
                member.commit(offsets=rows, asynchronous=False)
                return True
            member.poll(0.1)
            return False

        clients.wait_for(committed, f"the commit of {group}")
        return member

    def _live(self, group: str, topics: list[str] | None = None, **config: Any) -> None:
        self._alive.append(self._join(group, topics or [HELD], **config))

    def _empty(self, group: str, **config: Any) -> None:
        self._join(group, [HELD], **config).close()

    def _empty_848(self, group: str) -> None:
        if self.consumer_protocol == "v1":
            self._empty(group, group_protocol="consumer")
        else:
            RawMember(self.bootstrap, group).leave()

    def _dropped(self, group: str) -> None:
        """A group that has given up a topic."""
        member = self._join(group, [HELD, LEFT])
        member.subscribe([HELD])
        topics = {LEFT}

        def moved() -> bool:
            member.poll(0.1)
            nonlocal topics
            topics = {row.topic for row in member.assignment()}
            return topics == {HELD}

        clients.wait_for(moved, f"{group} to give up {LEFT}")
        self._alive.append(member)

    def _worker(self, group: str) -> None:
        """A member of another protocol type, as Connect's are."""
        socket = group_client.connect(self.bootstrap, group, "worker")
        member = socket.join(group, "connect", "default", b"")
        socket.sync(member, b"")
        socket.commit(member, LEFT, {0: 3})
        self._sockets.append((socket, member))

    def _explicit_retention(self) -> None:
        """OffsetCommit v2 and v4, which carry a retention time of their own."""
        with group_client.connect(self.bootstrap, "explicit", "old-client") as socket:
            for version, number, retention_ms in ((2, 0, 20_000), (4, 1, 600_000)):
                _commit_with_retention(socket, version, number, retention_ms)

    def _transactions(self) -> None:
        """One that stays open over an older commit, one that was committed."""
        clients.commit(self.bootstrap, "pending", {(HELD, 0): 1, (HELD, 1): 1})
        reader = clients.consumer(self.bootstrap, "pending")
        member = reader.consumer_group_metadata()
        for partition, is_open in ((0, True), (1, False)):
            producer = Producer(
                {
                    "bootstrap.servers": self.bootstrap,
                    "log_level": 0,
                    "transactional.id": f"transaction-{partition}",
                    "transaction.timeout.ms": 600_000,
                }
            )
            producer.init_transactions(30)
            producer.begin_transaction()
            producer.send_offsets_to_transaction([TopicPartition(HELD, partition, 7)], member, 30)
            if is_open:
                self._left.append(producer)
            else:
                producer.commit_transaction(30)
        reader.close()

    def _keep_alive(self) -> None:
        last = 0.0
        while not self._stop.wait(0.2):
            for member in list(self._alive):
                member.poll(0)
            if time.monotonic() - last > 3:
                last = time.monotonic()
                for socket, worker in self._sockets:
                    socket.heartbeat(worker)
                for raw in self._raw:
                    raw.heartbeat()

    # --- what became of it -------------------------------------------------------------------

    def removed(self) -> dict[At, list[int]]:
        """When the broker removed which offsets: the timestamps of its tombstones."""
        found: dict[At, list[int]] = {}
        for key, value, written_ms in self._log():
            if value is None and struct.unpack_from(">h", key)[0] == 1:
                found.setdefault(_offset_key(key), []).append(written_ms)
        return found

    def _log(self) -> Iterator[tuple[bytes, bytes | None, int]]:
        topic = "__consumer_offsets"
        reader = clients.consumer(
            self.bootstrap,
            "reader-of-the-log",
            isolation_level="read_uncommitted",
            enable_partition_eof=True,
        )
        try:
            numbers = reader.list_topics(topic, timeout=30).topics[topic].partitions
            reader.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers])
            at_end = 0
            while at_end < len(numbers):
                message = reader.poll(30)
                assert message is not None, "the log can't be read"
                if message.error() is not None:
                    at_end += 1
                elif message.key() is not None:
                    yield message.key(), message.value(), message.timestamp()[1]
        finally:
            reader.close()


class RawMember:
    """A KIP-848 member of the first version, which librdkafka does not speak any more.

    Subscribes to HELD and commits for HELD and LEFT, as ``World._join`` does.
    """

    def __init__(self, bootstrap: str, group: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._session = Session(Settings(bootstrap=((host, int(port)),)))
        self._group = group
        found = self._session.run(find_coordinators(self._session.cluster, [group]))[group]
        assert isinstance(found, int), found
        self._broker = found
        answer = self._beat(
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[HELD],
            topic_partitions=[],
        )
        self._id, self._epoch = answer.member_id, answer.member_epoch
        rows = [offset_commit.RequestPartition(partition=n, offset=5, metadata="") for n in (0, 1)]
        committed = self._ask(
            offset_commit.Request(
                group_id=group,
                member_id=self._id,
                generation_id_or_member_epoch=self._epoch,
                topics=[offset_commit.RequestTopic(name=t, partitions=rows) for t in (HELD, LEFT)],
            )
        )
        codes = {row.error_code for topic in committed.topics for row in topic.partitions}
        assert codes == {0}, codes

    def heartbeat(self) -> None:
        self._epoch = self._beat(member_id=self._id, member_epoch=self._epoch).member_epoch

    def leave(self) -> None:
        self._beat(member_id=self._id, member_epoch=-1)
        self.close()

    def close(self) -> None:
        self._session.loop.close()

    def _beat(self, **fields: Any) -> Any:
        request = consumer_group_heartbeat.Request(group_id=self._group, **fields)
        answer = self._ask(request)
        assert answer.error_code == 0, (self._group, answer.error_code, answer.error_message)
        return answer

    def _ask(self, request: Any) -> Any:
        # --timeout is for a whole command; this one goes on.
        self._session.loop.extend(30)
        answer = self._session.run(call(self._broker, request, 9))
        if isinstance(answer, Exception):
            raise answer
        return answer


def _offset_key(key: bytes) -> At:
    texts = []
    at = 2
    for _ in range(2):
        (length,) = struct.unpack_from(">h", key, at)
        texts.append(key[at + 2 : at + 2 + length].decode())
        at += 2 + length
    return texts[0], texts[1], struct.unpack_from(">i", key, at)[0]


def _commit_with_retention(
    client: group_client.GroupClient, version: int, partition: int, retention_ms: int
) -> None:
    row = offset_commit.RequestPartition(partition=partition, offset=5)
    topic = offset_commit.RequestTopic(name=HELD, partitions=[row])
    request = offset_commit.Request(
        group_id="explicit", retention_time_ms=retention_ms, topics=[topic]
    )
    client.ask(request, version)
