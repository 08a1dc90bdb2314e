"""Every door refuses what a policy, a protection, a plan or a limit refuses: none lets it pass.

Kind: a promise of contract section 5 that one way in keeps and another one does not. Siblings: all
doors (commands, Kafka's form, GroupAdmin, mcp, cleanup, undo, restore) times all refusals.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from kgtool import GroupAdmin, TopicPartition
from kgtool.changes.hidden_offsets import Hidden, HiddenOffsets
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
from tests.cli.run import HANGS_S, Result, call
from tests.support import brokers, clients
from tests.support.warm_kgtool import may_be_warm, run_warm

pytestmark = pytest.mark.broker

MCP = 'mcp = ["cleanup", "undo", "recover", "delete-offsets", "reset-offsets"]'


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
        self.name = clients.unique("door")
        self.groups = [f"{self.name}-1", f"{self.name}-2"]
        self.living: list[str] = []
        self.more: list[str] = []
        """Words after each command line."""
        self.make()

    def make(self) -> None:
        for group in self.groups:
            clients.commit(self.bootstrap, group, {(self.topic, 0): 2})

    def join(self) -> list[str]:
        """Make two more groups; each keeps a static member whose client has died."""
        self.living = [f"{self.name}-3", f"{self.name}-4"]
        for group in self.living:
            config = {"group_instance_id": "dead", "session_timeout_ms": 1_800_000}
            clients.join(self.bootstrap, group, [self.topic], **config).close()
        return self.living

    def words(self, option: str) -> list[str]:
        return [word for group in self.groups for word in (option, group)]

    def run(self, *argv: str) -> Result:
        return call(self._capsys, "--bootstrap-server", self.bootstrap, *argv, *self.more)

    def seen(self) -> Any:
        """Offsets, members and configs."""
        living = [word for group in self.living for word in ("--group", group)]
        members = self.run("describe", "--members", *living, "-o", "json") if living else None
        configs = self.run("configs", *self.words("--group"), "-o", "json").json["results"]
        return self.offsets(), members and members.json["results"], configs

    def policy(self, *lines: str) -> None:
        path = self.folder / "policy.toml"
        path.write_text("\n".join((MCP, *lines)))
        self._monkeypatch.setenv("KGTOOL_POLICY", str(path))

    @contextmanager
    def refusing(self, refusal: str) -> Iterator[None]:
        """A policy's line, a word of commands, or a protected context, while doors are tried."""
        if not refusal.startswith("--"):
            self.policy(refusal.replace("{glob}", json.dumps(f"{self.name}*")))
        elif refusal == "--max-groups":
            self.more = [refusal, "1"]
        else:
            words = ["--bootstrap-server", self.bootstrap, "--cluster-id", self.cluster_id]
            assert self.run("context", "add", "prod", *words, refusal).status == 0
            self.policy()
        yield
        self.more = []
        self.policy()

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
        return WarmService(words, self.cluster_id, lambda: rights(rules(), self.cluster_id))


