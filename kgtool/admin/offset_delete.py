"""Deleting committed offsets (KIP-496): per partition, of groups that may be alive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.admin.committed import Committed, fetch_on
from kgtool.admin.groups import UNKNOWN_TYPES, describe_with_type, is_subscribed
from kgtool.admin.images import (
    BeforeChange,
    Check,
    GroupChange,
    offsets_of,
    take_images,
)
from kgtool.admin.pending import pending_error, pending_partitions
from kgtool.admin.resend import SEND_AGAIN, change_by_coordinator
from kgtool.admin.reset_committed import fetch_selected
from kgtool.client import denied
from kgtool.client.cluster import Cluster, fetch_metadata, pipelined, too_old
from kgtool.client.ops import READING_SHARE, Call, Operation, gather, within
from kgtool.errors import ChangedMeanwhile, KgError
from kgtool.model import (
    CommittedOffset,
    GroupDescription,
    GroupOffsetDeletions,
    ItemError,
    Member,
    OffsetDeletion,
    Target,
    TopicPartition,
    TopicSpec,
)
from kgtool.protocol import codes
from kgtool.protocol.api import offset_delete
from kgtool.protocol.codes import broker_error


class _Asked(NamedTuple):
    """One group: what is to be deleted, what it is, and what it has."""

    group: str
    partitions: list[TopicPartition]
    unknown_topics: list[str]
    description: GroupDescription
    committed: Committed
    refused: dict[TopicPartition, KgError]
    """Partitions that are better left alone, and why."""

    @property
    def open(self) -> list[TopicPartition]:
        """The partitions that the coordinator is asked to delete."""
        return [partition for partition in self.partitions if partition not in self.refused]


def delete_offsets(
    cluster: Cluster,
    requests: Mapping[str, Sequence[TopicSpec]],
    dry_run: bool = False,
    *,
    force: bool = False,
    before_change: BeforeChange | None = None,
    check: Check | None = None,
) -> Operation[dict[str, GroupOffsetDeletions]]:
    """Delete committed offsets of groups; each partition has its own outcome.

    The offsets are read first, so that "there was none" (which the broker reports as success) can
    be told from "deleted", and what can't be read or is about to be changed by a transaction
    (unless ``force``) is left alone. A topic without partitions means all that the topic has now.

    :param before_change: called with the images of what is about to be deleted.
    :param check: says of a group, as it was just read, why it must be left alone after all; of
        its offsets it sees those that were asked for.
    """
    found = yield from _read_all(cluster, requests)
    done: dict[str, GroupOffsetDeletions] = {}
    asked: list[_Asked] = []
    for description, committed, error in found:
        group = description.group
        partitions, unknown = _expand(cluster, requests[group])
        problem = check(description, committed) if check is not None else None
        problem = problem or _refusal(description, committed, force) or error
        if problem is not None or isinstance(committed, KgError):
            assert problem is not None
            done[group] = _all_failed(group, partitions, unknown, problem)
            continue
        refused = _refused(group, partitions, committed, force)
        asked.append(_Asked(group, partitions, unknown, description, committed, refused))
    if asked and not dry_run and before_change is not None:
        before_change((yield from _changes(cluster, asked)))
    wanted = {} if dry_run else {item.group: item.open for item in asked}
    had = {item.group: item.committed for item in asked}
    outcomes = yield from delete_partitions(cluster, wanted, had)
    for item in asked:
        if dry_run:
            done[item.group] = _foreseen(cluster, item)
        else:
            done[item.group] = _outcome(item, outcomes[item.group])
    return {group: done[group] for group in requests}


def _read_all(
    cluster: Cluster, requests: Mapping[str, Sequence[TopicSpec]]
) -> Operation[list[tuple[GroupDescription, Committed | KgError, ItemError | None]]]:
    """Read what the groups are, what they have of the topics, and what their brokers can't do."""
    names = sorted({spec.topic for specs in requests.values() for spec in specs})
    both = gather([describe_with_type(cluster, list(requests)), fetch_metadata(cluster, names)])
    described, _ = yield from within(both, READING_SHARE)
    living = [d for d in described if _refusal(d, {}, force=True) is None]
    wanted = {d.group: _expand(cluster, requests[d.group])[0] for d in living}
    both = gather([fetch_selected(cluster, wanted), _able(cluster, living)])
    committed, able = yield from within(both, READING_SHARE)
    return [(d, committed.get(d.group, {}), able.get(d.group)) for d in described]


