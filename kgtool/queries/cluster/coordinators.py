"""The partition of ``__consumer_offsets`` of groups, its leader and their coordinator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.client import denied
from kgtool.client.answers import left_out
from kgtool.client.cluster import Cluster, ask_metadata, find_coordinators
from kgtool.client.ops import READING_SHARE, Operation, call, gather, grouped, within
from kgtool.errors import KgError
from kgtool.model import Broker, ItemError, Target
from kgtool.protocol import codes
from kgtool.protocol.api import describe_groups, metadata
from kgtool.protocol.codes import broker_error
from kgtool.queries.cluster.offsets_partition import TOPIC, java_hash, offsets_partition


def explain_absence(cluster: Cluster, group: str, error: KgError) -> KgError:
    """Return the error of a group without a coordinator; it says where its partition has none."""
    known = cluster.topics.get(TOPIC)
    if error.code != codes.COORDINATOR_NOT_AVAILABLE or known is None or not known.leaders:
        return error
    number = offsets_partition(group, len(known.leaders))
    if known.leaders.get(number) != -1:
        return error
    said = f"The group has no coordinator: partition {number} of {TOPIC} has no leader."
    hint = "Start the brokers that hold it; kgtool coordinator names them."
    return broker_error(error.code, said, hint=hint)


class Placement(NamedTuple):
    """Where one group is; None is unknown.

    ``coordinator`` comes from FindCoordinator, ``leader`` (broker id, -1: none) from the Metadata
    of the group's partition: they differ for a moment while a coordinator moves. ``is_loading``:
    the coordinator answers COORDINATOR_LOAD_IN_PROGRESS (14).
    """

    group: str
    hash: int
    partition: int | None
    coordinator: Broker | None
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...] | None
    isr: tuple[int, ...] | None
    is_loading: bool | None
    error: ItemError | None = None


class Placements(NamedTuple):
    """One placement a group, in the order asked, and the errors of what is unknown of them.

    ``absent``: groups that are of another type, or that their coordinator does not know.
    """

    placements: list[Placement]
    errors: Sequence[ItemError] = ()
    absent: Sequence[str] = ()


def locate_groups(cluster: Cluster, groups: Sequence[str]) -> Operation[Placements]:
    """Return where groups are; they need not exist, for the name alone decides.

    Whether a coordinator is loading is asked once; half of the time that is left is spent on
    waiting for coordinators that are not known yet, or move.

    :raises KgError: no broker answered.
    """
    unique = list(dict.fromkeys(groups))
    found = yield from within(find_coordinators(cluster, unique), READING_SHARE)
    parts: list[Any] = yield from gather([_partitions(cluster), _loading(found)])
    partitions, (loading, absent, errors) = parts
    if isinstance(partitions, KgError):
        errors.append(ItemError.of(partitions, Target(topic=TOPIC)))
        partitions = {}
    placements = [
        _placement(cluster, group, found[group], partitions, loading.get(group)) for group in unique
    ]
    return Placements(placements, errors, absent)


def _placement(
    cluster: Cluster,
    group: str,
    node: int | KgError,
    partitions: Mapping[int, Any],
    is_loading: bool | None,
) -> Placement:
    number = offsets_partition(group, len(partitions)) if partitions else None
    row = partitions.get(number) if number is not None else None
    error = explain_absence(cluster, group, node) if isinstance(node, KgError) else None
    if error is not None and error.code == codes.COORDINATOR_LOAD_IN_PROGRESS:
        is_loading = True
    return Placement(
        group=group,
        hash=java_hash(group),
        partition=number,
        coordinator=None if isinstance(node, KgError) else cluster.brokers.get(node),
        leader=row.leader_id if row else None,
        leader_epoch=row.leader_epoch if row and row.leader_epoch >= 0 else None,
        replicas=tuple(row.replicas) if row else None,
        isr=tuple(row.isr) if row else None,
        is_loading=is_loading,
        error=None if error is None else ItemError.of(error, Target(group=group)),
    )


def _partitions(cluster: Cluster) -> Operation[dict[int, Any] | KgError]:
    """Return the rows of Metadata for the partitions of ``__consumer_offsets``."""
    reply = yield from ask_metadata(cluster, [TOPIC])
    if isinstance(reply, KgError):
        return reply
    for topic in reply.topics:
        if topic.name == TOPIC and topic.partitions:
            return {row.partition: row for row in topic.partitions}
        error = cluster.topics[TOPIC].error if topic.name == TOPIC else None
        if error is not None:
            return error
    return left_out(metadata.Request, f"topic {TOPIC}")


def _loading(
    found: Mapping[str, int | KgError],
) -> Operation[tuple[dict[str, bool], list[str], list[ItemError]]]:
    """Describe each coordinator's groups: where a partition is being loaded the answer is 14.

    :return: which are loading, the groups that the classic API does not know, and errors.
    """
    parts = grouped((node, group) for group, node in found.items() if isinstance(node, int))
    asked = [call(node, describe_groups.Request(groups=ids)) for node, ids in parts.items()]
    answers: dict[str, bool] = {}
    errors: list[ItemError] = []
    absent: list[str] = []
    for node, reply in zip(parts, (yield from gather(asked)), strict=True):
        if isinstance(reply, KgError):
            errors.append(ItemError.of(reply, Target(broker=node)))
            continue
        for row in reply.groups:
            if row.error_code == codes.GROUP_ID_NOT_FOUND or row.group_state == "Dead":
                absent.append(row.group_id)
            if row.error_code in _LOADING_KNOWN:
                answers[row.group_id] = row.error_code == codes.COORDINATOR_LOAD_IN_PROGRESS
            else:
                error = broker_error(row.error_code, row.error_message)
                explained = denied.explain(error, denied.DESCRIBE, group=row.group_id)
                errors.append(ItemError.of(explained, Target(group=row.group_id, broker=node)))
    return answers, absent, errors


_LOADING_KNOWN = (
    codes.NONE,
    codes.GROUP_ID_NOT_FOUND,
    codes.NOT_COORDINATOR,
    codes.COORDINATOR_LOAD_IN_PROGRESS,
)
"""Answers to DescribeGroups that show whether a coordinator is loading."""
