"""The journal knows from which time an offset counted before kgtool kept it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kgtool.changes.journal.journal import DONE, KEEP, Journal, JournalHeader
from kgtool.changes.journal.kept import Clock, first_times
from kgtool.changes.kinds.keep import KEPT, KeepRow
from kgtool.changes.snapshot import GroupChange, GroupImage, OffsetImage
from kgtool.model import CommittedOffset, TopicPartition

AT = TopicPartition("t", 0)
PLACE = ("g", AT)


def keep(folder: Path, before: int, after: int, first: int | None = None, **more: Any) -> None:
    """A run that kept offset 5 of ``g``: its clock was ``before``, and is ``after``."""
    number = len(list(folder.glob("*.jsonl"))) if folder.exists() else 0
    said = {"command": KEEP, "cluster_id": "c", **more}
    who = (said["cluster_id"], "b:1", "u", "h", 1, "0")
    header = JournalHeader(f"2026-{number}", number, "", said["command"], (), *who)
    value = CommittedOffset(said.get("offset", 5), None, "")
    row = KeepRow("g", *AT, value, "commit", 1, 2, "commit", KEPT, None, (before, after), first)
    journal = Journal(folder, header)
    image = GroupImage("g", "classic", "Empty", "", True, {AT: OffsetImage(value)})
    journal.before([GroupChange(image, {AT: value})])
    journal.result("g", *AT, KEPT, kept=row.noted)
    journal.close(DONE, 1)


def first(folder: Path, clock: int, offset: int = 5) -> int | None:
    return first_times(folder, "c", {PLACE: Clock(offset, clock)}).first_ms.get(PLACE)


def test_runs_are_followed_back_to_the_first(tmp_path: Path) -> None:
    folder = tmp_path / "j"
    keep(folder, 100, 200)
    keep(folder, 200, 300)
    keep(folder, 300, 400)
    assert first(folder, 400) == 100
    assert first(folder, 300) == 100  # an undo of the log, as it were
    assert first(folder, 401) is None  # somebody committed the same offset since
    assert first(folder, 400, offset=6) is None


def test_a_foreign_commit_in_between_counts(tmp_path: Path) -> None:
    folder = tmp_path / "j"
    keep(folder, 100, 200)
    keep(folder, 250, 300)
    assert first(folder, 300) == 250


def test_a_run_with_a_rule_knows_the_first_time_when_older_journals_are_pruned(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "j"
    keep(folder, 200, 300, first=100)
    keep(folder, 300, 400)
    assert first(folder, 400) == 100


def test_other_clusters_and_other_commands_are_not_asked(tmp_path: Path) -> None:
    folder = tmp_path / "j"
    keep(folder, 100, 200, cluster_id="other")
    keep(folder, 100, 200, command="undo")
    assert first(folder, 200) is None
    assert not first_times(folder, "c", {}).has_journals
    keep(folder, 100, 200)
    assert first_times(folder, "c", {}).has_journals
    assert first(folder, 200) == 100
    keep(folder, 150, 200, command="undo")
    keep(folder, 150, 200, cluster_id="other")
    assert first(folder, 200) == 100, "what is newer hides it"


def test_a_journal_of_other_hands_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "j"
    keep(folder, 100, 200)
    (journal,) = folder.glob("*.jsonl")
    lines = journal.read_text().splitlines()
    for kept in (
        '"kept": 5',
        '"kept": {"offset": [1]}',
        '"kept": {}',
        '"partition": [0], "kept": {}',
    ):
        odd = '{"kind": "result", "group": "g", "topic": "t", "partition": 0, ' + kept + "}"
        odd = odd.replace('"partition": 0, "partition"', '"partition"')
        journal.write_text("\n".join([*lines[:-1], odd, lines[-1], ""]))
        assert first(folder, 200) == 100, odd


def test_one_journal_has_other_groups_too(tmp_path: Path) -> None:
    keep(tmp_path, 100, 200)
    [journal] = tmp_path.glob("*.jsonl")
    lines = journal.read_text().splitlines()
    [mine] = [line for line in lines if '"kept": {' in line]
    at = lines.index(mine)
    journal.write_text("\n".join([*lines[:at], mine.replace('"g"', '"h"'), *lines[at:], ""]))
    assert first(tmp_path, 200) == 100


def test_without_journals_nothing_is_known(tmp_path: Path) -> None:
    assert first(tmp_path / "none", 200) is None


def test_what_can_not_be_read_back_is_not_noted() -> None:
    row = KeepRow("g", *AT, CommittedOffset(5, None, ""), "commit", 1, 2, "commit", KEPT)
    assert row._replace(clock=(1, None)).noted is None
    assert row._replace(clock=(1, 2), status="failed").noted is None
    assert row._replace(clock=(1, 2)).noted == {"offset": 5, "clock_ms": 2, "first_ms": 1}
