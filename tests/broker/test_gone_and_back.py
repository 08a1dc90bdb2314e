"""Whoever removed it, ``recover`` brings it back, on three generations: as its log shows it.

Kafka's own tool deletes, a retention of one minute expires, a topic is re-created. What was there
and what comes back is read by confluent-kafka, and from the segments by Kafka's DumpLogSegments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import TopicPartition

from kgtool.queries.cluster.offsets_partition import TOPIC, offsets_partition
from kgtool.sandbox.cluster import Sandbox
from tests.broker.test_put_back import recreate
from tests.broker.test_recover import Here, in_transaction, statuses
from tests.changes.world import Seen, commit
from tests.cli.run import Result, call
from tests.support import clients
from tests.support.outcomes import Outcome

TABLE = "gone and back, as Kafka's dump of the log shows it"
SHORT = {"offsets.retention.minutes": "1"}
DUMPS = "4.3.1"
"""Whose dump is read: that of 2.1.1 shows nothing of an offset but its number."""
RECORD = re.compile(r".* key: (\{.*\}) payload: (.*)")

Key = tuple[str, int]
Values = dict[Key, list["dict[str, Any] | None"]]
"""What was written for each partition of a group, in the log's order; None: a tombstone."""


class World(Here):
    """A broker, Kafka's dump of its log, and kgtool."""

    def __init__(self, version: str, run: Callable[..., Result], dumps: Sandbox, **more: Any):
        super().__init__(version, **more)
        self._dumps = dumps
        self.run = lambda *argv: run(*argv, "--bootstrap-server", self.at, "-o", "json")

    def values(self, group: str) -> Values:
        """What Kafka's dump shows of a group's offsets."""
        (node,) = self.kafka.nodes
        data = self.kafka.state.node_dir(node.id) / "data"
        number = offsets_partition(group, len(list(data.glob(f"{TOPIC}-*"))))
        files = ",".join(map(str, sorted((data / f"{TOPIC}-{number}").glob("*.log"))))
        words = ("--offsets-decoder", "--files", files)
        done = self._dumps.run_tool("kafka-dump-log", *words, bootstrap=False)
        assert done.returncode == 0, done
        found: Values = {}
        for line in done.stdout.splitlines():
            match = RECORD.match(line)
            key = json.loads(match[1]) if match else {}
            of = key.get("data", {})
            if match and key.get("type") in ("0", "1") and of["group"] == group:
                value = None if match[2] == "<DELETE>" else json.loads(match[2])["data"]
                found.setdefault((of["topic"], of["partition"]), []).append(value)
        return found

    def recover(self, group: str, *words: str) -> dict[int, str]:
        """Recover; returns the statuses by partition, of one topic."""
        return statuses(self.run("recover", group, *words, "--yes"))


class Lost(NamedTuple):
    """A group, what an independent client saw of it, and how many records its log had."""

    group: str
    offsets: Seen
    values: Values


@pytest.fixture(scope="module")
def dumps(warm: Callable[[Sandbox], Sandbox]) -> Sandbox:
    """Runs Kafka's dump."""
    return warm(Here(DUMPS).kafka)


@pytest.fixture(params=["4.3.1", "3.9.1", "2.1.1"])
def make(
    request: pytest.FixtureRequest,
    warm: Callable[[Sandbox], Sandbox],
    dumps: Sandbox,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., World]:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))

    def made(**more: Any) -> World:
        world = World(request.param, lambda *argv: call(capsys, *argv), dumps, **more)
        warm(world.kafka)
        return world

    return made


def lost(world: World, group: str) -> Lost:
    """What is there before it goes."""
    offsets, values = world.offsets(group), world.values(group)
    assert offsets.keys() == values.keys(), (offsets, values)
    return Lost(group, offsets, values)


def last(values: Values) -> dict[Key, dict[str, Any] | None]:
    """The last value of each key; all but the time of its commit, and how it was to expire."""
    return {
        key: own[-1]
        and {k: v for k, v in own[-1].items() if k not in ("commitTimestamp", "expireTimestamp")}
        for key, own in values.items()
    }


def written(now: Values, before: Values) -> dict[Key, dict[str, Any] | None]:
    """The last values now. Brokers since 4.1 put the topic's id into a commit, but not into that of
    a transaction."""
    known = last(before)
    return {
        key: value and {k: v for k, v in value.items() if k != "topicId" or k in (known[key] or {})}
        for key, value in last(now).items()
    }


def comes_back(world: World, before: Lost) -> None:
    """There is a tombstone; recover writes the same value again, and undo another tombstone."""
    group = before.group
    tombstones = world.values(group)
    assert set(last(tombstones).values()) == {None}, tombstones
    assert world.offsets(group) == {}
    assert set(world.recover(group).values()) == {"restored"}
    assert world.offsets(group) == before.offsets
    assert written(world.values(group), before.values) == last(before.values)
    undone = world.run("undo", "last", "--yes")
    assert undone.status == 0, undone
    assert world.offsets(group) == {}
    assert set(last(world.values(group)).values()) == {None}


def test_what_others_deleted(make: Callable[..., World], outcome: Outcome) -> None:
    world = make()
    topic = world.topic()
    for name, way in _WAYS.items():
        with outcome(TABLE, name, world.version) as cell:
            cell.says(way(world, topic))


