"""What may be put back, and what is refused: every reason by itself."""

from __future__ import annotations

from typing import Any

import pytest

from kgtool.changes.kinds import restore_offsets
from kgtool.changes.kinds.restore_offsets import RestoreOffsets
from kgtool.changes.restore.decide import (
    DesiredGroup,
    DesiredOffset,
    RestoreGroup,
    RestorePolicy,
    RestoreRow,
    decide,
)
from kgtool.changes.snapshot import GroupReading, OffsetImage
from kgtool.client.cluster import Cluster
from kgtool.errors import ConfigError, KgError
from kgtool.model import CommittedOffset, GroupDeletion, ItemError, Target, TopicPartition
from tests.changes import snapshots
from tests.changes.snapshots import T0, T1, at, image, reading
from tests.support.script import Script

UNDO = RestorePolicy(exact=True)
RESTORE = RestorePolicy()


def one(
    then: OffsetImage,
    now: OffsetImage,
    left: CommittedOffset | None = None,
    policy: RestorePolicy = UNDO,
    **desired: Any,
) -> RestoreRow:
    """Decide about one partition of an empty group."""
    offsets = {T0: DesiredOffset(then, left, **desired)}
    found = decide(
        DesiredGroup("g", offsets, snapshots.group({T0: then})), reading({T0: now}), policy
    )
    (row,) = found.rows
    return row


def living(policy: RestorePolicy = UNDO, now: int | None = None, **more: Any) -> Any:
    offsets = {T0: DesiredOffset(image(5), at(7) if now is None else None)}
    return decide(
        DesiredGroup("g", offsets, snapshots.group({})),
        reading({T0: image(7 if now is None else now)}, "Stable", **more),
        policy,
    )


class TestUndo:
    def test_a_deleted_offset_is_restored(self) -> None:
        row = one(image(5, epoch=2, metadata="m"), image(None))
        assert (row.status, row.old, row.new) == ("would-restore", None, at(5, 2, "m"))

    def test_an_offset_that_a_reset_made_is_deleted(self) -> None:
        row = one(image(None), image(9), at(9))
        assert (row.status, row.old, row.new) == ("would-delete", at(9), None)

    def test_what_is_as_it_should_be_is_left_alone(self) -> None:
        assert one(image(5), image(5), at(9)).status == "unchanged"
        assert one(image(None), image(None), at(9)).status == "unchanged"
        assert one(image(5, metadata=None), image(5, metadata=""), at(9)).status == "unchanged"

    @pytest.mark.parametrize(
        "now",
        [image(8), image(9, metadata="x"), image(9, epoch=3), image(None)],
        ids=["offset", "metadata", "leader epoch", "deleted"],
    )
    def test_a_commit_since_is_a_conflict_and_shown(self, now: OffsetImage) -> None:
        row = one(image(5), now, at(9, 2))
        assert row.status == "failed"
        assert row.error is not None and row.error.name == "CHANGED_MEANWHILE"
        assert "offset 9, leader epoch 2 was left there" in row.error.message
        assert row.error.message.startswith("Another client has committed") == (
            now.committed is not None
        )
        assert "offset 5 would be restored" in row.error.message
        assert row.error.target == Target("g", "t", 0)
        forced = one(image(5), now, at(9), UNDO._replace(force=True))
        assert (forced.status, forced.new) == ("would-restore", at(5))

    def test_a_topic_created_anew_is_another_topic(self) -> None:
        row = one(image(5), image(None, topic_id="id-2"))
        assert row.error is not None and row.error.name == "TOPIC_RECREATED"
        assert "id-1 then, id-2 now" in row.error.message
        forced = one(image(5), image(None, topic_id="id-2"), policy=UNDO._replace(force=True))
        assert forced.status == "would-restore"
        # Brokers before 2.8 have no ids.
        assert one(image(5, topic_id=None), image(None)).status == "would-restore"
        assert one(image(5), image(None, topic_id=None)).status == "would-restore"

    @pytest.mark.parametrize("log", [(6, 100), (0, 4)])
    def test_a_range_that_changed_is_refused(self, log: tuple[int, int]) -> None:
        row = one(image(5), image(None, log))
        assert row.error is not None and row.error.name == "OUT_OF_RANGE"
        assert f"[{log[0]}, {log[1]}]" in row.error.message
        assert "[0, 100]" in row.error.message
        assert (
            one(image(5), image(None, log), policy=RestorePolicy(True, True)).status
            == "would-restore"
        )

    def test_a_log_that_lost_its_end_is_refused(self) -> None:
        row = one(image(5, (0, 100)), image(None, (0, 99)))
        assert row.error is not None and row.error.name == "LOG_TRUNCATED"
        assert one(image(5, (0, 100)), image(None, (5, 300))).status == "would-restore"

    @pytest.mark.parametrize(
        ("then", "where"),
        [(image(200, (0, 100)), "beyond the end"), (image(5, (10, 100)), "before the start")],
    )
    def test_what_was_out_of_range_then_is_put_back_and_said(
        self, then: OffsetImage, where: str
    ) -> None:
        row = one(then, then._replace(committed=None))
        assert row.status == "would-restore"
        assert row.note is not None and where in row.note and "as it was then" in row.note

    def test_a_pending_transaction_is_waited_for(self) -> None:
        pending = image(9)._replace(committed=at(9)._replace(is_pending=True))
        row = one(image(5), pending, at(9))
        assert row.error is not None and row.error.name == "PENDING_TRANSACTION"
        assert one(image(5), pending, at(9), RestorePolicy(True, True)).status == "would-restore"


