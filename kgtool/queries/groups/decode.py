"""Groups as the four describe APIs send them, as descriptions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

from kgtool.client.cluster import Cluster
from kgtool.errors import KgError
from kgtool.model import Assignment, Broker, GroupDescription, Member
from kgtool.records.subscription import decode_assignment, rack_of, subscribed_topics


class Tasks(NamedTuple):
    """The tasks of a streams member, by subtopology: ``(("0", (0, 1)),)``."""

    active: Assignment
    standby: Assignment
    warmup: Assignment


def consumer_group(cluster: Cluster, broker: int, row: Any) -> GroupDescription:
    """Return a group of ConsumerGroupDescribe."""
    members = tuple(
        _epoch_member(
            member,
            instance_id=member.instance_id,
            assignment=_assignment(cluster, member.assignment),
            subscribed=tuple(member.subscribed_topic_names),
            subscribed_regex=member.subscribed_topic_regex or None,
            target=_assignment(cluster, member.target_assignment),
            is_classic=None if member.member_type < 0 else member.member_type == 0,
        )
        for member in row.members
    )
    coordinator = cluster.brokers.get(broker)
    return _epoch_group(row, "consumer", row.assignor_name, members, coordinator)


def _epoch_member(row: Any, **own: Any) -> Member:
    """Return a member of a group of a type that the new coordinator has brought.

    :param own: the fields that depend on the type.
    """
    return Member(
        member_id=row.member_id,
        client_id=row.client_id,
        host=row.client_host,
        rack=row.rack_id,
        epoch=row.member_epoch,
        **own,
    )


def _epoch_group(
    row: Any, kind: str, assignor: str, members: tuple[Member, ...], coordinator: Broker | None
) -> GroupDescription:
    """Return a group of a type that the new coordinator has brought."""
    return GroupDescription(
        group=row.group_id,
        type=kind,
        state=row.group_state,
        protocol_type=kind,
        assignor=assignor,
        coordinator=coordinator,
        members=members,
        group_epoch=row.group_epoch,
        assignment_epoch=row.assignment_epoch,
    )


def _sorted(parts: Iterable[tuple[str, Iterable[int]]]) -> Assignment:
    """Return topics (or subtopologies) with their partitions (tasks), all in order."""
    found: dict[str, set[int]] = {}  # a client may name anything twice
    for name, numbers in parts:
        found.setdefault(name, set()).update(numbers)
    return tuple(sorted((name, tuple(sorted(numbers))) for name, numbers in found.items()))


def _assignment(cluster: Cluster, wire: Any) -> Assignment:
    return _sorted(
        (row.topic_name or _name_of(cluster, row.topic_id), row.partitions)
        for row in wire.topic_partitions
    )


def _name_of(cluster: Cluster, topic_id: UUID) -> str:
    """Return a topic's name, or its id where the topic was deleted."""
    names = (topic.name for topic in cluster.topics.values() if topic.topic_id == topic_id)
    return next(names, str(topic_id))


def classic_group(cluster: Cluster, broker: int, row: Any) -> GroupDescription:
    """Return a group of DescribeGroups."""
    is_consumer = row.protocol_type == "consumer"
    assigned = [
        _classic_assignment(member.member_assignment) if is_consumer else None
        for member in row.members
    ]
    members = tuple(
        Member(
            member_id=member.member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            host=member.client_host,
            assignment=assignment or (),
            subscribed=_classic_subscription(member.member_metadata) if is_consumer else None,
            rack=rack_of(member.member_metadata) if is_consumer else None,
            is_unread=assignment is None and bool(member.member_assignment),
        )
        for member, assignment in zip(row.members, assigned, strict=True)
    )
    return GroupDescription(
        group=row.group_id,
        type="classic",
        state=row.group_state,
        protocol_type=row.protocol_type,
        assignor=row.protocol_data,
        coordinator=cluster.brokers.get(broker),
        members=members,
    )


def _classic_assignment(raw: bytes) -> Assignment | None:
    try:
        decoded = decode_assignment(raw)
    except KgError:  # also where it is empty; clients may put anything there
        return None
    return _sorted((row.topic, row.partitions) for row in decoded.assigned_partitions)


def _classic_subscription(raw: bytes) -> tuple[str, ...] | None:
    topics = subscribed_topics([raw]) if raw else None
    return None if topics is None else tuple(sorted(topics))


def share_group(row: Any, coordinator: Broker | None) -> GroupDescription:
    """Return a group of ShareGroupDescribe."""
    members = tuple(
        _epoch_member(
            member,
            instance_id=None,
            assignment=_sorted(
                (part.topic_name, part.partitions) for part in member.assignment.topic_partitions
            ),
            subscribed=tuple(sorted(member.subscribed_topic_names)),
        )
        for member in row.members
    )
    return _epoch_group(row, "share", row.assignor_name, members, coordinator)


def streams_group(row: Any, coordinator: Broker | None) -> GroupDescription:
    """Return a group of StreamsGroupDescribe."""
    members = tuple(
        _epoch_member(
            member,
            instance_id=member.instance_id,
            assignment=tasks(member.assignment).active,
            subscribed=None,
            target=tasks(member.target_assignment).active,
            is_classic=member.is_classic,
        )
        for member in row.members
    )
    return _epoch_group(row, "streams", "", members, coordinator)


def tasks(wire: Any) -> Tasks:
    """Return the tasks of a member of a streams group."""
    return Tasks(
        *(
            _sorted((part.subtopology_id, part.partitions) for part in parts)
            for parts in (wire.active_tasks, wire.standby_tasks, wire.warmup_tasks)
        )
    )