class WarmService(Service):
    """Each call is a process of its own here too, but none that imports all for itself."""

    async def _run(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        argv = (*words, "--output=json", *self._connection)
        environ = dict(os.environ)
        assert may_be_warm(environ)
        done = await anyio.to_thread.run_sync(run_warm, argv, environ, HANGS_S)
        return subprocess.CompletedProcess(argv, done.status, done.out, done.err)


def mcp(service: Service, name: str, **given: Any) -> Any:
    return anyio.run(lambda: service.call(name, given))


@pytest.fixture(scope="module")
def kafka(warm: Callable[[Sandbox], Sandbox]) -> Sandbox:
    """A broker of its own: a dozen doors read the whole log, which all tests share elsewhere."""
    return warm(brokers.shared_broker("4.3.1", name="doors"))


@pytest.fixture
def world(
    kafka: Sandbox,
    own_state: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> World:
    return World(kafka, tmp_path, monkeypatch, capsys)


@pytest.fixture
def admin(world: World) -> Iterator[GroupAdmin]:
    with GroupAdmin(world.bootstrap) as found:
        yield found


# ---------------------------------------------------------------------------------------------
# All doors, all refusals

Door = Callable[[], object]


class Doors:
    """Ways to change both groups: each returns or raises what it has to say."""

    def __init__(self, world: World, ways: dict[str, Door]) -> None:
        self.world, self._ways = world, ways

    def refuse(self, refusal: str) -> None:
        """Try all doors that a refusal applies to: each says so, and nothing is changed."""
        said, applies = REFUSALS[refusal]
        before = self.world.seen()
        with self.world.refusing(refusal):
            for name in filter(applies, self._ways):
                try:
                    told = str(self._ways[name]())
                except KgError as error:
                    told = str(error)
                assert said in told, (refusal, name, told)
        assert self.world.seen() == before, refusal


SINGLE = ("delete_offsets", "commit_offsets", "alter_configs", "remove_members")
"""Methods that change one group at a time."""


def _is_of_several(door: str) -> bool:
    front, _, name = door.rpartition(".")
    return name not in SINGLE and (front != "mcp" or name in ("undo", "cleanup"))


def _is_of_offsets(door: str) -> bool:
    return "members" not in door and "configs" not in door


def _is_removal(door: str) -> bool:
    return any(word in door for word in ("delete", "cleanup", "retention"))


def _is_of_whole_groups(door: str) -> bool:
    return _is_removal(door) and not door.startswith("mcp") and "offsets" not in door


REFUSALS: dict[str, tuple[str, Callable[[str], bool]]] = {
    "max_groups = 1": ("the limit is 1", _is_of_several),
    "max_offsets = 0": ("the limit is 0", _is_of_offsets),
    'min_idle = "30d"': ("not known to be idle for 30d", _is_removal),
    "protected = [{glob}]": ("is protected", lambda _door: True),
    "reason = true": ("needs a reason", lambda _door: True),
    "refuse_blind = true": ("undo may not cover all of group", _is_of_whole_groups),
    "--max-groups": ("--max-groups allows 1", lambda door: "." not in door),
    "--protected": ("is protected", lambda _door: True),
}
"""Lines of a policy, an option of commands, a context's: what is said, and by which doors."""
SEEN = [each for each in REFUSALS if "blind" not in each]
"""Those of what the log shows. A context is for all that comes after it: it is the last."""


def agent(world: World, name: str, *calls: dict[str, Any]) -> str:
    """Plan and apply through mcp, one call after the other; what it said."""
    said, service = [], world.service
    for given in calls:
        plan = mcp(service, f"plan_{name}", **given)
        said.append(plan.content[0].text)
        key = (plan.structured_content or {}).get("plan_id")
        if key is not None:
            said.append(mcp(service, "apply", plan_id=key).content[0].text)
    return "".join(said)


def of_consumer_groups(world: World, admin: GroupAdmin) -> Doors:
    """Return all doors that there are for groups of consumers."""
    names, group, topic = world.groups, world.words("--group"), ["--topic", world.topic]
    run, backup, plan = world.run, world.folder / "backup", world.folder / "plan.json"
    at_ms = int(time.time() * 1000)
    assert run("backup", *group, "--out", str(backup)).status == 0
    moved = [*group, *topic, "--to-latest", "--execute"]
    assert run("reset-offsets", *moved, "--yes").status == 0
    journal = world.last()
    time.sleep(1.1)  # journals are sorted by the second, and so is "undo last"
    moved_again = [*group, *topic, "--to-offset", "3", "--execute"]
    assert run("reset-offsets", *moved_again, "-y").status == 0
    newest = world.last()
    assert newest != journal
    assert run("cleanup", "plan", *group, "--out", str(plan)).status == 0
    rules = world.folder / "retention.toml"
    rules.write_text(f'[[groups]]\nmatch = {json.dumps(names)}\nretention = "1s"\n')
    time.sleep(1.1)  # a warm process would be at the retention's door before it is due
    living = world.join()
    config = "consumer.session.timeout.ms"
    at, first = TopicPartition(world.topic, 0), names[0]
    each = [{"group": name, "topic": [world.topic]} for name in names]
    ways: dict[str, Door] = {
        "delete": lambda: run("delete", *group, "--yes"),
        "--delete": lambda: run("--delete", *group),
        "delete-offsets": lambda: run("delete-offsets", *group, *topic, "--yes"),
        "--delete-offsets": lambda: run("--delete-offsets", *group, *topic),
        "reset-offsets": lambda: run("reset-offsets", *moved, "--yes"),
        "--reset-offsets": lambda: run("--reset-offsets", *moved),
        "keep": lambda: run("keep", *group, "--yes"),
        "restore": lambda: run("restore", str(backup), "--yes"),
        "undo": lambda: run("undo", journal, "--force", "--yes"),
        "recover": lambda: run("recover", *names, "--at", str(at_ms), "--yes"),
        "cleanup": lambda: run("cleanup", "apply", str(plan), "--yes"),
        "retention": lambda: run("retention", "apply", str(rules), "--yes"),
        "remove-members": lambda: run("remove-members", *living, "--all", "--yes"),
        "configs": lambda: run(
            "configs", *group, "--alter", "--add-config", f"{config}=50000", "--yes"
        ),
        "admin.delete_groups": lambda: admin.delete_groups(names),
        "admin.delete_offsets": lambda: admin.delete_offsets(first, [world.topic]),
        "admin.reset_offsets": lambda: admin.reset_offsets(names, "latest", topics=[world.topic]),
        "admin.commit_offsets": lambda: admin.commit_offsets(first, {at: 5}),
        "admin.keep": lambda: admin.keep(names),
        "admin.restore": lambda: admin.restore(backup),
        "admin.recover": lambda: admin.recover(names, at_ms=at_ms),
        "admin.retention_apply": lambda: admin.retention_apply(rules),
        "admin.undo": lambda: admin.undo(journal, force=True),
        "admin.cleanup_apply": lambda: admin.cleanup_apply(plan),
        "admin.remove_members": lambda: admin.remove_members(living[0], all_members=True),
        "admin.alter_configs": lambda: admin.alter_configs(first, {config: "50000"}),
        "mcp.reset-offsets": lambda: agent(
            world, "reset-offsets", *({**one, "to_latest": True} for one in each)
        ),
        "mcp.delete-offsets": lambda: agent(world, "delete-offsets", *each),
        "mcp.recover": lambda: agent(
            world, "recover", *({**one, "at": str(at_ms)} for one in each)
        ),
        "mcp.undo": lambda: agent(world, "undo", {"journal": newest}),
        "mcp.cleanup": lambda: agent(world, "cleanup", {"group": names}),
    }
    return Doors(world, ways)


def test_no_door_lets_pass_what_is_refused(world: World, admin: GroupAdmin) -> None:
    """As nothing is changed, one world serves every refusal."""
    doors = of_consumer_groups(world, admin)
    for refusal in SEEN:
        doors.refuse(refusal)


@pytest.mark.filterwarnings("ignore:.*undo covers only")
def test_no_door_lets_pass_what_undo_may_not_cover(
    world: World, admin: GroupAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the log shows more than this login may see can't be found out here."""
    doors = of_consumer_groups(world, admin)
    blind = Hidden(error=KgError("The log can't be read."))

    def search(hidden: HiddenOffsets, _cluster: object, groups: list[str]) -> Any:
        yield from ()
        hidden.found.update(dict.fromkeys(groups, blind))

    monkeypatch.setattr(HiddenOffsets, "search", search)
    doors.refuse("refuse_blind = true")


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
    newest = max((world.folder / "journal").glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
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
