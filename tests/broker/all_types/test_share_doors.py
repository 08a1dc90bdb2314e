"""No door lets pass what is refused, of share and streams groups either."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgtool import GroupAdmin
from kgtool.sandbox.cluster import Sandbox
from tests.broker.test_doors import SEEN, Door, Doors, World, agent
from tests.support import clients
from tests.support.streams import StreamsMember


class StreamsWorld(World):
    """Two streams groups, each at offset 2 of 5 in one partition."""

    def make(self) -> None:
        clients.commit(self.bootstrap, clients.unique("warm"), {(self.topic, 0): 2})
        for group in self.groups:
            with StreamsMember(self.bootstrap, group, [self.topic]):
                pass
        super().make()


class ShareWorld(World):
    """Two share groups, each from offset 2 of 5 in one partition."""

    def make(self) -> None:
        partition = {"partitionIndex": 0, "startOffset": 2}
        topics = [{"topicName": self.topic, "partitions": [partition]}]
        for group in self.groups:
            body = json.dumps({"groupId": group, "topics": topics})
            words = ("request", "AlterShareGroupOffsets", "--body", body, "--yes")
            clients.wait_for(lambda words=words: self.run(*words).status == 0, "the coordinator")

    def offsets(self) -> list[dict[tuple[str, int], int]]:
        rows = self.run("describe", *self.words("--group"), "-o", "json").json["results"]
        return [
            {
                (row["topic"], row["partition"]): row["start_offset"]
                for row in rows
                if row["group"] == g
            }
            for g in self.groups
        ]


@pytest.fixture(params=[ShareWorld, StreamsWorld])
def world(
    request: pytest.FixtureRequest,
    kafka: Sandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[World]:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("KGTOOL_POLICY", "KGTOOL_CONFIRM"):
        monkeypatch.delenv(name, raising=False)
    yield request.param(kafka, tmp_path, monkeypatch, capsys)


def of_other_groups(world: World, admin: GroupAdmin) -> Doors:
    """Return all doors that there are for share and streams groups."""
    names, group, topic = world.groups, world.words("--group"), ["--topic", world.topic]
    run, backup, plan = world.run, world.folder / "backup", world.folder / "plan.json"
    rules = world.folder / "retention.toml"
    match, types = json.dumps(names), '["share", "streams"]'
    rules.write_text(f'[[groups]]\nmatch = {match}\ntype = {types}\nretention = "1s"\n')
    assert run("backup", *group, "--out", str(backup)).status == 0
    moved = [*group, *topic, "--execute", "--yes"]
    assert run("reset-offsets", *moved, "--to-latest").status == 0
    journal = world.last()
    assert run("cleanup", "plan", *group, "--out", str(plan)).status == 0
    time.sleep(1.1)  # the retention
    ways: dict[str, Door] = {
        "reset-offsets": lambda: run("reset-offsets", *moved, "--to-earliest"),
        "delete-offsets": lambda: run("delete-offsets", *group, *topic, "--yes"),
        "delete": lambda: run("delete", *group, "--yes"),
        "restore": lambda: run("restore", str(backup), "--yes"),
        "undo": lambda: run("undo", journal, "--yes"),
        "cleanup": lambda: run("cleanup", "apply", str(plan), "--yes"),
        "retention": lambda: run("retention", "apply", str(rules), "--yes"),
        "admin.cleanup_apply": lambda: admin.cleanup_apply(plan),
        "admin.retention_apply": lambda: admin.retention_apply(rules),
        "mcp.cleanup": lambda: agent(world, "cleanup", {"group": names}),
        "admin.reset_offsets": lambda: admin.reset_offsets(names, "earliest", topics=[world.topic]),
        "admin.delete_offsets": lambda: admin.delete_offsets(names[0], [world.topic]),
        "admin.delete_groups": lambda: admin.delete_groups(names),
        "admin.restore": lambda: admin.restore(backup),
        "admin.undo": lambda: admin.undo(journal),
    }
    return Doors(world, ways)


def test_no_door_lets_pass_what_is_refused(world: World) -> None:
    with GroupAdmin(world.bootstrap) as admin:
        doors = of_other_groups(world, admin)
        for refusal in SEEN:
            doors.refuse(refusal)
