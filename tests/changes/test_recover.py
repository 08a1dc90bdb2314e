"""What recover wants back, what it leaves alone, and what it says of the rest: without brokers."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from kgtool.changes.kinds.restore_offsets import RestoreOffsets
from kgtool.changes.restore import recover
from kgtool.changes.restore.decide import RestoreGroup, RestorePolicy, RestoreRow
from kgtool.changes.restore.recover import (
    RecoverOffsets,
    check_moment,
    desired_groups,
    no_trace,
    object_to_recreated,
)
from kgtool.changes.snapshot import OffsetImage
from kgtool.client.cluster import Cluster
from kgtool.errors import UsageError
from kgtool.model import ItemError, Target, TopicPartition
from kgtool.queries.log.gone import GoneGroup, GoneOffset
from kgtool.queries.offsets.lag import LogEnds
from tests.changes import snapshots
from tests.changes.snapshots import T0, T1, at
from tests.support.script import Script

NOBODY: Any = Cluster()
REMOVED_MS = 2000
MISSING = ItemError(Target("g", *T0), 3, "UNKNOWN_TOPIC_OR_PARTITION", "There is no such topic.")


def value(offset: int, epoch: int = 3, topic_id: UUID | None = None) -> Any:
    return SimpleNamespace(offset=offset, leader_epoch=epoch, metadata="m", topic_id=topic_id)


def gone(offsets: Mapping[TopicPartition, Any], first: tuple[int, int] | None = None) -> GoneGroup:
    """A group whose offsets had these values."""
    found = {p: GoneOffset(v, REMOVED_MS, "tombstone") for p, v in offsets.items()}
    return GoneGroup(7, True, found, first)


# -- what the log says of a group --------------------------------------------------------------


@pytest.mark.parametrize(
    ("partition", "first", "said"),
    [
        (7, None, "Group 'g' has no trace in __consumer_offsets-7."),
        (
            0,
            (5, 1000),
            "Group 'g' has no trace in __consumer_offsets-0, which goes back to "
            "1970-01-01T00:00:01Z.",
        ),
        (-1, None, "Group 'g' has no trace in __consumer_offsets."),
    ],
)
def test_no_trace_says_where_and_since_when(
    partition: int, first: tuple[int, int] | None, said: str
) -> None:
    assert no_trace("g", GoneGroup(partition, False, {}, first)).message == said


def test_a_pattern_has_no_trace_because_it_is_one() -> None:
    nothing = GoneGroup(7, False, {}, None)
    assert "takes no patterns" in (no_trace("g*", nothing).hint or "")
    assert "takes no patterns" not in (no_trace("g", nothing).hint or "")


@pytest.mark.parametrize(
    ("first", "at_ms", "is_refused"),
    [
        (None, 1000, False),
        ((5, 1000), None, False),
        ((5, 1000), 1000, False),
        ((5, 1001), 1000, True),
    ],
)
def test_a_moment_before_the_log_is_refused(
    first: tuple[int, int] | None, at_ms: int | None, is_refused: bool
) -> None:
    """An empty log has no beginning."""
    groups = {"g": gone({T0: value(5)}, first)}
    if not is_refused:
        check_moment(groups, at_ms)
        return
    with pytest.raises(UsageError, match="__consumer_offsets-7 goes back to"):
        check_moment(groups, at_ms)


def test_what_is_wanted_back_is_what_it_was() -> None:
    groups = {"g": gone({T1: None, T0: value(5, -1)}), "h": gone({T0: value(6, 2, UUID(int=1))})}
    g, h = desired_groups(groups, lambda _: True)
    assert list(g.offsets) == [T0, T1]
    assert g.offsets[T0].then == OffsetImage(at(5, None, "m"))
    assert g.offsets[T1].then == OffsetImage(None)
    assert h.offsets[T0].then.committed == at(6, 2, "m")
    assert h.offsets[T0].then.topic_id is not None
    assert [one.group for one in desired_groups(groups, lambda place: place == T1)] == ["g"]


# -- topics that were re-created, where the log has no ids --------------------------------------


def objections(
    monkeypatch: pytest.MonkeyPatch, offset: int, written_ms: int, start: int | None = 4
) -> tuple[dict[TopicPartition, tuple[int, int]], bool]:
    """The record that was looked for, and whether the offset is refused."""
    looked: dict[TopicPartition, tuple[int, int]] = {}

    def log_ends(_cluster: Any, places: Any) -> Any:
        yield from ()
        return {place: LogEnds(start, 10) for place in places}

    def times_before(_cluster: Any, places: Any) -> Any:
        yield from ()
        looked.update(places)
        return dict.fromkeys(places, written_ms)

    monkeypatch.setattr(recover, "log_ends", log_ends)
    monkeypatch.setattr(recover, "times_before", times_before)
    groups = {"g": gone({T0: value(offset)})}
    desired = desired_groups(groups, lambda _: True)
    [checked] = run(object_to_recreated(NOBODY, groups, desired))
    return looked, checked.offsets[T0].objection is not None


@pytest.mark.parametrize(
    ("offset", "start", "looked"),
    [
        (3, 4, {}),
        (4, 4, {}),
        (5, 4, {T0: (5, 4)}),
        (10, 4, {T0: (10, 4)}),
        (11, 4, {}),
        (3, None, {T0: (3, 0)}),
    ],
)
def test_only_a_record_that_is_there_tells_when_it_was_written(
    monkeypatch: pytest.MonkeyPatch, offset: int, start: int | None, looked: Any
) -> None:
    assert objections(monkeypatch, offset, 1, start) == (looked, False)


@pytest.mark.parametrize(("written_ms", "is_refused"), [(REMOVED_MS, False), (2001, True)])
def test_a_record_that_is_younger_than_the_removal_is_another_topic_s(
    monkeypatch: pytest.MonkeyPatch, written_ms: int, is_refused: bool
) -> None:
    assert objections(monkeypatch, 5, written_ms)[1] == is_refused


def test_two_groups_have_different_offsets_of_one_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Offset 5 was written before the removal, offset 9 after it."""

    def log_ends(_cluster: Any, places: Any) -> Any:
        yield from ()
        return {place: LogEnds(0, 10) for place in places}

    def times_before(_cluster: Any, places: Any) -> Any:
        yield from ()
        return {place: REMOVED_MS + offset - 7 for place, (offset, _) in places.items()}

    monkeypatch.setattr(recover, "log_ends", log_ends)
    monkeypatch.setattr(recover, "times_before", times_before)
    groups = {"g": gone({T0: value(5)}), "h": gone({T0: value(9)})}
    desired = desired_groups(groups, lambda _: True)
    g, h = run(object_to_recreated(NOBODY, groups, desired))
    assert (g.offsets[T0].objection is None, h.offsets[T0].objection is None) == (True, False)


