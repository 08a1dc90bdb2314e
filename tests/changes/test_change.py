"""What a change tells its user: whom it waits for, and how it is taken back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kgtool.changes.journal.change import Change, Locked, Timer
from kgtool.changes.journal.journal import KEEP, REMOVE_MEMBERS
from kgtool.changes.journal.locks import GroupLocks
from kgtool.changes.policy import Origin
from kgtool.changes.snapshot import GroupChange
from kgtool.model import CommittedOffset, ItemError, Target, TopicPartition
from tests.changes.snapshots import T0, T1, at, group, image

AFTER: dict[TopicPartition, CommittedOffset | None] = {T0: at(6), T1: at(6)}


class Clock:
    """Time passes only while somebody waits; ``then`` happens at ``end``."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.end: float | None = None
        self.extended = 0.0
        self.then: Callable[[], object] = list

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.end is not None and self.now >= self.end:
            self.end = None
            self.then()

    def extend(self, seconds: float) -> None:
        """As a loop does: the command gets more time."""
        self.extended += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def changing(
    folder: Path, clock: Clock, command: str = "reset-offsets"
) -> tuple[Change, list[str]]:
    """A change of a cluster without a broker, and what it says."""
    settings = SimpleNamespace(timeout_ms=5000, context=None, bootstrap=[("b", 9092)])
    session: Any = SimpleNamespace(cluster_id="c1", settings=settings, loop=clock)
    said: list[str] = []
    timer = Timer(lambda: 1_000_000, lambda: clock.now, clock.sleep, lambda: "0001")
    return Change(session, Origin(command), folder, timer, say=said.append), said


def outcome(name: str, status: str, error: ItemError | None = None) -> Any:
    return SimpleNamespace(group=name, topic="t", partition=0, status=status, error=error)


@pytest.mark.parametrize(
    ("state", "exists", "after", "undo"),
    [
        ("Empty", True, AFTER, "kgtool undo 19700101-001640-0001"),
        ("Stable", True, AFTER, "kgtool undo 19700101-001640-0001 --as-member"),
        ("Stable", True, {}, "kgtool undo 19700101-001640-0001"),
        ("Dead", True, AFTER, "kgtool undo 19700101-001640-0001"),
        ("Stable", False, AFTER, "kgtool undo 19700101-001640-0001"),
    ],
)
def test_the_line_that_takes_it_back(
    tmp_path: Path,
    clock: Clock,
    state: str,
    exists: bool,
    after: dict[TopicPartition, CommittedOffset | None],
    undo: str,
) -> None:
    """One group with members, of any wave, and only a member can commit for it."""
    change, said = changing(tmp_path, clock)
    with change:
        for name, is_it in (("first", True), ("last", False)):
            kind: dict[str, Any] = {"state": state, "exists": exists} if is_it else {}
            change.before(
                [GroupChange(group({T0: image(5)}, name, **kind), after if is_it else AFTER)]
            )
            change.results([outcome(name, "reset")])
    change.say()
    change.say()
    assert said == [f"Undo: {undo}"]


@pytest.mark.parametrize(("bad", "lines"), [(0, 1), (1, 1), (2, 0)])
def test_where_all_has_failed_there_is_nothing_to_take_back(
    tmp_path: Path, clock: Clock, bad: int, lines: int
) -> None:
    change, said = changing(tmp_path, clock)
    names = ["a", "b"]
    with change:
        change.before([GroupChange(group({T0: image(5)}, name), {T0: at(6)}) for name in names])
        for name in names:
            error = ItemError(Target(name), 30, "GROUP_AUTHORIZATION_FAILED", "no")
            is_bad = names.index(name) < bad
            change.results([outcome(name, *(("failed", error) if is_bad else ("reset",)))])
    change.say()
    assert len(said) == lines, said


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (KEEP, None),
        (REMOVE_MEMBERS, "lists the removed members; it can't be undone."),
        ("delete", "Undo: kgtool undo "),
    ],
)
def test_what_can_be_taken_back_says_so(
    tmp_path: Path, clock: Clock, command: str, line: str | None
) -> None:
    change, said = changing(tmp_path, clock, command)
    with change:
        change.before([GroupChange(group({T0: image(5)}), {T0: None})])
        change.results([outcome("g", "done")])
    change.say()
    assert len(said) == (line is not None)
    assert line is None or line in said[0]


def test_it_waits_for_another_kgtool_and_says_so_once(tmp_path: Path, clock: Clock) -> None:
    other = GroupLocks(tmp_path, "c1")
    assert other.take(["g"]) is None
    change, said = changing(tmp_path, clock)
    clock.end, clock.then = clock.now + 3, other.close
    with change:
        change.lock(["g"])
    assert len(said) == 1
    assert said[0].startswith("Waiting: Another kgtool")
    assert said[0].endswith("is changing group g.")
    assert clock.extended == clock.now - 1000 >= 3, "what was waited is missing for the change"


def test_a_short_wait_is_not_worth_a_word(tmp_path: Path, clock: Clock) -> None:
    other = GroupLocks(tmp_path, "c1")
    other.take(["g"])
    change, said = changing(tmp_path, clock)
    clock.end, clock.then = clock.now + 0.5, other.close
    with change:
        change.lock(["g"])
    assert said == []


def test_it_waits_no_longer_than_the_command_may_take(tmp_path: Path, clock: Clock) -> None:
    other = GroupLocks(tmp_path, "c1")
    other.take(["g"])
    change, _ = changing(tmp_path, clock)
    began = clock.now
    with change, pytest.raises(Locked, match="is still changing group 'g'"):
        change.lock(["g"])
    assert 5 < clock.now - began < 5.3
    other.close()
