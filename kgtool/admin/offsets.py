"""The rows of ``describe --offsets``: what groups have committed, and what is left to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kgtool.admin import groups as groups_of
from kgtool.admin.committed import Committed, fetch_committed
from kgtool.admin.lag import LogEnds, lag, status
from kgtool.admin.topics import log_ends
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation, gather
from kgtool.errors import KgError
from kgtool.model import (
    CommittedOffset,
    GroupDescription,
    GroupOffsets,
    ItemError,
    Member,
    OffsetRow,
    Target,
    TopicPartition,
    TopicSpec,
)

Emit = Callable[[GroupOffsets], None]


def describe_offsets(
    cluster: Cluster,
    groups: Sequence[str],
    topics: Sequence[TopicSpec] | None = None,
    emit: Emit | None = None,
    *,
    starts: bool = True,
    kinds: dict[str, str] | None = None,
) -> Operation[list[GroupOffsets]]:
    """Describe the offsets of groups, in the order asked; each group carries its own errors.

    The ends of the logs are read after the offsets, once for each partition over all groups; a
    partition whose commit then lies beyond its end is asked once more before that is said.

    :param topics: only these rows.
    :param emit: called with each group as it becomes known.
    :param starts: read the beginnings of the logs too; without them no row is ``before-start``.
    :param kinds: group types known from a listing.
    """
    described, committed = yield from gather(
        [
            groups_of.describe_groups(cluster, groups, kinds),
            fetch_committed(cluster, groups),
        ]
    )
    parts = [_Part(description, committed[description.group], topics) for description in described]
    wanted = {partition for part in parts for partition in part.partitions()}
    ends = yield from log_ends(cluster, sorted(wanted), starts=starts)
    beyond = {p for part in parts for p in part.beyond(ends)}
    if beyond:
        ends.update((yield from log_ends(cluster, sorted(beyond), starts=starts)))
    result = []
    for part in parts:
        found = part.finish(ends)
        if emit is not None:
            emit(found)
        result.append(found)
    return result


class _Part:
    """One group between the reading of its offsets and that of the logs."""

    def __init__(
        self,
        description: GroupDescription,
        committed: Committed | KgError,
        topics: Sequence[TopicSpec] | None,
    ) -> None:
        self.description = description
        self.error: ItemError | None = None
        self.committed: Committed = {}
        if isinstance(committed, KgError):
            if description.error is None:
                self.error = ItemError.of(committed, Target(group=description.group))
        elif description.error is None:
            self.committed = committed
        self._order = [
            (partition, member)
            for partition, member in _in_order(description.members, self.committed)
            if topics is None or _selected(partition, topics)
        ]

    def partitions(self) -> Iterable[TopicPartition]:
        return (partition for partition, _ in self._order)

    def beyond(self, ends: dict[TopicPartition, LogEnds]) -> Iterable[TopicPartition]:
        for partition in self.partitions():
            value = self.committed.get(partition)
            if status(value, ends[partition]) == "beyond-end":
                yield partition

    def finish(self, ends: dict[TopicPartition, LogEnds]) -> GroupOffsets:
        rows = [self._row(p, member, ends[p]) for p, member in self._order]
        errors = [row.error for row in rows if row.error is not None]
        if self.error is not None:
            errors.insert(0, self.error)
        return GroupOffsets(self.description, rows, errors)

    def _row(self, partition: TopicPartition, member: Member | None, ends: LogEnds) -> OffsetRow:
        value = self.committed.get(partition)
        known = value if isinstance(value, CommittedOffset) else None
        offset = known.offset if known else None
        says = status(value, ends)
        return OffsetRow(
            group=self.description.group,
            topic=partition.topic,
            partition=partition.partition,
            current_offset=offset,
            log_start_offset=ends.start,
            log_end_offset=ends.end if isinstance(ends.end, int) else None,
            lag=lag(offset, ends.end),
            leader_epoch=known.leader_epoch if known else None,
            metadata=known.metadata if known else None,
            member_id=member.member_id if member else None,
            host=member.host if member else None,
            client_id=member.client_id if member else None,
            subscribed=groups_of.is_subscribed(self.description.members, partition.topic),
            status=says,
            error=self._row_error(partition, value, ends, says),
        )

    def _row_error(
        self, partition: TopicPartition, value: Any, ends: LogEnds, says: str
    ) -> ItemError | None:
        """Say why a row is incomplete; a topic that is gone or leaderless is a finding instead."""
        if says not in ("denied", "error"):
            return None
        reason = value if isinstance(value, KgError) else ends.end
        if not isinstance(reason, KgError):
            return None
        return ItemError.of(reason, Target(self.description.group, *partition))


def _in_order(
    members: Sequence[Member], committed: Committed
) -> Iterable[tuple[TopicPartition, Member | None]]:
    """Kafka's order: members by descending number of partitions, then what nobody owns."""
    owned: set[TopicPartition] = set()
    for member in sorted(members, key=lambda m: -m.partition_count):
        for topic, numbers in member.assignment:
            for number in numbers:
                partition = TopicPartition(topic, number)
                owned.add(partition)
                yield partition, member
    for partition in sorted(committed):
        if partition not in owned:
            yield partition, None


def _selected(partition: TopicPartition, topics: Sequence[TopicSpec]) -> bool:
    return any(
        spec.topic == partition.topic
        and (spec.partitions is None or partition.partition in spec.partitions)
        for spec in topics
    )


def delete_offsets(*args: Any, **kwargs: Any) -> Any:
    """See ``kgtool.admin.offset_delete.delete_offsets``."""
    from kgtool.admin.offset_delete import delete_offsets as delete

    return delete(*args, **kwargs)
