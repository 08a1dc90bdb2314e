"""Deleting committed offsets (KIP-496): per partition, of groups that may be alive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.admin.committed import Committed, fetch_committed
from kgtool.admin.groups import UNKNOWN_TYPES, describe_with_type, is_subscribed
from kgtool.admin.images import (
    BeforeChange,
    GroupChange,
    offsets_of,
    take_images,
    unreadable,
)
from kgtool.client.cluster import Cluster, by_coordinator, fetch_metadata, pipelined
from kgtool.client.ops import Call, Operation, gather
from kgtool.errors import KgError
from kgtool.model import (
    CommittedOffset,
    GroupDescription,
    GroupOffsetDeletions,
    ItemError,
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


def delete_offsets(
    cluster: Cluster,
    requests: Mapping[str, Sequence[TopicSpec]],
    dry_run: bool = False,
    *,
    force: bool = False,
    before_change: BeforeChange | None = None,
) -> Operation[dict[str, GroupOffsetDeletions]]:
    """Delete committed offsets of groups; each partition has its own outcome.

    The offsets are read first, so that "there was none" (which the broker reports as success) can
    be told from "deleted". A topic without partitions means all that the topic has now.

    :param before_change: called with the images of what is about to be deleted.
    """
    groups = list(requests)
    names = sorted({spec.topic for specs in requests.values() for spec in specs})
    described, committed, _ = yield from gather(
        [
            describe_with_type(cluster, groups),
            fetch_committed(cluster, groups),
            fetch_metadata(cluster, names),
        ]
    )
    done: dict[str, GroupOffsetDeletions] = {}
    asked: list[_Asked] = []
    for description in described:
        group = description.group
        partitions, unknown = _expand(cluster, requests[group])
        error = _refusal(description, committed[group], force)
        if error is None and before_change is not None:
            error = unreadable(group, committed[group], partitions)
        if error is not None:
            done[group] = _all_failed(group, partitions, unknown, error)
        else:
            asked.append(_Asked(group, partitions, unknown, description, committed[group]))
    if asked and not dry_run and before_change is not None:
        before_change((yield from _changes(cluster, asked)))
    wanted = {} if dry_run else {item.group: item.partitions for item in asked}
    outcomes = yield from delete_partitions(cluster, wanted)
    for item in asked:
        if dry_run:
            done[item.group] = _foreseen(cluster, item)
        else:
            done[item.group] = _outcome(item, outcomes[item.group])
    return {group: done[group] for group in groups}


def _changes(cluster: Cluster, asked: Sequence[_Asked]) -> Operation[list[GroupChange]]:
    """Take images of the offsets that are about to go; where there is none, nothing can be lost."""
    parts = [(i.description, offsets_of(i.committed, i.partitions)) for i in asked]
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
    if description.error is not None:
        return description.error
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
    cluster: Cluster, wanted: Mapping[str, list[TopicPartition]]
) -> Operation[dict[str, Any]]:
    """Send one OffsetDelete a group, those of one coordinator pipelined.

    The answer of each group is an error code for each partition, or the error of all of it.
    """
    empty: dict[str, Any] = {group: {} for group, partitions in wanted.items() if not partitions}

    def work(broker: int, ids: list[str]) -> Operation[dict[str, Any]]:
        calls = [Call(broker, _request(group, wanted[group])) for group in ids]
        replies = yield from pipelined(calls)
        return {
            group: _read(reply, wanted[group]) for group, reply in zip(ids, replies, strict=True)
        }

    groups = [group for group in wanted if group not in empty]
    answers = yield from by_coordinator(cluster, groups, work)
    return {**empty, **answers}


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
        error = ItemError.of(answer, Target(group=item.group))
        return _all_failed(item.group, item.partitions, item.unknown_topics, error)
    rows = [_row(item, partition, code) for partition, code in sorted(answer.items())]
    return GroupOffsetDeletions(item.group, _with_unknown(item, rows))


def _row(item: _Asked, partition: TopicPartition, code: int) -> OffsetDeletion:
    if code:
        return _failed(item, partition, code)
    had_one = isinstance(item.committed.get(partition), CommittedOffset)
    return OffsetDeletion(item.group, *partition, "deleted" if had_one else "no-offset")


def _failed(item: _Asked, partition: TopicPartition, code: int) -> OffsetDeletion:
    hint = None
    if code == codes.GROUP_SUBSCRIBED_TO_TOPIC:
        hint = _holders(item.description, partition.topic)
    error = ItemError.of(broker_error(code, hint=hint), Target(item.group, *partition))
    return OffsetDeletion(item.group, *partition, "failed", error)


def _holders(description: GroupDescription, topic: str) -> str:
    """Name who is in the way: members that hold the topic or subscribe to it."""
    holders = [m for m in description.members if is_subscribed([m], topic) is not False]
    names = sorted({f"{m.client_id} on {m.host}" for m in holders})
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
        subscribed = is_subscribed(item.description.members, partition.topic)
        if topic.error is not None or partition.partition not in topic.leaders:
            code = (topic.error and topic.error.code) or codes.UNKNOWN_TOPIC_OR_PARTITION
            rows.append(_failed(item, partition, code))
        elif item.description.members and subscribed is not False:
            rows.append(_failed(item, partition, codes.GROUP_SUBSCRIBED_TO_TOPIC))
        else:
            had_one = isinstance(item.committed.get(partition), CommittedOffset)
            status = "would-delete" if had_one else "no-offset"
            rows.append(OffsetDeletion(item.group, *partition, status))
    return GroupOffsetDeletions(item.group, _with_unknown(item, rows))
