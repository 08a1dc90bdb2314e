"""``doctor`` on real brokers: what it finds is what Kafka's own tools say, its commands fix it."""

from __future__ import annotations

import os
import re
import shlex
import struct
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec, ResourceType

from kgtool.admin.doctor_finding import KINDS
from kgtool.admin.partition import offsets_partition
from kgtool.client.cluster import find_coordinators
from kgtool.client.ops import call as operation
from kgtool.config import Settings
from kgtool.net.session import Session
from kgtool.protocol.api import consumer_group_heartbeat, txn_offset_commit
from kgtool.sandbox import rawgroup, ready, world
from kgtool.sandbox.cluster import Cluster
from kgtool.sandbox.paths import locked
from kgtool.sandbox.seed import seed
from kgtool.sandbox.watcher import Silent
from tests.broker.test_authorisation import Guarded
from tests.broker.test_authorisation import guarded as guarded
from tests.broker.test_authorisation import here as here
from tests.broker.test_many_brokers import Three, paused, run
from tests.broker.test_many_brokers import settled as settled
from tests.cli.run import Result, call
from tests.cli.run import kgtool as separately
from tests.support import brokers, clients
from tests.support.generations import GENERATIONS, Generation
from tests.support.outcomes import Outcome

Kgtool = Callable[..., Result]
TABLE = "kgtool while one of three brokers fails"
KEYS = [
    "finding", "severity", "group", "topic", "partition", "broker", "message", "evidence", "fix",
]  # fmt: skip


class Seeded(NamedTuple):
    """The seeded sandbox, and what ``doctor`` said of it before it was seeded."""

    cluster: Cluster
    when_fresh: Result


@pytest.fixture(scope="module")
def seeded() -> Seeded:
    root = Path(os.environ[brokers.VARIABLE])
    with locked(root / "doctor-seeded.lock", timeout=600.0):
        cluster = brokers.shared_broker("4.3.1", name="doctor")
        fresh = separately("doctor", "-o", "json", "--bootstrap-server", cluster.bootstrap)
        seed(cluster, Silent())
    return Seeded(cluster, fresh)


