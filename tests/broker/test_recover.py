"""``recover``: what Kafka's own tool, expiry and transactions took comes back, and goes by undo.

What was there and what comes back is read by confluent-kafka.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition

from kgtool.api.group_admin import GroupAdmin
from kgtool.client.cluster import find_coordinators
from kgtool.client.ops import call as send
from kgtool.config import Settings, parse_bootstrap
from kgtool.errors import KgError
from kgtool.net.session import Session
from kgtool.protocol.api import offset_commit
from kgtool.sandbox.cluster import Sandbox
from tests.broker.test_put_back import recreate
from tests.changes.world import Seen, commit, seen
from tests.cli.run import Result, call
from tests.support import brokers, clients
from tests.support.outcomes import Outcome

TABLE = "recover on brokers of three generations"
INTERVAL = {brokers.CHECK_INTERVAL: "2000"}
Kgtool = Callable[..., Result]


class Here:
    """A broker of one generation."""

    def __init__(
        self, version: str, name: str = "recover", config: Mapping[str, str] | None = None
    ) -> None:
        self.version = version
        self.kafka: Sandbox = brokers.shared_broker(
            version, name=f"kafka-{name}-{version}", config={**INTERVAL, **(config or {})}
        )
        self.at = self.kafka.bootstrap
        self.deletes_offsets = version != "2.1.1"

    def topic(self, records: int = 20) -> str:
        name = clients.create_topic(self.at, clients.unique("lost"), 3)
        for partition in range(3):
            clients.produce(self.at, name, records, partition=partition)
        return str(name)

    def tool(self, *words: str) -> None:
        """That version's own kafka-consumer-groups."""
        done = self.kafka.run_tool("kafka-consumer-groups", *words)
        assert "Error" not in done.stdout + done.stderr, done

    def offsets(self, group: str) -> Seen:
        return seen(self.at, group)[group]


@pytest.fixture(scope="module", params=["4.3.1", "3.9.1", "2.1.1"])
def here(request: pytest.FixtureRequest, warm: Callable[[Sandbox], Sandbox]) -> Iterator[Here]:
    made = Here(request.param)
    warm(made.kafka)
    yield made