class TestRestore:
    def test_it_does_not_matter_what_is_there(self) -> None:
        for now in (image(99), image(None), image(1, metadata="x")):
            assert one(image(5), now, policy=RESTORE, any_left=True).status == "would-restore"

    def test_out_of_range_is_refused_also_if_it_was_so_then(self) -> None:
        row = one(image(200), image(None), policy=RESTORE, any_left=True)
        assert row.error is not None and row.error.name == "OUT_OF_RANGE"
        assert "as it was then" in row.error.message
        forced = one(image(200), image(None), policy=RestorePolicy(force=True), any_left=True)
        assert forced.status == "would-restore"

    @pytest.mark.parametrize("offset", [0, 100])
    def test_both_ends_of_the_log_are_in_range(self, offset: int) -> None:
        assert one(image(offset), image(None), policy=RESTORE, any_left=True).error is None


class TestGroups:
    def test_members_are_named_and_stop_it(self) -> None:
        found = living()
        assert found.error is not None and found.error.code == 68
        assert "Stable" in found.error.message
        assert "client-1 on /10.0.0.1" in found.error.hint
        assert [row.status for row in found.rows] == ["failed"]
        assert living(RestorePolicy(force=True, exact=True)).error is not None

    def test_a_living_group_that_has_what_it_should_have_is_no_failure(self) -> None:
        found = living(now=5)
        assert found.error is None
        assert [row.status for row in found.rows] == ["unchanged"]

    def test_in_a_members_name(self) -> None:
        found = living(RestorePolicy(exact=True, as_member=True))
        assert (found.error, found.rows[0].status) == (None, "would-restore")

    def test_a_group_that_is_gone_comes_back(self) -> None:
        desired = DesiredGroup("g", {T0: DesiredOffset(image(5))}, snapshots.group({}))
        found = decide(desired, reading({T0: image(None)}, exists=False), UNDO)
        assert (found.error, found.rows[0].status) == (None, "would-restore")
        found = decide(
            desired, reading({T0: image(None)}, exists=False), RestorePolicy(create=False)
        )
        assert found.error is not None and found.error.code == 69

    def test_a_share_group_now(self) -> None:
        desired = DesiredGroup("g", {T0: DesiredOffset(image(5))}, snapshots.group({}))
        found = decide(desired, reading({T0: image(None)}, type="share"), UNDO)
        assert found.error is not None and found.error.name == "WRONG_GROUP_TYPE"

    def test_a_share_group_then(self) -> None:
        then = snapshots.group({})._replace(type="share")
        desired = DesiredGroup("g", {T0: DesiredOffset(image(5))}, then)
        found = decide(desired, reading({T0: image(None)}), UNDO)
        assert found.error is not None and found.error.name == "WRONG_GROUP_TYPE"
        assert "was a share group then" in found.error.message
        found = decide(desired, reading({T0: image(None)}, type="share"), UNDO)
        assert (found.error, found.is_share, found.rows[0].status) == (None, True, "would-restore")
        found = decide(desired, reading({T0: image(None)}, exists=False), UNDO)
        assert (found.error, found.is_share) == (None, True)

    def test_one_bad_partition_does_not_hide_the_other(self) -> None:
        gone = ItemError(Target("g", "t", 1), 3, "UNKNOWN_TOPIC_OR_PARTITION", "gone")
        desired = DesiredGroup(
            "g", {T0: DesiredOffset(image(5)), T1: DesiredOffset(image(6))}, snapshots.group({})
        )
        found = decide(desired, reading({T0: image(None), T1: image(None)}, errors=[gone]), UNDO)
        assert [row.status for row in found.rows] == ["would-restore", "failed"]
        assert found.rows[1].error == gone

    def test_an_unreadable_group_fails_as_a_whole(self) -> None:
        denied = ItemError(Target(group="g"), 30, "GROUP_AUTHORIZATION_FAILED", "no")
        desired = DesiredGroup("g", {T0: DesiredOffset(image(5))}, snapshots.group({}))
        empty: GroupReading = reading({}, errors=[denied])
        found = decide(desired, empty, RestorePolicy(force=True))
        assert found.error == denied
        assert found.rows[0].status == "failed"


