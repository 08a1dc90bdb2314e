"""The seeded world is what ``kgtool.sandbox.seeding.world`` promises, says Kafka's own tool."""

from __future__ import annotations

import re

import pytest
from confluent_kafka import TopicPartition

from kgtool.errors import SandboxError
from kgtool.sandbox import processes
from kgtool.sandbox.cluster import Sandbox
from kgtool.sandbox.seeding import group_client, members, world
from kgtool.sandbox.seeding.seed import seed
from kgtool.sandbox.seeding.world import SeededGroup
from tests.support import clients

pytestmark = pytest.mark.broker
EMPTY_GROUPS = {
    "reporting",
    "reporting-old",
    "connect-s3-sink",
    "mirror",
    "checkpointer",
    "stock-sync",
    "auditor",
    "transfers",
    "transfers-aborted",
    world.LONG_GROUP,
    *world.ODD_GROUPS,
    *world.console_groups(),
}


@pytest.fixture(scope="module")
def seeded(tmp_path_factory, warm):
    with Sandbox.start("seeded", root=tmp_path_factory.mktemp("seeded")) as cluster:
        seed(cluster)
        yield warm(cluster)


def groups(cluster: Sandbox) -> dict[str, tuple[str, ...]]:
    """Kafka's ``--list``: type and state by group id (ids may hold single spaces)."""
    shown = cluster.run_tool("kafka-consumer-groups", "--list", "--state", "--type")
    rows = [re.split(r"\s{2,}", line.strip()) for line in shown.stdout.splitlines()[1:]]
    found = {}
    for row in rows:
        *name, kind, state = row if len(row) == 3 else " ".join(row).rsplit(" ", 2)
        found[name[0]] = (kind, state)
    return found


def describe(cluster: Sandbox, group: str) -> dict[tuple[str, int], tuple[str, ...]]:
    """Kafka's ``--describe``: (committed, end, client id) by partition."""
    shown = cluster.run_tool("kafka-consumer-groups", "--describe", "--group", group)
    rows = [line.split() for line in shown.stdout.splitlines() if line.startswith(group)]
    return {(row[1], int(row[2])): (row[3], row[4], row[8]) for row in rows}


def test_groups_types_and_states(seeded):
    listed = groups(seeded)
    assert {g for g, what in listed.items() if what == ("Classic", "Stable")} == {
        "billing",
        "fulfilment",
    }
    assert {g for g, what in listed.items() if what == ("Consumer", "Stable")} == {
        "shipping-848",
        "analytics-848",
    }
    assert listed["reporting-848"] == ("Consumer", "Empty")
    assert {g for g, what in listed.items() if what == ("Classic", "Empty")} >= EMPTY_GROUPS


def test_connect_and_share_groups(seeded):
    listed = seeded.run_tool("kafka-groups", "--list").stdout
    assert re.search(rf"^{world.CONNECT_GROUP} +Classic +connect\s*$", listed, re.M)
    assert re.search(rf"^{world.SHARE_GROUP} +Share +share\s*$", listed, re.M)
    members = seeded.run_tool(
        "kafka-share-groups", "--describe", "--group", world.SHARE_GROUP, "--members"
    )
    assert "share-workers-1" in members.stdout
    starts = seeded.run_tool("kafka-share-groups", "--describe", "--group", world.SHARE_GROUP)
    assert re.findall(r"notifications +(\d) +\d+ +(\d+)", starts.stdout) == [
        ("0", "0"),
        ("1", "0"),  # all of it is read
    ]


def test_the_streams_group(seeded):
    listed = seeded.run_tool("kafka-groups", "--list").stdout
    assert re.search(rf"^{world.STREAMS_GROUP} +Streams +streams\s*$", listed, re.M)
    members = seeded.run_tool(
        "kafka-streams-groups", "--describe", "--group", world.STREAMS_GROUP, "--members"
    )
    assert "0:[0,1,2,3,4,5]" in members.stdout
    assert "1:[0,1,2]" in members.stdout


class LateWorker(group_client.HeartbeatMember):
    """Its first try to join fails, as where a coordinator still loads."""

    tries = 0

    def join(self, connection):
        self.tries += 1
        if self.tries == 1:
            raise SandboxError("COORDINATOR_LOAD_IN_PROGRESS")

    def beat(self, connection):
        connection.close()


def test_a_worker_that_enters_is_in(seeded, monkeypatch):
    monkeypatch.setattr(group_client, "HEARTBEAT_S", 0.1)
    worker = LateWorker(seeded.bootstrap, "late", "late-1")
    worker.enter(10)
    assert worker.tries == 2


def test_a_worker_that_can_not_enter_says_so():
    worker = LateWorker("127.0.0.1:1", "late", "late-1")
    with pytest.raises(SandboxError, match="'late' had no member after 0 s"):
        worker.enter(0)


class Shrinking:
    """A member that loses its last partition as soon as it was seen that it has all."""

    def __init__(self):
        topics = [(topic, range(world.TOPICS[topic][0])) for topic in ("orders", "payments")]
        self.shares = [TopicPartition(topic, n) for topic, numbers in topics for n in numbers]
        self.committed = {}

    def assignment(self):
        now, self.shares = self.shares, self.shares[:-1]
        return now

    def commit(self, offsets, asynchronous):
        self.committed |= {(row.topic, row.partition): row.offset for row in offsets}
        return []