@pytest.fixture
def kgtool(
    here: Here, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Kgtool:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    return lambda *argv: call(capsys, *argv, "--bootstrap-server", here.at, "-o", "json")


def statuses(result: Result) -> dict[int, str]:
    return {row["partition"]: row["status"] for row in result.json["results"]}


def test_a_group_deleted_by_kafkas_own_tool(here: Here, kgtool: Kgtool, outcome: Outcome) -> None:
    """Metadata and leader epoch come back; the preview changes nothing; undo takes it away."""
    group, topic = clients.unique("gone"), here.topic()
    commit(here.at, group, {(topic, 0): 3, (topic, 1): 20}, "noted é", 4)
    commit(here.at, group, {(topic, 2): 0}, "", None)
    before = here.offsets(group)
    with outcome(TABLE, "deleted group", here.version) as cell:
        here.tool("--delete", "--group", group)
        assert here.offsets(group) == {}
        dry = kgtool("recover", group, "--dry-run")
        assert (dry.status, set(statuses(dry).values())) == (0, {"would-restore"}), dry
        row = dry.json["results"][0]
        assert (row["offset"], row["cause"]) == (3, "explicit")
        assert row["metadata"].rstrip("\0") == "noted é"  # librdkafka commits an end
        assert row["committed_at_ms"] <= row["removed_at_ms"]
        assert (row["current_offset"], row["log_start_offset"], row["log_end_offset"]) == (
            None,
            0,
            20,
        )
        assert here.offsets(group) == {}
        done = kgtool("recover", group, "--yes")
        assert (done.status, set(statuses(done).values())) == (0, {"restored"}), done
        assert here.offsets(group) == before
        assert "goes back to" in done.err
        again = kgtool("recover", group, "--yes")
        assert (again.status, set(statuses(again).values())) == (0, {"exists"}), again
        undone = kgtool("undo", "last", "--yes")
        assert undone.status == 0, undone
        assert here.offsets(group) == {}
        assert group not in clients.group_ids(here.at)
        cell.says("back, and away again")


def test_explain_gives_the_line(here: Here, kgtool: Kgtool) -> None:
    """What went, with its value, and the command that brings it back, and only that; of a change
    of kgtool's own the undo."""
    group, topic = clients.unique("told"), here.topic()
    commit(here.at, group, {(topic, 0): 3, (topic, 2): 6}, "", 4)
    before = here.offsets(group)
    here.tool("--delete", "--group", group)
    (found,) = kgtool("explain", group).json["results"]
    values = {(row["partition"], row["offset"]) for row in found["removals"] if row["topic"]}
    assert values == {(0, 3), (2, 6)}
    assert {row["rule"] for row in found["removals"] if row["topic"]} == {"commit"}
    (line,) = [line for line in found["next"] if "recover" in line]
    assert line == f"kgtool recover {group} --topic {topic}:0,2"
    for command in ("describe", "lag"):
        said = kgtool(command, group)
        assert said.status == 1
        assert f"kgtool explain {group}" in said.err
    assert kgtool(*line.split()[1:], "--yes").status == 0
    assert here.offsets(group) == before
    assert kgtool("delete", group, "--yes").status == 0
    (found,) = kgtool("explain", group).json["results"]
    assert any(line.startswith("kgtool undo ") for line in found["next"])
    assert not any("recover" in line for line in found["next"])


def test_undo_asks_for_what_it_will_do(
    here: Here, kgtool: Kgtool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taking a recover back deletes; only what stood there before is restored."""
    asked: list[str] = []
    monkeypatch.setattr("kgtool.cli.change.confirm.is_interactive", lambda: True)
    monkeypatch.setattr("click.confirm", lambda text, **_: bool(asked.append(text)))
    group, topic = clients.unique("asked"), here.topic()
    commit(here.at, group, {(topic, 0): 3, (topic, 1): 4})
    time.sleep(0.05)
    at_ms = int(time.time() * 1000)
    here.tool("--delete", "--group", group)
    assert kgtool("recover", group, "--yes").status == 0
    assert kgtool("undo", "last").status == 1
    assert asked.pop().endswith(": Delete 2 committed offsets?")
    if here.deletes_offsets:
        assert kgtool("delete", group, "--yes").status == 0
        commit(here.at, group, {(topic, 0): 9})
        assert kgtool("recover", group, "--at", str(at_ms), "--yes").status == 0
        assert kgtool("undo", "last").status == 1
        assert asked.pop().endswith(": Restore 1 committed offset and delete 1?")


def test_single_offsets_and_what_is_newer(here: Here, kgtool: Kgtool, outcome: Outcome) -> None:
    """Offsets deleted one by one; one was committed since, and stays."""
    group, topic = clients.unique("single"), here.topic()
    commit(here.at, group, {(topic, n): 5 + n for n in range(3)}, "m", 2)
    before = here.offsets(group)
    with outcome(TABLE, "single offsets", here.version) as cell:
        if here.deletes_offsets:
            here.tool("--delete-offsets", "--group", group, "--topic", f"{topic}:0,1")
        else:
            cell.says("(no OffsetDelete: the group)")
            here.tool("--delete", "--group", group)
            commit(here.at, group, {(topic, 2): 7}, "m", 2)
        commit(here.at, group, {(topic, 1): 9}, "newer", 2)
        only = kgtool("recover", group, "--topic", f"{topic}:1", "--yes")
        assert (only.status, statuses(only)) == (0, {1: "exists"}), only
        done = kgtool("recover", group, "--yes")
        assert done.status == 0, done
        found = statuses(done)
        assert (found[0], found[1], found.get(2, "exists")) == ("restored", "exists", "exists")
        assert here.offsets(group) == {**before, (topic, 1): (9, "newer", 2)}
        if here.deletes_offsets:
            assert kgtool("undo", "last", "--yes").status == 0
            assert (topic, 0) not in here.offsets(group)
        cell.says("back; newer stays")


def expire(here: Here, group: str, topic: str) -> None:
    """Commit with a retention of its own, a moment long."""
    with Session(Settings(bootstrap=parse_bootstrap(here.at))) as session:
        session.connect()
        node = session.run(find_coordinators(session.cluster, [group]))[group]
        part = offset_commit.RequestPartition(
            partition=0, offset=11, metadata="brief\0"
        )  # librdkafka wants its end
        request = offset_commit.Request(
            group_id=group,
            retention_time_ms=1,
            topics=[offset_commit.RequestTopic(name=topic, partitions=[part])],
        )
        reply = session.run(send(node, request, 4 if here.version != "2.1.1" else 3))
        assert reply.topics[0].partitions[0].error_code == 0


def test_what_has_expired(here: Here, kgtool: Kgtool, outcome: Outcome) -> None:
    group, topic = clients.unique("expired"), here.topic()
    commit(here.at, group, {(topic, 0): 4})
    expire(here, group, topic)
    with outcome(TABLE, "expired", here.version) as cell:
        clients.wait_for(lambda: (topic, 0) not in here.offsets(group), "the expiry", 30)
        done = kgtool("recover", group, "--yes")
        (row,) = done.json["results"]
        assert (row["status"], row["cause"], row["rule"]) == ("restored", "expired", "explicit")
        assert here.offsets(group) == {(topic, 0): (11, "brief", None)}
        cell.says("back")


def in_transaction(here: Here, group: str, topic: str, offset: int) -> Producer:
    producer = Producer(
        {"bootstrap.servers": here.at, "transactional.id": clients.unique("tid"), "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    reader = clients.consumer(here.at, group)
    producer.send_offsets_to_transaction(
        [TopicPartition(topic, 0, offset)], reader.consumer_group_metadata(), 30
    )
    reader.close()
    return producer


def test_commits_of_transactions(here: Here, kgtool: Kgtool, outcome: Outcome) -> None:
    """A committed one comes back; an aborted and a pending one never were."""
    group, topic = clients.unique("txn"), here.topic()
    in_transaction(here, group, topic, 7).commit_transaction(30)
    clients.wait_for(lambda: here.offsets(group), "the transaction's commit", 15)
    in_transaction(here, group, topic, 8).abort_transaction(30)
    with outcome(TABLE, "transactions", here.version) as cell:
        clients.wait_for(lambda: _deleted(here, group), "the deletion", 15)
        done = kgtool("recover", group, "--yes")
        assert done.status == 0, done
        assert here.offsets(group) == {(topic, 0): (7, "", None)}
        pending = in_transaction(here, clients.unique("pending"), topic, 9)
        pending.abort_transaction(30)
        cell.says("back; aborted never")


def _deleted(here: Here, group: str) -> bool:
    """An abort's marker may still be under way."""
    here.kafka.run_tool("kafka-consumer-groups", "--delete", "--group", group)
    return here.offsets(group) == {}


def test_topics_that_are_gone_or_re_created(here: Here, kgtool: Kgtool, outcome: Outcome) -> None:
    """Brokers before 2.8 have no topic ids: the record before the offset tells."""
    group, lost, again = clients.unique("moved"), here.topic(), here.topic()
    commit(here.at, group, {(lost, 0): 4, (again, 0): 4, (again, 1): 15})
    with outcome(TABLE, "topics", here.version) as cell:
        clients.delete_topics(here.at, lost)
        recreate(here.at, again, 10)
        clients.wait_for(lambda: here.offsets(group) == {}, "the topics' offsets to go", 30)
        done = kgtool("recover", group, "--yes")
        assert done.status == 1, done
        found = {(row["topic"], row["partition"]): row["status"] for row in done.json["results"]}
        assert found[lost, 0] == "topic-gone"
        assert found[again, 0] == "topic-recreated", done.err
        assert here.offsets(group) == {}
        cell.says("refused")
        forced = kgtool("recover", group, "--topic", f"{again}:0", "--force", "--yes")
        assert statuses(forced) == {0: "restored"}, forced
        slip = kgtool("recover", group, "--topic", f"{again}x", "--dry-run")
        assert (slip.status, slip.json["results"]) == (1, []), "no loss of a topic that never was"
        assert f"{again}x" in slip.err
        assert f"Did you mean {again}?" in slip.err


def test_what_stood_at_a_time(here: Here, kgtool: Kgtool) -> None:
    """Also where it was overwritten since; before the log begins is refused with its time."""
    group, topic = clients.unique("then"), here.topic()
    commit(here.at, group, {(topic, 0): 3}, "old", 1)
    time.sleep(0.05)
    at_ms = int(time.time() * 1000)
    time.sleep(0.05)
    commit(here.at, group, {(topic, 0): 9, (topic, 1): 1}, "new", 1)
    done = kgtool("recover", group, "--at", str(at_ms), "--yes")
    assert (done.status, statuses(done)) == (0, {0: "restored"}), done
    assert here.offsets(group) == {(topic, 0): (3, "old", 1), (topic, 1): (1, "new", 1)}
    assert kgtool("undo", "last", "--yes").status == 0
    assert here.offsets(group)[topic, 0] == (9, "new", 1)
    early = kgtool("recover", group, "--at", "2001-01-01", "--yes")
    assert early.status == 2
    assert "goes back to" in early.json["errors"][0]["message"]


def test_from_an_export_and_to_a_file(here: Here, kgtool: Kgtool, tmp_path: Path) -> None:
    """The same from a copy of the log; the backup restores what recover would."""
    group, topic = clients.unique("copied"), here.topic()
    commit(here.at, group, {(topic, 0): 3, (topic, 1): 4}, "kept", 5)
    before = here.offsets(group)
    here.tool("--delete", "--group", group)
    export, file = tmp_path / "export", tmp_path / "gone.jsonl"
    assert kgtool("export", "--out", str(export)).status == 0
    done = kgtool("recover", group, "--from", str(export), "--out", str(file))
    assert (done.status, statuses(done)) == (0, {0: "would-restore", 1: "would-restore"}), done
    assert here.offsets(group) == {}
    assert kgtool("restore", str(file), "--yes").status == 0
    assert here.offsets(group) == before
    here.tool("--delete", "--group", group)
    done = kgtool("recover", group, "--from", str(export / "segments"), "--yes")
    assert done.status == 0, done
    assert here.offsets(group) == before


def test_what_stood_at_a_time_from_an_export(here: Here, kgtool: Kgtool, tmp_path: Path) -> None:
    """As of the living log, and only of what the copy holds."""
    group, topic = clients.unique("then"), here.topic()
    commit(here.at, group, {(topic, 0): 3, (topic, 1): 4}, "old", 1)
    time.sleep(0.05)
    at_ms = int(time.time() * 1000)
    time.sleep(0.05)
    commit(here.at, group, {(topic, 0): 9}, "new", 1)
    here.tool("--delete", "--group", group)
    export = tmp_path / "export"
    assert kgtool("export", "--out", str(export)).status == 0
    commit(here.at, group, {(topic, 0): 11, (topic, 2): 12}, "newest", 1)
    words = ("recover", group, "--from", str(export), "--at", str(at_ms))
    dry = kgtool(*words, "--dry-run")
    assert (dry.status, statuses(dry)) == (0, {0: "would-restore", 1: "would-restore"}), dry
    done = kgtool(*words, "--yes")
    assert (done.status, statuses(done)) == (0, {0: "restored", 1: "restored"}), done
    expected = {(topic, 0): (3, "old", 1), (topic, 1): (4, "old", 1)}
    assert here.offsets(group) == {**expected, (topic, 2): (12, "newest", 1)}
    early = kgtool("recover", group, "--from", str(export), "--at", "2001-01-01", "--yes")
    assert early.status == 2
    said = early.json["errors"][0]["message"]
    assert "2001-01-01T00:00:00Z is before the log" in said and "goes back to 20" in said
    undone = kgtool("undo", "last", "--yes")
    newest = {(topic, 0): (11, "newest", 1), (topic, 2): (12, "newest", 1)}
    if here.deletes_offsets:
        assert (undone.status, here.offsets(group)) == (0, newest), undone
    else:  # a new offset beside others stays, and is named
        assert (undone.status, "that broker deletes whole groups only" in undone.err) == (3, True)
        assert here.offsets(group) == {**newest, (topic, 1): (4, "old", 1)}


def test_what_it_refuses(here: Here, kgtool: Kgtool) -> None:
    """No trace; members; out of range; one bad group does not hide the others."""
    group, topic = clients.unique("refused"), here.topic()
    none = kgtool("recover", clients.unique("never"), "--yes")
    assert (none.status, none.json["errors"][0]["name"]) == (1, "NO_TRACE")
    commit(here.at, group, {(topic, 0): 50})
    here.tool("--delete", "--group", group)
    both = kgtool("recover", group, clients.unique("never"), "--yes")
    assert (both.status, statuses(both)) == (1, {0: "out-of-range"}), both
    assert {error["name"] for error in both.json["errors"]} == {"OUT_OF_RANGE", "NO_TRACE"}
    member = clients.join(here.at, group, [topic])
    try:
        living = kgtool("recover", group, "--force", "--yes")
    finally:
        member.close()
    assert (living.status, living.json["errors"][0]["name"]) == (1, "NON_EMPTY_GROUP")
    asked = kgtool("recover", group)
    assert asked.status == 2
    pattern = kgtool("recover", f"{group}*", "--yes")
    assert (pattern.status, "takes no patterns" in pattern.err) == (1, True)


def test_the_python_api(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    group, topic = clients.unique("api"), here.topic()
    commit(here.at, group, {(topic, 0): 3}, "kept", 5)
    before = here.offsets(group)
    here.tool("--delete", "--group", group)
    with GroupAdmin(here.at) as admin:
        (planned,) = admin.recover([group], dry_run=True)
        assert [row.status for row in planned.rows] == ["would-restore"]
        # Was: another cluster's log was restored from; the command refused it.
        others = tmp_path / "others"
        (others / "__consumer_offsets-0").mkdir(parents=True)
        (others / "__consumer_offsets-0" / f"{0:020}.log").touch()
        (others / "cluster.json").write_text('{"cluster_id": "AnotherClusterXXXXXXXX"}')
        with pytest.raises(KgError, match="about the cluster AnotherClusterXXXXXXXX"):
            admin.recover([group], source=others)
        (done,) = admin.recover([group])
        assert [row.status for row in done.rows] == ["restored"]
        assert here.offsets(group) == before
        admin.undo()
    assert here.offsets(group) == {}
    assert json.dumps(before[topic, 0]) == json.dumps((3, "kept", 5))
