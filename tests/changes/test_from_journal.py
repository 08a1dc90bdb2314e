"""What an undo says of its journal, and what it leaves in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgtool.changes.journal.history import JournalEntry, entries, find
from kgtool.changes.journal.journal import RUNNING, UNDONE, ConfigChange
from kgtool.changes.kinds.alter_configs import ConfigItem
from kgtool.changes.restore.from_journal import check, earlier_configs, mark_undone, not_covered
from kgtool.errors import KgError
from tests.changes.test_journal import finished, no_problem


@pytest.mark.parametrize(
    ("state", "cluster_id", "force", "said"),
    [
        ("done", "c1", False, None),
        ("interrupted", "c1", False, None),
        (RUNNING, "c1", False, "is still being written"),
        (RUNNING, "c1", True, "is still being written"),
        (UNDONE, "c1", False, "was undone already"),
        (UNDONE, "c1", True, None),
        ("done", "c2", False, "is about the cluster c1, but this is the cluster c2"),
        ("done", "c2", True, None),
    ],
)
def test_what_can_be_undone(
    tmp_path: Path, state: str, cluster_id: str, force: bool, said: str | None
) -> None:
    """Nothing forces the undo of what another process is about to change yet."""
    entry = read(tmp_path, finished(tmp_path, "a").path)._replace(state=state)
    if said is None:
        check(entry, cluster_id, force=force)
        return
    with pytest.raises(KgError, match=said):
        check(entry, cluster_id, force=force)


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_damaged_journal_is_told_of(tmp_path: Path, goes_on: bool) -> None:
    """A warning where nothing is lost with it, an error where it is."""
    made = finished(tmp_path, "a")
    assert not_covered(made.path) == ([], None)
    with made.path.open("a") as file:
        file.write("garbage\n")
        if goes_on:
            file.write('{"kind": "ready", "groups": 1, "changes": 2}\n')
    said, error = not_covered(made.path)
    if goes_on:
        assert said == []
        assert error is not None and error.name == "JOURNAL_DAMAGED"
    else:
        assert error is None
        [warning] = said
        assert "is damaged from line" in warning and "A full disk or a crash" in warning


@pytest.mark.parametrize(
    ("now", "force", "said"),
    [
        ("10", False, None),
        ("1", False, None),
        ("7", True, None),
        ("7", False, "Another client has changed it since: it is 7."),
        (None, False, "Another client has changed it since: nothing is set."),
    ],
)
def test_a_config_that_has_another_value_since(
    now: str | None, force: bool, said: str | None
) -> None:
    """From 1 to 10, which is to be undone."""
    kind = earlier_configs([ConfigChange("g", "a", "1", "10")], force=force)
    assert kind.wanted == {"g": {"a": "1"}}
    row = kind.judge(ConfigItem("g", "a", now, "1"))
    assert (row.error and row.error.message) == said


def test_who_undoes_an_undo_has_the_change_again(tmp_path: Path) -> None:
    first = finished(tmp_path, "a").path
    second = finished(tmp_path, "b", undoes="a").path
    mark_undone(read(tmp_path, first), "b", 5, no_note)
    assert states(tmp_path) == {"a": "undone", "b": "done"}
    mark_undone(read(tmp_path, second), "c", 6, no_note)
    assert states(tmp_path) == {"a": "done", "b": "undone"}
    first.unlink()
    mark_undone(read(tmp_path, second), "c", 6, no_note)  # it was pruned meanwhile


def test_a_journal_that_can_t_be_marked_is_told_of(tmp_path: Path) -> None:
    entry = read(tmp_path, finished(tmp_path, "a").path)
    entry.path.unlink()
    said: list[str] = []
    mark_undone(entry, "b", 5, said.append)
    assert said == [f"Note: {entry.path} can't be marked as undone: No such file or directory."]


def read(folder: Path, path: Path) -> JournalEntry:
    return find(folder, path.name.partition(".")[0])


def states(folder: Path) -> dict[str, str]:
    return {entry.id: entry.state for entry in entries(folder, no_problem)}


def no_note(text: Any) -> None:
    raise AssertionError(text)
