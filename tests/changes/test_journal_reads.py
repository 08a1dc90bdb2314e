"""What is read out of a journal again: configs, members, what is hidden, lines that were torn."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kgtool.changes.journal import history
from kgtool.changes.journal.folder import JournalError
from kgtool.changes.journal.journal import ConfigChange, Journal
from kgtool.changes.journal.jsonl import append, drop_torn_line, number
from kgtool.changes.snapshot import GroupChange
from tests.changes.snapshots import T0, change, group, image
from tests.changes.test_journal import DENIED, header


def test_configs_are_read_as_they_were(tmp_path: Path) -> None:
    configs = [ConfigChange("g", "a", None, "1"), ConfigChange("h", "b", "2", None)]
    made = Journal(tmp_path, header())
    made.before((), configs=configs)
    made.close("done", 2000)
    assert history.is_about_configs(made.path)
    assert history.changed_configs(made.path) == configs


def test_configs_that_the_journal_was_not_ready_for_were_not_changed(tmp_path: Path) -> None:
    """Killed while it wrote the second wave: undo would set what nobody has changed."""
    first, second = ConfigChange("g", "a", None, "1"), ConfigChange("h", "b", "2", None)
    made = Journal(tmp_path, header())
    made.before((), configs=[first])
    made.before((), configs=[second])
    lines = made.path.read_text().splitlines(keepends=True)
    assert json.loads(lines[-1])["kind"] == "ready"
    path = tmp_path / "killed.kgtool.jsonl"
    path.write_text("".join(lines[:-1]))
    assert history.changed_configs(path) == [first]


@pytest.mark.parametrize(
    ("behind", "damage", "is_lost"),
    [
        ("", None, False),
        ('{"kind": "config", "gro', None, False),
        ("garbage\n", "line 4 on", False),
        ("garbage\ngarbage\n", "line 4 on", False),
        ('garbage\n{"kind": "ready", "groups": 1, "changes": 2}\n', "line 4 on", True),
    ],
    ids=["whole", "torn", "damaged", "damaged twice", "damaged and gone on"],
)
def test_a_torn_end_is_no_damage(
    tmp_path: Path, behind: str, damage: str | None, is_lost: bool
) -> None:
    """A process that is killed leaves one; nothing that depends on it was done."""
    made = Journal(tmp_path, header())
    made.before((), configs=[ConfigChange("g", "a", None, "1")])
    with made.path.open("a") as file:
        file.write(behind)
    found = history.readable_extent(made.path)
    assert (found.changes, found.is_lost) == (1, is_lost)
    if damage is None:
        assert found.damage is None
    else:
        assert damage in str(found.damage)


def test_a_result_names_its_member_and_no_other(tmp_path: Path) -> None:
    made = Journal(tmp_path, header(command="remove-members"))
    made.before((), members=[{"group": "g", "member_id": "m1"}])
    made.result("g", None, None, "removed", member_id="m1")
    made.result("g", None, None, "failed", DENIED)
    made.close("done", 2000)
    results = [json.loads(line) for line in made.path.read_text().splitlines()]
    results = [line for line in results if line["kind"] == "result"]
    assert [line.get("member_id", "-") for line in results] == ["m1", "-"]


def test_what_is_hidden_is_told_with_its_number_or_without(tmp_path: Path) -> None:
    offsets = {T0: image(5)}
    made = Journal(tmp_path, header())
    made.before(
        [
            GroupChange(group(offsets, "seen"), {T0: None}),
            GroupChange(group(offsets, "counted"), {T0: None}, hidden={"secret": 3}),
            GroupChange(group(offsets, "blind"), {T0: None}, is_blind=True),
        ]
    )
    made.close("done", 2000)
    assert list(history.hidden_offsets(made.path)) == [("counted", {"secret": 3}), ("blind", None)]


def test_a_cluster_without_an_id(tmp_path: Path) -> None:
    """Brokers before KIP-78, and what stands in for one, have none."""
    made = Journal(tmp_path, header(cluster_id=None))
    made.before([change({T0: image(5)})])
    made.close("done", 2000)
    entry = history.read_entry(made.path)
    assert (entry.cluster_id, entry.changes) == (None, 1)


def test_of_two_problems_the_first_is_told(tmp_path: Path) -> None:
    """The disk is full, and then the copy fails, too."""
    refused: list[str] = []

    def store(_data: bytes) -> None:
        if refused:
            raise JournalError("The copy can't be stored.")

    made = Journal(tmp_path, header(), store)
    made.before([change({T0: image(5)})])
    refused.append("from here on")
    made.problem = OSError(28, "No space left on device")
    made.close("done", 2000)
    assert made.problem.strerror == "No space left on device"


@pytest.mark.parametrize(
    ("there", "left"),
    [
        ("", ""),
        ("a\n", "a\n"),
        ("a\nb", "a\n"),
        ("\nb", "\n"),
        ("torn", ""),
        ("a\n" + "b" * 200_000, "a\n"),
        ("b" * 200_000, ""),
    ],
)
def test_a_torn_line_goes_and_whole_ones_stay(tmp_path: Path, there: str, left: str) -> None:
    path = tmp_path / "lines"
    path.write_text(there)
    with path.open("r+b") as file:
        drop_torn_line(file.fileno())
    assert path.read_text() == left
    path.write_text(there)
    append(path, "new\n")
    assert path.read_text() == left + "new\n"


def test_what_another_process_appends_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file without a torn line is not cut at all."""
    path = tmp_path / "lines"
    path.write_text("a\n")
    read = os.pread

    def meanwhile(*arguments: int) -> bytes:
        found = read(*arguments)
        with path.open("a") as file:
            file.write("theirs\n")
        return found

    monkeypatch.setattr(os, "pread", meanwhile)
    append(path, "mine\n")
    assert path.read_text() == "a\ntheirs\nmine\n"


def test_a_file_that_is_appended_to_is_closed_again(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("a\n")
    was = open_files()
    for _ in range(5):
        append(path, "b\n")
    assert open_files() == was


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("limit", [2**31, 2**63])
def test_a_number_that_the_protocol_can_t_hold(limit: int) -> None:
    assert number({"n": limit - 1}, "n", limit) == limit - 1
    for bad in (limit, -1, True, 1.0, "1", None):
        with pytest.raises(ValueError, match="n is not a whole number"):
            number({"n": bad}, "n", limit)
    with pytest.raises(ValueError, match="n is not"):
        number({"n": 2**63}, "n")