def _able(cluster: Cluster, groups: Sequence[GroupDescription]) -> Operation[dict[str, ItemError]]:
    """Return the groups whose coordinator is too old to delete offsets, before anything is sent."""
    homes = {d.group: d.coordinator.id for d in groups if d.coordinator}
    old: dict[int, KgError | None] = {}
    for broker in set(homes.values()):
        old[broker] = yield from too_old(cluster, broker, offset_delete.Request)
    return {
        group: ItemError.of(error, Target(group=group))
        for group, broker in homes.items()
        if (error := old[broker]) is not None
    }


def _refused(
    group: str, partitions: Sequence[TopicPartition], committed: Committed, force: bool
) -> dict[TopicPartition, KgError]:
    pending = [] if force else pending_partitions(committed, partitions)
    refused: dict[TopicPartition, KgError] = {p: pending_error(group) for p in pending}
    for partition in partitions:
        value = committed.get(partition)
        if isinstance(value, KgError):
            refused[partition] = denied.explain(value, denied.DESCRIBE, topic=partition.topic)
    return refused


def _changes(cluster: Cluster, asked: Sequence[_Asked]) -> Operation[list[GroupChange]]:
    """Take images of the offsets that are about to go; where there is none, nothing can be lost."""
    parts = [(i.description, offsets_of(i.committed, i.open)) for i in asked]
    images = yield from take_images(cluster, parts)
    return [GroupChange(image, dict.fromkeys(image.offsets)) for image in images]


def _expand(cluster: Cluster, specs: Sequence[TopicSpec]) -> tuple[list[TopicPartition], list[str]]:
    """Turn ``--topic`` arguments into partitions, and topics that don't exist."""
    wanted: dict[TopicPartition, None] = {}
    unknown: dict[str, None] = {}
    for spec in specs:
        if spec.partitions is not None:
            wanted.update(dict.fromkeys(TopicPartition(spec.topic, p) for p in spec.partitions))
            continue
        topic = cluster.topics[spec.topic]
        if topic.error is not None:
            unknown[spec.topic] = None
        else:
            wanted.update(dict.fromkeys(TopicPartition(spec.topic, p) for p in topic.leaders))
    return sorted(wanted), sorted(unknown)


def _refusal(
    description: GroupDescription, committed: Committed | KgError, force: bool
) -> ItemError | None:
    """Say why nothing of a group can be deleted, before anything is sent."""
    target = Target(group=description.group)
    error = description.error
    # A member's topic that may not be seen is no reason: the coordinator knows who subscribes.
    if error is not None and error.code != codes.TOPIC_AUTHORIZATION_FAILED:
        return error
    if description.type in UNKNOWN_TYPES:
        tool = UNKNOWN_TYPES[description.type]
        return ItemError(
            target, None, "WRONG_GROUP_TYPE",
            f"Group '{description.group}' is a {description.type} group, not a consumer group.",
            f"Use {tool} for it.",
        )  # fmt: skip
    if description.protocol_type not in ("", "consumer") and not force:
        return ItemError(
            target, None, "WRONG_GROUP_TYPE",
            f"Group '{description.group}' is a '{description.protocol_type}' group, "
            "not a consumer group.",
            "Use the tool that made it, or --force to delete its offsets all the same.",
        )  # fmt: skip
    if isinstance(committed, KgError):
        return ItemError.of(committed, target)
    return None