# ---------------------------------------------------------------------------------------------
# What was shown is what is done


Now = tuple[OffsetImage, str]
"""The offset of the group's partition, and the group's state."""


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[Now]:
    """What each look at the group finds, one after the other; the last one lasts."""
    nows: list[Now] = []

    def read(*_: object) -> Any:
        yield from ()
        offset, state = nows.pop(0) if nows[1:] else nows[0]
        return {"g": reading({T0: offset}, state)}

    def all_can(*_: object) -> Any:
        yield from ()
        return {}

    monkeypatch.setattr(restore_offsets, "read_groups", read)
    monkeypatch.setattr(restore_offsets, "find_unsupported", all_can)
    return nows


def two_looks() -> tuple[RestoreRow, RestoreRow]:
    """The row of a restore to 5 in the plan, and at the second look, behind the question."""
    then = snapshots.group({T0: image(5)})
    desired = DesiredGroup("g", {T0: DesiredOffset(image(5), any_left=True)}, then)
    with RestoreOffsets(RESTORE, [desired]) as kind:
        plan = result(kind.look(NO_CLUSTER, ["g"]))
        again = result(kind.look_again(NO_CLUSTER, plan))
    return plan[0].rows[0], again[0].rows[0]


NO_CLUSTER: Any = None


def result(operation: Any) -> Any:
    """What an operation returns that asks nobody."""
    with pytest.raises(StopIteration) as stop:
        next(operation)
    return stop.value.value


@pytest.mark.parametrize(
    "then", [image(8), image(9, metadata="x"), image(None)], ids=["offset", "metadata", "deleted"]
)
def test_a_commit_after_the_question_is_left_alone(now: list[Now], then: OffsetImage) -> None:
    """Was: overwritten, though the table had shown another offset."""
    now[:] = [(image(9), "Empty"), (then, "Empty")]
    plan, row = two_looks()
    assert plan.status == "would-restore"
    assert (row.status, row.error and row.error.name) == ("changed-meanwhile", "CHANGED_MEANWHILE")
    now[:] = [(then, "Empty")]
    assert {row.status for row in two_looks()} == {"would-restore"}


