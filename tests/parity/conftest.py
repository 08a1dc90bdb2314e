"""A broker of its own for the 83 behaviours, and another one for ``--all-groups``."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as Partition

from kgtool.sandbox import ready
from kgtool.sandbox.broker import free_ports
from kgtool.sandbox.cluster import Sandbox
from tests.cli import run
from tests.cli.run import Result
from tests.parity.behaviours import BOTH, Kg, Offsets, World
from tests.support import brokers, clients


class Parity(NamedTuple):
    """The broker and its listeners."""

    cluster: Sandbox
    sasl: str
    """SCRAM-SHA-256 only; who logs in may do nothing without an ACL."""
    outer: int
    """The port at which PROXIED is advertised, where a proxy may listen ..."""
    inner: int
    """... and the port at which it is."""


@pytest.fixture(scope="session")
def parity(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parity]:
    sasl, outer, inner = free_ports(3)
    listener = "listener.name.sasl"
    config = {
        **brokers.KEEP,
        "listeners": f"SASL://127.0.0.1:{sasl},PROXIED://127.0.0.1:{inner}",
        "advertised.listeners": f"SASL://127.0.0.1:{sasl},PROXIED://127.0.0.1:{outer}",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,PROXIED:PLAINTEXT",
        f"{listener}.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        f"{listener}.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    root = tmp_path_factory.mktemp("parity")
    with Sandbox.start("parity", config=config, root=root) as cluster:
        ready.wait_for_coordinators(cluster.state)
        yield Parity(cluster, f"127.0.0.1:{sasl}", outer, inner)


@pytest.fixture
def address(parity: Parity) -> str:
    return parity.cluster.bootstrap


@pytest.fixture
def tool(
    parity: Parity, warm: Callable[[Sandbox], Sandbox]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Kafka's own tool on the same broker."""
    cluster = warm(parity.cluster)
    return lambda *argv: cluster.run_tool("kafka-consumer-groups", *argv)


@pytest.fixture
def kg(address: str, capsys: pytest.CaptureFixture[str]) -> Kg:
    def call(*argv: str) -> Result:
        return run.call(capsys, "--bootstrap-server", address, *argv)

    return call


# ---------------------------------------------------------------------------------------------
# Groups


ASSIGNORS = {
    "classic": {"partition.assignment.strategy": "roundrobin"},
    "consumer": {"group.remote.assignor": "range"},
}


def settle(bootstrap: str, members: dict[str, list[Consumer]], partitions: dict[str, int]) -> None:
    """Poll until every group is stable, with all its members and partitions."""
    admin = clients.admin(bootstrap)
    deadline = time.monotonic() + 60
    while True:
        for consumers in members.values():
            for consumer in consumers:
                consumer.poll(0.02)
        held = {name: sum(len(c.assignment()) for c in found) for name, found in members.items()}
        if held == partitions:
            futures = admin.describe_consumer_groups(list(members))
            found = {name: future.result(timeout=30) for name, future in futures.items()}
            if all(
                group.state == ConsumerGroupState.STABLE
                and len(group.members) == len(members[name])
                for name, group in found.items()
            ):
                return
        assert time.monotonic() < deadline, (held, partitions)


def _world(bootstrap: str, protocol: str) -> tuple[World, dict[str, list[Consumer]]]:
    kinds = ("stable", "never", "pair", "both", "left", "simple")
    names = {kind: clients.unique(f"{kind}-{protocol}") for kind in kinds}
    one = clients.create_topic(bootstrap, clients.unique("one"), 1)
    two = clients.create_topic(bootstrap, clients.unique("two"), 2)
    for topic, partition in ((one, 0), (two, 0), (two, 1)):
        clients.produce(bootstrap, topic, 3, partition=partition)
    world = World(protocol, one, two, **names)
    members = {}
    for kind, count, topic in (
        ("stable", 1, one),
        ("never", 1, one),
        ("pair", 2, one),
        ("both", 2, two),
        ("left", 1, one),
    ):
        settings = {"group.protocol": protocol, "client.id": f"cli-{kind}"}
        settings |= ASSIGNORS[protocol] if kind == "both" else {}
        members[names[kind]] = [
            clients.consumer(bootstrap, names[kind], **settings) for _ in range(count)
        ]
        for member in members[names[kind]]:
            member.subscribe([topic])
    return world, members


