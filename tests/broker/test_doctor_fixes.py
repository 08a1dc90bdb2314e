"""The commands that ``doctor`` prints: each is run in the situation it is for, and ends it.

One broker has a past that takes days to come about, written into ``__consumer_offsets`` as its
coordinator writes: commits of long ago, topics that are gone, transactions that do not end.
"""

from __future__ import annotations

import itertools
import shlex
import struct
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewPartitions

from kgtool.client.cluster import find_coordinators
from kgtool.client.ops import call as operation
from kgtool.config import Settings
from kgtool.net.session import Session
from kgtool.protocol.api import consumer_group_heartbeat, describe_producers, txn_offset_commit
from kgtool.queries.cluster import transactions as cluster_transactions
from kgtool.queries.cluster.offsets_partition import offsets_partition
from kgtool.queries.doctor import transactions
from kgtool.records.subscription import encode_topics
from kgtool.sandbox import ready
from kgtool.sandbox.cluster import Sandbox
from kgtool.sandbox.seeding import group_client
from tests.cli.run import Result, call
from tests.support import clients
from tests.support.doctor import FIXED, only_row, rows_of

HOUR_MS = 3_600_000
KEPT_HOURS = 60
LONGEST_MS = 30_000
"""The least that ``kafka-transactions.sh forceTerminateTransaction`` can do with."""
PARTITIONS = 4
TENANT = "tenant-0b9f6a3e-8f0c-4a8e-9d3b-0f6f1f7f2a11"
LIVING = "console-consumer-7"
"""A name that a tool has made up, and yet the group has a member."""
PILE = [f"console-consumer-{number}" for number in range(100, 120)]
NIGHTLY = [f"nightly-{uuid.UUID(int=number)}" for number in range(20)]


def write_offset(
    bootstrap: str,
    group: str,
    topic: str,
    partition: int,
    hours_ago: int = 0,
    topic_id: bytes = b"",
) -> None:
    """Write an OffsetCommitKey v1 and an OffsetCommitValue v4, as a coordinator does."""
    key = struct.pack(">h", 1) + b"".join(
        struct.pack(">h", len(text)) + text for text in (group.encode(), topic.encode())
    )
    at = time.time_ns() // 1_000_000 - hours_ago * HOUR_MS
    tags = b"\x01\x00\x10" + topic_id if topic_id else b"\x00"
    value = struct.pack(">hqi", 4, 3, -1) + b"\x01" + struct.pack(">q", at) + tags
    # Brokers let nobody else write there (KafkaApis, AdminUtils.ADMIN_CLIENT_ID).
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "__admin_client"})
    producer.produce(
        "__consumer_offsets",
        value,
        key + struct.pack(">i", partition),
        partition=offsets_partition(group, PARTITIONS),
    )
    assert producer.flush(30) == 0


