"""Every door refuses what a policy, a protection, a plan or a limit refuses: none lets it pass.

Kind: a promise of contract section 5 that one way in keeps and another one does not. Siblings: all
doors (commands, Kafka's form, GroupAdmin, mcp, cleanup, undo, restore) times all refusals.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from kgtool import GroupAdmin, TopicPartition
from kgtool.client import cluster
from kgtool.client.cluster import find_coordinators
from kgtool.client.ops import call as send
from kgtool.config import settings as settings_of
from kgtool.config.policy import policy_rules
from kgtool.errors import KgError
from kgtool.mcp.server import Service
from kgtool.mcp.tools import rights
from kgtool.net.session import Session
from kgtool.protocol import codes
from kgtool.protocol.api import offset_commit
from kgtool.protocol.codes import broker_error
from kgtool.queries.offsets.fetch import fetch_committed
from kgtool.sandbox.cluster import Sandbox
from tests.cli.run import Result, call
from tests.support import clients

pytestmark = pytest.mark.broker

MCP = 'mcp = ["cleanup", "undo", "delete-offsets", "reset-offsets"]'


class World:
    """Two groups, each at offset 2 of 5 in one partition."""

    def __init__(
        self, kafka: Sandbox, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
    ) -> None:
        self.bootstrap, self.cluster_id = kafka.bootstrap, kafka.cluster_id
        self.folder = folder
        self._monkeypatch, self._capsys = monkeypatch, capsys
        self.topic = clients.create_topic(self.bootstrap, clients.unique("door"))
        clients.produce(self.bootstrap, self.topic, 5)
        name = clients.unique("door")
        self.groups = [f"{name}-1", f"{name}-2"]
        for group in self.groups:
            clients.commit(self.bootstrap, group, {(self.topic, 0): 2})

    def run(self, *argv: str) -> Result:
        return call(self._capsys, "--bootstrap-server", self.bootstrap, *argv)

    def policy(self, *lines: str) -> None:
        path = self.folder / "policy.toml"
        path.write_text("\n".join((MCP, *lines)))
        self._monkeypatch.setenv("KGTOOL_POLICY", str(path))

    def offsets(self) -> list[dict[tuple[str, int], int]]:
        return [clients.committed(self.bootstrap, group) for group in self.groups]

    def last(self) -> str:
        (newest, *_) = self.run("history", "-o", "json").json["results"]
        return str(newest["id"])

    @property
    def service(self) -> Service:
        """What ``kgtool mcp`` serves, without its stdin."""
        words = [f"--bootstrap-server={self.bootstrap}"]
        rules = lambda: policy_rules(self.cluster_id, None)  # noqa: E731
        return Service(words, self.cluster_id, lambda: rights(rules(), self.cluster_id))


def mcp(service: Service, name: str, **given: Any) -> Any:
    return anyio.run(lambda: service.call(name, given))


@pytest.fixture
def world(
    kafka: Sandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> World:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("KGTOOL_POLICY", "KGTOOL_CONFIRM"):
        monkeypatch.delenv(name, raising=False)
    return World(kafka, tmp_path, monkeypatch, capsys)


# ---------------------------------------------------------------------------------------------
# All doors, all refusals

Door = Callable[[], object]


class Doors:
    """Each door changes both groups, and returns or raises what it has to say."""

    def __init__(self, world: World) -> None:
        self.world = world
        groups = [word for group in world.groups for word in ("--group", group)]
        run, backup, plan = world.run, world.folder / "backup", world.folder / "plan.json"
        assert run("backup", *groups, "--out", str(backup)).status == 0
        assert run("cleanup", "plan", *groups, "--out", str(plan)).status == 0
        topic = ["--topic", world.topic]
        moved = [*groups, *topic, "--to-latest", "--execute"]
        assert run("reset-offsets", *moved, "--yes").status == 0
        journal = world.last()
        assert (
            run("reset-offsets", *groups, *topic, "--to-offset", "3", "--execute", "-y").status == 0
        )
        rules = world.folder / "retention.toml"
        rules.write_text(f'[[groups]]\nmatch = {json.dumps(world.groups)}\nretention = "1s"\n')
        admin = GroupAdmin(world.bootstrap)
        self.admin = admin
        self.all: dict[str, Door] = {
            "delete": lambda: run("delete", *groups, "--yes"),
            "--delete": lambda: run("--delete", *groups),
            "delete-offsets": lambda: run("delete-offsets", *groups, *topic, "--yes"),
            "--delete-offsets": lambda: run("--delete-offsets", *groups, *topic),
            "reset-offsets": lambda: run("reset-offsets", *moved, "--yes"),
            "--reset-offsets": lambda: run("--reset-offsets", *moved),
            "keep": lambda: run("keep", *groups, "--yes"),
            "restore": lambda: run("restore", str(backup), "--yes"),
            "undo": lambda: run("undo", journal, "--force", "--yes"),
            "cleanup": lambda: run("cleanup", "apply", str(plan), "--yes"),
            "retention": lambda: run("retention", "apply", str(rules), "--yes"),
            "admin.delete_groups": lambda: admin.delete_groups(world.groups),
            "admin.delete_offsets": lambda: [
                admin.delete_offsets(group, [world.topic]) for group in world.groups
            ],
            "admin.reset_offsets": lambda: admin.reset_offsets(
                world.groups, "latest", topics=[world.topic]
            ),
            "admin.commit_offsets": lambda: [
                admin.commit_offsets(group, {TopicPartition(world.topic, 0): 5})
                for group in world.groups
            ],
            "admin.keep": lambda: admin.keep(world.groups),
            "admin.restore": lambda: admin.restore(backup),
            "admin.retention_apply": lambda: admin.retention_apply(rules),
            "admin.undo": lambda: admin.undo(journal, force=True),
            "admin.cleanup_apply": lambda: admin.cleanup_apply(plan),
            "mcp.reset-offsets": lambda: self._agent(
                "reset-offsets", topic=[world.topic], to_latest=True
            ),
            "mcp.delete-offsets": lambda: self._agent("delete-offsets", topic=[world.topic]),
        }

    def _agent(self, name: str, **given: Any) -> str:
        """Plan and apply through mcp, one group after the other; what it said."""
        said = []
        service = self.world.service
        for group in self.world.groups:
            plan = mcp(service, f"plan_{name}", group=group, **given)
            said.append(plan.content[0].text)
            key = (plan.structured_content or {}).get("plan_id")
            if key is not None:
                said.append(mcp(service, "apply", plan_id=key).content[0].text)
        return "".join(said)

    def say(self, name: str) -> str:
        try:
            return str(self.all[name]())
        except KgError as error:
            return str(error)


SINGLE = ("admin.delete_offsets", "admin.commit_offsets", "mcp.reset-offsets", "mcp.delete-offsets")
"""Doors that change one group at a time."""


def test_no_door_lets_pass_what_is_refused(world: World) -> None:
    doors = Doors(world)
    before = world.offsets()
    refusals: dict[str, tuple[str, Callable[[str], bool]]] = {
        "max_groups = 1": ("the limit is 1", lambda door: door not in SINGLE),
        "max_offsets = 0": ("the limit is 0", lambda door: True),
        f'protected = ["{world.groups[0][:-1]}*"]': ("is protected", lambda door: True),
        "reason = true": ("needs a reason", lambda door: True),
    }
    try:
        for line, (said, applies) in refusals.items():
            world.policy(line)
            for name in filter(applies, doors.all):
                told = doors.say(name)
                assert said in told, (line, name, told)
                assert world.offsets() == before, (line, name, told)
        world.policy()
        words = ["--bootstrap-server", world.bootstrap, "--cluster-id", world.cluster_id]
        assert world.run("context", "add", "prod", *words, "--protected").status == 0
        for name in doors.all:
            told = doors.say(name)
            assert "protected" in told, (name, told)
            assert world.offsets() == before, (name, told)
    finally:
        doors.admin.close()


FORBIDDEN: dict[str, Callable[[GroupAdmin, World], object]] = {
    "--to-latest": lambda admin, w: admin.reset_offsets(w.groups, "latest"),
    "--to-earliest": lambda admin, w: admin.reset_offsets(w.groups, "earliest"),
    "--to-current": lambda admin, w: admin.reset_offsets(w.groups, "current"),
    "--to-offset": lambda admin, w: admin.reset_offsets(w.groups, 4),
    "--shift-by": lambda admin, w: admin.reset_offsets(w.groups, shift_by=1),
    "--like": lambda admin, w: admin.reset_offsets(w.groups[:1], like=w.groups[1]),
    "--all-topics": lambda admin, w: admin.reset_offsets(w.groups, "latest"),
    "--topic": lambda admin, w: admin.delete_offsets(w.groups[0], [w.topic]),
    "--group": lambda admin, w: admin.delete_groups(w.groups),
    "--from-file": lambda admin, w: admin.commit_offsets(
        w.groups[0], {TopicPartition(w.topic, 0): 1}
    ),
    "--all": lambda admin, w: admin.remove_members(w.groups[0], all_members=True),
    "--client-id": lambda admin, w: admin.remove_members(w.groups[0], client_ids=["rdkafka"]),
}


@pytest.mark.parametrize("option", FORBIDDEN)
def test_a_strategy_or_selection_is_forbidden_from_python(world: World, option: str) -> None:
    """Was: a policy's ``forbid`` knew only the flags of GroupAdmin's methods."""
    clients.join(world.bootstrap, clients.unique("door"), [world.topic]).close()
    world.policy(f'forbid = ["{option}"]')
    before = world.offsets()
    member = option in ("--all", "--client-id")
    with GroupAdmin(world.bootstrap) as admin:
        consumer = clients.join(world.bootstrap, world.groups[0], [world.topic]) if member else None
        try:
            with pytest.raises(KgError, match=f"{option} is forbidden"):
                FORBIDDEN[option](admin, world)
        finally:
            if consumer is not None:
                consumer.close()
    assert member or world.offsets() == before


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("--to-latest", {"to_latest": True, "all_topics": True}),
        ("--all-topics", {"to_latest": True, "all_topics": True}),
        ("--shift-by", {"shift_by": -1, "all_topics": True}),
    ],
)
@pytest.mark.parametrize("is_late", [False, True])
def test_what_an_agent_has_planned_is_judged(
    world: World, option: str, given: dict[str, Any], is_late: bool
) -> None:
    """Was: apply sent the rows by --from-file, which a policy about strategies does not know."""
    before, group = world.offsets(), world.groups[0]
    service = world.service
    world.policy(*([] if is_late else [f'forbid = ["{option}"]']))
    said = mcp(service, "plan_reset-offsets", group=group, **given)
    if is_late:
        world.policy(f'forbid = ["{option}"]')
        said = mcp(service, "apply", plan_id=said.structured_content["plan_id"])
    assert said.is_error and f"{option} is forbidden" in said.content[0].text
    assert world.offsets() == before


# ---------------------------------------------------------------------------------------------
# What the plan refused


@pytest.fixture
def undone(world: World) -> Iterator[tuple[World, str]]:
    """Both groups were moved; the journal's id."""
    groups = [word for group in world.groups for word in ("--group", group)]
    argv = ["reset-offsets", *groups, "--all-topics", "--to-latest", "--execute", "--yes"]
    assert world.run(*argv).status == 0
    yield world, world.last()