def test_what_the_broker_s_retention_took(make: Callable[..., World], outcome: Outcome) -> None:
    world = make(name="gone", config=SHORT)
    for name, before in _expiring(world, world.topic()).items():
        with outcome(TABLE, name, world.version) as cell:
            clients.wait_for(lambda: not world.offsets(before.group), name, 120)  # noqa: B023 - at once
            rows = world.run("recover", before.group, "--dry-run").json["results"]
            assert {row["cause"] for row in rows} == {"expired"}, rows
            comes_back(world, before)
            cell.says("back, and away again")


def _expiring(world: World, topic: str) -> dict[str, Lost]:
    """Groups that nobody uses from now on: without members, left by them, by a transaction."""
    simple, transacted = clients.unique("simple"), clients.unique("txn")
    commit(world.at, simple, {(topic, 0): 3, (topic, 1): 20}, "noted é", 4)
    commit(world.at, simple, {(topic, 2): 0}, "", None)
    groups = [simple, transacted]
    for protocol in ("classic", "consumer") if world.version == "4.3.1" else ("classic",):
        groups.append(clients.unique(f"left, {protocol}"))
        member = clients.join(world.at, groups[-1], [topic], **{"group.protocol": protocol})
        place = TopicPartition(topic, 1, 9, metadata="left", leader_epoch=0)
        member.commit(offsets=[place], asynchronous=False)
        member.close()
    in_transaction(world, transacted, topic, 7).commit_transaction(30)
    clients.wait_for(lambda: world.offsets(transacted), "the transaction's commit", 15)
    return {f"expired, {group.split('-')[0]}": lost(world, group) for group in groups}


def _group(world: World, topic: str) -> str:
    group = clients.unique("deleted")
    commit(world.at, group, {(topic, 0): 3, (topic, 1): 20}, "noted é", 4)
    commit(world.at, group, {(topic, 2): 0}, "", None)
    before = lost(world, group)
    world.tool("--delete", "--group", group)
    comes_back(world, before)
    return "back, and away again"


def _single(world: World, topic: str) -> str:
    """One of two that Kafka's tool deleted was committed since: it stays, also by undo."""
    group = clients.unique("single")
    commit(world.at, group, {(topic, n): 5 + n for n in range(3)}, "m", 2)
    before = lost(world, group)
    if world.version == "2.1.1":
        refused = world.kafka.run_tool(
            "kafka-consumer-groups", "--delete-offsets", "--group", group, "--topic", topic
        )
        assert "delete-offsets is not a recognized option" in refused.stderr + refused.stdout
        return "its tool has none"
    world.tool("--delete-offsets", "--group", group, "--topic", f"{topic}:0,1")
    commit(world.at, group, {(topic, 1): 9}, "newer", 2)
    newer = {(topic, 1): (9, "newer", 2), (topic, 2): before.offsets[topic, 2]}
    assert world.recover(group) == {0: "restored", 1: "exists"}
    assert world.offsets(group) == {**before.offsets, **newer}
    values = world.values(group)
    assert last(values)[topic, 0] == last(before.values)[topic, 0]
    assert [len(values[topic, n]) for n in range(3)] == [3, 3, 1]  # nothing was sent for these
    assert world.run("undo", "last", "--yes").status == 0
    assert world.offsets(group) == newer
    return "back; newer stays"


def _transaction(world: World, topic: str) -> str:
    """A committed one comes back. A pending one is none: it stops recover until it is over."""
    group = clients.unique("txn")
    in_transaction(world, group, topic, 7).commit_transaction(30)
    clients.wait_for(lambda: world.offsets(group), "the transaction's commit", 15)
    before = lost(world, group)

    def is_deleted() -> bool:  # the marker may be under way
        world.kafka.run_tool("kafka-consumer-groups", "--delete", "--group", group)
        return not world.offsets(group)

    clients.wait_for(is_deleted, "the deletion", 15)
    comes_back(world, before)
    pending = in_transaction(world, group, topic, 8)
    (row,) = world.run("recover", group, "--dry-run").json["results"]
    assert row["offset"] == 7, row
    pending.abort_transaction(30)
    clients.wait_for(lambda: world.recover(group) == {0: "restored"}, "the abort's marker", 15)
    assert world.offsets(group) == before.offsets
    assert written(world.values(group), before.values) == last(before.values)
    return "back, and away again; pending: none"


def _recreated(world: World, _topic: str) -> str:
    """An offset of a topic that was re-created is refused; with --force it is the one that was, but
    for its leader epoch: another topic's would let consumers wait for it."""
    group, again = clients.unique("moved"), world.topic()
    commit(world.at, group, {(again, 0): 4}, "old", 1)
    recreate(world.at, again, 10)
    clients.wait_for(lambda: world.offsets(group) == {}, "the topic's offsets to go", 30)
    assert world.recover(group) == {0: "topic-recreated"}
    assert world.offsets(group) == {}
    assert world.recover(group, "--force") == {0: "restored"}
    assert world.offsets(group) == {(again, 0): (4, "old", None)}
    assert world.run("undo", "last", "--yes").status == 0
    assert world.offsets(group) == {}
    return "refused; --force: back"


_WAYS: dict[str, Callable[[World, str], str]] = {
    "group deleted": _group,
    "offsets deleted": _single,
    "transaction deleted": _transaction,
    "topic re-created": _recreated,
}