@pytest.fixture
def kgtool(
    kafka: Cluster,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Kgtool:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    monkeypatch.setenv("KGTOOL_BOOTSTRAP_SERVER", kafka.bootstrap)
    monkeypatch.chdir(tmp_path)
    return lambda *argv: call(capsys, *argv)


def rows_of(result: Result) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = result.json["results"]
    for row in rows:
        assert list(row) == KEYS
        assert row["finding"] in KINDS
        assert row["severity"] in ("problem", "warning", "note")
        assert row["message"].endswith(".")
    return rows


def only_row(result: Result, kind: str) -> dict[str, Any]:
    (row,) = rows_of(result)
    assert row["finding"] == kind
    return row


# ---------------------------------------------------------------------------------------------
# The seeded world, with Kafka's own tools as the judge


def test_a_fresh_broker_has_nothing_wrong(seeded: Seeded) -> None:
    status, out, err = seeded.when_fresh
    assert (status, err) == (0, "")
    assert seeded.when_fresh.json["results"] == seeded.when_fresh.json["errors"] == []
    assert '"cluster_id": null' not in out


Said = list[tuple[str, str, int, int, int]]


@pytest.fixture(scope="module")
def said(seeded: Seeded) -> Said:
    """Group, topic, partition, committed and end, from Kafka's ``--describe``."""
    shown = seeded.cluster.run_tool("kafka-consumer-groups", "--describe", "--all-groups")
    rows = []
    for line in shown.stdout.splitlines():
        words = line.rsplit(None, 8)
        if len(words) == 9 and words[3].isdecimal() and words[4].isdecimal():
            rows.append((words[0], words[1], int(words[2]), int(words[3]), int(words[4])))
    return rows


def starts(cluster: Cluster, places: set[tuple[str, int]]) -> dict[tuple[str, int], int]:
    admin = clients.admin(cluster.bootstrap)
    asked = {TopicPartition(*place): OffsetSpec.earliest() for place in places}
    found = admin.list_offsets(asked)
    return {(p.topic, p.partition): f.result(timeout=30).offset for p, f in found.items()}


def test_the_seeded_world(seeded: Seeded, said: Said, capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, "doctor", "-o", "json", "--bootstrap-server", seeded.cluster.bootstrap)
    assert (result.status, result.err) == (5, "")
    found: dict[str, set[tuple[Any, ...]]] = {}
    for row in rows_of(result):
        place = (row["group"], row["topic"], row["partition"])
        found.setdefault(row["finding"], set()).add(place)

    assert len(said) > 2400
    log_starts = starts(seeded.cluster, {(topic, number) for _, topic, number, _, _ in said})
    beyond = {(g, t, p) for g, t, p, offset, end in said if offset > end}
    before = {(g, t, p) for g, t, p, offset, _ in said if offset < log_starts[t, p]}
    assert beyond == {("stock-sync", "inventory", 0), ("stock-sync", "inventory", 1)}
    dropped = {(live.group, topic, None) for live in world.LIVE for topic in live.was_on}
    still = {(live.group, topic, None) for live in world.LIVE for topic in live.topics}
    assert found == {
        "beyond-end": beyond,
        "before-start": before,
        "ghost-topic": dropped - still,
        "piling-up": {(None, None, None)},
        "pending-transaction": {
            ("transfers", "transfers", 0), ("transfers-pending", "transfers", 1),
        },
    }  # fmt: skip


def test_the_evidence_is_kafkas(
    seeded: Seeded, said: Said, capsys: pytest.CaptureFixture[str]
) -> None:
    result = call(capsys, "doctor", "-o", "json", "--bootstrap-server", seeded.cluster.bootstrap)
    at = {(g, t, p): (offset, end) for g, t, p, offset, end in said}
    for row in rows_of(result):
        evidence, place = row["evidence"], (row["group"], row["topic"], row["partition"])
        if row["finding"] in ("beyond-end", "before-start"):
            assert (evidence["committed_offset"], evidence["log_end_offset"]) == at[place]
        elif row["finding"] == "ghost-topic":
            mine = [x for (g, t, _), x in at.items() if (g, t) == place[:2]]
            assert evidence["offsets"] == len(mine)
            assert evidence["lag"] == sum(end - offset for offset, end in mine)
        elif row["finding"] == "piling-up":
            names = {group for group, *_ in said if group.startswith("console-consumer-")}
            assert evidence == {
                "family": "console-consumer-*", "groups": len(names),
                "offsets": sum(group in names for group, *_ in said),
            }  # fmt: skip
        else:
            # Open since the world was seeded, and it may stay so for a day.
            assert evidence["transactional_id"] == "transfers-open"
            assert 0 <= evidence["open_ms"] < evidence["timeout_ms"] == 86_400_000
            listed = seeded.cluster.run_tool("kafka-transactions", "list")
            assert re.search(
                rf"^transfers-open\s+\d+\s+{evidence['producer_id']}\s+Ongoing",
                listed.stdout, re.MULTILINE,
            )  # fmt: skip


def test_the_page(seeded: Seeded, capsys: pytest.CaptureFixture[str]) -> None:
    at = ("--bootstrap-server", seeded.cluster.bootstrap)
    result = call(capsys, "doctor", *at)
    lines = result.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("PROBLEM beyond-end (2): ")
    assert lines[-1] == "Looked at 219 groups on 1 broker: 2 problems, 4 warnings, 2 notes."
    heads = [line.split()[0] for line in lines if line[:1].isupper()][:-1]
    assert heads == ["PROBLEM", "WARNING", "WARNING", "WARNING", "NOTE"]
    # What the page says to type is what the rows say, however it is folded.
    typed = " ".join(line.strip().removesuffix("\\").strip() for line in lines)
    for row in call(capsys, "doctor", *at, "-o", "json").json["results"]:
        assert row["fix"] is None or row["fix"] in typed


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (["--fail-on", "problem"], 5),
        (["--fail-on", "none"], 0),
        (["--ignore", "beyond-end", "--fail-on", "problem"], 0),
        (["--group", "transfers"], 0),
        (["--group", "transfers", "--fail-on", "note"], 5),
        (["--match", "stock*", "--match", "mirr*"], 5),
        (["--match", "mirr*"], 0),
    ],
)
def test_when_it_fails(
    seeded: Seeded, capsys: pytest.CaptureFixture[str], argv: list[str], status: int
) -> None:
    result = call(capsys, "doctor", *argv, "--bootstrap-server", seeded.cluster.bootstrap)
    assert (result.status, result.err) == (status, "")