# -- as it is now ------------------------------------------------------------------------------


def looking(
    monkeypatch: pytest.MonkeyPatch, was: Any, row: RestoreRow
) -> tuple[RecoverOffsets, RestoreRow]:
    """The kind, and its row where restore would say ``row``."""

    def look(_self: Any, _cluster: Any, desired: Any) -> Any:
        yield from ()
        return [
            RestoreGroup("g", [row], snapshots.reading({}), None, is_share=False) for _ in desired
        ]

    def unchecked(_cluster: Any, _gone: Any, desired: Any) -> Any:
        yield from ()
        return desired

    monkeypatch.setattr(RestoreOffsets, "_look", look)
    monkeypatch.setattr(recover, "object_to_recreated", unchecked)
    groups = {"g": gone({T0: was})}
    wanted = desired_groups(groups, lambda _: True)
    with RecoverOffsets(RestorePolicy(), wanted, groups) as kind:
        assert kind.groups == ["g"]
        [group] = run(kind.look(NOBODY, ["g"]))
        [found] = group.rows
        return kind, found


OPEN = RestoreRow("g", *T0, None, at(5), "would-restore")
THEIRS = ItemError(Target("g", *T0), None, "CHANGED_MEANWHILE", "Another client has committed.")
RANGE = ItemError(Target("g", *T0), None, "OUT_OF_RANGE", "It is outside of its log.")


@pytest.mark.parametrize(
    ("was", "row", "status", "error"),
    [
        (value(5), OPEN, "would-restore", None),
        (value(5), OPEN._replace(old=at(9), status="failed", error=THEIRS), "exists", None),
        (value(5), OPEN._replace(status="failed", error=RANGE), "out-of-range", "OUT_OF_RANGE"),
        (value(5), OPEN._replace(old=at(5), status="unchanged"), "exists", None),
        # Compacted away: there is nothing to restore, and nothing to delete.
        (None, OPEN._replace(new=None, status="unchanged"), "not-in-log", "NOT_IN_LOG"),
        (None, OPEN._replace(old=at(9), new=None, status="would-delete"), "exists", None),
        (
            None,
            OPEN._replace(new=None, status="failed", error=MISSING),
            "topic-gone",
            "UNKNOWN_TOPIC_OR_PARTITION",
        ),
    ],
)
def test_each_row_in_recover_s_words(
    monkeypatch: pytest.MonkeyPatch, was: Any, row: RestoreRow, status: str, error: str | None
) -> None:
    _, found = looking(monkeypatch, was, row)
    assert recover.status(found) == status
    assert (found.error and found.error.name) == error


def test_a_commit_after_the_question_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = OPEN._replace(old=at(9), status="failed", error=THEIRS)
    kind, now = looking(monkeypatch, value(5), theirs)
    assert kind._row_as_planned(OPEN, now).status == "changed-meanwhile"
    kind, now = looking(monkeypatch, value(5), OPEN._replace(old=at(5), status="unchanged"))
    assert kind._row_as_planned(OPEN, now).status == "unchanged"


def run(operation: Any) -> Any:
    return Script(lambda *_: None).run(operation)