def test_an_undo_through_mcp_is_what_its_plan_showed(undone: tuple[World, str]) -> None:
    """Was: a group with a member at the plan, without at the apply, was written to.

    Kind: what a plan refused is applied. Siblings: offsets that have moved since, configs.
    """
    world, journal = undone
    world.policy()
    service = world.service
    member = clients.join(
        world.bootstrap,
        world.groups[0],
        [clients.create_topic(world.bootstrap, clients.unique("other"))],
    )
    plan = mcp(service, "plan_undo", journal=journal)
    member.close()
    clients.wait_for(
        lambda: world.run("undo", journal, "--dry-run").status == 0, "the group is empty"
    )
    done = mcp(service, "apply", plan_id=plan.structured_content["plan_id"])
    shown = done.structured_content
    at = (world.topic, 0)
    assert [found.get(at) for found in world.offsets()] == [5, 2], shown
    assert {row["group"]: row["status"] for row in shown["results"]} == {
        world.groups[0]: "failed",
        world.groups[1]: "restored",
    }
    assert [error["name"] for error in shown["errors"]] == ["NOT_DONE"]


def test_only_the_file_s_name_takes_the_place_of_the_file(world: World) -> None:
    """Was: ``{file}`` was replaced in every word, in a reason and in a group's name, too."""
    group = clients.unique("{file}")
    clients.commit(world.bootstrap, group, {(world.topic, 0): 2})
    world.policy()
    service = world.service
    plan = mcp(service, "plan_reset-offsets", group=group, all_topics=True, to_latest=True)
    done = mcp(service, "apply", plan_id=plan.structured_content["plan_id"], reason="see {file}")
    assert not done.is_error, done
    assert clients.committed(world.bootstrap, group) == {(world.topic, 0): 5}
    (newest, *_) = sorted((world.folder / "journal").glob("*.jsonl"), reverse=True)
    assert json.loads(newest.read_text().splitlines()[0])["reason"] == "see {file}"