def _all_failed(
    group: str, partitions: list[TopicPartition], unknown: list[str], error: ItemError
) -> GroupOffsetDeletions:
    rows = [OffsetDeletion(group, p.topic, p.partition, "failed", error) for p in partitions]
    rows += [OffsetDeletion(group, topic, None, "failed", error) for topic in unknown]
    return GroupOffsetDeletions(group, rows, error)


def delete_partitions(
    cluster: Cluster,
    wanted: Mapping[str, list[TopicPartition]],
    had: Mapping[str, Committed] | None = None,
) -> Operation[dict[str, Any]]:
    """Send one OffsetDelete a group, those of one coordinator pipelined.

    The answer of each group is an error code (or a ``KgError``) for each partition, or the error
    of all of it.

    :param had: what was there before. Where an answer got lost it tells what has been deleted;
        without it nothing is sent twice.
    """
    left = {group: list(partitions) for group, partitions in wanted.items() if partitions}
    settled: dict[str, dict[TopicPartition, Any]] = {group: {} for group in wanted}

    def send(broker: int, ids: list[str]) -> Operation[dict[str, Any]]:
        calls = [Call(broker, _request(group, left[group])) for group in ids]
        replies = yield from pipelined(calls)
        return {g: _read(reply, left[g]) for g, reply in zip(ids, replies, strict=True)}

    def look(broker: int, ids: list[str]) -> Operation[dict[str, Any]]:
        now = yield from fetch_on(cluster, broker, ids)
        return {g: _verdict(left, settled[g], g, (had or {}).get(g), now[g]) for g in ids}

    what = "its offsets were deleted"
    answers = yield from change_by_coordinator(cluster, list(left), send, look, what)
    for group, answer in answers.items():
        if isinstance(answer, dict):
            settled[group].update(answer)
        elif settled[group]:
            settled[group].update(dict.fromkeys(left[group], answer))
        else:
            continue
        answers[group] = settled[group]
    return {**settled, **answers}


def _verdict(
    left: dict[str, list[TopicPartition]],
    settled: dict[TopicPartition, Any],
    group: str,
    before: Committed | None,
    now: Committed | KgError,
) -> Any:
    """Sort a group's partitions into those that are gone, changed since, and still as they were."""
    if isinstance(now, KgError):
        return now
    same = []
    for partition in left[group]:
        value = now.get(partition)
        if value is None:
            settled[partition] = codes.NONE
        elif before is not None and value == before.get(partition):
            same.append(partition)
        else:
            settled[partition] = _changed_since(group)
    left[group] = same
    return SEND_AGAIN if same else {}


def _changed_since(group: str) -> KgError:
    return ChangedMeanwhile(
        f"The answer of group '{group}' to the deletion got lost, and there is another offset now.",
        hint="Look with kgtool describe, and repeat the command if it is to go.",
    )


def _request(group: str, partitions: list[TopicPartition]) -> offset_delete.Request:
    topics: dict[str, list[Any]] = {}
    for partition in partitions:
        row = offset_delete.RequestPartition(partition=partition.partition)
        topics.setdefault(partition.topic, []).append(row)
    return offset_delete.Request(
        group_id=group,
        topics=[
            offset_delete.RequestTopic(name=name, partitions=rows) for name, rows in topics.items()
        ],
    )


def _read(reply: Any, partitions: list[TopicPartition]) -> Any:
    """Return a code for each partition, or the error of the whole group."""
    if isinstance(reply, KgError):
        return reply
    if reply.error_code:
        return broker_error(reply.error_code)
    found = dict.fromkeys(partitions, codes.UNKNOWN_SERVER_ERROR)
    for topic in reply.topics:
        for row in topic.partitions:
            found[TopicPartition(topic.name, row.partition)] = row.error_code
    return found


