"""No door lets pass what is refused, of share groups either."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgtool import GroupAdmin
from kgtool.sandbox.cluster import Sandbox
from tests.broker.test_doors import REFUSALS, Door, Doors, World
from tests.support import clients


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


@pytest.fixture
def world(
    kafka: Sandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[ShareWorld]:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("KGTOOL_POLICY", "KGTOOL_CONFIRM"):
        monkeypatch.delenv(name, raising=False)
    yield ShareWorld(kafka, tmp_path, monkeypatch, capsys)


def of_share_groups(world: World, admin: GroupAdmin) -> Doors:
    """Return all doors that there are for share groups."""
    names, group, topic = world.groups, world.words("--group"), ["--topic", world.topic]
    run, backup = world.run, world.folder / "backup"
    assert run("backup", *group, "--out", str(backup)).status == 0
    moved = [*group, *topic, "--execute", "--yes"]
    assert run("reset-offsets", *moved, "--to-latest").status == 0
    journal = world.last()
    ways: dict[str, Door] = {
        "reset-offsets": lambda: run("reset-offsets", *moved, "--to-earliest"),
        "delete-offsets": lambda: run("delete-offsets", *group, *topic, "--yes"),
        "delete": lambda: run("delete", *group, "--yes"),
        "restore": lambda: run("restore", str(backup), "--yes"),
        "undo": lambda: run("undo", journal, "--yes"),
        "admin.reset_offsets": lambda: admin.reset_offsets(names, "earliest", topics=[world.topic]),
        "admin.delete_offsets": lambda: admin.delete_offsets(names[0], [world.topic]),
        "admin.delete_groups": lambda: admin.delete_groups(names),
        "admin.restore": lambda: admin.restore(backup),
        "admin.undo": lambda: admin.undo(journal),
    }
    return Doors(world, ways)


@pytest.mark.parametrize("refusal", [each for each in REFUSALS if "blind" not in each])
def test_no_door_lets_pass_what_is_refused(world: ShareWorld, refusal: str) -> None:
    with GroupAdmin(world.bootstrap) as admin:
        of_share_groups(world, admin).refuse(refusal)