class Beats:
    """A KIP-848 member that only says what it is told to say."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.session = Session(Settings(bootstrap=((host, int(port)),), timeout_ms=60_000))
        self.fixed: dict[str, Any] = {"group_id": group, "member_id": str(uuid.uuid4())}
        self.broker = self.session.run(find_coordinators(self.session.cluster, [group]))[group]
        self.epoch = 0
        self.beat(topic_partitions=[], rebalance_timeout_ms=60_000, subscribed_topic_names=[topic])

    def beat(self, **fields: Any) -> None:
        request = consumer_group_heartbeat.Request(**self.fixed, **fields, member_epoch=self.epoch)
        answer = self.session.run(operation(self.broker, request))
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch

    def close(self) -> None:
        self.session.loop.close()


def hang(bootstrap: str, group: str, topic: str, producer_id: int = 4711) -> None:
    """Commit in a transaction that no coordinator of transactions has ever heard of."""
    host, _, port = bootstrap.rpartition(":")
    with Session(Settings(bootstrap=((host, int(port)),), timeout_ms=60_000)) as session:
        broker = session.run(find_coordinators(session.cluster, [group]))[group]
        rows = [txn_offset_commit.RequestPartition(partition=0, offset=7, metadata="")]
        request = txn_offset_commit.Request(
            transactional_id="nobody",
            group_id=group,
            producer_id=producer_id,
            producer_epoch=0,
            topics=[txn_offset_commit.RequestTopic(name=topic, partitions=rows)],
        )
        answer = session.run(operation(broker, request, 3))
        assert [p.error_code for t in answer.topics for p in t.partitions] == [0], answer


def same_partition(prefix: str, other: str) -> str:
    """A name in the same partition of ``__consumer_offsets`` as another."""
    number = offsets_partition(other, PARTITIONS)
    names = (f"{prefix}-{count}" for count in itertools.count())
    return next(name for name in names if offsets_partition(name, PARTITIONS) == number)


PAID = "paid"
SHIPPED = same_partition("shipped", PAID)


def open_transaction(
    bootstrap: str, name: str, group: str, topic: str, timeout_ms: int = 1000
) -> Producer:
    """Leave a transaction open that holds the commit of a group."""
    config = {"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0}
    producer = Producer(config | {"transaction.timeout.ms": timeout_ms})
    producer.init_transactions(30)
    producer.begin_transaction()
    reader = clients.consumer(bootstrap, group)
    offsets = [TopicPartition(topic, 0, 7)]
    producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), 30)
    reader.close()
    return producer


@pytest.fixture(scope="module")
def past_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    root = tmp_path_factory.mktemp("past")
    config = {
        "offsets.topic.num.partitions": str(PARTITIONS),
        "offsets.retention.minutes": str(60 * KEPT_HOURS),
        # What a client of old could leave behind: a transaction that hangs.
        "transaction.partition.verification.enable": "false",
        "transaction.max.timeout.ms": str(LONGEST_MS),
        # A coordinator that is late: it does not end what is open for longer than its timeout.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(HOUR_MS),
    }
    with Sandbox.start("past", root=root, config=config) as cluster, ExitStack() as members:
        ready.wait_for_coordinators(cluster.state)
        at = cluster.bootstrap
        clients.create_topic(at, "held", 2)
        for partition in range(2):
            clients.produce(at, "held", 10, partition=partition)
        write_offset(at, "gone", "no-such-topic", 0, hours_ago=50)
        write_offset(at, "gone", "held", 1)
        write_offset(at, "recreated", "held", 1, topic_id=bytes(range(16)))
        write_offset(at, "idle", "held", 0, hours_ago=30)
        write_offset(at, "idle", "held", 1, hours_ago=1)
        write_offset(at, "rare", "held", 0, hours_ago=31)
        write_offset(at, "rare", "held", 1, hours_ago=1)
        write_offset(at, "overdue", "held", 0, hours_ago=KEPT_HOURS + 5)
        write_offset(at, TENANT, "held", 0, hours_ago=30)
        for group in ("modern", LIVING):
            write_offset(at, group, "held", 0, hours_ago=KEPT_HOURS + 5)
        for group in (*PILE, *NIGHTLY):
            write_offset(at, group, "held", 0, hours_ago=50)
        cluster.restart(cluster.nodes[0].id)
        ready.wait_for_coordinators(cluster.state)
        for group in ("modern", LIVING):
            member = clients.join(at, group, ["held"], group_protocol="consumer")
            members.callback(member.close)
        # Two partitions for the first member; the second one waits for one of them in vain.
        silent, other = Beats(at, "behind", "held"), Beats(at, "behind", "held")
        members.callback(silent.close)
        members.callback(other.close)
        clients.wait_for(lambda: other.beat() or other.epoch > silent.epoch, "a new assignment")
        socket = members.enter_context(group_client.connect(at, "stuck", "half-joined"))
        socket.join("stuck", "consumer", "range", encode_topics(["held"]))
        clients.commit(at, "hanging", {("held", 0): 5})
        hang(at, "hanging", "held")
        # The older one of two in the same partition is another application's.
        still_open = [open_transaction(at, f"{name}-app", name, "held") for name in (SHIPPED, PAID)]
        yield cluster
        del still_open


class Past(NamedTuple):
    """The broker with the past, and kgtool on it."""

    cluster: Sandbox
    run: Callable[..., Result]

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def doctor(self, *look: str) -> Result:
        return self.run("doctor", *look, "-o", "json", "--bootstrap-server", self.bootstrap)

    def found(self, kind: str, *look: str) -> list[dict[str, Any]]:
        return [row for row in rows_of(self.doctor(*look)) if row["finding"] == kind]

    def type(self, row: dict[str, Any], **choice: str) -> None:
        """Type a finding's command, as a person does who has seen its plan."""
        program, *words = [choice.get(word, word) for word in shlex.split(row["fix"])]
        if program != "kgtool":
            done = self.cluster.run_tool(program.removesuffix(".sh"), *words)
            assert done.returncode == 0, done.stdout + done.stderr
            return
        yes = () if words[0] in ("cleanup", "backup", "lag") else ("--yes",)
        result = self.run(*words, *yes)
        assert result.status == 0, result.err
        if words[:2] == ["cleanup", "plan"]:
            plan = words[words.index("--out") + 1]
            at = ("--bootstrap-server", self.bootstrap)
            applied = self.run("cleanup", "apply", plan, "--yes", *at)
            assert applied.status == 0, applied.err


