"""Random lives of consumer groups on a real broker, by clients that know what they asked for.

One thread a group. ``World`` has the broker, its topics and the clock, ``Asked`` is what somebody
deleted on purpose: every other tombstone in the log is the broker's own doing.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from subprocess import SubprocessError
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kgtool.errors import KgError, SandboxError
from kgtool.protocol.api import delete_groups, offset_commit, offset_delete
from kgtool.protocol.as_json import error_codes
from kgtool.sandbox.cluster import Sandbox
from kgtool.sandbox.seeding.group_client import Membership, connect
from tests.support import clients

PARTITIONS = 3
SURE_MS = 8_000
"""What is due within this time is not deleted on purpose: no log tells it from an expiry."""
QUIET: dict[str, Any] = {
    "log_level": 0,
    "error_cb": lambda error: None,
    "logger": logging.getLogger("quiet"),
}
QUIET["logger"].addHandler(logging.NullHandler())
QUIET["logger"].propagate = False
_numbers = itertools.count()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Asked(NamedTuple):
    """A deletion that somebody asked for; None stands for any."""

    began_ms: int
    ended_ms: int
    group: str | None
    topic: str | None = None
    partition: int | None = None
    is_sure: bool = True
    """Whether the broker answered that it was done."""

    def covers(self, group: str, topic: str | None, partition: int | None, at_ms: int) -> bool:
        """Whether a tombstone may be this deletion's."""
        if not self.began_ms <= at_ms <= self.ended_ms or self.group not in (None, group):
            return False
        return self.topic is None or (self.topic == topic and self.partition in (None, partition))


class World:
    """The broker and what all lives share."""

    def __init__(self, kafka: Sandbox, seconds: float, retention_ms: int, seed: int) -> None:
        self.kafka, self.at, self.retention_ms = kafka, kafka.bootstrap, retention_ms
        self.random = random.Random(seed)
        self.end = time.monotonic() + seconds
        self.topics = [f"t{number}" for number in range(6)]
        self.asked: list[Asked] = []
        self.touched: dict[str, list[int]] = defaultdict(list)
        """When anything was done with a group, also what leaves no record."""
        self.loads: list[int] = []
        """When the broker was stopped or came back."""
        self.errors: list[str] = []
        self.steady = threading.Lock()
        """Held while something is deleted, or the broker restarts."""
        for topic in self.topics:
            clients.create_topic(self.at, topic, PARTITIONS)

    def left(self) -> float:
        return self.end - time.monotonic()

    def restart(self) -> None:
        """Restart the broker, in order or as by a crash."""
        with self.steady:
            self.loads.append(now_ms())
            if self.random.random() < 0.5:
                self.kafka.kill(1)
            self._come_back()
            self.loads.append(now_ms())

    def _come_back(self) -> None:
        """Start again: ZooKeeper remembers a broker that was killed for its session."""
        for _ in range(5):
            with contextlib.suppress(SandboxError):
                self.kafka.restart(1)
                return
            time.sleep(5)
        raise SandboxError("the broker does not come back")

    def delete_topic(self) -> None:
        """Delete a topic for good; its offsets go soon after."""
        with self.steady:
            topic = self.topics.pop(self.random.randrange(len(self.topics)))
            began = now_ms()
            with contextlib.suppress(KafkaException):  # it is asked for, so it counts
                clients.delete_topics(self.at, topic)
            time.sleep(5)
            self.asked.append(Asked(began, now_ms(), None, topic))

    @contextlib.contextmanager
    def asking(self, group: str, parts: Iterable[tuple[str, int]] = ()) -> Iterator[None]:
        """Note a deletion: of these partitions, or of the whole group; a refusal is none."""
        with self.steady:
            began, done = now_ms(), False
            refused = False
            try:
                yield
                done = True
            except Refused:
                refused = True
            finally:
                ended = now_ms()
                for topic, partition in [*parts] or [(None, None)]:
                    if not refused:
                        self.asked.append(Asked(began, ended, group, topic, partition, done))


class Refused(Exception):
    """The broker refused, and nothing was deleted."""


def quiet_consumer(at: str, group: str, more: Mapping[str, Any] | None = None) -> Consumer:
    """A consumer that prints nothing of brokers that restart; nobody polls it all the time."""
    own = {"bootstrap.servers": at, "group.id": group, "enable.auto.commit": False, **QUIET}
    return Consumer({**own, "max.poll.interval.ms": 3_600_000, **(more or {})})


