"""The rows of ``describe --offsets``: what groups have committed, and what is left to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from kgtool.client.cluster import Cluster, find_coordinators
from kgtool.client.ops import Operation, gather, within
from kgtool.errors import KgError
from kgtool.model import CommittedOffset, GroupOffsets, ItemError, OffsetRow, Target, TopicPartition
from kgtool.protocol import codes
from kgtool.queries.groups import describe as groups_of
from kgtool.queries.groups.list import proven
from kgtool.queries.offsets.adaptive_batches import FIRST, AdaptiveBatches
from kgtool.queries.offsets.fetch import Committed, fetch_committed
from kgtool.queries.offsets.lag import LogEnds, lag, measured, status
from kgtool.queries.offsets.list_offsets import READ_COMMITTED, READ_UNCOMMITTED, log_ends

if TYPE_CHECKING:
    from kgtool.model import GroupDescription, Member, TopicSpec
    from kgtool.queries.offsets.time_lag import Position, Times

Emit = Callable[[GroupOffsets], None]
_new = tuple.__new__
_NOTHING = CommittedOffset(None, None, None)
_NOBODY = (None, None, None)
_status_of, _error_of = attrgetter("status"), attrgetter("error")
_FAILED = ("denied", "error")
"""Statuses with an error of their own; a topic that is gone or leaderless is a finding instead."""
Clock = Callable[[], int]
"""Returns the time, in ms since the epoch."""


class Wanted(NamedTuple):
    """What to find out, besides the committed offsets and the ends of the logs; and for whom."""

    topics: Sequence[TopicSpec] | None = None
    stable: bool = False
    clock: Clock | None = None
    emit: Emit | None = None
    kinds: dict[str, str] | None = None


def describe_offsets(
    cluster: Cluster,
    groups: Sequence[str],
    topics: Sequence[TopicSpec] | None = None,
    emit: Emit | None = None,
    *,
    kinds: dict[str, str] | None = None,
    committed: bool = False,
    clock: Clock | None = None,
    share: float = 1.0,
) -> Operation[list[GroupOffsets]]:
    """Describe the offsets of groups, in the order asked; each group carries its own errors.

    A coordinator's groups are asked about in waves, so that no more rows are held than need be.
    The ends of the logs are read after the offsets, once for each partition over all groups of a
    wave; a partition whose commit then lies beyond its end is asked once more before that is said.
    A coordinator or leader that does not answer holds up nobody else's groups.

    :param topics: only these rows.
    :param emit: called with each group as it becomes known; what is returned is empty then.
    :param kinds: group types known from a listing.
    :param committed: measure the lag against the last stable offset.
    :param clock: find out the age of the first unread record too (``lag_ms``), by this clock.
    :param share: of the time that is left, where something is to be done afterwards.
    """
    wanted = Wanted(topics, committed, clock, emit, kinds)
    return (yield from within(_describe(cluster, groups, wanted), share))


def _describe(
    cluster: Cluster, groups: Sequence[str], wanted: Wanted
) -> Operation[list[GroupOffsets]]:
    located = yield from find_coordinators(cluster, groups, wait=False)
    parts: dict[int, list[str]] = {}
    for group in dict.fromkeys(groups):
        node = located[group]
        parts.setdefault(node if isinstance(node, int) else -1, []).append(group)
    found = yield from gather(
        [
            _describe_waves(cluster, waves, wanted)
            for ids in parts.values()
            for waves in [AdaptiveBatches(ids)] * _lanes(ids)
        ]
    )
    if wanted.emit is not None:
        return []
    by_name = {result.description.group: result for part in found for result in part}
    return [by_name[group] for group in dict.fromkeys(groups)]


def _lanes(groups: Sequence[str]) -> int:
    """How many waves of a coordinator are under way: it answers one while another is shown."""
    return 2 if len(groups) > FIRST else 1


def _describe_waves(
    cluster: Cluster, waves: AdaptiveBatches, wanted: Wanted
) -> Operation[list[GroupOffsets]]:
    """Describe groups of one coordinator, wave by wave, until none is left."""
    found: list[GroupOffsets] = []
    while groups := waves.next():
        work = yield from _describe_wave(cluster, groups, wanted)
        waves.learn(len(groups), work.rows)
        found += work.kept
    return found


def _describe_wave(cluster: Cluster, groups: Sequence[str], wanted: Wanted) -> Operation[_Work]:
    """Describe some groups of one coordinator."""
    described, committed = yield from gather(
        [groups_of.describe_groups(cluster, groups, wanted.kinds), fetch_committed(cluster, groups)]
    )
    yield from _add_first_commits(cluster, described, committed)
    described = yield from proven(described, wanted.kinds, committed)
    work = _Work([_Group(d, committed[d.group], wanted) for d in described], wanted)
    ends = yield from log_ends(cluster, work.partitions(), stable=wanted.stable, emit=work.learn)
    work.ends.update(ends)
    beyond = work.beyond()
    if beyond:
        again = yield from log_ends(cluster, beyond, stable=wanted.stable)
        work.ends.update(again)
    times: Times = {}
    if wanted.clock is not None:
        isolation = READ_COMMITTED if wanted.stable else READ_UNCOMMITTED
        times = yield from _unread(cluster, work.positions(), isolation)
    work.finish(times)
    return work


def _add_first_commits(
    cluster: Cluster, described: list[GroupDescription], committed: dict[str, Committed | KgError]
) -> Operation[None]:
    """Look for what is only pending, in groups that seem to have nothing at all."""
    bare = [d.group for d in described if d.error is None and committed[d.group] == {}]
    if not bare:
        return
    from kgtool.queries.cluster.transactions import first_commits

    committed.update((yield from first_commits(cluster, bare, strict=True)))


def _unread(cluster: Cluster, positions: list[Position], isolation: int) -> Operation[Times]:
    from kgtool.queries.offsets.time_lag import first_unread

    return (yield from first_unread(cluster, positions, isolation=isolation))


class _Work:
    """The groups of a wave between the reading of their offsets and that of the logs."""

    def __init__(self, groups: list[_Group], wanted: Wanted) -> None:
        self.ends: dict[TopicPartition, LogEnds] = {}
        self.rows = 0
        self.kept: list[GroupOffsets] = []
        """What nobody has taken."""
        self._groups = groups
        self._wanted = wanted
        self._done: set[str] = set()

    def partitions(self) -> list[TopicPartition]:
        return sorted(set().union(*(group.needed for group in self._groups)))

    def learn(self, ends: dict[TopicPartition, LogEnds]) -> None:
        """Take one leader's answers; let go of the groups that have all they need."""
        self.ends.update(ends)
        if self._wanted.clock is not None:
            return
        for group in self._open():
            if group.needed <= self.ends.keys():
                self._finish(group, {}, may_wait=True)

    def beyond(self) -> list[TopicPartition]:
        """Return the partitions whose commits seem to lie beyond the end."""
        return sorted(
            {partition for group in self._open() for partition in group.beyond(self.ends)}
        )

    def positions(self) -> list[Position]:
        return [position for group in self._open() for position in group.positions(self.ends)]

    def finish(self, times: Times) -> None:
        for group in self._open():
            self._finish(group, times)

    def _open(self) -> list[_Group]:
        return [group for group in self._groups if group.name not in self._done]

    def _finish(self, group: _Group, times: Times, *, may_wait: bool = False) -> None:
        found = group.finish(self.ends, times)
        if may_wait and "beyond-end" in map(_status_of, found.rows):
            return  # to be asked once more
        self._done.add(group.name)
        self.rows += len(found.rows)
        if self._wanted.emit is not None:
            self._wanted.emit(found)
        else:
            self.kept.append(found)