def hang_at_once(monkeypatch: pytest.MonkeyPatch, longest_ms: int) -> None:
    """The longest timeout and half a minute more are nothing to a person, and much to a test."""
    monkeypatch.setattr(transactions, "SLACK_MS", -1 - longest_ms)


@pytest.fixture
def past(
    past_cluster: Sandbox,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Past:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    monkeypatch.chdir(tmp_path)
    hang_at_once(monkeypatch, LONGEST_MS)
    return Past(past_cluster, lambda *argv: call(capsys, *argv))


def test_a_broker_with_a_past(past: Past) -> None:
    result = past.doctor("--exclude", "nightly-*")
    assert (result.status, result.err) == (5, "")
    found = {(row["finding"], row["group"], row["topic"]): row for row in rows_of(result)}
    assert sorted(found, key=str) == sorted(
        [
            ("topic-gone", "gone", "no-such-topic"),
            ("topic-recreated", "recreated", "held"),
            ("expiring", "idle", None),
            ("expiring", "rare", None),
            ("expiring", "overdue", None),
            ("expiring", TENANT, None),
            ("loses-when-empty", "modern", None),
            ("loses-when-empty", LIVING, None),
            ("member-behind", "behind", None),
            ("rebalancing", "stuck", None),
            ("pending-transaction", "hanging", "held"),
            ("pending-transaction", PAID, "held"),
            ("pending-transaction", SHIPPED, "held"),
            ("piling-up", None, None),
            ("retention-short", None, None),
        ],
        key=str,
    )
    short = found["retention-short", None, None]["evidence"]
    assert short["retention_ms"] == KEPT_HOURS * HOUR_MS
    idle, overdue = (found["expiring", group, None]["evidence"] for group in ("idle", "overdue"))
    assert (idle["offsets"], idle["of"], idle["lag"]) == (1, 2, 7)
    assert abs(idle["first_expires_at_ms"] - time.time() * 1000 - 30 * HOUR_MS) < 300_000
    assert overdue["first_expires_at_ms"] < time.time() * 1000
    assert found["loses-when-empty", "modern", None]["evidence"]["partitions"] == ["held-0"]
    behind = found["member-behind", "behind", None]
    assert behind["evidence"]["member_epoch"] < behind["evidence"]["group_epoch"]
    assert (behind["evidence"]["partitions"], behind["evidence"]["target_partitions"]) == (2, 1)
    stuck = found["rebalancing", "stuck", None]
    assert stuck["evidence"]["state"] == "CompletingRebalance"
    # Six seconds are no rebalance timeout: nobody is thrown out for them.
    assert stuck["fix"] is behind["fix"] is None
    assert found["piling-up", None, None]["evidence"]["groups"] == len(PILE)
    for group in (PAID, SHIPPED):
        mine = found["pending-transaction", group, "held"]
        assert mine["evidence"]["transactional_id"] == f"{group}-app"
        assert mine["fix"].endswith(f"forceTerminateTransaction --transactionalId {group}-app")


# ---------------------------------------------------------------------------------------------
# Situations: each returns how to look at it, and what to look at afterwards


class Seen(NamedTuple):
    """A situation: what ``doctor`` is asked, and what must be so after its command."""

    look: tuple[str, ...]
    is_well: Callable[[], bool] = lambda: True
    choice: dict[str, str] = {}
    ends: bool = True


def _topic(past: Past, partitions: int = 1) -> str:
    made = clients.create_topic(past.bootstrap, clients.unique("doctor"), partitions)
    for partition in range(partitions):
        clients.produce(past.bootstrap, made, 10, partition=partition)
    return made


def beyond_end(past: Past) -> Seen:
    """As after an unclean election: 10 of what was read is left, 2 are new since then."""
    group, topic = clients.unique("it's beyond"), _topic(past)
    time.sleep(2.1)
    clients.commit(past.bootstrap, group, {(topic, 0): 99})
    clients.produce(past.bootstrap, topic, 2)

    def reads_what_is_new() -> bool:
        return clients.committed(past.bootstrap, group) == {(topic, 0): 10}

    return Seen(("--group", group), reads_what_is_new)


def before_start(past: Past) -> Seen:
    group, topic = clients.unique("before"), _topic(past)
    clients.commit(past.bootstrap, group, {(topic, 0): 2})
    admin = clients.admin(past.bootstrap)
    for future in admin.delete_records([TopicPartition(topic, 0, 5)]).values():
        future.result(timeout=30)
    return Seen(
        ("--group", group), lambda: clients.committed(past.bootstrap, group) == {(topic, 0): 5}
    )


def uncommitted(past: Past) -> Seen:
    """A topic that has grown since its group was stopped."""
    group, topic = clients.unique("grown"), _topic(past, 2)
    clients.commit(past.bootstrap, group, {(topic, 0): 10, (topic, 1): 10})
    admin = clients.admin(past.bootstrap)
    for future in admin.create_partitions([NewPartitions(topic, 3)]).values():
        future.result(timeout=30)
    clients.wait_for(lambda: len(admin.list_topics(topic).topics[topic].partitions) == 3, "it")
    clients.produce(past.bootstrap, topic, 4, partition=2)
    lag = past.run("lag", group, "-o", "json", "--bootstrap-server", past.bootstrap)
    assert [(row["partition"], row["status"]) for row in lag.json["results"]] == [(2, "no-commit")]
    return Seen(("--group", group), lambda: clients.committed(past.bootstrap, group)[topic, 2] == 0)


def ghost_topic(past: Past) -> Seen:
    held, left = _topic(past), _topic(past)
    group = clients.unique("living")
    member = clients.join(past.bootstrap, group, [held])
    offsets = [TopicPartition(held, 0, 0), TopicPartition(left, 0, 3)]
    member.commit(offsets=offsets, asynchronous=False)

    def is_well() -> bool:
        found = clients.committed(past.bootstrap, group)
        member.close()
        return found == {(held, 0): 0}

    return Seen(("--group", group), is_well)


def ghost_of_a_regex(past: Past) -> Seen:
    """Only the log says what the coordinator has made of a regular expression."""
    held, left = _topic(past), _topic(past)
    group = clients.unique("regex")
    clients.commit(past.bootstrap, group, {(held, 0): 10, (left, 0): 10})
    member = clients.join(past.bootstrap, group, [f"^{held}.*"], group_protocol="consumer")

    def is_well() -> bool:
        found = clients.committed(past.bootstrap, group)
        member.close()
        return (left, 0) not in found and (held, 0) in found

    return Seen(("--group", group), is_well)


def not_compacted(past: Past) -> Seen:
    clients.set_topic_config(past.bootstrap, "__consumer_offsets", **{"cleanup.policy": "delete"})
    look = [word for group in ("stuck", "behind") for word in ("--exclude", group)]
    clients.wait_for(lambda: past.found("offsets-not-compacted", *look), "the new policy")
    return Seen(tuple(look))


def segments(past: Past) -> Seen:
    """One megabyte: hundreds of files where one would do."""
    clients.set_topic_config(past.bootstrap, "__consumer_offsets", **{"segment.bytes": "1048576"})
    look = [word for group in ("stuck", "behind") for word in ("--exclude", group)]
    clients.wait_for(lambda: past.found("offsets-segments", *look), "the new size")
    return Seen(tuple(look))


def of_the_past(group: str, *look: str, partition: int = 0) -> Callable[[Past], Seen]:
    """A group that the fixture has made: what it has in ``held`` is still there afterwards."""
    return lambda past: Seen(
        ("--group", group, *look),
        lambda: ("held", partition) in clients.committed(past.bootstrap, group),
    )


def pile(glob: str, groups: Sequence[str]) -> Callable[[Past], Seen]:
    return lambda past: Seen(
        ("--match", glob), lambda: not clients.group_ids(past.bootstrap) & set(groups)
    )


def at_risk(past: Past) -> Seen:
    """Its command tells whether they will be read in time: it ends nothing."""
    group = clients.unique("risky")
    topic = clients.create_topic(past.bootstrap, clients.unique("doctor"), 1)
    clients.set_topic_config(past.bootstrap, topic, **{"retention.ms": str(40 * HOUR_MS)})
    at_ms = int(time.time() * 1000) - 39 * HOUR_MS
    clients.produce(past.bootstrap, topic, 5, timestamp_ms=at_ms)
    clients.commit(past.bootstrap, group, {(topic, 0): 1})
    return Seen(("--group", group), ends=False)


def saved(group: str) -> Callable[[Past], Seen]:
    """Only its members can do more than that: a copy is what there is to be had beforehand."""

    def is_saved() -> bool:
        return f'"group": "{group}"' in Path(f"{group}.json").read_text()

    return lambda past: Seen(("--group", group), is_saved, ends=False)


FIXES: dict[str, list[Callable[[Past], Seen]]] = {
    "beyond-end": [beyond_end],
    "before-start": [before_start],
    "at-risk": [at_risk],
    "uncommitted": [uncommitted],
    "topic-recreated": [of_the_past("recreated", partition=1)],
    "topic-gone": [of_the_past("gone", partition=1)],
    "ghost-topic": [ghost_topic, ghost_of_a_regex],
    "retention-gap": [of_the_past("rare", "--within", "1h")],
    "expiring": [of_the_past("idle"), of_the_past(TENANT)],
    "loses-when-empty": [saved("modern")],
    "pending-transaction": [
        of_the_past("hanging"),
        lambda _: Seen(("--group", SHIPPED)),
        lambda _: Seen(("--group", PAID)),
    ],
    "piling-up": [pile("console-consumer-*", PILE), pile("nightly-*", NIGHTLY)],
    "offsets-not-compacted": [not_compacted],
    "offsets-segments": [segments],
}
"""Each finding that comes with a command, in the situations that it is for."""


@pytest.mark.parametrize(
    ("kind", "number"), [(kind, n) for kind, cases in FIXES.items() for n in range(len(cases))]
)
def test_its_command_ends_it(past: Past, kind: str, number: int) -> None:
    seen = FIXES[kind][number](past)
    first, *_ = clients.wait_for(
        lambda: [row for row in past.found(kind, *seen.look) if row["fix"]], kind, 60.0
    )
    explained(past, first)
    past.type(first, **seen.choice)
    if seen.ends:
        clients.wait_for(lambda: not past.found(kind, *seen.look), f"the end of {kind}")
    assert seen.is_well()


def explained(past: Past, row: dict[str, Any]) -> None:
    """``explain`` of a finding's group has the finding, and says to type its command.

    Nothing else that it says to type changes what the finding is not about.
    """
    if row["group"] is None:
        return
    at = ("--bootstrap-server", past.bootstrap)
    (told,) = past.run("explain", "--group", row["group"], "-o", "json", *at).json["results"]
    kinds = [(one["finding"], one["topic"], one["partition"]) for one in told["findings"]]
    if row["finding"] == "retention-gap":  # of another --within
        assert kinds == [("expiring", None, None)]
        return
    assert (row["finding"], row["topic"], row["partition"]) in kinds
    typed = [shlex.split(line) for line in told["next"]]
    fix = shlex.split(row["fix"])
    assert [word for word in fix if word not in at] in typed or fix in typed
    fixes = {one["fix"] for one in told["findings"]}
    for words in typed:
        is_fix = any(fix is not None and shlex.join(words) in fix for fix in fixes)
        is_harmless = words[1] in ("describe", "keep", "history") or "--dry-run" in words
        assert is_fix or is_harmless or words == fix, words


def test_no_command_is_left_out() -> None:
    assert {*FIXES, "denied"} == FIXED


def test_kgtool_ends_what_hangs_without_kafkas_tools(past: Past) -> None:
    """The other command of a hanging transaction, typed as it stands; the hints name doctor."""
    group = clients.unique("hung")
    clients.commit(past.bootstrap, group, {("held", 0): 3})
    hang(past.bootstrap, group, "held", 4712)

    def found() -> list[dict[str, Any]]:
        rows = past.found("pending-transaction", "--group", group)
        return [row for row in rows if row["fix"]]

    (row,) = clients.wait_for(found, "the hanging transaction", 60.0)
    assert "no coordinator knows the transaction" in row["message"]
    assert row["evidence"]["producer_epoch"] == 0
    at = ("--bootstrap-server", past.bootstrap)
    refused = past.run("delete", group, "--yes", *at)
    assert f"kgtool doctor --group {group} names it" in refused.err
    words = shlex.split(row["evidence"]["instead"])
    assert words[:3] == ["kgtool", "request", "WriteTxnMarkers"]
    sent = past.run(*words[1:], "--yes")
    assert sent.status == 0, sent.err
    clients.wait_for(lambda: not past.found("pending-transaction", "--group", group), "its end")


def test_one_abort_leaves_the_others_alone(past: Past) -> None:
    """Of two transactions in one partition only the one that holds the offset is ended."""
    first, second = clients.unique("a"), clients.unique("b")
    second = same_partition(second, first)
    apps = [open_transaction(past.bootstrap, f"{g}-app", g, "held") for g in (first, second)]
    (row,) = past.found("pending-transaction", "--group", second)
    past.type(row)
    clients.wait_for(
        lambda: not past.found("pending-transaction", "--group", second), "the end of one"
    )
    assert past.found("pending-transaction", "--group", first)
    apps[0].commit_transaction(30)
    clients.markers_written(past.bootstrap, f"{first}-app")
    assert clients.committed(past.bootstrap, first) == {("held", 0): 7}
    assert clients.committed(past.bootstrap, second) == {}


def test_a_living_group_is_no_waste(past: Past) -> None:
    """Its name is one that tools make up; doctor's command for the others leaves it alone."""
    (row,) = past.found("loses-when-empty", "--group", LIVING)
    assert row["fix"].startswith("kgtool backup")
    assert LIVING in clients.group_ids(past.bootstrap)


def test_a_transaction_that_is_decided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PrepareCommit, and its marker could not be written: an abort would lose what it commits."""
    monkeypatch.setattr(transactions, "SLACK_MS", 0)
    with Sandbox.start("decided", root=tmp_path) as cluster:
        ready.wait_for_coordinators(cluster.state)
        at = cluster.bootstrap
        clients.produce(at, clients.create_topic(at, "orders"), 10)
        producer = open_transaction(at, "orders-app", "billing", "orders", timeout_ms=6000)
        clients.set_topic_config(at, "__consumer_offsets", **{"max.message.bytes": "60"})
        producer.commit_transaction(30)
        time.sleep(6)
        clients.set_topic_config(at, "__consumer_offsets", **{"max.message.bytes": "1048588"})
        look = ("doctor", "--group", "billing", "-o", "json", "--bootstrap-server", at)
        row = only_row(call(capsys, *look), "pending-transaction")
        assert "orders-app (PrepareCommit)" in row["message"]
        assert (row["severity"], row["fix"]) == ("warning", None)
        cluster.restart(cluster.nodes[0].id)
        ready.wait_for_coordinators(cluster.state)
        clients.wait_for(lambda: not rows_of(call(capsys, *look)), "its end")
        assert clients.committed(at, "billing") == {("orders", 0): 7}


def as_before_2_8(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask no broker for its producers."""
    real = cluster_transactions.version_of

    def version_of(broker: int, api: Any) -> Any:
        if api is describe_producers.Request:
            return -1
        return (yield from real(broker, api))

    monkeypatch.setattr(cluster_transactions, "version_of", version_of)
    monkeypatch.setattr(transactions, "DESCRIBES_PRODUCERS", (2, 9))


def test_a_transaction_on_a_broker_that_lists_none(
    kafka: Sandbox,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before 3.0: only its age tells; Kafka's tool of today ends it."""
    hang_at_once(monkeypatch, 1000)
    config = {"transaction.max.timeout.ms": "1000"}
    with Sandbox.start("unlisted", root=tmp_path, version="2.8.2", config=config) as cluster:
        ready.wait_for_coordinators(cluster.state)
        at = cluster.bootstrap
        clients.produce(at, clients.create_topic(at, "orders"), 10)
        clients.commit(at, "billing", {("orders", 0): 5})
        hang(at, "billing", "orders")
        look = ("doctor", "--group", "billing", "-o", "json", "--bootstrap-server", at)
        row = only_row(call(capsys, *look), "pending-transaction")
        assert (row["severity"], "before 3.0" in row["message"]) == ("warning", True)
        program, *words = shlex.split(row["fix"])
        done = kafka.run_tool(program.removesuffix(".sh"), *words)
        assert done.returncode == 0, done.stdout + done.stderr
        assert rows_of(call(capsys, *look)) == []
        assert clients.committed(at, "billing") == {("orders", 0): 5}
        as_before_2_8(monkeypatch)
        for producer, way in ((4712, "fix"), (4713, "instead")):
            hang(at, "billing", "orders", producer)
            row = only_row(call(capsys, *look), "pending-transaction")
            line = row["fix"] if way == "fix" else row["evidence"]["instead"]
            program, *words = shlex.split(line)
            if way == "fix":
                assert words[-6:-4] == ["--producer-id", str(producer)], words
                done = kafka.run_tool(program.removesuffix(".sh"), *words)
                assert done.returncode == 0, done.stdout + done.stderr
            else:
                sent = call(capsys, *words, "--bootstrap-server", at, "--yes")
                assert sent.status == 0, sent
            assert rows_of(call(capsys, *look)) == []
            assert clients.committed(at, "billing") == {("orders", 0): 5}