# ---------------------------------------------------------------------------------------------
# What it says to type: typed, it works


def typed(kgtool: Kgtool, row: dict[str, Any], *more: str) -> None:
    program, *argv = shlex.split(row["fix"])
    assert program == "kgtool"
    done = kgtool(*argv, *more)
    assert done.status == 0, done.err


def after(kgtool: Kgtool, group: str) -> list[str]:
    result = kgtool("doctor", "--group", group, "-o", "json")
    assert result.status == (5 if rows_of(result) else 0)
    return [row["finding"] for row in rows_of(result)]


@pytest.fixture
def topic(kafka: Cluster) -> str:
    made = clients.create_topic(kafka.bootstrap, clients.unique("doctor"), 2)
    for partition in range(2):
        clients.produce(kafka.bootstrap, made, 10, partition=partition)
    return made


def test_out_of_range(kafka: Cluster, kgtool: Kgtool, topic: str) -> None:
    group = clients.unique("it's out of range")
    clients.commit(kafka.bootstrap, group, {(topic, 0): 99, (topic, 1): 2})
    row = only_row(kgtool("doctor", "--group", group, "-o", "json"), "beyond-end")
    assert (row["severity"], row["group"], row["topic"], row["partition"]) == (
        "problem", group, topic, 0,
    )  # fmt: skip
    typed(kgtool, row, "--yes")
    assert after(kgtool, group) == []

    admin = clients.admin(kafka.bootstrap)
    for future in admin.delete_records([TopicPartition(topic, 1, 5)]).values():
        future.result(timeout=30)
    row = only_row(kgtool("doctor", "--group", group, "-o", "json"), "before-start")
    assert (row["severity"], row["partition"], row["evidence"]["lost_records"]) == ("warning", 1, 3)
    typed(kgtool, row, "--yes")
    assert after(kgtool, group) == []
    assert clients.committed(kafka.bootstrap, group) == {(topic, 0): 0, (topic, 1): 5}


def test_a_ghost_topic(kafka: Cluster, kgtool: Kgtool, topic: str) -> None:
    left = clients.create_topic(kafka.bootstrap, clients.unique("left"))
    clients.produce(kafka.bootstrap, left, 7)
    group = clients.unique("living")
    member = clients.join(kafka.bootstrap, group, [topic])
    try:
        offsets = [TopicPartition(topic, 0, 0), TopicPartition(left, 0, 3)]
        member.commit(offsets=offsets, asynchronous=False)
        row = only_row(kgtool("doctor", "--group", group, "-o", "json"), "ghost-topic")
        assert (row["topic"], row["evidence"]["lag"]) == (left, 4)
        typed(kgtool, row, "--yes")
        assert after(kgtool, group) == []
        assert (left, 0) not in clients.committed(kafka.bootstrap, group)
    finally:
        member.close()


def test_what_a_regular_expression_does_not_stand_for(kafka: Cluster, kgtool: Kgtool) -> None:
    """Only the log says what the coordinator has made of it."""
    prefix = clients.unique("held")
    held = clients.create_topic(kafka.bootstrap, f"{prefix}-a")
    left = clients.create_topic(kafka.bootstrap, clients.unique("left"))
    group = clients.unique("regex")
    clients.commit(kafka.bootstrap, group, {(held, 0): 0, (left, 0): 0})
    member = clients.join(kafka.bootstrap, group, [f"^{prefix}.*"], group_protocol="consumer")
    try:
        row = only_row(kgtool("doctor", "--group", group, "-o", "json"), "ghost-topic")
        assert row["topic"] == left
        typed(kgtool, row, "--yes")
        assert after(kgtool, group) == []
    finally:
        member.close()


