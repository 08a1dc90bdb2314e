"""Share groups (KIP-932) and streams groups (KIP-1071): members, epochs, offsets, tasks.

They have the same coordinators as consumer groups, but each type is described by an API of its
own. A share group has no committed offsets but start offsets, kept by the share coordinator; a
streams group has committed offsets, of the topics of its topology.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from kgtool.client import denied
from kgtool.client.cluster import Cluster, ensure_topics, version_of
from kgtool.client.ops import READING_SHARE, Operation, call, gather, within
from kgtool.client.routing import by_coordinator
from kgtool.errors import KgError
from kgtool.model import (
    GroupDescription,
    GroupListing,
    GroupOffsets,
    ItemError,
    OffsetRow,
    Target,
    TopicPartition,
)
from kgtool.protocol import codes
from kgtool.protocol.api import share_group_describe, streams_group_describe
from kgtool.protocol.codes import broker_error
from kgtool.queries.groups.decode import Tasks, share_group, streams_group, tasks
from kgtool.queries.groups.describe import (
    NOT_THIS_TYPE,
    describe_groups,
    describe_with_type,
    rows_by_group,
)
from kgtool.queries.groups.start_offsets import fetch_start_offsets, fetch_starts
from kgtool.queries.offsets.fetch import Committed, Partitions, fetch_committed, fetch_selected
from kgtool.queries.offsets.lag import offset_row
from kgtool.queries.offsets.list_offsets import log_ends


class StreamsMember(NamedTuple):
    """What only members of streams groups have."""

    process_id: str
    topology_epoch: int
    tasks: Tasks
    target: Tasks


class OtherGroup(NamedTuple):
    """A share or streams group.

    ``description.type`` says which. In the members of a streams group, ``assignment`` and
    ``target`` are the active tasks; ``streams`` has the rest, by member id. ``topics`` maps each
    subtopology to the topics that it reads; ``topology_epoch`` is None where there is no topology.
    """

    description: GroupDescription
    topology_epoch: int | None = None
    topics: Mapping[str, tuple[str, ...]] = {}
    streams: Mapping[str, StreamsMember] = {}


def describe_other_groups(
    cluster: Cluster, groups: Sequence[str]
) -> Operation[dict[str, OtherGroup | KgError | None]]:
    """Describe share and streams groups; None for what is neither, or does not exist.

    Needs DESCRIBE on the group.
    """
    return (yield from by_coordinator(cluster, groups, partial(_describe_on, cluster)))


def describe_missing(
    cluster: Cluster, groups: Sequence[str]
) -> Operation[dict[str, OtherGroup | ItemError]]:
    """Describe groups that no API of consumer groups knows: of another type, lost, or not there."""
    answers = (yield from describe_other_groups(cluster, groups)) if groups else {}
    found: dict[str, OtherGroup | ItemError] = {}
    for group, answer in answers.items():
        if isinstance(answer, OtherGroup):
            found[group] = answer
        elif isinstance(answer, KgError):
            found[group] = ItemError.of(answer, Target(group=group))
    unknown = [group for group in answers if group not in found]
    for one in (yield from describe_with_type(cluster, unknown)) if unknown else ():
        missing = ItemError.of(broker_error(codes.GROUP_ID_NOT_FOUND), Target(group=one.group))
        found[one.group] = one.error or missing
    return found


def count_members(cluster: Cluster, groups: Sequence[GroupListing]) -> Operation[dict[str, int]]:
    """Return how many members groups of any type have; those that can't be described are missing.

    An Empty or Dead group has none, and is not asked about.
    """
    counts = {row.group: 0 for row in groups if row.state in ("Empty", "Dead")}
    left = [row for row in groups if row.group not in counts]
    kinds = {row.group: row.type for row in left if row.type in ("classic", "consumer")}
    others = [row.group for row in left if row.type in ("share", "streams")]
    names = [row.group for row in left if row.group not in others]
    for one in (yield from describe_groups(cluster, names, kinds)) if names else ():
        if one.error is None:
            counts[one.group] = len(one.members)
    found = (yield from describe_other_groups(cluster, others)) if others else {}
    for name, other in found.items():
        if isinstance(other, OtherGroup):
            counts[name] = len(other.description.members)
    return counts


def _describe_on(cluster: Cluster, broker: int, groups: list[str]) -> Operation[dict[str, Any]]:
    asked = []
    for api in (share_group_describe, streams_group_describe):
        version = yield from version_of(broker, api.Request)
        if isinstance(version, KgError):
            return dict.fromkeys(groups, version)
        if version >= 0:
            asked.append((partial(_request, api), groups))
    rows = yield from rows_by_group(broker, asked)
    found: dict[str, Any] = {}
    for group in groups:
        answers = [_read(cluster, broker, row) for row in rows.get(group, ())]
        known = [answer for answer in answers if isinstance(answer, OtherGroup)]
        found[group] = next(iter(known or filter(None, answers)), None)
    return found


def _request(api: Any, groups: list[str]) -> Any:
    return api.Request(group_ids=groups)


def _read(cluster: Cluster, broker: int, row: Any) -> OtherGroup | KgError | None:
    if isinstance(row, KgError):
        return row
    if row.error_code in NOT_THIS_TYPE:
        return None
    if row.error_code:
        error = broker_error(row.error_code, row.error_message)
        return denied.explain(error, denied.DESCRIBE, group=row.group_id)
    coordinator = cluster.brokers.get(broker)
    if isinstance(row, share_group_describe.Group):
        return OtherGroup(share_group(row, coordinator))
    topology = row.topology
    parts = (topology.subtopologies or ()) if topology is not None else ()
    return OtherGroup(
        streams_group(row, coordinator),
        topology.epoch if topology is not None else None,
        {part.subtopology_id: _sources(part) for part in parts},
        {
            member.member_id: StreamsMember(
                member.process_id,
                member.topology_epoch,
                tasks(member.assignment),
                tasks(member.target_assignment),
            )
            for member in row.members
        },
    )


def _sources(part: Any) -> tuple[str, ...]:
    """Return the topics of a subtopology (``StreamsTopology.sourceTopicMap``)."""
    inner = (info.name for info in part.repartition_source_topics)
    return tuple(sorted({*part.source_topics, *inner}))


def streams_topics(
    cluster: Cluster, groups: Sequence[str]
) -> Operation[dict[str, frozenset[str] | None]]:
    """Return the topics that streams groups are subscribed to; None: unknown."""

    def work(broker: int, ids: list[str]) -> Operation[dict[str, Any]]:
        reply = yield from call(broker, streams_group_describe.Request(group_ids=ids))
        if isinstance(reply, KgError):
            return dict.fromkeys(ids, reply)
        return {
            row.group_id: broker_error(row.error_code) if row.error_code else _all_sources(row)
            for row in reply.groups
        }

    answers = yield from by_coordinator(cluster, groups, work)
    return {g: None if isinstance(a, KgError) else a for g, a in answers.items()}


def _all_sources(row: Any) -> frozenset[str] | None:
    parts = None if row.topology is None else row.topology.subtopologies
    return None if parts is None else frozenset(topic for part in parts for topic in _sources(part))


# ---------------------------------------------------------------------------------------------
# Offsets


def read_with_offsets(
    cluster: Cluster, groups: Sequence[str], partitions: Partitions | None = None
) -> Operation[tuple[list[GroupDescription], dict[str, Committed | KgError]]]:
    """Describe groups of any type, and read their offsets; share groups have start offsets.

    :param partitions: only these of each group, default: all. A share group has all of its own in
        any case: its offsets of a topic go together.
    """
    reading = (
        fetch_committed(cluster, groups)
        if partitions is None
        else fetch_selected(cluster, partitions)
    )
    both = gather([describe_with_type(cluster, groups), reading])
    described, committed = yield from within(both, READING_SHARE)
    described, starts = yield from read_share_groups(cluster, described)
    return described, {**committed, **starts}


def read_share_groups(
    cluster: Cluster, described: list[GroupDescription]
) -> Operation[tuple[list[GroupDescription], dict[str, Committed | KgError]]]:
    """Return groups of ``describe_with_type``, and the start offsets of share groups.

    Share groups have their members now, and so have streams groups that are not Empty.
    """
    share = [one.group for one in described if one.type == "share"]
    streams = [one.group for one in described if one.type == "streams" and not one.is_empty]
    if not share and not streams:
        return described, {}
    asked = describe_other_groups(cluster, [*share, *streams])
    both = gather([asked, fetch_start_offsets(cluster, share)])
    others, starts = yield from within(both, READING_SHARE)
    return [_with_members(one, others.get(one.group)) for one in described], starts


def _with_members(one: GroupDescription, other: OtherGroup | KgError | None) -> GroupDescription:
    if isinstance(other, OtherGroup) and other.description.type == "streams":
        read = tuple(sorted({topic for topics in other.topics.values() for topic in topics}))
        members = (m._replace(subscribed=read) for m in other.description.members)
        return other.description._replace(members=tuple(members))
    if isinstance(other, OtherGroup):
        return other.description
    if isinstance(other, KgError):
        return one._replace(error=ItemError.of(other, Target(group=one.group)))
    return one


def describe_other_offsets(
    cluster: Cluster, groups: Sequence[OtherGroup]
) -> Operation[list[GroupOffsets]]:
    """Return start offsets of share groups, and committed offsets of streams groups, in rows.

    In a share group's rows ``current_offset`` is the start offset (SPSO): everything before it is
    processed, of what follows some may be. Its lag is the broker's own count, in records, from
    Kafka 4.2 on (DescribeShareGroupOffsets v1); before that there is none.
    """
    asked = [
        _start_offsets(cluster, group)
        if group.description.type == "share"
        else _committed_offsets(cluster, group)
        for group in groups
    ]
    return (yield from gather(asked))


def _start_offsets(cluster: Cluster, group: OtherGroup) -> Operation[GroupOffsets]:
    name = group.description.group
    starts = (yield from fetch_starts(cluster, [name]))[name]
    if isinstance(starts, KgError):
        return _failed(group, starts)
    ends = yield from log_ends(cluster, starts)
    subscribed = {topic for m in group.description.members for topic in m.subscribed or ()}
    rows = []
    for partition in sorted(starts):
        start, left = starts[partition]
        is_subscribed = partition.topic in subscribed
        row = offset_row(name, partition, start, ends[partition], None, is_subscribed)
        rows.append(row._replace(lag=left))
    return _result(group, rows)


def _committed_offsets(cluster: Cluster, group: OtherGroup) -> Operation[GroupOffsets]:
    name = group.description.group
    committed: Committed | KgError = (yield from fetch_committed(cluster, [name]))[name]
    if isinstance(committed, KgError):
        return _failed(group, committed)
    read = sorted({topic for topics in group.topics.values() for topic in topics})
    yield from ensure_topics(cluster, read)
    partitions = set(committed)
    for topic in read:
        partitions.update(TopicPartition(topic, at) for at in cluster.topics[topic].leaders)
    ends = yield from log_ends(cluster, partitions)
    # A task reads its number of each topic of its subtopology.
    owners = {
        TopicPartition(topic, number): member
        for member in group.description.members
        for subtopology, numbers in member.assignment
        for topic in group.topics.get(subtopology, ())
        for number in numbers
    }
    rows = [
        offset_row(name, at, committed.get(at), ends[at], owners.get(at), at.topic in read)
        for at in sorted(partitions)
    ]
    return _result(group, rows)


def _failed(group: OtherGroup, error: KgError) -> GroupOffsets:
    failure = ItemError.of(error, Target(group=group.description.group))
    return GroupOffsets(group.description, [], [failure])


def _result(group: OtherGroup, rows: list[OffsetRow]) -> GroupOffsets:
    return GroupOffsets(group.description, rows, [row.error for row in rows if row.error])