# ---------------------------------------------------------------------------------------------
# What undo is promised


def test_undo_last_never_takes_an_older_change(world: World) -> None:
    """Was: it passed over a newer change without offsets, and undid an older one, unasked.

    Kind: undo promised, or made, of something else. Siblings: keep, removed members.
    """
    old, bare = world.groups[0], clients.unique("bare")
    assert world.run("delete", old, "--yes").status == 0
    clients.join(world.bootstrap, bare, [world.topic]).close()
    clients.wait_for(
        lambda: world.run("delete", bare, "--dry-run").status == 0, "the group is empty"
    )
    done = world.run("delete", bare, "--yes")
    assert done.status == 0
    assert "undo restores them" not in done.err and "undo does not bring it back" in done.err
    refused = world.run("undo", "last", "--yes")
    assert (refused.status, "nothing to undo" in refused.err) == (1, True), refused
    with GroupAdmin(world.bootstrap) as admin, pytest.raises(KgError, match="nothing to undo"):
        admin.undo()
    assert old not in clients.group_ids(world.bootstrap)
    assert world.run("keep", world.groups[1], "--yes").status in (0, 1)
    assert world.run("undo", "last", "--yes").status == 1
    assert old not in clients.group_ids(world.bootstrap)


def test_the_command_that_takes_back_a_deletion_from_a_living_group(world: World) -> None:
    """Was: ``kgtool undo ID``, which such a group answers with NON_EMPTY_GROUP."""
    group = world.groups[0]
    other = clients.create_topic(world.bootstrap, clients.unique("other"))
    member = clients.join(world.bootstrap, group, [other])
    try:
        done = world.run("delete-offsets", "-g", group, "-t", world.topic, "--yes")
        assert done.status == 0, done
        (line,) = [line for line in done.err.splitlines() if line.startswith("Undo: ")]
        words = line.removeprefix("Undo: kgtool ").split()
        assert "--as-member" in words
        assert world.run(*words, "--yes").status == 0
        assert clients.committed(world.bootstrap, group)[world.topic, 0] == 2
    finally:
        member.close()


