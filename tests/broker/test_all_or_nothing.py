"""``--all-or-nothing``: one group, partition or member is refused, and nothing of it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from kgtool.api.group_admin import GroupAdmin
from kgtool.changes.journal.change import Change
from kgtool.errors import KgError
from kgtool.model import TopicSpec
from kgtool.queries.offsets import fetch
from tests.cli.run import Result, call
from tests.support import clients

pytestmark = pytest.mark.broker

COMMANDS = ("delete", "--delete", "delete-offsets", "--delete-offsets", "keep", "remove-members")
SLOW = {"session_timeout_ms": 300_000, "heartbeat_interval_ms": 60_000}
"""Who doesn't beat for a minute doesn't notice either that he was removed."""


class World:
    """A topic of two partitions, and groups for one command: each has what it takes away."""

    def __init__(self, bootstrap: str, folder: Path, capsys: Any) -> None:
        self.bootstrap, self._journal, self._capsys = bootstrap, folder / "journal", capsys
        self.topic = clients.create_topic(bootstrap, clients.unique("whole"), 2)
        self.missing = clients.unique("nosuch")
        self.members: dict[str, Consumer] = {}

    def group(self, name: str) -> str:
        """A group that the command can change."""
        group = clients.unique("whole")
        if name == "remove-members":
            self.join(group)
        else:
            clients.commit(self.bootstrap, group, {(self.topic, 0): 0})
        return group

    def join(self, group: str) -> None:
        self.members[group] = clients.join(self.bootstrap, group, [self.topic], **SLOW)

    def trouble(self, name: str, group: str) -> None:
        """Make the command refuse a group that it could change."""
        if name == "remove-members":
            self.members.pop(group).close()
        else:
            self.join(group)

    def run(self, name: str, groups: list[str], *more: str) -> Result:
        named = [word for group in groups for word in ("--group", group)]
        topic = ["--topic", self.topic] if "offsets" in name else []
        all_ = ["--all"] if name == "remove-members" and "--member-id" not in more else []
        asked = [] if name.startswith("--") else ["--yes"]
        return call(
            self._capsys,
            "--bootstrap-server",
            self.bootstrap,
            name,
            *named,
            *topic,
            *all_,
            *asked,
            *more,
        )

    def strict(self, name: str, groups: list[str], *more: str) -> Result:
        return self.run(name, groups, "--all-or-nothing", "-o", "json", *more)

    def state(self, group: str) -> Any:
        """What changes of a group: its members, and its offsets with the times of their commits."""
        with GroupAdmin(self.bootstrap) as admin:
            description = admin.describe_groups([group])[group]
            times = {at: each.committed_at_ms for at, each in admin.expiry([group])[group].items()}
        return {member.member_id for member in description.members}, times

    @property
    def journals(self) -> list[Path]:
        return list(self._journal.glob("*.jsonl"))


@pytest.fixture
def world(
    bootstrap: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[World]:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    found = World(bootstrap, tmp_path, capsys)
    yield found
    for member in found.members.values():
        member.close()


@pytest.fixture
def under_the_lock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Something happens when the groups are locked: the plan, if there is one, is made by then."""

    def arrange(happens: Callable[[], None]) -> None:
        left = [happens]
        real = Change.lock

        def lock(change: Change, groups: Any) -> None:
            real(change, groups)
            while left:
                left.pop()()

        monkeypatch.setattr(Change, "lock", lock)

    return arrange


def statuses(result: Result) -> dict[str, set[str]]:
    """The statuses of each group's rows."""
    found: dict[str, set[str]] = {}
    for row in result.json["results"]:
        found.setdefault(row["group"], set()).add(row["status"])
    return found


def only(status: str, name: str) -> set[str]:
    """The statuses of a good group: of two partitions the second one has no offset."""
    return {status, "no-offset"} if "offsets" in name else {status}


DONE = {
    "delete": "deleted",
    "--delete": "deleted",
    "delete-offsets": "deleted",
    "--delete-offsets": "deleted",
    "keep": "kept",
    "remove-members": "removed",
}


