"""Changes of share groups' start offsets: what is sent, and what is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from kgtool.changes.kinds.delete_offsets import DeleteOffsets
from kgtool.changes.kinds.reset_offsets import ResetOffsets
from kgtool.changes.reset.targets import ResetRequest, Strategy
from kgtool.client.ops import DeadlineExceeded
from kgtool.errors import ConnectFailed, ConnectionLost
from kgtool.model import CommittedOffset, TopicPartition, TopicSpec
from kgtool.protocol import codes
from kgtool.protocol.api import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_group_offsets,
    offset_commit,
    offset_delete,
)
from tests.support import changing
from tests.support.reset_world import Group, Log, World

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
LOST = ConnectionLost("one:9092 closed the connection.").after_sending()
NEVER_SENT = ConnectFailed("Nothing listens on one:9092.")
LATE = DeadlineExceeded("too late")


@pytest.fixture
def world() -> World:
    """A share group with the start offsets 4 and 6 of ``t`` (one is not set yet) and 2 of ``u``."""
    topics = {"t": [Log(10), Log(20)], "u": [Log(5)]}
    starts = {("t", 0): _start(4), ("t", 1): _start(-1), ("u", 0): _start(2)}
    group = Group(starts, type="share", protocol_type="share")
    return World(topics, {"s": group, "other": Group({("t", 0): 7})})


def _start(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, None, None)


def look(world: World, kind: Any) -> list[Any]:
    (group,) = world.run(kind.look(world.cluster(), ["s"]))
    rows: list[Any] = group.rows
    return rows


def reset(strategy: Strategy, *topics: TopicSpec) -> ResetOffsets:
    return ResetOffsets(ResetRequest(("s",), strategy, topics or None))


def deletion(*specs: TopicSpec) -> DeleteOffsets:
    return DeleteOffsets({"s": list(specs)})


def carry_out(world: World, kind: Any) -> tuple[list[Any], list[Any]]:
    """Plan and apply; return the rows and what was journaled."""
    noted: list[Any] = []
    plan = world.run(kind.look(world.cluster(), ["s"]))
    before = lambda wave: noted.extend(wave.groups)  # noqa: E731
    (group,) = world.run(changing.apply_part(world.cluster(), kind, plan, before))
    return group.rows, noted


def starts(world: World) -> dict[TopicPartition, int | None]:
    return {at: value.offset for at, value in world.groups["s"].offsets.items()}


@pytest.mark.parametrize(
    ("strategy", "targets"),
    [
        (Strategy("to-earliest"), [0, 0, 0]),
        (Strategy("to-latest"), [10, 20, 5]),
        (Strategy("to-datetime", 7), [7, 7, 5]),
        (Strategy("to-offset", 3), [3, 3, 3]),
        (Strategy("shift-by", 2), [6, None, 4]),
        (Strategy("to-current"), [4, None, 2]),
        (Strategy("like", like="other"), [7]),
        (Strategy("from-file", offsets={"s": {T1: 8}}), [8]),
    ],
)
def test_every_strategy_has_a_target(
    world: World, strategy: Strategy, targets: list[int | None]
) -> None:
    rows = look(world, reset(strategy))
    assert [row.new_offset for row in rows] == targets
    assert world.writes == []


def test_a_reset_sets_start_offsets(world: World) -> None:
    rows, noted = carry_out(world, reset(Strategy("to-latest"), TopicSpec("t")))
    assert [(row.at, row.old_offset, row.new_offset, row.status) for row in rows] == [
        (T0, 4, 10, "reset"),
        (T1, None, 20, "reset"),
    ]
    assert starts(world) == {T0: 10, T1: 20, U0: 2}
    assert not world.asked(offset_commit)
    (change,) = noted
    assert (change.image.type, change.after[T0]) == ("share", CommittedOffset(10, None, None))
    assert change.image.offsets[T0].committed == CommittedOffset(4, None, None)
    assert change.image.offsets[T1].committed is None


def test_a_topic_that_the_group_has_not_yet(world: World) -> None:
    world.topics["new"] = [Log(3)]
    rows, _ = carry_out(world, reset(Strategy("to-latest"), TopicSpec("new")))
    assert [row.status for row in rows] == ["reset"]
    assert starts(world)[TopicPartition("new", 0)] == 3


def test_a_partition_that_the_broker_refuses_fails_alone(world: World) -> None:
    world.commit_errors[T1] = codes.UNKNOWN_TOPIC_OR_PARTITION
    rows, _ = carry_out(world, reset(Strategy("to-latest"), TopicSpec("t")))
    assert [(row.status, row.error and row.error.name) for row in rows] == [
        ("reset", None),
        ("failed", "UNKNOWN_TOPIC_OR_PARTITION"),
    ]


class Fate:
    """What becomes of the requests that change anything, one after another."""

    def __init__(self, world: World, *fates: str) -> None:
        self.world, self.fates, self.sent = world, list(fates), 0
        world.before = self

    def __call__(self, request: Any) -> Any:
        if isinstance(request, describe_share_group_offsets.Request):
            return LATE if self.fates[:1] == ["gone away"] else None
        if not isinstance(
            request, (alter_share_group_offsets.Request, delete_share_group_offsets.Request)
        ):
            return None
        fate = self.fates.pop(0) if self.fates else "answered"
        if fate == "never sent":
            return NEVER_SENT
        if fate == "refused":
            return type(request).REPLY(error_code=codes.COORDINATOR_NOT_AVAILABLE)
        answer = None
        if fate != "lost before":
            self.sent += 1
            answer = self._do(request)
        if fate == "lost, then changed":
            self.world.groups["s"].offsets[T0] = _start(99)
        return answer if fate == "answered" else LOST

    def _do(self, request: Any) -> Any:
        self.world.before = lambda _request: None
        try:
            return self.world.answer(1, request)
        finally:
            self.world.before = self


CASES = [
    (["answered"], "done", None, 1),
    (["lost after"], "done", None, 1),
    (["lost before"], "done", None, 1),
    (["never sent"], "done", None, 1),
    (["refused"], "done", None, 1),
    (["lost before", "lost before"], "done", None, 1),
    (["lost, then changed"], "changed-meanwhile", "CHANGED_MEANWHILE", 1),
    (["lost after", "gone away"], "unknown", "OUTCOME_UNKNOWN", 1),
]


@pytest.mark.parametrize(("fates", "status", "name", "sent"), CASES)
@pytest.mark.parametrize("kind", ["reset", "delete", "take away"])
def test_nothing_is_done_twice(
    world: World, kind: str, fates: list[str], status: str, name: str | None, sent: int
) -> None:
    chosen: Any = {
        "reset": reset(Strategy("to-latest"), TopicSpec("t", (0,))),
        "delete": deletion(TopicSpec("t")),
        "take away": deletion(TopicSpec("t", (0,))),
    }[kind]
    fate = Fate(world, *fates)
    rows, _ = carry_out(world, chosen)
    done = "reset" if kind == "reset" else "deleted"
    row = rows[0]
    found = (row.status, row.error and row.error.name)
    assert found == (done if status == "done" else status, name)
    assert fate.sent == sent


def test_what_somebody_sets_meanwhile_is_left_alone(world: World) -> None:
    chosen = reset(Strategy("to-latest"), TopicSpec("t"))
    plan = world.run(chosen.look(world.cluster(), ["s"]))
    world.groups["s"].offsets[T0] = _start(5)
    (group,) = world.run(changing.apply_part(world.cluster(), chosen, plan, lambda _wave: None))
    assert [row.status for row in group.rows] == ["changed-meanwhile", "reset"]
    assert starts(world) == {T0: 5, T1: 20, U0: 2}


def test_what_is_set_between_journal_and_request_is_left_alone(world: World) -> None:
    chosen = reset(Strategy("to-latest"), TopicSpec("t"))
    plan = world.run(chosen.look(world.cluster(), ["s"]))

    def somebody(_wave: Any) -> None:
        world.groups["s"].offsets[T0] = _start(5)

    (group,) = world.run(changing.apply_part(world.cluster(), chosen, plan, somebody))
    assert [row.status for row in group.rows] == ["changed-meanwhile", "reset"]
    assert starts(world)[T0] == 5


# ---------------------------------------------------------------------------------------------
# Deletion, by topic


def test_what_the_coordinator_did_not_keep_has_failed(world: World) -> None:
    def answer(request: Any) -> Any:
        if not isinstance(request, alter_share_group_offsets.Request):
            return None
        world.before = lambda _request: None
        reply = world.answer(1, request)
        world.groups["s"].offsets[T0] = _start(9)
        return reply

    world.before = answer
    rows, _ = carry_out(world, reset(Strategy("to-latest"), TopicSpec("t")))
    assert [(row.status, row.error and row.error.name) for row in rows] == [
        ("failed", "NOT_VERIFIED"),
        ("reset", None),
    ]


def test_a_topic_is_deleted_whole(world: World) -> None:
    rows, noted = carry_out(world, deletion(TopicSpec("t")))
    assert [(row.at, row.status) for row in rows] == [(T0, "deleted"), (T1, "deleted")]
    assert starts(world) == {U0: 2}
    assert not world.asked(offset_delete)
    (change,) = noted
    assert dict(change.after) == {T0: None}


def test_all_partitions_by_number_are_the_whole_topic(world: World) -> None:
    rows, _ = carry_out(world, deletion(TopicSpec("t", (0, 1))))
    assert {row.status for row in rows} == {"deleted"}


def test_of_a_topic_that_stays_the_offset_is_taken_away(world: World) -> None:
    """DeleteShareGroupOffsets deletes whole topics; -1 is what it is before the first reader."""
    rows, _ = carry_out(world, deletion(TopicSpec("t", (0,)), TopicSpec("u")))
    assert [(row.at, row.status) for row in rows] == [(T0, "deleted"), (U0, "deleted")]
    assert starts(world) == {T0: -1, T1: -1}
    (deleted,) = world.asked(delete_share_group_offsets)
    assert [topic.topic_name for topic in deleted.topics] == ["u"]


def test_a_start_offset_that_changed_stays(world: World) -> None:
    chosen = deletion(TopicSpec("t"))
    plan = world.run(chosen.look(world.cluster(), ["s"]))
    world.groups["s"].offsets[T0] = _start(5)
    (group,) = world.run(changing.apply_part(world.cluster(), chosen, plan, lambda _wave: None))
    assert [row.status for row in group.rows] == ["changed-meanwhile", "deleted"]
    assert starts(world) == {T0: 5, T1: -1, U0: 2}


def test_a_partition_that_is_new_stays(world: World) -> None:
    chosen = deletion(TopicSpec("t"))
    plan = world.run(chosen.look(world.cluster(), ["s"]))

    def somebody(_wave: Any) -> None:
        world.groups["s"].offsets[TopicPartition("t", 2)] = _start(0)

    (group,) = world.run(changing.apply_part(world.cluster(), chosen, plan, somebody))
    assert {row.status for row in group.rows} == {"deleted"}
    assert starts(world) == {T0: -1, T1: -1, TopicPartition("t", 2): 0, U0: 2}


@pytest.mark.parametrize(
    "kind", [reset(Strategy("to-latest"), TopicSpec("t")), deletion(TopicSpec("t"))]
)
def test_a_group_with_members_is_named_with_them(world: World, kind: Any) -> None:
    world.groups["s"].state, world.groups["s"].members = "Stable", ["sharer"]
    (group,) = world.run(kind.look(world.cluster(), ["s"]))
    assert (group.error.name, group.error.code) == ("NON_EMPTY_GROUP", codes.NON_EMPTY_GROUP)
    assert "sharer on /10.0.0.1" in group.error.hint
    assert "remove-members" not in group.error.hint