def test_what_had_the_offset_already_is_not_taken_for_agreed(now: list[Now]) -> None:
    now[:] = [(image(5), "Empty"), (image(9), "Empty")]
    assert [row.status for row in two_looks()] == ["unchanged", "changed-meanwhile"]


@pytest.mark.parametrize("before", [(image(9, log=(None, None)), "Empty"), (image(9), "Stable")])
def test_what_could_not_be_done_in_the_plan_is_not_done_later(now: list[Now], before: Now) -> None:
    """Its range was unknown, or the group had members: nobody has agreed to it."""
    now[:] = [before, (image(9), "Empty")]
    _, row = two_looks()
    assert (row.status, row.error and row.error.name) == ("failed", "NOT_DONE")


@pytest.mark.parametrize(("old", "new"), [(6, 9), (5, 8), (None, 9), (5, None)])
def test_consent_covers_what_was_there_and_what_comes(old: int | None, new: int | None) -> None:
    """Kind: consent that covers only half of what was shown. Siblings: no offset, then or now."""

    def row(old: int | None, new: int | None) -> RestoreRow:
        values = [None if each is None else CommittedOffset(each, None, "") for each in (old, new)]
        return RestoreRow("g", "t", 0, values[0], values[1], "would-restore")

    assert restore_offsets._same_values(row(5, 9), row(5, 9))
    assert not restore_offsets._same_values(row(5, 9), row(old, new))


@pytest.mark.parametrize(
    ("before", "after", "epoch"),
    [("id-1", "id-1", 2), ("id-1", "id-2", None), (None, "id-2", 2), ("id-1", None, 2)],
)
def test_a_forced_restore_into_another_topic_has_no_leader_epoch(
    before: str | None, after: str | None, epoch: int | None
) -> None:
    """Consumers that find an epoch of the topic before wait for it, and read nothing."""
    then, now = image(5, topic_id=before, epoch=2), image(None, topic_id=after)
    row = one(then, now, policy=RestorePolicy(force=True))
    assert (row.status, row.new) == ("would-restore", at(5, epoch))


TOO_OLD = KgError("The broker is older than Kafka 2.4.")


def undo_on_an_old_broker(
    monkeypatch: pytest.MonkeyPatch,
    offsets: dict[TopicPartition, OffsetImage],
    *,
    is_created: bool = True,
    is_old: bool = True,
) -> tuple[list[tuple[str, str | None]], set[str]]:
    """Undo a reset to 9 of both partitions: status and hint of each row, and what goes whole."""

    def read(*_: object) -> Any:
        yield from ()
        return {"g": reading({T0: image(9), T1: image(9)})}

    def unsupported(_cluster: Any, homes: dict[str, int], _api: Any) -> Any:
        yield from ()
        return dict.fromkeys(homes, TOO_OLD) if is_old else {}

    monkeypatch.setattr(restore_offsets, "read_groups", read)
    monkeypatch.setattr(restore_offsets, "find_unsupported", unsupported)
    wanted = {place: DesiredOffset(then, at(9)) for place, then in offsets.items()}
    then = snapshots.group(offsets, exists=not is_created)
    with RestoreOffsets(UNDO, [DesiredGroup("g", wanted, then)]) as kind:
        [group] = result(kind.look(NO_CLUSTER, ["g"]))
    return [(row.status, row.error and row.error.hint) for row in group.rows], kind._whole


STAYS = ("failed", "It stays: that broker deletes whole groups only (kgtool delete).")


