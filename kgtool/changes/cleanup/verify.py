"""Whether a group is still as its plan says: checked just before it is changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kgtool.changes.cleanup.plan_file import DELETE_OFFSETS, PlanItem, PlannedOffset
from kgtool.changes.reset.rows import members
from kgtool.errors import KgError, TopicRecreated
from kgtool.model import CommittedOffset, GroupDescription, ItemError, Target, TopicPartition
from kgtool.protocol.codes import GROUP_ID_NOT_FOUND
from kgtool.queries.log.commit_times import CommitTimes
from kgtool.queries.offsets.fetch import Committed
from kgtool.text import moment

GONE = "GONE"
"""The error's name where the group does not exist any more: nothing is left to be done."""
CHANGED = "CHANGED_MEANWHILE"

TopicId = Callable[[str], "str | None"]
"""Returns the current id of a topic, in Kafka's text form; None where it is unknown or deleted."""


def changed(
    item: PlanItem,
    description: GroupDescription,
    committed: Committed | KgError,
    topic_id: TopicId,
    since: CommitTimes | None = None,
    since_ms: int = 0,
) -> ItemError | None:
    """Return why a group must be left alone; None: it is as the plan says.

    :param since: the commits since the plan was made; None: they can't be read, and only other
        offsets show a commit.
    :param since_ms: when the plan was made, by the brokers' clocks where they are known.
    """
    error = description.error
    if error is not None and error.code == GROUP_ID_NOT_FOUND:
        return _skip(item, "It does not exist any more.", GONE)
    if error is not None or isinstance(committed, KgError):
        return None  # the operation itself reports that failure
    was_empty = item.action != DELETE_OFFSETS or item.state == "Empty"
    if was_empty and not description.is_empty:
        return _skip(item, f"It is {description.state} now. {members(description)}")
    reason = (
        _offsets_changed(item, committed)
        or _kept_missing(item, committed)
        or _topics_changed(item, topic_id)
    )
    if reason is None and since is not None:
        if since.is_pending and item.action != DELETE_OFFSETS:  # before 2.5 only the log has it
            reason = "A transaction is about to change its offsets."
        reason = (
            reason
            or _committed_since(item, since, since_ms)
            or _members_since(item, since, since_ms)
        )
    return None if reason is None else _skip(item, reason)


def _skip(item: PlanItem, reason: str, name: str = CHANGED) -> ItemError:
    return ItemError(
        Target(group=item.group),
        None,
        name,
        reason,
        None if name == GONE else "It is left alone; a new plan would include it.",
    )


def _offsets_changed(item: PlanItem, committed: Committed) -> str | None:
    planned = {offset.at: offset for offset in (*item.offsets, *item.keep)}
    for partition, value in sorted(committed.items()):
        if not isinstance(value, CommittedOffset) or value.offset is None:
            continue
        expected = planned.get(partition)
        if expected is None:
            if item.action != DELETE_OFFSETS:
                return f"It has an offset on {partition.typed} that the plan does not name."
        elif not is_same(expected, value):
            if expected.offset == value.offset:
                return f"Another client has committed {partition.typed} with other metadata since."
            return (
                f"Another client has committed since: {partition.typed} was at {expected.offset} "
                f"and is at {value.offset} now."
            )
    return None


def _kept_missing(item: PlanItem, committed: Committed) -> str | None:
    """Find a kept offset that is missing: rebuilding the group would make that permanent."""
    for offset in item.keep:
        if offset.at not in committed:
            return f"It has no offset on {offset.at.typed} any more."
    return None


def is_same(planned: PlannedOffset, now: CommittedOffset) -> bool:
    """Whether a commit is the one of the plan, by the fields that the plan has."""
    if planned.offset is None:
        return True
    if planned.offset != now.offset:
        return False
    if planned.leader_epoch is not None and planned.leader_epoch != now.leader_epoch:
        return False
    return planned.metadata is None or planned.metadata == (now.metadata or "")


def _topics_changed(item: PlanItem, topic_id: TopicId) -> str | None:
    for offset in (*item.offsets, *item.keep):
        now = topic_id(offset.topic)
        if offset.topic_id is not None and now is not None and now != offset.topic_id:
            return f"Topic {offset.topic} was re-created since (id {now})."
        if offset.problem == "topic-gone" and now is not None:
            return f"Topic {offset.topic} exists again."
    return None


def _committed_since(item: PlanItem, since: CommitTimes, since_ms: int) -> str | None:
    """Find repeated commits of the same offsets, which OffsetFetch does not show.

    An offset whose commit time is not in the plan was committed before the plan.
    """
    for offset in (*item.offsets, *item.keep):
        found = since.at.get(offset.at)
        known_ms = since_ms if offset.committed_at_ms is None else offset.committed_at_ms
        if found is not None and found.at_ms > known_ms:
            return (
                f"Another client has committed {offset.at.typed} since, at {moment(found.at_ms)}."
            )
    return None


def _members_since(item: PlanItem, since: CommitTimes, since_ms: int) -> str | None:
    """Find members that joined or left, without a commit."""
    known_ms = since_ms if item.last_change_ms is None else item.last_change_ms
    if item.action == DELETE_OFFSETS or since.changed_ms is None or since.changed_ms <= known_ms:
        return None
    return f"Members have joined or left since, at {moment(since.changed_ms)}."


def kept(
    item: PlanItem, then: Mapping[TopicPartition, CommittedOffset | None]
) -> dict[TopicPartition, CommittedOffset]:
    """Return the offsets to restore to a rebuilt group, as just read."""
    return {offset.at: value for offset in item.keep if (value := then.get(offset.at)) is not None}


def left_to_restore(
    item: PlanItem, committed: Committed | KgError
) -> dict[TopicPartition, CommittedOffset] | None:
    """Return the offsets that an earlier run has not restored after it had deleted the group.

    None: it had not deleted the group, or somebody has restored it.
    """
    if not isinstance(committed, dict) or any(each.at in committed for each in item.offsets):
        return None
    return {
        each.at: CommittedOffset(each.offset, each.leader_epoch, each.metadata)
        for each in item.keep
        if each.at not in committed
    }


def recreated(
    item: PlanItem, half: Collection[TopicPartition], topic_id: TopicId
) -> ItemError | None:
    """Return why the rest of a half rebuilt group can't be restored: a re-created topic."""
    for offset in item.keep:
        now = topic_id(offset.topic)
        if offset.at in half and None not in (offset.topic_id, now) and now != offset.topic_id:
            return ItemError(
                Target(item.group, offset.topic, offset.partition),
                None,
                TopicRecreated.name,
                f"Its group was deleted, and topic {offset.topic} was re-created since (id {now}): "
                "its offsets mean other records.",
                "kgtool undo of the earlier run restores the others.",
            )
    return None