@pytest.mark.parametrize("is_dry", [False, True], ids=["done", "dry"])
@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_group_stops_all(world: World, name: str, is_dry: bool) -> None:
    group = world.group(name)
    before = world.state(group)
    more = ["--dry-run"] if is_dry else []
    done = world.strict(name, [group, world.missing], *more)
    assert statuses(done)[group] == only("skipped", name), done
    assert [error["name"] for error in done.json["errors"]] == ["GROUP_ID_NOT_FOUND"]
    # What counts as done anyway does so here, too.
    assert done.status == (3 if "offsets" in name else 1), done
    assert world.state(group) == before
    assert world.journals == []
    if not is_dry:
        loose = world.run(name, [group, world.missing], "-o", "json")
        assert (loose.status, DONE[name] in statuses(loose)[group]) == (3, True), loose


@pytest.mark.parametrize("name", COMMANDS)
def test_what_can_all_be_done_is_done(world: World, name: str) -> None:
    """A partition without an offset is no failure."""
    groups = [world.group(name), world.group(name)]
    foreseen = world.strict(name, groups, "--dry-run")
    assert (foreseen.status, world.journals) == (0, []), foreseen
    assert not any("skipped" in found for found in statuses(foreseen).values())
    done = world.strict(name, groups)
    assert (done.status, done.json["errors"]) == (0, []), done
    assert statuses(done) == dict.fromkeys(groups, only(DONE[name], name))
    assert len(world.journals) == 1


@pytest.mark.parametrize(
    ("name", "more", "error"),
    [
        ("delete", [], "NON_EMPTY_GROUP"),
        ("--delete", [], "NON_EMPTY_GROUP"),
        ("delete-offsets", [], "GROUP_SUBSCRIBED_TO_TOPIC"),
        ("--delete-offsets", [], "GROUP_SUBSCRIBED_TO_TOPIC"),
        ("delete-offsets", ["--topic", "{missing}"], "UNKNOWN_TOPIC_OR_PARTITION"),
        ("--delete-offsets", ["--topic", "{topic}:7"], "UNKNOWN_TOPIC_OR_PARTITION"),
        ("keep", [], "NEEDS_JOIN"),
        (
            "remove-members",
            ["--member-id", "{member}", "--member-id", "nosuch"],
            "UNKNOWN_MEMBER_ID",
        ),
        ("delete", ["nosuch-*"], "NO_MATCH"),
        ("delete-offsets", ["nosuch-*"], "NO_MATCH"),
        ("keep", ["nosuch-*"], "NO_MATCH"),
    ],
)
def test_what_is_refused_stops_all(world: World, name: str, more: list[str], error: str) -> None:
    groups = [world.group(name)]
    members = world.state(groups[0])[0] or {""}
    if not more:
        groups.append(world.group(name))
        world.trouble(name, groups[1])
    if error == "NEEDS_JOIN":
        world.members.pop(groups[1]).close()
    before = world.state(groups[0])
    place = {"topic": world.topic, "missing": world.missing, "member": next(iter(members))}
    words = [word.format(**place) for word in more]
    done = world.strict(name, groups, *words)
    assert {each["name"] for each in done.json["errors"]} == {error}, done
    assert "skipped" in statuses(done)[groups[0]]
    assert DONE[name] not in statuses(done)[groups[0]]
    assert (world.state(groups[0]), world.journals) == (before, [])


@pytest.mark.parametrize("is_in_waves", [False, True], ids=["at-once", "waves"])
@pytest.mark.parametrize("name", COMMANDS)
def test_the_look_under_the_lock_stops_all(
    world: World,
    under_the_lock: Callable[[Callable[[], None]], None],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    is_in_waves: bool,
) -> None:
    if is_in_waves:
        monkeypatch.setattr(fetch, "FIRST", 1)
        monkeypatch.setattr(fetch, "OFFSETS", 1)
    groups = [world.group(name), world.group(name)]
    before = world.state(groups[0])
    under_the_lock(lambda: world.trouble(name, groups[1]))
    done = world.strict(name, groups)
    assert statuses(done)[groups[0]] == only("skipped", name), done
    assert {error["target"]["group"] for error in done.json["errors"]} == {groups[1]}
    assert (world.state(groups[0]), world.journals) == (before, [])


