"""A kind of change that kgtool does not have, with its command: ``tests/support/label.py``.

Kind: a promise of contract section 5 that a command keeps by itself, and the next one does not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kgtool.changes.journal.journal import NO_UNDO, NoUndo
from kgtool.changes.journal.locks import GroupLocks
from kgtool.cli.commands import COMMANDS
from kgtool.columns import Results, schemas
from kgtool.errors import KgError
from kgtool.sandbox.cluster import Sandbox
from tests.changes.world import commit
from tests.cli.run import Result, call
from tests.support import clients, label
from tests.support import schemas as checked

pytestmark = pytest.mark.broker


class World:
    """Three groups with two offsets each; the metadata of all of them is ``old``."""

    def __init__(self, kafka: Sandbox, folder: Path, capsys: Any) -> None:
        self.bootstrap, self.cluster_id = kafka.bootstrap, kafka.cluster_id
        self.folder, self._capsys = folder, capsys
        topic = clients.create_topic(self.bootstrap, clients.unique("label"), 2)
        clients.produce(self.bootstrap, topic, 10)
        self.groups = sorted(clients.unique("label") for _ in range(3))
        for group in self.groups:
            commit(self.bootstrap, group, {(topic, 0): 1, (topic, 1): 2}, "old")

    def run(self, *argv: str) -> Result:
        return call(self._capsys, "--bootstrap-server", self.bootstrap, *argv)

    def label(self, *options: str, groups: int = 2) -> Result:
        return self.run("label", *self.groups[:groups], "--label", "new", "-o", "json", *options)

    @property
    def labels(self) -> list[str]:
        """The metadata of each group; confluent-kafka sends the NUL of C's strings too."""
        rows = [self.run("describe", group, "-o", "json").json["results"] for group in self.groups]
        return [" ".join({row["metadata"].rstrip("\0") for row in of_group}) for of_group in rows]

    @property
    def journals(self) -> list[Path]:
        return sorted((self.folder / "journal").glob("*.jsonl"))


@pytest.fixture
def world(
    kafka: Sandbox,
    own_state: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> World:
    # All that is declared of a command outside of its file.
    monkeypatch.setitem(sys.modules, "kgtool.cli.commands.label", label)
    monkeypatch.setitem(COMMANDS, "label", "Write a text into the metadata of offsets.")
    monkeypatch.setitem(schemas.RESULTS, "label", Results({"offsets": label.COLUMNS}))
    schema: Callable[[str], Any] = checked.validator
    own = Draft202012Validator(schemas.schema("label"))
    monkeypatch.setattr(checked, "validator", lambda name: own if name == "label" else schema(name))
    return World(kafka, tmp_path, capsys)


def _statuses(done: Result) -> list[str]:
    return [row["status"] for row in done.json["results"]]


def test_a_dry_run_changes_nothing(world: World) -> None:
    done = world.label("--dry-run")
    assert (done.status, _statuses(done)) == (0, ["would-label"] * 4)
    assert (world.labels, world.journals) == (["old"] * 3, [])


def test_without_a_terminal_it_takes_consent(world: World) -> None:
    assert world.label().status == 2
    assert world.labels == ["old"] * 3


def test_it_is_journaled_and_undone(world: World) -> None:
    done = world.label("--yes", "--reason", "audit")
    assert (done.status, _statuses(done)) == (0, ["labelled"] * 4)
    assert world.labels == ["new", "new", "old"]
    (journal,) = world.journals
    assert f"Undo: kgtool undo {journal.stem}" in done.err
    (listed,) = world.run("history", "-o", "json").json["results"]
    assert (listed["command"], listed["state"]) == ("label", "done")
    assert '"reason": "audit"' in journal.read_text()
    assert world.run("undo", journal.stem, "--yes").status == 0
    assert world.labels == ["old"] * 3


def test_what_has_no_undo_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    words = NoUndo("labels stay", "wrote labels, which stay.", "Write others.", "it stays.")
    monkeypatch.setitem(NO_UNDO, "label", words)
    done = world.label("--yes")
    (journal,) = world.journals
    assert f"Journal {journal.stem}: it stays." in done.err
    for which in (journal.stem, "last"):
        refused = world.run("undo", which, "--yes")
        assert (refused.status, "labels" in refused.err) == (1, True), refused
    assert world.labels == ["new", "new", "old"]


def test_a_protected_cluster_takes_its_id(world: World) -> None:
    options = ("--bootstrap-server", world.bootstrap, "--cluster-id", world.cluster_id)
    assert world.run("context", "add", "prod", *options, "--protected").status == 0
    refused = world.label("--yes")
    assert (refused.status, refused.json["errors"][0]["name"]) == (1, "POLICY_REFUSED")
    assert (world.labels, world.journals) == (["old"] * 3, [])
    assert world.label("--yes", "--confirm", world.cluster_id).status == 0


def test_a_policy_and_a_limit_of_the_command_line(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert world.label("--yes", "--max-groups", "1").status == 1
    path = world.folder / "policy.toml"
    path.write_text("max_groups = 1\n")
    monkeypatch.setenv("KGTOOL_POLICY", str(path))
    assert world.label("--yes").status == 1
    assert (world.labels, world.journals) == (["old"] * 3, [])
    assert world.label("--yes", groups=1).status == 0


def test_a_group_that_another_kgtool_changes(world: World) -> None:
    locks = GroupLocks(world.folder / "journal", world.cluster_id)
    assert locks.take(world.groups[1:2]) is None
    busy = world.label("--yes", "--timeout", "2s")
    locks.close()
    assert (busy.status, busy.json["errors"][0]["name"]) == (1, "LOCKED")
    assert (world.labels, world.journals) == (["old"] * 3, [])


def test_all_or_nothing_and_a_part(world: World) -> None:
    absent = clients.unique("label")
    none = world.label("--yes", "--all-or-nothing", absent)
    assert (none.status, _statuses(none)) == (1, ["skipped"] * 4)
    assert world.labels == ["old"] * 3
    part = world.label("--yes", absent)
    assert (part.status, _statuses(part)) == (3, ["labelled"] * 4)
    assert world.labels == ["new", "new", "old"]


def test_a_canary(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first group's commits are refused: the others are not touched."""
    real = label.write_offsets

    def refusing(cluster: Any, writes: Any) -> Any:
        errors = yield from real(cluster, {})
        assert not errors
        no = KgError("no")
        return {group: dict.fromkeys(parts, no) for group, parts in writes.items()}

    monkeypatch.setattr(label, "write_offsets", refusing)
    done = world.label("--yes", "--canary", "1")
    names = {row["group"]: row["error"]["name"] for row in done.json["results"]}
    assert names[world.groups[1]] == "NOT_REACHED"
    assert world.labels == ["old"] * 3


def test_its_file_knows_nothing_of_it() -> None:
    assert label.__file__ is not None
    words = Path(label.__file__).read_text(encoding="utf-8").partition('"""\n')[2].lower()
    assert [word for word in ("journal", "lock", "polic", "undo", "canary") if word in words] == []