def test_what_expires_soon(kafka: Cluster, kgtool: Kgtool, topic: str) -> None:
    group = clients.unique("idle")
    clients.commit(kafka.bootstrap, group, {(topic, 0): 1, (topic, 1): 1})
    began = time.time() * 1000
    assert after(kgtool, group) == []  # in seven days, and the default is two
    row = only_row(kgtool("doctor", "--group", group, "--within", "8d", "-o", "json"), "expiring")
    week = 7 * 86_400_000
    evidence = row["evidence"]
    assert (evidence["offsets"], evidence["of"], evidence["rule"]) == (2, 2, "commit")
    assert abs(evidence["first_expires_at_ms"] - week - began) < 60_000
    typed(kgtool, row, "--yes")
    later = only_row(kgtool("doctor", "--group", group, "--within", "8d", "-o", "json"), "expiring")
    assert later["evidence"]["first_expires_at_ms"] > evidence["first_expires_at_ms"]


def test_a_pile_of_dead_groups(kafka: Cluster, kgtool: Kgtool, topic: str) -> None:
    prefix = clients.unique("job")
    names = [f"{prefix}-{number:08d}-aaaa-bbbb-cccc-0123456789ab" for number in range(21)]
    for name in names:
        clients.commit(kafka.bootstrap, name, {(topic, 0): 10})
    row = only_row(kgtool("doctor", "--match", f"{prefix}-*", "-o", "json"), "piling-up")
    assert row["evidence"] == {"family": f"{prefix}-*", "groups": 21, "offsets": 21}
    typed(kgtool, row)
    plan = str(shlex.split(row["fix"])[-1])
    assert kgtool("cleanup", "apply", plan, "--yes").status == 0
    assert not clients.group_ids(kafka.bootstrap) & set(names)


@pytest.mark.parametrize("generation", GENERATIONS, ids=lambda generation: generation.label)
def test_every_generation(
    generation: Generation, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    at = generation.broker().bootstrap
    made = clients.create_topic(at, clients.unique("doctor"), 1)
    clients.produce(at, made, 10)
    group = clients.unique("beyond")
    clients.commit(at, group, {(made, 0): 99})
    result = call(capsys, "doctor", "--bootstrap-server", at, "-o", "json")
    assert (result.status, result.json["errors"]) == (5, [])
    rows = rows_of(result)
    old = {row["severity"] for row in rows if row["finding"] == "broker-old"}
    assert old == {"2.1.1": {"warning"}, "3.9.1-new": {"note"}}.get(generation.label, set())
    (mine,) = [row for row in rows if row["group"] == group]
    assert mine["finding"] == "beyond-end"
    assert call(capsys, *shlex.split(mine["fix"])[1:], "--yes").status == 0
    argv = ("doctor", "--group", group, "--bootstrap-server", at)
    assert call(capsys, *argv) == (0, "Looked at 1 group: nothing found.\n", "")


# ---------------------------------------------------------------------------------------------
# A broker with a past: commits of long ago, topics that are gone

HOUR_MS = 3_600_000
KEPT_HOURS = 60


def write_offset(
    bootstrap: str, group: str, topic: str, partition: int, hours_ago: int = 0,
    topic_id: bytes = b"",
) -> None:  # fmt: skip
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
        "__consumer_offsets", value, key + struct.pack(">i", partition),
        partition=offsets_partition(group, 4),
    )  # fmt: skip
    assert producer.flush(30) == 0