class Life(threading.Thread):
    """One group; ``act`` does something random, ``idle`` keeps members alive for a while."""

    kind = ""

    def __init__(self, world: World, seed: int) -> None:
        self.group = f"{self.kind}-{next(_numbers)}"
        super().__init__(name=self.group, daemon=True)
        self.world, self.random = world, random.Random(seed)
        topics = self.random.sample(world.topics, self.random.randint(2, 4))
        self.keys = [(topic, part) for topic in topics for part in range(PARTITIONS)]
        self.committed_ms: dict[tuple[str, int], int] = {}
        self.empty_ms = 0
        """Since when there is no member (0: there never was one)."""
        self.has_members = False
        self.deadline_ms: dict[tuple[str, int], int] = {}

    # --- for subclasses ------------------------------------------------------------------------

    def act(self) -> None:
        raise NotImplementedError

    def beat(self) -> None:
        """Keep members alive; called about once a second."""

    def stop(self) -> None:
        """Close what is open, when the world ends."""

    # --- the loop ------------------------------------------------------------------------------

    def run(self) -> None:
        world = self.world
        while world.left() > 0:
            self.touch()
            try:
                self.act()
            except (KafkaException, KgError, OSError, RuntimeError, SubprocessError) as error:
                world.errors.append(f"{self.group}: {type(error).__name__}: {error}"[:200])
                self._idle(2)
            self.touch()
            long = world.retention_ms / 1000 + self.random.uniform(3, 30)
            self._idle(long if self.random.random() < 0.2 else self.random.expovariate(1 / 4))
        self.stop()

    def _idle(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.world.left() > 0:
            with contextlib.suppress(KafkaException, KgError, OSError):
                self.beat()
            time.sleep(0.5)

    def touch(self) -> None:
        self.world.touched[self.group].append(now_ms())

    # --- what any group can do -----------------------------------------------------------------

    def some(self) -> list[tuple[str, int]]:
        """Some partitions of topics that still exist."""
        alive = [key for key in self.keys if key[0] in self.world.topics]
        return self.random.sample(alive, min(len(alive), self.random.randint(1, 4)))

    def commit(self, member: Membership | None = None, instance: str | None = None) -> None:
        """Commit some offsets, without a membership also with a retention of their own."""
        parts = self.some()
        own = member is None and not self.empty_ms and self.random.random() < 0.1
        retention = self.random.randrange(5_000, 90_000) if own else -1
        who = member or Membership(self.group, -1, "")
        request = offset_commit.Request(
            group_id=self.group,
            generation_id_or_member_epoch=who.generation,
            member_id=who.member_id,
            group_instance_id=instance,
            retention_time_ms=retention,
            topics=_rows(parts, offset_commit, offset=self.random.randrange(1000)),
        )
        with connect(self.world.at, self.group, "truth") as client:
            client.ask(request, 4 if own else 7 if instance else 6)
        self.note(parts, retention if own else None)

    def note(self, parts: Iterable[tuple[str, int]], retention: int | None = None) -> None:
        """Remember a commit, and when it is due without a group's protection."""
        for key in parts:
            self.committed_ms[key] = now_ms()
            span = self.world.retention_ms if retention is None else retention
            self.deadline_ms[key] = now_ms() + span

    def is_young(self, key: tuple[str, int]) -> bool:
        """Whether an offset is surely there, and not due for some time."""
        soon = now_ms() + SURE_MS
        if key not in self.deadline_ms or self.deadline_ms[key] < soon:
            return False
        return not self.empty_ms or self.empty_ms + self.world.retention_ms > soon

    def delete_offsets(self) -> None:
        """Delete offsets of a topic that no check would remove now."""
        young = [key for key in self.committed_ms if self.is_young(key)]
        if not young:
            return
        topic, _ = self.random.choice(young)
        parts = [key for key in young if key[0] == topic]
        by_tool = self.random.random() < 0.15
        client = connect(self.world.at, self.group, "truth")
        with client, self.world.asking(self.group, parts):
            if by_tool:
                self._tool("--delete-offsets", "--topic", topic_of(parts))
            else:
                rows = _rows(parts, offset_delete)
                request = offset_delete.Request(group_id=self.group, topics=rows)
                _refused(client.exchange(request, 0))
            for key in parts:
                self.deadline_ms.pop(key, None)

    def delete_group(self) -> None:
        """Delete the group if it has something that no check would remove now."""
        if self.has_members or not any(map(self.is_young, self.committed_ms)):
            return
        by_tool = self.random.random() < 0.3
        client = connect(self.world.at, self.group, "truth")
        with client, self.world.asking(self.group):
            if by_tool:
                self._tool("--delete")
            else:
                _refused(client.exchange(delete_groups.Request(group_ids=[self.group]), 1))
            self.deadline_ms.clear()
            self.empty_ms = 0

    def _tool(self, *args: str) -> None:
        """Run Kafka's own tool, which says what failed on its standard output."""
        done = self.world.kafka.run_tool("kafka-consumer-groups", "--group", self.group, *args)
        if "rror" in done.stdout + done.stderr or done.returncode:
            raise Refused


def _refused(reply: Any) -> None:
    if any(error.code for error in error_codes(reply)):
        raise Refused


def topic_of(parts: list[tuple[str, int]]) -> str:
    """``TOPIC:0,1``, as Kafka's tool takes it."""
    return f"{parts[0][0]}:{','.join(str(part) for _, part in sorted(parts))}"


def _rows(parts: Iterable[tuple[str, int]], api: Any, **more: int) -> list[Any]:
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for topic, part in sorted(parts):
        by_topic[topic].append(api.RequestPartition(partition=part, **more))
    return [api.RequestTopic(name=name, partitions=rows) for name, rows in by_topic.items()]


class Standalone(Life):
    """Commits without a member, now and then."""

    kind = "simple"

    def act(self) -> None:
        chosen = self.random.random()
        if chosen < 0.75:
            self.commit()
        elif chosen < 0.9:
            self.delete_offsets()
        else:
            self.delete_group()


class Transactional(Life):
    """Commits in transactions of a producer, which end late or not at all, and some outside."""

    kind = "txn"
    producer: Producer | None = None

    def act(self) -> None:
        chosen = self.random.random()
        if chosen < 0.3:
            self.commit()
        elif chosen < 0.9:
            self._transaction()
        else:
            self.delete_offsets()

    def _transaction(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.world.at,
                "transactional.id": self.group,
                "transaction.timeout.ms": 40_000,
                **QUIET,
            }
        )
        consumer = quiet_consumer(self.world.at, self.group)
        try:
            producer.init_transactions(15)
            producer.begin_transaction()
            parts = self.some()
            rows = [TopicPartition(*key, self.random.randrange(1000)) for key in parts]
            producer.send_offsets_to_transaction(rows, consumer.consumer_group_metadata(), 15)
            time.sleep(self.random.choice([0, 1, 10, 60]) * self.random.random())
            chosen = self.random.random()
            if chosen < 0.5:
                producer.commit_transaction(15)
            elif chosen < 0.8:
                producer.abort_transaction(15)
            # else the coordinator aborts it after its timeout
            for key in parts:
                self.deadline_ms.pop(key, None)
        finally:
            consumer.close()


