"""Cleanup and retention of share and streams groups: their last use, and what comes back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ShareConsumer

from kgtool import GroupAdmin
from tests.broker.conftest import Kgtool
from tests.support import clients
from tests.support.share import get_starts, set_starts
from tests.support.streams import StreamsMember

LOST_STATE = "share groups lose the delivery state after their start offsets"
OFFSET = 4


class World:
    """Two groups of a type at offset 4 of 10."""

    def __init__(self, bootstrap: str, kind: str, topic: str) -> None:
        self.bootstrap, self.kind, self.topic = bootstrap, kind, topic
        self.groups = [clients.unique(kind), clients.unique(kind)]
        clients.produce(bootstrap, topic, 10)
        for group in self.groups:
            if kind == "streams":
                with StreamsMember(bootstrap, group, [topic]):
                    pass
            self.put(group, OFFSET)
        self.named = [word for group in self.groups for word in ("--group", group)]

    def put(self, group: str, offset: int) -> None:
        put = set_starts if self.kind == "share" else clients.commit
        put(self.bootstrap, group, {(self.topic, 0): offset})

    def found(self) -> list[int | None]:
        read: Callable[..., Any] = get_starts if self.kind == "share" else clients.committed
        return [read(self.bootstrap, one).get((self.topic, 0)) for one in self.groups]


@pytest.fixture(params=["share", "streams"])
def world(request: pytest.FixtureRequest, bootstrap: str, new_topic: Callable[..., str]) -> World:
    return World(bootstrap, request.param, new_topic())


def read_plan(path: Path) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(path.read_text())["items"]
    return items


def test_an_unused_group_goes_by_a_plan_and_undo_brings_it_back(
    world: World, kgtool: Kgtool, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    time.sleep(1.2)
    young = kgtool("cleanup", "plan", *world.named, "--idle", "1h")
    assert "2 used within 1h" in young.err, young
    planned = kgtool("cleanup", "plan", *world.named, "--idle", "1s", "--out", str(path))
    assert (planned.status, LOST_STATE in planned.err) == (0, world.kind == "share"), planned
    items = read_plan(path)
    assert [(i["action"], i["group"], i["type"]) for i in items] == [
        ("delete-group", group, world.kind) for group in sorted(world.groups)
    ]
    world.put(world.groups[0], OFFSET + 1)
    applied = kgtool("cleanup", "apply", str(path), "--yes", "-o", "json")
    told = {row["group"]: row["status"] for row in applied.json["results"]}
    assert told == {world.groups[0]: "skipped", world.groups[1]: "deleted"}, applied
    assert (LOST_STATE in applied.err) == (world.kind == "share")
    assert world.found() == [OFFSET + 1, None]
    assert kgtool("undo", "last", "--yes").status == 0
    assert world.found() == [OFFSET + 1, OFFSET]


def test_rules_take_them_by_type(
    world: World, kgtool: Kgtool, tmp_path: Path, admin: GroupAdmin
) -> None:
    rules, names = tmp_path / "rules.toml", json.dumps(world.groups)
    rules.write_text(f'[[groups]]\nmatch = {names}\nretention = "1s"\n')
    time.sleep(1.2)
    left = kgtool("retention", "apply", str(rules), "--yes")
    assert "no rule is about groups of their type" in left.err, left
    assert world.found() == [OFFSET, OFFSET]
    rules.write_text(rules.read_text() + f'type = "{world.kind}"\n')
    shown = kgtool("retention", "show", str(rules), "-o", "json").json["results"]
    mine = [row for row in shown if row["group"] in world.groups]
    assert {(r["action"], r["status"], r["retention_ms"]) for r in mine} == {
        ("delete-group", "due", 1000)
    }
    plan = tmp_path / "plan.json"
    assert kgtool("retention", "plan", str(rules), "--out", str(plan)).status == 0
    applied = kgtool("retention", "apply", str(plan), "--yes", "-o", "json")
    assert {row["status"] for row in applied.json["results"]} == {"deleted"}, applied
    assert {row["rule"] for row in applied.json["results"]} == set(world.groups)
    assert world.found() == [None, None]
    assert kgtool("undo", "last", "--yes").status == 0
    assert world.found() == [OFFSET, OFFSET]
    if world.kind == "share":  # what comes back of a streams group is no streams group
        time.sleep(1.2)
        assert {row.status for row in admin.retention_apply(rules)} == {"deleted"}
        assert world.found() == [None, None]


def test_a_longer_retention_is_not_needed_by_start_offsets(
    bootstrap: str, new_topic: Callable[..., str], kgtool: Kgtool, tmp_path: Path
) -> None:
    world, rules = World(bootstrap, "share", new_topic()), tmp_path / "rules.toml"
    for retention, status in (("never", "not-expiring"), ("90d", "waiting")):
        match = json.dumps(world.groups)
        rules.write_text(
            f'[[groups]]\nmatch = {match}\ntype = "share"\nretention = "{retention}"\n'
        )
        shown = kgtool("retention", "show", str(rules), "-o", "json").json["results"]
        assert {r["status"] for r in shown if r["group"] in world.groups} == {status}


@pytest.mark.parametrize("has_starts", [True, False])
def test_the_last_use_of_a_share_group_is_that_of_its_members(
    bootstrap: str, new_topic: Callable[..., str], kgtool: Kgtool, tmp_path: Path, has_starts: bool
) -> None:
    """A member that leaves is the last use, though nothing was committed; while it is there, none
    of it is cleaned up. It need not have found anything to read."""
    path, group, topic = tmp_path / "plan.json", clients.unique("share"), clients.unique("missing")
    if has_starts:
        world = World(bootstrap, "share", new_topic())
        group, topic = world.groups[0], world.topic
    member = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    member.subscribe([topic])

    def is_stable() -> bool:
        member.poll(0.2)
        (row,) = kgtool("list", "--match", group, "-o", "json").json["results"]
        return bool(row["state"] == "Stable")

    clients.wait_for(is_stable, "the member")
    plan = ("cleanup", "plan", "--group", group, "--idle", "1s", "--out", str(path))
    assert "1 with members" in kgtool(*plan).err
    assert (
        "its start offsets can't be deleted"
        in kgtool("cleanup", "plan", "--group", group, "--unsubscribed").err
    )
    before_ms = time.time() * 1000
    member.close()
    clients.wait_for(lambda: kgtool(*plan).status == 0 and path.exists(), "the plan")
    (item,) = read_plan(path)
    assert before_ms - 1000 <= item["last_change_ms"] <= time.time() * 1000
    assert item["last_commit_ms"] is None


def test_what_a_living_streams_group_is_told(
    bootstrap: str, new_topic: Callable[..., str], kgtool: Kgtool
) -> None:
    """Was: kgtool remove-members evicts stuck ones, which it refuses for streams groups."""
    topic, group = new_topic(), clients.unique("streams")
    with StreamsMember(bootstrap, group, [topic]):
        clients.produce(bootstrap, topic, 1)
        reset = kgtool(
            "reset-offsets", group, "--topic", topic, "--to-latest", "--execute", "--yes"
        )
        explained = kgtool("explain", group)
    assert (reset.status, "is inactive" in reset.err) == (1, True), reset
    assert "remove-members" not in reset.err + explained.out
    assert f"kgtool describe --group {group} --topology" in explained.out