class Beats:
    """A KIP-848 member that only says what it is told to say."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.session = Session(Settings(bootstrap=((host, int(port)),), timeout_ms=60_000))
        self.fixed: dict[str, Any] = {"group_id": group, "member_id": str(uuid.uuid4())}
        self.broker = self.session.run(find_coordinators(self.session.cluster, [group]))[group]
        self.epoch = 0
        self.beat(
            topic_partitions=[], rebalance_timeout_ms=60_000, subscribed_topic_names=[topic]
        )  # fmt: skip

    def beat(self, **fields: Any) -> None:
        request = consumer_group_heartbeat.Request(
            **self.fixed, **fields, member_epoch=self.epoch
        )  # fmt: skip
        answer = self.session.run(operation(self.broker, request))
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch

    def close(self) -> None:
        self.session.loop.close()


def hang(bootstrap: str, group: str, topic: str) -> None:
    """Commit in a transaction that no coordinator of transactions has ever heard of."""
    host, _, port = bootstrap.rpartition(":")
    with Session(Settings(bootstrap=((host, int(port)),), timeout_ms=60_000)) as session:
        broker = session.run(find_coordinators(session.cluster, [group]))[group]
        rows = [txn_offset_commit.RequestPartition(partition=0, offset=7, metadata="")]
        request = txn_offset_commit.Request(
            transactional_id="nobody", group_id=group, producer_id=4711, producer_epoch=0,
            topics=[txn_offset_commit.RequestTopic(name=topic, partitions=rows)],
        )  # fmt: skip
        answer = session.run(operation(broker, request, 3))
        assert [p.error_code for t in answer.topics for p in t.partitions] == [0], answer


@pytest.fixture(scope="module")
def past_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("past")
    config = {
        "offsets.topic.num.partitions": "4",
        "offsets.retention.minutes": str(60 * KEPT_HOURS),
        # What a client of old could leave behind: a transaction that hangs.
        "transaction.partition.verification.enable": "false",
        "transaction.max.timeout.ms": "1000",
    }
    with Cluster.start("past", root=root, config=config) as cluster, ExitStack() as members:
        ready.wait_for_coordinators(cluster.state)
        at = cluster.bootstrap
        clients.create_topic(at, "held", 2)
        for partition in range(2):
            clients.produce(at, "held", 10, partition=partition)
        write_offset(at, "gone", "no-such-topic", 0)
        write_offset(at, "gone", "held", 1)
        write_offset(at, "recreated", "held", 1, topic_id=bytes(range(16)))
        write_offset(at, "idle", "held", 0, hours_ago=30)
        write_offset(at, "idle", "held", 1, hours_ago=1)
        write_offset(at, "overdue", "held", 0, hours_ago=KEPT_HOURS + 5)
        write_offset(at, "modern", "held", 0, hours_ago=KEPT_HOURS + 5)
        cluster.restart(cluster.nodes[0].id)
        ready.wait_for_coordinators(cluster.state)
        modern = clients.join(at, "modern", ["held"], group_protocol="consumer")
        members.callback(modern.close)
        # Two partitions for the first member; the second one waits for one of them in vain.
        silent, other = Beats(at, "behind", "held"), Beats(at, "behind", "held")
        members.callback(silent.close)
        members.callback(other.close)
        clients.wait_for(lambda: other.beat() or other.epoch > silent.epoch, "a new assignment")
        socket = members.enter_context(rawgroup.connect(at, "stuck", "half-joined"))
        socket.join("stuck", "consumer", "range", rawgroup.subscription(["held"]))
        clients.commit(at, "hanging", {("held", 0): 5})
        hang(at, "hanging", "held")
        yield cluster


@pytest.fixture
def past(past_cluster: Cluster) -> str:
    return past_cluster.bootstrap


def test_a_broker_with_a_past(past: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, "doctor", "--bootstrap-server", past, "-o", "json")
    assert (result.status, result.err) == (5, "")
    found = {(row["finding"], row["group"], row["topic"]): row for row in rows_of(result)}
    assert sorted(found, key=str) == sorted(
        [
            ("topic-gone", "gone", "no-such-topic"),
            ("topic-recreated", "recreated", "held"),
            ("expiring", "idle", None),
            ("expiring", "overdue", None),
            ("loses-when-empty", "modern", None),
            ("member-behind", "behind", None),
            ("rebalancing", "stuck", None),
            ("pending-transaction", "hanging", "held"),
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
    behind = found["member-behind", "behind", None]["evidence"]
    assert behind["member_epoch"] < behind["group_epoch"]
    assert (behind["partitions"], behind["target_partitions"]) == (2, 1)
    assert found["rebalancing", "stuck", None]["evidence"]["state"] == "CompletingRebalance"


def test_a_transaction_that_hangs(
    past_cluster: Cluster, past: str, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ("doctor", "--group", "hanging", "-o", "json", "--bootstrap-server", past)
    time.sleep(1.5)
    row = only_row(call(capsys, *argv), "pending-transaction")
    assert (row["severity"], row["evidence"]["producer_id"]) == ("problem", 4711)
    program, *words = shlex.split(row["fix"])
    assert program == "kafka-transactions.sh"
    done = past_cluster.run_tool("kafka-transactions", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    clients.wait_for(lambda: rows_of(call(capsys, *argv)) == [], "the end of the transaction")
    assert clients.committed(past, "hanging") == {("held", 0): 5}


def test_a_log_that_is_not_compacted(
    past_cluster: Cluster, past: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def looked() -> list[dict[str, Any]]:
        # Without those that it would look at twice.
        argv = ("doctor", "--exclude", "stuck", "--exclude", "behind", "-o", "json")
        rows = rows_of(call(capsys, *argv, "--bootstrap-server", past))
        return [row for row in rows if row["finding"] == "offsets-not-compacted"]

    clients.set_topic_config(past, "__consumer_offsets", **{"cleanup.policy": "delete"})
    (row,) = clients.wait_for(looked, "the new policy")
    assert (row["severity"], row["topic"]) == ("problem", "__consumer_offsets")
    program, *words = shlex.split(row["fix"])
    assert program == "kafka-configs.sh"
    done = past_cluster.run_tool("kafka-configs", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    clients.wait_for(lambda: not looked(), "the old policy")


def test_rare_commits(past: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ("doctor", "--group", "idle", "--within", "1h", "-o", "json", "--bootstrap-server", past)
    evidence = only_row(call(capsys, *argv), "retention-gap")["evidence"]
    assert evidence["retention_ms"] == KEPT_HOURS * HOUR_MS
    assert abs(evidence["since_commit_ms"] - 30 * HOUR_MS) < 300_000


def test_what_fixes_topics_that_are_gone(
    past: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    monkeypatch.chdir(tmp_path)
    look = ("doctor", "--group", "gone", "--group", "recreated", "-o", "json")
    rows = rows_of(call(capsys, *look, "--bootstrap-server", past))
    assert {row["finding"] for row in rows} == {"topic-gone", "topic-recreated"}
    for row in rows:
        # The connection that was typed is part of the command.
        program, *argv = shlex.split(row["fix"])
        yes = ["--yes"] if "reset-offsets" in argv else []
        assert call(capsys, *argv, *yes).status == 0
    plan = ("cleanup", "apply", "orphans-gone.json", "--yes", "--bootstrap-server", past)
    assert call(capsys, *plan).status == 0
    assert rows_of(call(capsys, *look, "--bootstrap-server", past)) == []


# ---------------------------------------------------------------------------------------------
# What may not be seen, and who does not answer


def grant(guarded: tuple[Cluster, str], row: dict[str, Any]) -> None:
    """Run a finding's kafka-acls.sh as an administrator, who comes in through another door."""
    program, *words = shlex.split(row["fix"])
    assert program == "kafka-acls.sh"
    assert words[:4] == ["--bootstrap-server", guarded[1], "--command-config", "ADMIN.properties"]
    done = guarded[0].run_tool("kafka-acls", *words[4:])
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_a_look_at_the_log(here: Guarded, guarded: tuple[Cluster, str]) -> None:
    """As on managed clouds: ``__consumer_offsets`` and the brokers' configs may not be read."""
    group = here.group("DESCRIBE")
    result = here.run("doctor", "--group", group)
    assert (result.status, result.json["errors"]) == (0, [])
    denied = {row["evidence"]["resource"]: row for row in rows_of(result)}
    assert {(row["finding"], row["severity"]) for row in denied.values()} == {("denied", "note")}
    assert denied.keys() == {"__consumer_offsets", "kafka-cluster"}
    assert "expiring" in denied["__consumer_offsets"]["evidence"]["findings_missing"]
    assert "retention-short" in denied["kafka-cluster"]["evidence"]["findings_missing"]
    whole = rows_of(here.run("doctor"))
    hidden = [row for row in whole if row["evidence"].get("operation") == "DESCRIBE"]
    assert "cluster" in {row["evidence"]["resource_type"] for row in hidden}

    try:
        for row in denied.values():
            grant(guarded, row)
        # DESCRIBE comes with READ; nothing is left to be said.
        assert rows_of(here.run("doctor", "--group", group)) == []
    finally:
        here.forbid(ResourceType.TOPIC, "__consumer_offsets")
        here.forbid(ResourceType.BROKER, "kafka-cluster")


