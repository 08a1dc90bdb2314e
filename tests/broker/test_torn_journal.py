"""A disk that is full in the middle of a change, and has room again before the end."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kgtool import GroupAdmin
from kgtool.changes.journal.journal import Journal
from kgtool.cli.output.output import Output
from kgtool.queries.offsets import fetch
from tests.changes.world import seen
from tests.cli.run import Result, call
from tests.support import clients

pytestmark = pytest.mark.broker

PARTITIONS = 60


class World:
    """A small group and a large one, and a plan to delete both, one after the other."""

    def __init__(self, bootstrap: str, folder: Path, capsys: Any) -> None:
        self.bootstrap, self.folder, self._capsys = bootstrap, folder, capsys
        topic = clients.create_topic(bootstrap, clients.unique("torn"), PARTITIONS)
        name = clients.unique("torn")
        self.small, self.large = f"{name}-1", f"{name}-2"
        clients.commit(bootstrap, self.small, {(topic, 0): 0})
        clients.commit(bootstrap, self.large, {(topic, n): 0 for n in range(PARTITIONS)})
        self.plan = folder / "plan.json"
        with GroupAdmin(bootstrap) as admin:
            admin.cleanup_plan([self.small, self.large], path=self.plan)

    def run(self, *argv: str) -> Result:
        return call(self._capsys, "--bootstrap-server", self.bootstrap, *argv)

    def offsets(self) -> tuple[int, int]:
        """How many offsets the two groups have."""
        found = seen(self.bootstrap, self.small, self.large)
        return len(found[self.small]), len(found[self.large])

    def history(self) -> dict[str, Any]:
        found: dict[str, Any] = self.run("history", "-o", "json").json["results"][0]
        return found


@pytest.fixture
def world(
    bootstrap: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> World:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    return World(bootstrap, tmp_path, capsys)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No file may grow beyond 4 KB until the journal is closed."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    real = Journal.close

    def close(journal: Journal, state: str, at_ms: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))
        real(journal, state, at_ms)

    monkeypatch.setattr(Journal, "close", close)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))


def test_a_disk_that_was_full_for_a_while(world: World, full_disk: None) -> None:
    done = world.run("cleanup", "apply", str(world.plan), "--canary", "1", "--yes")
    assert done.status == 3, done.err
    assert "can't be written (File too large), so nothing more was changed" in done.err
    assert world.offsets() == (0, PARTITIONS), "what is not in the journal is not deleted"
    entry = world.history()
    assert (entry["state"], entry["groups"], entry["changes"]) == ("interrupted", 1, 1)
    path = world.folder / "journal" / f"{entry['id']}.jsonl"
    assert [json.loads(line)["kind"] for line in path.read_text().splitlines()][-1] == "end"
    assert f"kgtool undo {entry['id']}" in done.err
    undone = world.run("undo", "last", "--yes")
    assert (undone.status, "Warning" in undone.err) == (0, False), undone.err
    assert world.offsets() == (1, PARTITIONS)


def test_what_an_older_kgtool_left_torn(world: World) -> None:
    assert world.run("cleanup", "apply", str(world.plan), "--canary", "1", "--yes").status == 0
    path = world.folder / "journal" / f"{world.history()['id']}.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    second = next(n for n, line in enumerate(lines) if world.large.encode() in line)
    path.write_bytes(b"".join(lines[: second + 3]) + lines[second + 4][:50] + lines[-1])
    said = f"Warning: The journal {path} is damaged from line {second + 4} on"
    with GroupAdmin(world.bootstrap) as admin, pytest.warns(UserWarning, match=said):
        assert admin.undo(dry_run=True).damage is None
    undone = world.run("undo", "last", "--yes")
    assert (undone.status, said in undone.err) == (0, True)
    assert world.offsets() == (1, 0)


def test_what_is_lost_is_no_success(world: World) -> None:
    assert world.run("cleanup", "apply", str(world.plan), "--canary", "1", "--yes").status == 0
    path = world.folder / "journal" / f"{world.history()['id']}.jsonl"
    text = path.read_bytes()
    at = text.index(world.large.encode()) - 20
    path.write_bytes(text[:at] + b"\0" * 12 + text[at + 12 :])
    for _ in range(2):
        undone = world.run("undo", "last", "--yes", "-o", "json")
        assert undone.status == 3
        assert [error["name"] for error in undone.json["errors"]] == ["JOURNAL_DAMAGED"]
        assert world.offsets() == (1, 0)
    rows = world.run("history", "-o", "json").json["results"]
    assert {row["id"]: row["state"] for row in rows}[path.stem] == "done", "not undone"
    with GroupAdmin(world.bootstrap) as admin:
        done = admin.undo(path.stem)
        assert [error.name for error in done.errors] == ["JOURNAL_DAMAGED"]


@pytest.mark.parametrize("form", ["delete", "--delete"])
def test_what_was_deleted_before_is_told(
    world: World, full_disk: None, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """Was: nothing is told of the first wave, and status 1."""
    monkeypatch.setattr(fetch, "FIRST", 1)
    monkeypatch.setattr(fetch.AdaptiveBatches.__init__, "__defaults__", (1,))
    words = ["--group", world.small, "--group", world.large, "-o", "json"]
    done = world.run(form, *words, *(["--yes"] if form == "delete" else []))
    assert world.offsets() == (0, PARTITIONS)
    assert done.status == 3, done
    assert [(r["group"], r["status"]) for r in done.json["results"]] == [(world.small, "deleted")]
    assert [error["name"] for error in done.json["errors"]] == ["JOURNAL"]


@pytest.mark.parametrize("name", ["configs", "remove-members", "reset-offsets", "keep"])
def test_what_the_canary_changed_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The disk is full once the canary is done. Was: nothing of it was told, and status 1."""
    groups = sorted(clients.unique("canary") for _ in range(2))  # the first is the canary
    topic = clients.create_topic(world.bootstrap, clients.unique("canary"))
    members = []
    for group in groups:
        if name in ("configs", "remove-members"):
            members.append(clients.join(world.bootstrap, group, [topic]))
        else:
            clients.commit(world.bootstrap, group, {(topic, 0): 0})
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    real = Output.note

    def note(output: Output, text: str, **given: Any) -> None:
        if text.startswith("Canary:"):
            (journal,) = (world.folder / "journal").glob("*.jsonl")
            resource.setrlimit(resource.RLIMIT_FSIZE, (journal.stat().st_size + 10, hard))
        real(output, text, **given)

    monkeypatch.setattr(Output, "note", note)
    words = {
        "configs": ["--alter", "--add-config", "consumer.session.timeout.ms=50000"],
        "remove-members": ["--all"],
        "reset-offsets": ["--topic", topic, "--to-latest", "--execute"],
        "keep": [],
    }
    named = [word for group in groups for word in ("--group", group)]
    try:
        done = world.run(name, *named, *words[name], "--canary", "1", "--yes", "-o", "json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))
        for member in members:
            member.close()
    assert done.status == 3, done
    assert {row["group"] for row in done.json["results"]} == {groups[0]}
    assert {row["status"] for row in done.json["results"]} <= {
        "altered",
        "removed",
        "reset",
        "kept",
    }
    assert [error["name"] for error in done.json["errors"]] == ["JOURNAL"]