@pytest.mark.parametrize("name", COMMANDS)
def test_people_read_what_was_skipped(world: World, name: str) -> None:
    group = world.group(name)
    done = world.run(name, [group, world.missing], "--all-or-nothing")
    said = (done.out + done.err).lower()
    assert "skipped" in said and group in said and world.missing in said, done
    assert not any(word in said for word in ("succeeded", "successfully", "was successful")), done


class TestGroupAdmin:
    """The same from Python."""

    @pytest.fixture
    def admin(self, world: World) -> Iterator[GroupAdmin]:
        with GroupAdmin(world.bootstrap) as found:
            yield found

    @pytest.mark.parametrize("dry_run", [False, True])
    @pytest.mark.parametrize("name", ["delete_groups", "keep"])
    def test_groups(self, world: World, admin: GroupAdmin, name: str, dry_run: bool) -> None:
        group = world.group(name)
        before = world.state(group)
        change = getattr(admin, name)
        good, bad = change([group, world.missing], all_or_nothing=True, dry_run=dry_run)
        assert {row.status for row in getattr(good, "rows", [good])} == {"skipped"}
        assert bad.error.name == "GROUP_ID_NOT_FOUND"
        assert (world.state(group), world.journals) == (before, [])
        change([group], all_or_nothing=True)
        assert len(world.journals) == 1

    @pytest.mark.parametrize("dry_run", [False, True])
    def test_partitions(self, world: World, admin: GroupAdmin, dry_run: bool) -> None:
        group = world.group("delete-offsets")
        topics = [TopicSpec(world.topic, (0, 1, 7))]
        done = admin.delete_offsets(group, topics, all_or_nothing=True, dry_run=dry_run)
        assert [row.status for row in done.rows] == ["skipped", "no-offset", "failed"]
        assert clients.committed(world.bootstrap, group) == {(world.topic, 0): 0}
        assert world.journals == []
        done = admin.delete_offsets(group, [TopicSpec(world.topic, (0, 1))], all_or_nothing=True)
        assert [row.status for row in done.rows] == ["deleted", "no-offset"]

    @pytest.mark.parametrize("dry_run", [False, True])
    def test_members(self, world: World, admin: GroupAdmin, dry_run: bool) -> None:
        group = world.group("remove-members")
        members = [*world.state(group)[0], "nosuch"]
        with pytest.raises(KgError, match="no member with the member id 'nosuch'"):
            admin.remove_members(group, member_ids=members, all_or_nothing=True, dry_run=dry_run)
        assert (list(world.state(group)[0]), world.journals) == (members[:1], [])
        (row,) = admin.remove_members(group, member_ids=members[:1], all_or_nothing=True)
        assert row.status == "removed"

    def test_the_look_under_the_lock(
        self, world: World, admin: GroupAdmin, under_the_lock: Callable[[Callable[[], None]], None]
    ) -> None:
        groups = [world.group("delete_groups"), world.group("delete_groups")]
        before = world.state(groups[0])
        under_the_lock(lambda: world.join(groups[1]))
        good, bad = admin.delete_groups(groups, all_or_nothing=True)
        assert good.status == "skipped"
        assert bad.error is not None and bad.error.name == "NON_EMPTY_GROUP"
        assert (world.state(groups[0]), world.journals) == (before, [])

    def test_a_member_that_has_left(
        self, world: World, admin: GroupAdmin, under_the_lock: Callable[[Callable[[], None]], None]
    ) -> None:
        group = world.group("remove-members")
        members = world.state(group)[0]
        under_the_lock(lambda: world.trouble("remove-members", group))
        with pytest.raises(KgError, match="no member with the member id"):
            admin.remove_members(group, member_ids=members, all_or_nothing=True)
        assert world.journals == []
