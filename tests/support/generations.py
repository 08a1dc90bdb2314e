"""One broker per generation of Kafka, and the same small world on each."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from kgtool.client.cluster import call_any, find_coordinators
from kgtool.client.ops import call
from kgtool.config import Settings, parse_bootstrap
from kgtool.errors import KgError
from kgtool.net.session import Session
from kgtool.protocol.api import consumer_group_heartbeat, metadata
from kgtool.sandbox.cluster import Sandbox
from tests.support import brokers, clients

MODERN_39 = {"group.coordinator.rebalance.protocols": "classic,consumer"}


class Generation(NamedTuple):
    """A Kafka as somebody runs it."""

    label: str
    version: str
    config: dict[str, str]
    has_offset_delete: bool = True
    tells_pending: bool = True
    has_modern_groups: bool = False
    has_static_members: bool = True
    has_group_configs: bool = False

    def broker(self) -> Sandbox:
        """The run's broker of this generation."""
        if self.config:
            return brokers.shared_broker(
                self.version, name=f"kafka-{self.label}", config=self.config
            )
        return brokers.shared_broker(self.version)


GENERATIONS = (
    Generation(
        "2.1.1", "2.1.1", {}, has_offset_delete=False, tells_pending=False, has_static_members=False
    ),
    Generation("2.4.1", "2.4.1", {}, tells_pending=False),
    Generation("2.8.2", "2.8.2", {}),
    Generation("3.9.1", "3.9.1", {}),
    Generation("3.9.1-new", "3.9.1", MODERN_39, has_modern_groups=True),
    Generation("4.3.1", "4.3.1", {}, has_modern_groups=True, has_group_configs=True),
    Generation("4.4.0", "4.4.0", {}, has_modern_groups=True, has_group_configs=True),
)


class World(NamedTuple):
    """Groups of this test on a broker, the offsets that were committed, the ends of its logs."""

    kafka: Sandbox
    generation: Generation
    topic: str
    other: str
    empty: str
    living: str
    modern: str | None
    offsets: dict[tuple[str, int], int]
    ends: dict[tuple[str, int], int]

    @property
    def bootstrap(self) -> str:
        return self.kafka.bootstrap

    @property
    def groups(self) -> list[str]:
        return sorted(filter(None, (self.empty, self.living, self.modern)))

    def tool(self, *args: str) -> subprocess.CompletedProcess[str]:
        """That version's own kafka-consumer-groups."""
        return self.kafka.run_tool("kafka-consumer-groups", *args)

    def described(self, group: str, *view: str) -> list[dict[str, str]]:
        """What that tool's --describe prints, by column."""
        printed = self.tool("--describe", "--group", group, *view).stdout
        lines = [line for line in printed.splitlines() if line.strip()]
        if not lines:
            return []
        header = lines[0].replace("COORDINATOR (ID)", "COORDINATOR ID").split()
        return [dict(zip(header, line.split(), strict=False)) for line in lines[1:]]


@contextlib.contextmanager
def world(generation: Generation) -> Iterator[World]:
    """Make the groups, and keep the living ones alive meanwhile."""
    kafka = generation.broker()
    at = kafka.bootstrap
    topic, other = clients.unique("gen"), clients.unique("gen")
    clients.create_topic(at, topic, 3)
    clients.create_topic(at, other, 2)
    ends = {(topic, 0): 10, (topic, 1): 7, (topic, 2): 0, (other, 0): 0, (other, 1): 0}
    for (_, partition), count in list(ends.items())[:2]:
        clients.produce(at, topic, count, partition=partition)
    empty, living, modern = (clients.unique(name) for name in ("empty", "living", "modern"))
    offsets = {(topic, 0): 4, (topic, 1): 7, (other, 0): 0}
    clients.commit(at, empty, offsets, metadata="noted")
    clients.commit(at, living, {(topic, 0): 4, (other, 1): 0})
    member = clients.join(at, living, [topic], client_id="cli")
    has_modern = generation.has_modern_groups
    try:
        with _modern_member(at, modern, topic) if has_modern else contextlib.nullcontext():
            yield World(
                kafka,
                generation,
                topic,
                other,
                empty,
                living,
                modern if has_modern else None,
                offsets,
                ends,
            )
    finally:
        member.close()


@contextlib.contextmanager
def _modern_member(bootstrap: str, group: str, topic: str) -> Iterator[None]:
    """A member of a KIP-848 group, by hand: librdkafka's needs a heartbeat that 3.9 has not."""
    with Session(Settings(parse_bootstrap(bootstrap), timeout_ms=600_000)) as session:
        cluster = session.cluster
        node = session.run(find_coordinators(cluster, [group]))[group]
        assert isinstance(node, int), node
        topics = session.run(
            call_any(metadata.Request(topics=[metadata.RequestTopic(name=topic)]))
        ).topics
        joined = _beat(
            session,
            node,
            group_id=group,
            member_id=_member_id(),
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )
        owned = [
            consumer_group_heartbeat.TopicPartitions(
                topic_id=topics[0].topic_id, partitions=[0, 1, 2]
            )
        ]
        _beat(
            session,
            node,
            group_id=group,
            member_id=joined.member_id,
            member_epoch=joined.member_epoch,
            topic_partitions=owned,
        )
        me = {"group_id": group, "member_id": joined.member_id}
        done = threading.Event()
        with ThreadPoolExecutor(1) as threads:
            alive = threads.submit(_stay, session, node, joined.member_epoch, me, done)
            try:
                yield
            finally:
                done.set()
                alive.result(60)
        _beat(session, node, member_epoch=-1, **me)


def _stay(
    session: Session, node: int, epoch: int, me: dict[str, str], done: threading.Event
) -> None:
    """Keep a member alive: on a busy machine a module's tests take longer than its session."""
    while not done.wait(5):
        epoch = _beat(session, node, member_epoch=epoch, **me).member_epoch


def _member_id() -> str:
    return clients.unique("member")


def _beat(session: Session, node: int, **fields: Any) -> Any:
    fields.setdefault("member_id", "")
    reply = session.run(call(node, consumer_group_heartbeat.Request(**fields)))
    assert not isinstance(reply, KgError), reply
    assert reply.error_code == 0, (reply.error_code, reply.error_message)
    return reply