class _Group:
    """One group between the reading of its offsets and that of the logs."""

    def __init__(
        self, description: GroupDescription, committed: Committed | KgError, wanted: Wanted
    ) -> None:
        self.name = description.group
        self.error: ItemError | None = None
        self.has_members_hidden = _is_hidden(description.error)
        if self.has_members_hidden and isinstance(committed, dict):
            # What it has committed in topics that may be seen can be shown all the same.
            self.error = description.error
            description = description._replace(error=None)
        self.description = description
        self.committed: Committed = {}
        self._wanted = wanted
        self._unread: KgError | None = None
        """Why nothing that the group has committed is known; said once for all its rows."""
        if isinstance(committed, KgError):
            if description.error is None:
                self.error = ItemError.of(committed, Target(group=description.group))
                self._unread = committed
        elif description.error is None:
            self.committed = committed
        self._order = [
            (partition, member)
            for partition, member in _in_order(description.members, self.committed)
            if wanted.topics is None or any(spec.covers(*partition) for spec in wanted.topics)
        ]
        self.needed = {partition for partition, _ in self._order}
        if self._unread is not None:
            self.committed = dict.fromkeys(self.needed, self._unread)
        self._subscribed: dict[str, bool | None] = {}

    def beyond(self, ends: dict[TopicPartition, LogEnds]) -> Iterator[TopicPartition]:
        for partition, _ in self._order:
            value = self.committed.get(partition)
            if status(value, ends[partition]) == "beyond-end":
                yield partition

    def positions(self, ends: dict[TopicPartition, LogEnds]) -> Iterator[Position]:
        """Say where the first unread records are, of the partitions that have any."""
        for partition, _ in self._order:
            position = self._position(partition, ends[partition])
            if position is not None:
                yield position

    def _position(self, partition: TopicPartition, ends: LogEnds) -> Position | None:
        from kgtool.queries.offsets.time_lag import Position

        value = self.committed.get(partition)
        offset = value.offset if isinstance(value, CommittedOffset) else None
        if offset is None or isinstance(ends.end, KgError) or (lag(offset, ends) or 0) <= 0:
            return None
        end = ends.end if ends.stable is None else ends.stable
        return Position(partition, max(offset, ends.start or 0), end)

    def finish(self, ends: dict[TopicPartition, LogEnds], times: Times) -> GroupOffsets:
        rows = list(self._rows(ends, times))
        errors = [error for error in map(_error_of, rows) if error is not None]
        errors += self._unreadable(ends, times)
        if self.error is not None:
            errors.insert(0, self.error)
        return GroupOffsets(self.description, rows, errors)

    def _rows(self, ends: dict[TopicPartition, LogEnds], times: Times) -> Iterator[OffsetRow]:
        """Make the rows, perhaps a million: by position, and without the constructor."""
        name, committed_at, subscribed = self.name, self.committed.get, self._subscribed
        for partition, member in self._order:
            value, log = committed_at(partition), ends[partition]
            says, left = measured(value, log)
            topic, number = partition
            offset, epoch, metadata, is_pending = (
                value if isinstance(value, CommittedOffset) else _NOTHING
            )
            member_id, host, client_id = (
                (member.member_id, member.host, member.client_id) if member else _NOBODY
            )
            start, end, stable = log
            yield _new(
                OffsetRow,
                (
                    name, topic, number, offset, start, end if isinstance(end, int) else None,
                    left, epoch, metadata, member_id, host, client_id,
                    subscribed[topic] if topic in subscribed else self._is_subscribed(topic), says,
                    self._age(partition, log, times) if times else None,
                    self._row_error(partition, value, log, says) if says in _FAILED else None,
                    stable, is_pending,
                ),
            )  # fmt: skip

    def _unreadable(self, ends: dict[TopicPartition, LogEnds], times: Times) -> Iterable[ItemError]:
        """Return why times are missing: one error a topic, for it is a matter of its ACL."""
        errors: dict[str, ItemError] = {}
        for position in self.positions(ends) if times else ():
            reason = times.get(position)
            if isinstance(reason, KgError):
                topic = position.partition.topic
                errors.setdefault(topic, ItemError.of(reason, Target(self.name, topic)))
        return errors.values()

    def _is_subscribed(self, topic: str) -> bool | None:
        found = groups_of.is_subscribed(self.description.members, topic)
        self._subscribed[topic] = None if self.has_members_hidden else found
        return self._subscribed[topic]

    def _age(self, partition: TopicPartition, ends: LogEnds, times: Times) -> int | None:
        if self._wanted.clock is None:
            return None
        position = self._position(partition, ends)
        written = times.get(position) if position is not None else None
        # A producer's clock may be ahead of ours.
        return max(self._wanted.clock() - written, 0) if isinstance(written, int) else None

    def _row_error(
        self, partition: TopicPartition, value: Any, ends: LogEnds, says: str
    ) -> ItemError | None:
        """Say why a row is incomplete."""
        reason = value if isinstance(value, KgError) else ends.end
        if not isinstance(reason, KgError) or reason is self._unread:
            return None
        error = ItemError.of(reason, Target(self.name, *partition))
        if value is None and says == "denied":
            # OffsetFetch for a whole group leaves out what may not be seen.
            said = f"{reason.message.rstrip('.')}: the offset committed there is hidden."
            error = error._replace(message=said)
        return error


def _is_hidden(error: ItemError | None) -> bool:
    """ConsumerGroupDescribe hides a whole group if one topic of its members may not be seen."""
    return error is not None and error.code == codes.TOPIC_AUTHORIZATION_FAILED


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
