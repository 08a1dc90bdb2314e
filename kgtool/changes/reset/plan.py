"""Resetting committed offsets: the plan, for which everything that exists is looked at first.

``plan_resets`` reads groups, commits and logs and says what would happen, without changing
anything; ``kgtool.changes.reset.execute`` does it. Every group and partition that can't be reset
has its reason, and does not hide the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.changes.plan_rows import failed
from kgtool.changes.reset.rows import Value, plan_row, refusal
from kgtool.changes.reset.targets import GroupReset, ResetRequest, ResetRow
from kgtool.client.cluster import Cluster, fetch_metadata
from kgtool.client.ops import READING_SHARE, Operation, gather, within
from kgtool.errors import KgError
from kgtool.model import (
    CommittedOffset,
    GroupDescription,
    ItemError,
    Target,
    TopicPartition,
)
from kgtool.queries.cluster.topics import expand
from kgtool.queries.groups.describe import describe_with_type
from kgtool.queries.log.pending import mark_pending
from kgtool.queries.offsets.fetch import Committed, fetch_committed, fetch_selected
from kgtool.queries.offsets.positions import LogRange, leader_epochs, log_ranges


class _Scope(NamedTuple):
    """What a request selects, as far as it is known without looking at the single group."""

    named: Mapping[str, Sequence[TopicPartition]]
    """Partitions that were named one by one, by their topic or in the file, by group."""
    unknown: Mapping[str, KgError]
    """Topics named without partitions that can't be had, and why."""
    committed: Mapping[str, Committed | KgError] | None
    """What the groups have, where all of it is selected."""
    like: Committed
    """What the other group has."""


def plan_resets(cluster: Cluster, request: ResetRequest) -> Operation[list[GroupReset]]:
    """Say what a reset would do, for each group in the order asked.

    :raises KgError: no broker answered, or the offsets of the ``like`` group can't be had.
    """
    groups = list(dict.fromkeys(request.groups))
    both = gather([describe_with_type(cluster, groups), _scope(cluster, request, groups)])
    described, scope = yield from within(both, READING_SHARE)
    parts = [_Part(request, description, scope) for description in described]
    committed = scope.committed
    if committed is None:
        asked = fetch_selected(cluster, {p.group: p.partitions for p in parts})
        committed = yield from within(asked, READING_SHARE)
    if not request.force:
        yield from mark_pending(cluster, committed)
    for part in parts:
        part.take(committed.get(part.group))
    wanted = sorted({partition for part in parts for partition in part.partitions})
    looked = log_ranges(cluster, wanted, request.strategy.timestamp_ms)
    logs = yield from within(looked, READING_SHARE)
    resets = [part.finish(logs) for part in parts]
    return (yield from within(_with_epochs(cluster, resets), READING_SHARE))


def _scope(cluster: Cluster, request: ResetRequest, groups: list[str]) -> Operation[_Scope]:
    strategy, topics = request.strategy, request.topics
    like: Committed = {}
    if strategy.kind == "from-file":
        named = {group: sorted(strategy.offsets.get(group, ())) for group in groups}
        return _Scope(named, {}, None, {})
    if strategy.kind == "like":
        like = yield from _offsets_of(cluster, strategy.like)
        if topics is None:
            return _Scope(dict.fromkeys(groups, sorted(like)), {}, None, like)
    if topics is None:
        return _Scope({}, {}, (yield from fetch_committed(cluster, groups)), {})
    yield from fetch_metadata(cluster, sorted({spec.topic for spec in topics}))
    partitions, unknown = expand(cluster, topics)
    return _Scope(dict.fromkeys(groups, partitions), unknown, None, like)


def _offsets_of(cluster: Cluster, group: str) -> Operation[Committed]:
    """Read the offsets that others are to get."""
    found = (yield from fetch_committed(cluster, [group]))[group]
    if isinstance(found, KgError):
        raise found
    if not found:
        raise KgError(
            f"Group '{group}' has no committed offsets that could be taken over.",
            hint="kgtool list shows the groups that exist.",
        )
    return found


class _Part:
    """One group, from what is selected of it to its rows."""

    def __init__(self, request: ResetRequest, description: GroupDescription, scope: _Scope) -> None:
        self.group = description.group
        self.request = request
        self.description = description
        self.error = refusal(description, can_create=request.can_create)
        self.partitions: Sequence[TopicPartition] = ()
        self._scope = scope
        self._committed: Committed = {}
        if self.error is None and scope.committed is None:
            self._select(scope.named.get(self.group, ()))

    def _select(self, partitions: Sequence[TopicPartition]) -> None:
        self.partitions = partitions
        if not partitions and self.request.strategy.kind == "from-file":
            self.error = ItemError(
                Target(group=self.group), None, "NOT_IN_FILE",
                f"No reset plan for group {self.group} found", "The file has no line for it.",
            )  # fmt: skip

    def take(self, committed: Committed | KgError | None) -> None:
        """Take in what the group has."""
        if self.error is not None or committed is None:
            return
        if isinstance(committed, KgError):
            self.error = ItemError.of(committed, Target(group=self.group))
            self.partitions = ()
            return
        self._committed = committed
        if self._scope.committed is not None:
            self.partitions = sorted(committed)

    def finish(self, logs: Mapping[TopicPartition, LogRange | KgError]) -> GroupReset:
        """Return the group's rows."""
        rows = [
            plan_row(
                self.request, self.group, partition,
                self._committed.get(partition), self._given(partition), logs[partition],
            )
            for partition in self.partitions
        ]  # fmt: skip
        if self.error is None:
            for topic, error in sorted(self._scope.unknown.items()):
                rows.append(failed(ResetRow(self.group, topic, None), error))
        return GroupReset(self.group, rows, self.error, self.description)

    def _given(self, partition: TopicPartition) -> Value:
        """Return what the file or the other group says of a partition."""
        if self.request.strategy.kind == "like":
            return self._scope.like.get(partition)
        offset = self.request.strategy.offsets.get(self.group, {}).get(partition)
        return None if offset is None else CommittedOffset(offset, None, None)


def _with_epochs(cluster: Cluster, resets: list[GroupReset]) -> Operation[list[GroupReset]]:
    """Find the leader epochs of offsets that lie inside of a log with several epochs."""
    logs: dict[TopicPartition, LogRange] = {}
    points: list[tuple[TopicPartition, int]] = []
    for row in (row for reset in resets for row in reset.rows if row.needs_epoch):
        if row.log is not None and row.new_offset is not None:
            logs[row.at] = row.log
            points.append((row.at, row.new_offset))
    if not points:
        return resets
    epochs = yield from leader_epochs(cluster, points, logs)
    return [r._replace(rows=[_with_epoch(row, epochs) for row in r.rows]) for r in resets]


def _with_epoch(row: ResetRow, epochs: Mapping[Any, int | None]) -> ResetRow:
    if not row.needs_epoch or row.new is None:
        return row
    epoch = epochs.get((row.at, row.new_offset))
    return row._replace(new=row.new._replace(leader_epoch=epoch), needs_epoch=False)
