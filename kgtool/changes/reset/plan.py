"""Planning a reset of committed offsets.

``plan_resets`` reads groups, commits and logs, without changing anything;
``kgtool.changes.kinds.reset_offsets`` applies the plan. Every group and partition that can't be
reset has its error, and does not hide the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.changes.plan import failed
from kgtool.changes.reset.rows import Value, plan_row, refusal, refuse_like_nothing
from kgtool.changes.reset.targets import GroupReset, ResetRequest, ResetRow
from kgtool.client.cluster import Cluster, fetch_metadata
from kgtool.client.ops import READING_SHARE, Operation, gather, within
from kgtool.errors import KgError
from kgtool.model import CommittedOffset, ItemError, Target, TopicPartition
from kgtool.queries.cluster.topics import expand
from kgtool.queries.groups.describe import describe_with_type
from kgtool.queries.groups.share_and_streams import read_share_groups
from kgtool.queries.log.reader import mark_pending
from kgtool.queries.offsets.fetch import Committed, fetch_committed, fetch_selected
from kgtool.queries.offsets.leader_epochs import leader_epochs
from kgtool.queries.offsets.list_offsets import LogRange, log_ranges


class _Scope(NamedTuple):
    """The partitions that a request selects, before the single group is read."""

    named: Mapping[str, Sequence[TopicPartition]]
    """Partitions that were named by topic, partition or file, by group."""
    unknown: Mapping[str, KgError]
    """Topics named without partitions that can't be looked up, and why."""
    committed: Mapping[str, Committed | KgError] | None
    """The groups' committed offsets, where all of them are selected."""
    like: Committed
    """The committed offsets of the other group."""


def plan_resets(cluster: Cluster, request: ResetRequest) -> Operation[list[GroupReset]]:
    """Plan a reset, for each group in the order asked.

    :raises KgError: no broker answered, or the offsets of the ``like`` group can't be read.
    """
    groups = list(dict.fromkeys(request.groups))
    both = gather([describe_with_type(cluster, groups), _scope(cluster, request, groups)])
    described, scope = yield from within(both, READING_SHARE)
    described, starts = yield from read_share_groups(cluster, described)
    errors = {d.group: refusal(d, can_create=request.can_create) for d in described}
    good = [group for group in groups if errors[group] is None]
    committed = scope.committed
    if committed is None:
        asked = fetch_selected(cluster, {group: scope.named.get(group, ()) for group in good})
        committed = yield from within(asked, READING_SHARE)
    committed = {**committed, **starts}
    if not request.force:
        yield from mark_pending(cluster, committed)
    chosen: dict[str, Sequence[TopicPartition]] = {}
    for group in good:
        selected = _selected(request, scope, group, committed.get(group, {}))
        if isinstance(selected, ItemError):
            errors[group] = selected
        else:
            chosen[group] = selected
    wanted = sorted({partition for partitions in chosen.values() for partition in partitions})
    looked = log_ranges(cluster, wanted, request.strategy.timestamp_ms)
    logs = yield from within(looked, READING_SHARE)
    resets = []
    for description in described:
        group = description.group
        rows: list[ResetRow] = []
        if group in chosen:
            rows = _rows(request, scope, group, chosen[group], committed.get(group, {}), logs)
        if group in starts:
            rows = list(map(_as_start, rows))
        resets.append(GroupReset(group, rows, errors[group], description))
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
    found = (yield from fetch_committed(cluster, [group]))[group]
    if isinstance(found, KgError):
        raise found
    if not found:
        raise KgError(
            f"Group '{group}' has no committed offsets that could be taken over.",
            hint="kgtool list shows the groups that exist.",
        )
    return found


def _selected(
    request: ResetRequest, scope: _Scope, group: str, committed: Committed | KgError
) -> Sequence[TopicPartition] | ItemError:
    """Return the selected partitions of a group, or why nothing of it can be reset."""
    named = scope.named.get(group, ())
    if request.strategy.kind == "from-file" and not named:
        return ItemError(
            Target(group=group),
            None,
            "NOT_IN_FILE",
            f"No reset plan for group {group} found",
            "The file has no line for it.",
        )
    if isinstance(committed, KgError):
        return ItemError.of(committed, Target(group=group))
    return named if scope.committed is None else sorted(committed)


def _rows(
    request: ResetRequest,
    scope: _Scope,
    group: str,
    partitions: Sequence[TopicPartition],
    committed: Committed,
    logs: Mapping[TopicPartition, LogRange | KgError],
) -> list[ResetRow]:
    offsets = request.strategy.offsets.get(group, {})
    rows = []
    for at in partitions:
        given: Value = scope.like.get(at)
        if at in offsets:
            given = CommittedOffset(offsets[at], None, None)
        rows.append(plan_row(request, group, at, committed.get(at), given, logs[at]))
    if request.strategy.kind == "like":
        rows = refuse_like_nothing(rows, request.strategy.like)
    unknown = sorted(scope.unknown.items())
    return rows + [failed(ResetRow(group, topic, None), error) for topic, error in unknown]


def _as_start(row: ResetRow) -> ResetRow:
    """Return a share group's row: start offsets have neither metadata nor epoch to write."""
    new = None if row.new is None else CommittedOffset(row.new.offset, None, None)
    return row._replace(new=new, needs_epoch=False)


def _with_epochs(cluster: Cluster, resets: list[GroupReset]) -> Operation[list[GroupReset]]:
    """Find the leader epochs of offsets inside of a log with several epochs."""
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
