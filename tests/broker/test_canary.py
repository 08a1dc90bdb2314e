"""``--canary 1``: the first group fails in the middle, and the second one is not touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from kgtool.changes.journal.change import Change
from tests.changes.world import seen
from tests.cli.run import Result, call
from tests.support import clients

pytestmark = pytest.mark.broker


class World:
    """Two groups with an offset in one topic each, at 1 of 5 records."""

    def __init__(self, bootstrap: str, folder: Path, capsys: Any) -> None:
        self.bootstrap, self.folder, self._capsys = bootstrap, folder, capsys
        self.topic = clients.create_topic(bootstrap, clients.unique("canary"))
        clients.produce(bootstrap, self.topic, 5)
        name = clients.unique("canary")
        self.groups = [f"{name}-1", f"{name}-2"]
        for group in self.groups:
            clients.commit(bootstrap, group, {(self.topic, 0): 1})

    def run(self, *argv: str) -> Result:
        return call(self._capsys, "--bootstrap-server", self.bootstrap, *argv)

    def offsets(self) -> list[int | None]:
        """The offset of each group."""
        found = seen(self.bootstrap, *self.groups)
        return [found[group].get((self.topic, 0), (None,))[0] for group in self.groups]

    def words(self, name: str) -> list[str]:
        """The command line of a change of both groups."""
        groups = [word for group in self.groups for word in ("--group", group)]
        reset = [*groups, "--topic", self.topic, "--to-latest", "--execute"]
        configs = ["--alter", "--add-config", "consumer.session.timeout.ms=50000", "--yes"]
        lines = {
            "delete": ["delete", *groups, "--yes"],
            "--delete": ["--delete", *groups],
            "delete-offsets": ["delete-offsets", *groups, "--topic", self.topic, "--yes"],
            "--delete-offsets": ["--delete-offsets", *groups, "--topic", self.topic],
            "reset-offsets": ["reset-offsets", *reset, "--yes"],
            "--reset-offsets": ["--reset-offsets", *reset],
            "keep": ["keep", *self.groups, "--yes"],
            "remove-members": ["remove-members", *self.groups, "--all", "--yes"],
            "restore": ["restore", str(self.folder / "backup.jsonl"), "--yes"],
            "undo": ["undo", "last", "--yes"],
            "configs": ["configs", *groups, *configs],
        }
        return lines[name]


@pytest.fixture
def world(
    bootstrap: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> World:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    return World(bootstrap, tmp_path, capsys)


@pytest.mark.parametrize(
    "name",
    [
        "reset-offsets",
        "--reset-offsets",
        "restore",
        "undo",
        "delete",
        "--delete",
        "delete-offsets",
        "--delete-offsets",
        "keep",
        "remove-members",
    ],
)
def test_all_or_nothing_has_no_canary(world: World, name: str) -> None:
    refused = world.run(*world.words(name), "--canary", "1", "--all-or-nothing")
    assert refused.status == 2
    (said,) = refused.err.splitlines()[-1:]
    assert said.endswith("--canary and --all-or-nothing exclude each other."), refused
    assert world.offsets() == [1, 1]


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (["reset-offsets", "--topic", "{topic}", "--to-latest", "--execute"], "nosuch-*"),
        (["restore", "{backup}"], "--group=nosuch"),
    ],
    ids=["reset-offsets", "restore"],
)
def test_all_or_nothing_counts_what_is_in_no_plan(
    world: World, words: list[str], more: str
) -> None:
    """Was: what is not found, and so is in no plan, did not keep the rest from being changed."""
    place, chosen = world.folder / "backup.jsonl", f"--group={world.groups[0]}"
    assert world.run("backup", chosen, "--out", str(place)).status == 0
    clients.commit(world.bootstrap, world.groups[0], {(world.topic, 0): 2})
    line = [word.format(topic=world.topic, backup=place) for word in words]
    refused = world.run(*line, chosen, more, "--all-or-nothing", "--yes", "-o", "json")
    assert (refused.status, len(refused.json["errors"]), world.offsets()[0]) == (1, 1, 2), refused
    assert [row["status"] for row in refused.json["results"]] == ["skipped"]
    done = world.run(*line, chosen, more, "--yes")
    assert (done.status, world.offsets()[0] in (1, 5)) == (3, True), done


@pytest.fixture
def joined(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Consumer]]:
    """A consumer joins the first group that a change writes down, before it is changed."""
    opened: list[Consumer] = []
    real = Change.before

    def before(change: Change, changes: Any, *more: Any) -> None:
        real(change, changes, *more)
        if not opened:
            opened.append(clients.join(world.bootstrap, changes[0].image.group, [world.topic]))

    monkeypatch.setattr(Change, "before", before)
    yield opened
    for consumer in opened:
        consumer.close()


@pytest.mark.parametrize(
    "name",
    [
        "delete",
        "--delete",
        "delete-offsets",
        "--delete-offsets",
        "reset-offsets",
        "--reset-offsets",
        "keep",
    ],
)
def test_a_failing_canary_stops_the_rest(world: World, joined: list[Consumer], name: str) -> None:
    done = world.run(*world.words(name), "--canary", "1", "-o", "json")
    assert len(joined) == 1, "it struck"
    assert done.status == 1, done
    assert "Canary: 1 group done, 0 of them left alone, 1 failed." in done.err
    assert "Stopped after the canary; 1 group not touched." in done.err
    assert "NOT_REACHED" in {error["name"] for error in done.json["errors"]}
    assert world.offsets()[1] == 1
    journals = list((world.folder / "journal").glob("*.jsonl"))
    assert journals[0].read_text().count('"kind": "group"') == 1


@pytest.mark.parametrize("name", ["undo", "restore"])
def test_a_failing_canary_stops_a_restore(
    world: World, request: pytest.FixtureRequest, name: str
) -> None:
    words = [word for group in world.groups for word in ("--group", group)]
    out = str(world.folder / "backup.jsonl")
    assert world.run("backup", *words, "--out", out).status == 0
    assert world.run("delete", *words, "--yes").status == 0
    joined = request.getfixturevalue("joined")
    done = world.run(*world.words(name), "--canary", "1", "-o", "json")
    assert len(joined) == 1, "it struck"
    assert done.status == 1, done
    assert "NOT_REACHED" in {error["name"] for error in done.json["errors"]}
    assert world.offsets()[1] is None
    # Without the failure the same command does it, and the undo is still to be done.
    joined[0].close()
    again = world.run(
        *world.words(name) if name == "restore" else ["undo", _deletion(world)],
        "--yes",
        "--canary",
        "1",
        "--force",
    )
    assert again.status == 0, again
    assert world.offsets()[1] == 1


def _deletion(world: World) -> str:
    rows = world.run("history", "-o", "json").json["results"]
    found: str = next(row["id"] for row in rows if row["command"] == "delete")
    return found


@pytest.mark.parametrize("name", ["delete", "--reset-offsets", "delete-offsets", "configs"])
def test_a_good_canary_is_followed_by_the_rest(world: World, name: str) -> None:
    done = world.run(*world.words(name), "--canary", "1")
    assert done.status == 0, done
    assert "Canary: 1 group done, 0 of them left alone, 0 failed." in done.err
    if name != "configs":
        assert world.offsets() == ([5, 5] if name == "--reset-offsets" else [None, None])
    undone = world.run("undo", "last", "--yes", "--canary", "1")
    assert undone.status == 0, undone
    assert world.offsets() == [1, 1]
