"""A rebuilt group of which an earlier run has deleted everything, and not restored all of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from kgtool.changes.cleanup.plan_file import REBUILD_GROUP, PlanItem, PlannedOffset
from kgtool.changes.cleanup.verify import GONE
from kgtool.changes.kinds.apply_plan import ApplyPlan
from kgtool.client.cluster import TopicInfo
from kgtool.errors import KgError
from kgtool.model import CommittedOffset, GroupDescription, ItemError, TopicPartition
from kgtool.protocol.wire import id_text
from kgtool.queries.log.commit_times import CommitTimes

THEN, NOW = UUID(int=1), UUID(int=2)
A, B, LOST = (TopicPartition(name, 0) for name in ("a", "b", "gone"))
ITEM = PlanItem(
    REBUILD_GROUP,
    "g",
    "classic",
    "Empty",
    ("topic gone does not exist any more",),
    (PlannedOffset(*LOST, 1, None, "", None),),
    (PlannedOffset(*A, 5, None, "", id_text(THEN)), PlannedOffset(*B, 6, None, "", id_text(THEN))),
)


def check(
    committed: dict[TopicPartition, int],
    *,
    is_begun: bool = True,
    topic_id: UUID = THEN,
    since: Any = None,
    allow_blind: bool = False,
) -> tuple[ItemError | None, Any]:
    """Look at the group; return why it is not touched, and what is to be restored of it."""
    topics = {name: TopicInfo(name, topic_id, {0: 1}) for name in ("a", "b")}
    run: Any = SimpleNamespace(since_ms=0, allow_blind=allow_blind, hidden=None)
    kind = ApplyPlan(run, [ITEM], [ITEM.key] if is_begun else [])
    kind._since = {"g": since}
    kind._cluster = SimpleNamespace(topics=topics)
    found = {at: CommittedOffset(offset, None, "") for at, offset in committed.items()}
    description = GroupDescription("g", "classic", "Empty", "consumer", "", None, ())
    error = kind._check(description, found)
    return error, kind._half["g"][1] if "g" in kind._half else None


@pytest.mark.parametrize(
    ("committed", "left"),
    [({}, {A: 5, B: 6}), ({A: 5}, {B: 6}), ({A: 5, B: 6}, {})],
    ids=["nothing", "half", "all"],
)
def test_the_rest_is_restored(
    committed: dict[TopicPartition, int], left: dict[TopicPartition, int]
) -> None:
    error, half = check(committed)
    assert error is not None and error.name == GONE
    assert {at: value.offset for at, value in half.items()} == left


def test_what_was_not_begun_or_is_as_planned_is_none() -> None:
    error, half = check({A: 5}, is_begun=False)
    assert half is None
    assert error is not None and error.name == "CHANGED_MEANWHILE"
    assert check({A: 5, B: 6, LOST: 1}) == (None, None)


def test_a_topic_that_was_re_created_since_gets_no_offsets_of_the_old_one() -> None:
    """Was: committed, as the topic's id was only compared before the group is deleted."""
    error, half = check({A: 5}, topic_id=NOW)
    assert half is None
    assert error is not None and (error.name, error.target.topic) == ("TOPIC_RECREATED", "b")
    assert "kgtool undo" in (error.hint or "")
    assert check({A: 5, B: 6}, topic_id=NOW)[1] == {}


@pytest.mark.parametrize(
    ("is_read", "allow_blind", "is_changed", "name"),
    [
        (True, False, False, None),
        (True, False, True, "CHANGED_MEANWHILE"),
        (False, False, False, "BLIND"),
        (False, False, True, "CHANGED_MEANWHILE"),
        (False, True, False, None),
    ],
)
def test_a_log_that_can_t_be_read_refuses_what_may_have_been_used(
    is_read: bool, allow_blind: bool, is_changed: bool, name: str | None
) -> None:
    """What is seen to have changed is told as that, whether the log can be read or not."""
    since = CommitTimes({}, None) if is_read else KgError("Not allowed to read it.")
    committed = {A: 5, B: 7 if is_changed else 6, LOST: 1}
    error, _ = check(committed, since=since, allow_blind=allow_blind)
    assert (error and error.name) == name