def test_groups_that_may_not_be_seen(here: Guarded, guarded: tuple[Cluster, str]) -> None:
    """Named, it is an error and a finding; the other group is looked at all the same."""
    mine, other = here.group("DESCRIBE", offsets=False), here.group()
    clients.commit(here.bootstrap, mine, {(here.seen, 0): 99})
    result = here.run("doctor", "--group", mine, "--group", other)
    assert result.status == 5
    found = {(row["finding"], row["group"]): row for row in rows_of(result)}
    assert found["beyond-end", mine]["severity"] == "problem"
    denied = found["denied", other]
    assert denied["severity"] == "warning"
    assert "--allow-principal User:alice --operation Describe --group" in denied["fix"]
    (error,) = result.json["errors"]
    assert (error["code"], error["target"]["group"]) == (30, other)
    assert here.run("doctor", "--group", mine, "--group", other, "--fail-on", "none").status == 3
    assert here.run("doctor", "--group", other, "--fail-on", "none").status == 1
    grant(guarded, denied)
    assert here.run("doctor", "--group", other).json["errors"] == []


@pytest.mark.starts_first
def test_one_of_three_is_killed(settled: Three, outcome: Outcome) -> None:
    well = run(settled, "doctor", "--fail-on", "note", "--ignore", "piling-up")
    assert well.status == 0, well
    victim = settled.cluster.nodes[1].id
    group = clients.unique("left")
    clients.commit(settled.bootstrap, group, {("bulk", 0): 99})
    settled.cluster.kill(victim)
    with outcome(TABLE, "doctor", "kill -9") as cell:
        done = run(settled, "doctor", "--timeout", "20000")
        assert done.status == 5, done
        rows = done.document["results"]
        found = {(row["finding"], row["broker"], row["group"]) for row in rows}
        assert ("broker-down", victim, None) in found
        assert ("beyond-end", None, group) in found
        degraded = [
            r for r in done.document["results"] if r["finding"] == "offsets-under-replicated"
        ]
        assert all(row["evidence"]["not_in_sync"] == [victim] for row in degraded)
        assert degraded
        cell.says(f"found after {done.seconds:.0f} s")


@pytest.mark.starts_first
def test_one_of_three_hangs(settled: Three, outcome: Outcome) -> None:
    """What waits for it must not take the time that the others' groups need."""
    group = clients.unique("left")
    clients.commit(settled.bootstrap, group, {("bulk", 0): 99})
    with outcome(TABLE, "doctor", "SIGSTOP") as cell, paused(settled, 3):
        done = run(settled, "doctor", first=1)
        assert done.status == 5, done
        found = {(row["finding"], row["broker"], row["group"]) for row in done.document["results"]}
        assert {("broker-down", 3, None), ("beyond-end", None, group)} <= found
        assert done.seconds < 31
        cell.says(f"found after {done.seconds:.0f} s")


def test_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, "doctor", "--bootstrap-server", "127.0.0.1:1", "-o", "json")
    assert result.status == 4
    assert result.json["results"] == []
    (error,) = result.json["errors"]
    assert error["name"] == "UNREACHABLE"