def test_an_old_broker_deletes_a_group_whole_that_the_change_has_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before Kafka 2.4 there is no OffsetDelete."""
    nothing = {T0: image(None), T1: image(None)}
    rows, whole = undo_on_an_old_broker(monkeypatch, nothing)
    assert (rows, whole) == ([("would-delete", None)] * 2, {"g"})
    rows, whole = undo_on_an_old_broker(monkeypatch, nothing, is_old=False)
    assert (rows, whole) == ([("would-delete", None)] * 2, set())


@pytest.mark.parametrize(
    ("second", "is_created", "rows"),
    [
        # There was a group before: it is not the change's to delete.
        (image(None), False, [STAYS, STAYS]),
        # What is to be restored is, and what is to remain keeps the group.
        (image(5), False, [STAYS, ("would-restore", None)]),
        (image(5), True, [STAYS, ("would-restore", None)]),
    ],
)
def test_an_old_broker_deletes_no_group_in_which_something_is_to_stay(
    monkeypatch: pytest.MonkeyPatch,
    second: OffsetImage,
    is_created: bool,
    rows: list[tuple[str, str | None]],
) -> None:
    offsets = {T0: image(None), T1: second}
    assert undo_on_an_old_broker(monkeypatch, offsets, is_created=is_created) == (rows, set())


def test_what_can_not_be_read_any_more_keeps_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Was: "Another client has committed meanwhile: no offset was there, no offset is there"."""

    def delete(_cluster: Any, names: list[str], check: Any) -> Any:
        yield from ()
        error = check(reading({}).description, {T0: KgError("Not allowed to read it.")})
        return [GroupDeletion(name, "failed", error) for name in names]

    monkeypatch.setattr(restore_offsets, "_delete", delete)
    row = RestoreRow("g", *T0, at(5), None, "would-delete")
    made = RestoreGroup("g", [row], reading({}), None, is_share=False)
    done = Script(lambda *_: None).run(restore_offsets._delete_whole(Cluster(), [made]))
    assert done["g"][T0].message == "Not allowed to read it."


def test_nobody_is_asked_to_commit_for_a_group_that_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has no members: its offsets are committed as anybody's."""

    def read(*_: object) -> Any:
        yield from ()
        return {"g": reading({T0: image(None)}, "Unknown", exists=False)}

    def unsupported(*_: object) -> Any:
        yield from ()
        return {}

    def identities(*_: object) -> Any:
        raise AssertionError("asked")

    monkeypatch.setattr(restore_offsets, "read_groups", read)
    monkeypatch.setattr(restore_offsets, "find_unsupported", unsupported)
    monkeypatch.setattr(restore_offsets, "find_identities", identities)
    desired = DesiredGroup("g", {T0: DesiredOffset(image(5))}, snapshots.group({T0: image(5)}))
    with RestoreOffsets(UNDO, [desired]) as kind:
        [group] = result(kind.look(NO_CLUSTER, ["g"]))
    assert [row.status for row in group.rows] == ["would-restore"]


def test_what_is_wanted_is_read_once() -> None:
    """Kind: consent that covers only half of what was shown; a translation by time could give
    another offset at the second look. Sibling: a group that appears twice."""
    then = snapshots.group({})
    groups = [DesiredGroup(name, {}, then) for name in ("a", "b", "a")]
    once = iter(groups[:2])
    with RestoreOffsets(RESTORE, once) as kind:
        assert (kind.groups, list(once)) == (["a", "b"], [])
    with pytest.raises(ConfigError, match="'a' appears twice"):
        RestoreOffsets(RESTORE, groups)


def test_a_log_that_was_not_known_then_is_not_printed() -> None:
    """Kind: ``None`` in a sentence; a recovered offset has no log of its own."""
    found = decide(
        DesiredGroup("g", {T0: DesiredOffset(OffsetImage(CommittedOffset(5, None, "")))}, None),
        reading({T0: OffsetImage(None, None, 20, 60)}),
        UNDO,
    )
    (row,) = found.rows
    assert row.error is not None
    assert row.error.message == "Offset 5 is outside of its log now, which is [20, 60]."