def _outcome(item: _Asked, answer: Any) -> GroupOffsetDeletions:
    if isinstance(answer, KgError):
        error = denied.explain(answer, denied.DELETE_OFFSETS, group=item.group)
        failure = ItemError.of(error, Target(group=item.group))
        return _all_failed(item.group, item.partitions, item.unknown_topics, failure)
    outcomes = {**answer, **item.refused}
    rows = [_row(item, partition, outcomes[partition]) for partition in sorted(outcomes)]
    return GroupOffsetDeletions(item.group, _with_unknown(item, rows))


def _row(item: _Asked, partition: TopicPartition, outcome: int | KgError) -> OffsetDeletion:
    if outcome:
        return _failed(item, partition, outcome)
    status = "deleted" if _has_offset(item, partition) else "no-offset"
    return OffsetDeletion(item.group, *partition, status)


def _has_offset(item: _Asked, partition: TopicPartition) -> bool:
    value = item.committed.get(partition)
    return isinstance(value, CommittedOffset) and value.offset is not None


def _failed(item: _Asked, partition: TopicPartition, outcome: int | KgError) -> OffsetDeletion:
    if isinstance(outcome, int):
        hint = None
        if outcome == codes.GROUP_SUBSCRIBED_TO_TOPIC:
            hint = _holders(item.description, partition.topic)
        outcome = broker_error(outcome, hint=hint)
    reason = denied.explain(outcome, denied.DELETE_OFFSETS, topic=partition.topic)
    error = ItemError.of(reason, Target(item.group, *partition))
    return OffsetDeletion(item.group, *partition, "failed", error)


def _is_held(member: Member, topic: str) -> bool:
    """Foresee whether the coordinator takes a member for a subscriber of a topic.

    What a KIP-848 regex stands for is only in the coordinator's memory and log. But it hands out
    every partition of every topic that matches, so one that nobody has or is about to get no
    longer matches; and where that is not so yet, the coordinator still refuses by itself. A
    classic subscription that can't be read counts as one to everything
    (``ClassicGroup.isSubscribedToTopic``).
    """
    if any(name == topic for name, _ in member.target or ()):
        return True
    subscribed = is_subscribed([member], topic)
    if subscribed is None and member.subscribed is not None:
        return False
    return subscribed is not False


def _holders(description: GroupDescription, topic: str) -> str:
    """Name who is in the way: members that hold the topic or subscribe to it."""
    holders = [m for m in description.members if _is_held(m, topic)]
    # A static member by the name that its owner gave it: that is what remove-members takes.
    names = sorted(f"{m.client_id} on {m.host} ({m.instance_id or m.member_id})" for m in holders)
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"Subscribed to {topic}: {shown}." if names else "Stop the group's members first."


def _with_unknown(item: _Asked, rows: list[OffsetDeletion]) -> list[OffsetDeletion]:
    """Add the topics that were named without partitions and do not exist."""
    for topic in item.unknown_topics:
        error = ItemError.of(
            broker_error(codes.UNKNOWN_TOPIC_OR_PARTITION), Target(item.group, topic)
        )
        rows.append(OffsetDeletion(item.group, topic, None, "failed", error))
    return rows


def _foreseen(cluster: Cluster, item: _Asked) -> GroupOffsetDeletions:
    """Say what the broker would answer, without asking it (``--dry-run``)."""
    rows = []
    for partition in item.partitions:
        topic = cluster.topics[partition.topic]
        if partition in item.refused:
            rows.append(_failed(item, partition, item.refused[partition]))
        elif topic.error is not None or partition.partition not in topic.leaders:
            code = (topic.error and topic.error.code) or codes.UNKNOWN_TOPIC_OR_PARTITION
            rows.append(_failed(item, partition, code))
        elif any(_is_held(member, partition.topic) for member in item.description.members):
            rows.append(_failed(item, partition, codes.GROUP_SUBSCRIBED_TO_TOPIC))
        else:
            status = "would-delete" if _has_offset(item, partition) else "no-offset"
            rows.append(OffsetDeletion(item.group, *partition, status))
    return GroupOffsetDeletions(item.group, _with_unknown(item, rows))