class Members(Life):
    """One to three consumers of librdkafka: dynamic and static, that come, go and change."""

    kind = "members"
    protocol = "classic"

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        self.members: dict[str, Consumer] = {}

    def beat(self) -> None:
        for member in list(self.members.values()):
            member.poll(0.05)

    def act(self) -> None:
        chosen = self.random.random()
        if not self.members:
            if chosen < 0.55:
                self._enter(f"m{next(_numbers)}", is_static=self.random.random() < 0.4)
            elif chosen < 0.75:
                self.commit()
            elif chosen < 0.9:
                self.delete_offsets()
            else:
                self.delete_group()
            return
        name = self.random.choice(sorted(self.members))
        if chosen < 0.35:
            self._commit(name)
        elif chosen < 0.5 and len(self.members) < 3:
            self._enter(f"m{next(_numbers)}", is_static=self.random.random() < 0.4)
        elif chosen < 0.65:
            self.members[name].subscribe(self.subscription())
        elif chosen < 0.75 and name.startswith("static"):
            self._close(name)
            self._enter(name, is_static=True)  # within its session
        elif chosen < 0.92:
            self._close(name)
        else:
            self.delete_offsets()

    def subscription(self) -> list[str]:
        """Topics of this group, one or two of them at a time."""
        mine = sorted({topic for topic, _ in self.keys if topic in self.world.topics})
        return self.random.sample(mine, min(len(mine), self.random.randint(1, 2)))

    def _enter(self, name: str, *, is_static: bool) -> None:
        if is_static and not name.startswith("static"):
            name = f"static-{name}"
        config: dict[str, Any] = {"group.protocol": self.protocol}
        if self.protocol == "classic":
            config |= {"session.timeout.ms": 8000, "heartbeat.interval.ms": 1000}
        if is_static:
            config["group.instance.id"] = name
        member = quiet_consumer(self.world.at, self.group, config)
        member.subscribe(self.subscription())
        self.members[name], self.has_members, self.empty_ms = member, True, 0
        until = time.monotonic() + 8
        while time.monotonic() < until and not member.assignment():
            self.beat()

    def _commit(self, name: str) -> None:
        parts = self.some()
        rows = [TopicPartition(*key, self.random.randrange(1000)) for key in parts]
        done = self.members[name].commit(offsets=rows, asynchronous=False)
        self.note((row.topic, row.partition) for row in done or () if row.error is None)

    def _close(self, name: str) -> None:
        self.members.pop(name).close()
        if not self.members:
            # A static one is away for its session before the group is Empty.
            self.has_members, self.empty_ms = False, now_ms()

    def stop(self) -> None:
        for name in list(self.members):
            with contextlib.suppress(KafkaException):
                self._close(name)


class Modern(Members):
    """Consumers of KIP-848, by names and by regular expressions."""

    kind = "modern"
    protocol = "consumer"

    def subscription(self) -> list[str]:
        found = super().subscription()
        return [f"^{found[0]}.*"] if found and self.random.random() < 0.3 else found

    def is_young(self, key: tuple[str, int]) -> bool:
        """Only the commit decides in these groups; a topic that is subscribed is never due."""
        return self.deadline_ms.get(key, 0) > now_ms() + SURE_MS