def test_a_rebalance_while_it_commits_loses_no_offset(monkeypatch):
    member = Shrinking()
    monkeypatch.setattr(members, "consumer", lambda *_, **__: member)
    monkeypatch.setattr(Shrinking, "subscribe", lambda *_: None, raising=False)
    consumers = members.GroupMembers("", [SeededGroup("billing", ("orders", "payments"), 1)])
    consumers.join_and_commit()
    assert member.committed == world.live_offsets("billing")


@pytest.mark.parametrize("group", ["billing", "shipping-848"])
def test_a_living_group_that_dropped_a_topic(seeded, group):
    shown = describe(seeded, group)
    committed = {partition: int(row[0]) for partition, row in shown.items()}
    assert committed == world.live_offsets(group)
    owners = {
        topic: {row[2] for (t, _), row in shown.items() if t == topic}
        for topic in ("orders", "payments")
    }
    assert owners == {"orders": {f"{group}-1", f"{group}-2"}, "payments": {"-"}}


@pytest.mark.parametrize(("group", "instance"), [("fulfilment",) * 2, ("shipping-848", "shipping")])
def test_static_members(seeded, group, instance):
    shown = seeded.run_tool(
        "kafka-consumer-groups", "--describe", "--group", group, "--members", "--verbose"
    )
    rows = [line.split() for line in shown.stdout.splitlines() if line.startswith(group)]
    assert {row[2] for row in rows} == {f"{instance}-1", f"{instance}-2"}


def test_partitions_that_were_never_committed(seeded):
    shown = describe(seeded, "fulfilment")
    assert {p for (t, p), row in shown.items() if row[0] == "-"} == {8, 9, 10, 11}


def test_offsets_out_of_range(seeded):
    beyond = describe(seeded, "stock-sync")
    assert {row[:2] for row in beyond.values()} == {("100", "10")}
    starts = seeded.run_tool("kafka-get-offsets", "--topic", "audit", "--time", "earliest")
    assert starts.stdout.strip() == f"audit:0:{world.AUDIT_START}"
    assert describe(seeded, "auditor") == {("audit", 0): ("5", "60", "-")}


def test_transactions(seeded):
    shown = seeded.run_tool("kafka-transactions", "list").stdout
    assert re.search(r"^transfers-open\s.*Ongoing", shown, re.M)
    assert re.search(r"^transfers-aborted\s.*CompleteAbort", shown, re.M)
    assert describe(seeded, "transfers-aborted")[("transfers", 0)][0] == "10"
    assert clients.committed(seeded.bootstrap, "transfers-pending") == {}
    with pytest.raises(clients.KafkaException, match="UNSTABLE_OFFSET_COMMIT"):
        stable_offsets(seeded.bootstrap, "transfers-pending", "transfers", 1)
    ends = seeded.run_tool("kafka-get-offsets", "--topic", "transfers").stdout.split()
    assert ends == ["transfers:0:105", "transfers:1:100"]


def stable_offsets(bootstrap: str, group: str, topic: str, partition: int) -> dict:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    request = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])]
    client = clients.admin(bootstrap)
    future = client.list_consumer_group_offsets(request, require_stable=True, request_timeout=5)
    answer = future[group].result(60).topic_partitions
    for part in answer:
        if part.error is not None:
            raise clients.KafkaException(part.error)
    return answer


def test_metadata_arrives_unchanged(seeded):
    reader = clients.consumer(seeded.bootstrap, "checkpointer")
    partitions = [clients.TopicPartition("orders", p) for p in range(len(world.ODD_METADATA))]
    found = reader.committed(partitions, timeout=30)
    reader.close()
    assert tuple(row.metadata or "" for row in found) == world.ODD_METADATA


def test_long_names(seeded):
    assert (len(world.LONG_TOPIC), len(world.LONG_GROUP)) == (249, 255)
    found = clients.committed(seeded.bootstrap, world.LONG_GROUP)
    assert found == {(world.LONG_TOPIC, 0): 7}


def test_the_demo_group_has_one_success_one_refusal_one_unknown(seeded):
    shown = seeded.run_tool(
        "kafka-consumer-groups",
        *("--delete-offsets", "--group", "billing"),
        *("--topic", "payments:2,99", "--topic", "orders:0"),
    )
    rows = {tuple(line.split()[:2]): line for line in shown.stdout.splitlines()}
    assert "Successful" in rows["payments", "2"]
    assert "UnknownTopicOrPartition" in rows["payments", "99"]
    assert "GroupSubscribedToTopic" in rows["orders", "0"]


def test_seeding_again_changes_nothing(seeded):
    before = seeded.run_tool("kafka-get-offsets").stdout
    pid = processes.pid_of(seeded.state.members_dir)
    seed(seeded)
    assert processes.pid_of(seeded.state.members_dir) == pid
    assert seeded.run_tool("kafka-get-offsets").stdout == before


def test_the_members_end_with_the_sandbox(tmp_path):
    cluster = Sandbox.start("old", version="3.9.1", root=tmp_path)
    try:
        seed(cluster)
        listed = groups(cluster)
        assert {g for g, what in listed.items() if what[1] == "Stable"} == {"billing", "fulfilment"}
        assert set(listed) >= EMPTY_GROUPS
        assert processes.pid_of(cluster.state.members_dir) is not None
    finally:
        cluster.stop()
    assert processes.pid_of(cluster.state.members_dir) is None