def test_a_committed_offset_of_minus_one_is_deleted(world: World) -> None:
    """Was: "Successful (there was no offset)", and it was still there. Kafka's form deletes it."""
    group = clients.unique("negative")
    clients.commit(world.bootstrap, group, {(world.topic, 0): 2})
    found = settings_of(world.bootstrap)
    assert found is not None
    topic = clients.create_topic(world.bootstrap, clients.unique("negative"))

    with Session(found) as session:
        (home,) = session.run(find_coordinators(session.cluster, [group])).values()
        row = offset_commit.RequestPartition(partition=0, offset=-1, metadata="")
        request = offset_commit.Request(
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[offset_commit.RequestTopic(name=topic, partitions=[row])],
        )
        reply = session.run(send(home, request, 9))
        assert reply.topics[0].partitions[0].error_code == 0

    def stored() -> set[str]:
        with Session(found) as session:
            values = session.run(fetch_committed(session.cluster, [group]))[group]
            return {at.topic for at in values}

    assert stored() == {world.topic, topic}
    done = world.run("delete-offsets", "-g", group, "-t", topic, "--yes", "-o", "json")
    assert [row["status"] for row in done.json["results"]] == ["deleted"], done
    assert stored() == {world.topic}


# ---------------------------------------------------------------------------------------------
# A coordinator that is not there


@pytest.mark.parametrize(
    ("command", "more", "after"),
    [
        ("reset-offsets", ["--all-topics", "--to-latest", "--execute"], 5),
        ("reset-offsets", ["--topic", "{topic}", "--to-latest", "--execute"], 5),
        ("delete-offsets", ["--topic", "{topic}"], None),
        ("delete", [], None),
        ("keep", [], 2),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_dead_coordinator_does_not_spoil_its_neighbour(
    world: World, monkeypatch: pytest.MonkeyPatch, command: str, more: list[str], after: int | None
) -> None:
    """Was: the dead group used up the time of the other one, which was never reset.

    Kind: a step that waits for a coordinator without a share of its own. Siblings: every change of
    several groups; ``delete`` took 76 s of 30.
    """
    dead, well = world.groups
    real = cluster._ask_coordinators

    def ask(known: Any, groups: list[str]) -> Any:
        found = yield from real(known, groups)
        if isinstance(found.get(dead), int):  # an answer that came in time
            found[dead] = broker_error(codes.COORDINATOR_NOT_AVAILABLE)
        return found

    monkeypatch.setattr(cluster, "_ask_coordinators", ask)
    words = [word.format(topic=world.topic) for word in more]
    began = time.monotonic()
    argv = [command, "-g", dead, "-g", well, *words, "--yes", "--timeout", "4s", "-o", "json"]
    done = world.run(*argv)
    assert time.monotonic() - began < 6, done
    assert done.status == 3, done
    assert {error["target"]["group"] for error in done.json["errors"]} == {dead}
    assert "undo covers only" not in done.err
    places = clients.committed(world.bootstrap, well)
    assert places.get((world.topic, 0)) == after, done
