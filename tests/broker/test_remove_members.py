"""``remove-members`` on real brokers, judged by what describes and by the clients themselves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState

from kgtool.client.cluster import find_coordinators
from kgtool.client.ops import call
from kgtool.config import Settings, parse_bootstrap
from kgtool.net.session import Session
from kgtool.protocol.api import consumer_group_heartbeat
from kgtool.sandbox.cluster import Sandbox
from tests.changes import world
from tests.changes.world import Run
from tests.support import clients
from tests.support.generations import GENERATIONS

SLOW = {"session_timeout_ms": 300_000, "heartbeat_interval_ms": 60_000}
"""Who doesn't beat for a minute doesn't notice either that he was removed."""


class Scene:
    def __init__(self, cluster: Sandbox, journal: Path) -> None:
        self.cluster = cluster
        self.journal = journal
        self.topic = clients.create_topic(cluster.bootstrap, clients.unique("members"), 2)
        self.group = clients.unique("stuck")
        self.members: list[Consumer] = []

    def join(self, group: str | None = None, **config: Any) -> Consumer:
        member = clients.join(self.cluster.bootstrap, group or self.group, [self.topic], **config)
        self.members.append(member)
        return member

    def run(self, *argv: str) -> Run:
        return world.kgtool(self.journal, "--bootstrap-server", self.cluster.bootstrap, *argv)

    def remove(self, *argv: str) -> Run:
        return self.run("remove-members", self.group, *argv, "--yes", "-o", "json")

    def state(self) -> str:
        """The group's state, as Kafka's own tool says it."""
        argv = ("--describe", "--group", self.group, "--state")
        shown = self.cluster.run_tool("kafka-consumer-groups", *argv).stdout
        return next(w for w in ("Stable", "Empty", "Rebalance", "Dead") if w in shown)


@pytest.fixture
def scene(cluster: Sandbox, tmp_path: Path) -> Iterator[Scene]:
    found = Scene(cluster, tmp_path / "journal")
    yield found
    for member in found.members:
        member.close()


def test_a_static_member_that_died(scene: Scene) -> None:
    member = scene.join(group_instance_id="one", client_id="dead-host", **SLOW)
    scene.members.remove(member)
    member.close()  # a static member does not leave
    assert scene.state() == "Stable"
    refused = scene.run("delete", "--group", scene.group, "--yes")
    assert refused.status == 1
    foreseen = scene.remove("--instance-id", "one", "--dry-run")
    assert [row["status"] for row in foreseen.rows] == ["would-remove"]
    assert scene.state() == "Stable"
    done = scene.remove("--instance-id", "one", "--wait-empty", "10s", "--reason", "host died")
    assert done.status == 0, done.err
    (row,) = done.rows
    assert (row["group_instance_id"], row["client_id"]) == ("one", "dead-host")
    assert (row["status"], row["error"]) == ("removed", None)
    assert scene.state() == "Empty"
    (entry,) = world.history(scene.journal)
    assert (entry["command"], entry["groups"], entry["changes"]) == ("remove-members", 1, 1)
    lines = (scene.journal / f"{entry['id']}.jsonl").read_text().splitlines()
    (kept,) = [json.loads(line) for line in lines if '"kind": "member"' in line]
    assert (kept["group"], kept["group_instance_id"]) == (scene.group, "one")
    (result,) = [json.loads(line) for line in lines if '"kind": "result"' in line]
    assert (result["member_id"], result["outcome"]) == (kept["member_id"], "done")
    undone = scene.run("undo", entry["id"], "--yes")
    assert (undone.status, "which can't be undone" in undone.err) == (1, True)
    assert "nothing to undo" in scene.run("undo", "last", "--yes").err


def test_by_member_and_client_id(scene: Scene) -> None:
    scene.join(client_id="first", **SLOW)
    shown = scene.run("describe", "--group", scene.group, "--members", "-o", "json")
    (member,) = shown.rows
    wrong = scene.remove("--member-id", "nobody", "--client-id", "first", "--instance-id", "x")
    assert wrong.status == 3  # first went, the others are named
    assert [row["member_id"] for row in wrong.rows if row["status"] == "removed"] == [
        member["consumer_id"]
    ]
    said = [error["message"] for error in wrong.json["errors"]]
    assert all(error["name"] == "UNKNOWN_MEMBER_ID" for error in wrong.json["errors"])
    assert len(said) == 2 and "'nobody'" in " ".join(said) and "'x'" in " ".join(said)
    assert scene.state() == "Empty"
    assert scene.remove("--all").status == 0  # there is nobody


def test_a_living_client_joins_again(scene: Scene) -> None:
    member = scene.join(heartbeat_interval_ms=200, session_timeout_ms=6000)
    done = scene.remove("--all")
    assert (done.status, [row["status"] for row in done.rows]) == (0, ["removed"])

    def is_back() -> bool:
        member.poll(0.2)
        return scene.run("describe", "--group", scene.group, "--members", "-o", "json").rows != []

    clients.wait_for(is_back, "the client to come back")


def test_what_cannot_be_done(scene: Scene) -> None:
    assert scene.run("remove-members", scene.group, "--yes").status == 2  # whom?
    assert scene.run("remove-members", "--all", "--yes").status == 2
    assert scene.run("remove-members", scene.group, "--all").status == 2  # nobody to ask
    none = scene.remove("--all")
    assert (none.status, none.json["errors"][0]["name"]) == (1, "GROUP_ID_NOT_FOUND")
    assert not scene.journal.exists()


@pytest.fixture
def modern(kafka: Sandbox, tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    made: list[Scene] = []

    def make(**config: Any) -> Scene:
        made.append(Scene(kafka, tmp_path / "journal"))
        made[-1].join(group_protocol="consumer", **config)
        return made[-1]

    yield make
    for scene in made:
        for member in scene.members:
            member.close()


@pytest.mark.parametrize("instance", [None, "static-1"])
def test_members_of_a_kip_848_group(modern: Callable[..., Scene], instance: str | None) -> None:
    scene = modern(**({} if instance is None else {"group_instance_id": instance}))
    chosen = ("--all",) if instance is None else ("--instance-id", instance)
    done = scene.remove(*chosen)
    assert (done.status, [row["status"] for row in done.rows]) == (0, ["removed"]), done.err
    # Its client joins again at its next heartbeat, which is seconds away: Kafka's tool is too slow.
    admin = clients.admin(scene.cluster.bootstrap)
    listed = admin.list_consumer_groups().result(30).valid
    states = {each.group_id: each.state for each in listed}
    assert states[scene.group] == ConsumerGroupState.EMPTY


def generation(label: str) -> Sandbox:
    return next(each for each in GENERATIONS if each.label == label).broker()


def test_a_kip_848_member_of_a_coordinator_of_3_9(tmp_path: Path) -> None:
    """Its LeaveGroup knows classic members only; the heartbeat of its client does it."""
    scene = Scene(generation("3.9.1-new"), tmp_path / "journal")
    address = scene.cluster.bootstrap
    with Session(Settings(parse_bootstrap(address))) as session:
        node = session.run(find_coordinators(session.cluster, [scene.group]))[scene.group]
        assert isinstance(node, int)
        joined = session.run(
            call(
                node,
                consumer_group_heartbeat.Request(
                    group_id=scene.group,
                    member_id="by-hand",
                    member_epoch=0,
                    rebalance_timeout_ms=60_000,
                    subscribed_topic_names=[scene.topic],
                    topic_partitions=[],
                ),
            )
        )
        assert joined.error_code == 0, joined
    argv = ("describe", "--group", scene.group, "--members", "-o", "json")
    (member,) = scene.run(*argv).rows
    done = scene.remove("--member-id", member["consumer_id"], "--debug")
    assert "ConsumerGroupHeartbeat" in done.err
    assert (done.status, [row["status"] for row in done.rows]) == (0, ["removed"]), done.err
    assert scene.run(*argv).rows == []


def test_a_member_of_a_broker_of_2_1(tmp_path: Path) -> None:
    scene = Scene(generation("2.1.1"), tmp_path / "journal")
    member = scene.join(client_id="old", **SLOW)
    try:
        done = scene.remove("--client-id", "old")
        assert (done.status, [row["status"] for row in done.rows]) == (0, ["removed"]), done.err
        assert scene.state() == "Empty"
    finally:
        member.close()