def _commit(world: World, members: dict[str, list[Consumer]]) -> None:
    for name, offset in ((world.stable, 1), (world.left, 2)):
        at = [Partition(world.one, 0, offset)]
        members[name][0].commit(offsets=at, asynchronous=False)
    owner = next(member for member in members[world.pair] if member.assignment())
    owner.commit(offsets=[Partition(world.one, 0, 1)], asynchronous=False)
    for member in members[world.both]:
        held = [Partition(p.topic, p.partition, 1) for p in member.assignment()]
        member.commit(offsets=held, asynchronous=False)


@pytest.fixture(scope="session")
def worlds(parity: Parity) -> Iterator[dict[str, World]]:
    bootstrap = parity.cluster.bootstrap
    made = [_world(bootstrap, protocol) for protocol in BOTH]
    everybody = {name: found for _, members in made for name, found in members.items()}
    sizes = dict.fromkeys(everybody, 1) | {world.both: 2 for world, _ in made}
    settle(bootstrap, everybody, sizes)
    for world, members in made:
        _commit(world, members)
        members.pop(world.left)[0].close()
        simple = clients.consumer(bootstrap, world.simple, **{"group.protocol": world.protocol})
        simple.assign([Partition(world.two, 0, 0), Partition(world.two, 1, 0)])
        simple.poll(0.1)
        offsets = [Partition(world.two, 0, 1), Partition(world.two, 1, 2)]
        simple.commit(offsets=offsets, asynchronous=False)
        members[world.simple] = [simple]
    yield {world.protocol: world for world, _ in made}
    for _, members in made:
        for consumers in members.values():
            for consumer in consumers:
                consumer.close()


@pytest.fixture
def world(worlds: dict[str, World], protocol: str) -> World:
    return worlds[protocol]


class Spares:
    """Empty groups that once had a member, made in bulk: joining takes its time."""

    SIZE = 8

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.topic = clients.create_topic(bootstrap, clients.unique("spares"), 1)
        self.ready: dict[str, list[str]]
        self.forget()

    def take(self, protocol: str, offsets: Offsets) -> str:
        """A group with just these offsets."""
        if not self.ready[protocol]:
            self.ready[protocol] = self._make(protocol)
        name = self.ready[protocol].pop()
        put(self.bootstrap, name, offsets)
        return name

    def forget(self) -> None:
        """Somebody else has them now, or deletes them."""
        self.ready = {protocol: [] for protocol in BOTH}

    def _make(self, protocol: str) -> list[str]:
        names = [clients.unique(f"spare-{protocol}") for _ in range(self.SIZE)]
        members = {
            name: [clients.consumer(self.bootstrap, name, **{"group.protocol": protocol})]
            for name in names
        }
        for (member,) in members.values():
            member.subscribe([self.topic])
        settle(self.bootstrap, members, dict.fromkeys(names, 1))
        for (member,) in members.values():
            member.close()
        return names


def put(bootstrap: str, group: str, offsets: Offsets) -> None:
    """Commit for an empty group as an admin."""
    if not offsets:
        return
    admin = clients.admin(bootstrap)
    parts = [Partition(topic, partition, at) for (topic, partition), at in offsets.items()]
    request = [ConsumerGroupTopicPartitions(group, parts)]
    done = admin.alter_consumer_group_offsets(request)[group].result(timeout=30)
    assert all(part.error is None for part in done.topic_partitions)


@pytest.fixture(scope="session")
def spares(parity: Parity) -> Spares:
    return Spares(parity.cluster.bootstrap)


@pytest.fixture
def empty(spares: Spares, protocol: str) -> Callable[[Offsets], str]:
    """Makes empty groups of the test's protocol: ``empty({("t", 0): 5})`` returns the name."""
    return lambda offsets: spares.take(protocol, offsets)


@pytest.fixture
def filled(address: str) -> Callable[..., str]:
    """Makes topics with so many records a partition: ``filled(10, 20)``."""

    def make(*counts: int, **options: object) -> str:
        topic = clients.create_topic(address, clients.unique("filled"), len(counts), **options)
        for partition, count in enumerate(counts):
            if count:
                clients.produce(address, topic, count, partition=partition)
        return topic

    return make
