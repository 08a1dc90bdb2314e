"""The rows of ``describe --offsets``: what groups have committed, and what is left to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kgtool.client.cluster import Cluster, ensure_topics, find_coordinators
from kgtool.client.ops import Operation, gather, grouped, within
from kgtool.errors import KgError
from kgtool.model import CommittedOffset, GroupOffsets, ItemError, OffsetRow, Target, TopicPartition
from kgtool.protocol import codes
from kgtool.queries.groups.describe import describe_groups, is_subscribed
from kgtool.queries.groups.listings import mark_unlisted
from kgtool.queries.offsets.fetch import AdaptiveBatches, Committed, fetch_committed
from kgtool.queries.offsets.lag import NO_AGE, NONE_LEFT, Age, LogEnds, lag, offset_row, status
from kgtool.queries.offsets.list_offsets import READ_COMMITTED, READ_UNCOMMITTED, log_ends

if TYPE_CHECKING:
    from kgtool.model import GroupDescription, Member, TopicSpec
    from kgtool.queries.offsets.time_lag import Position, Times

Emit = Callable[[GroupOffsets], None]
Clock = Callable[[], int]
"""Returns the time, in ms since the epoch."""
Ends = Mapping[TopicPartition, LogEnds]
Retentions = Mapping[str, "int | None"]
"""``retention.ms`` by topic; None: its records are kept, or it is not known."""


class _Options(NamedTuple):
    topics: Sequence[TopicSpec] | None
    emit: Emit | None
    kinds: dict[str, str] | None
    stable: bool
    clock: Clock | None
    whole: bool


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
    whole: bool = False,
) -> Operation[list[GroupOffsets]]:
    """Describe the offsets of groups, in the order asked; each group carries its own errors.

    A coordinator's groups are asked about in batches, to bound the rows that are held. The ends
    of the logs are read after the offsets, once for each partition over all groups of a batch; a
    partition whose commit then lies beyond its end is asked again before that is reported.
    A coordinator or leader that does not answer delays only its own groups.

    :param topics: only these rows.
    :param emit: called with each group as it becomes known; what is returned is empty then.
    :param kinds: group types known from a listing.
    :param committed: measure the lag against the last stable offset.
    :param clock: find the age of the first unread record too (``lag_ms``), by this clock, and when
        it goes by its topic's retention (``lost_at_ms``).
    :param whole: rows too for the partitions without a commit of topics that a group has read.
    :param share: of the time that is left, where something is to be done afterwards.
    """
    options = _Options(topics, emit, kinds, committed, clock, whole)
    return (yield from within(_describe(cluster, groups, options), share))


def _describe(
    cluster: Cluster, groups: Sequence[str], options: _Options
) -> Operation[list[GroupOffsets]]:
    located = yield from find_coordinators(cluster, groups, wait=False)
    unique = list(dict.fromkeys(groups))
    nodes = ((located[group], group) for group in unique)
    parts = grouped((node if isinstance(node, int) else -1, group) for node, group in nodes)
    running: list[Operation[list[GroupOffsets]]] = []
    for ids in parts.values():
        batches = AdaptiveBatches(ids)
        # A coordinator answers one batch while another is shown.
        lanes = 2 if batches.are_many else 1
        running += [_describe_batches(cluster, batches, options) for _ in range(lanes)]
    found = yield from gather(running)
    if options.emit is not None:
        return []
    by_name = {result.description.group: result for part in found for result in part}
    return [by_name[group] for group in unique]


def _describe_batches(
    cluster: Cluster, batches: AdaptiveBatches, options: _Options
) -> Operation[list[GroupOffsets]]:
    """Describe groups of one coordinator, batch by batch, until none is left."""
    found: list[GroupOffsets] = []
    while groups := batches.next():
        batch = yield from _describe_batch(cluster, groups, options)
        batches.learn(len(groups), batch.rows)
        found += batch.kept
    return found


def _describe_batch(
    cluster: Cluster, groups: Sequence[str], options: _Options
) -> Operation[_Batch]:
    described, committed = yield from gather(
        [describe_groups(cluster, groups, options.kinds), fetch_committed(cluster, groups)]
    )
    bare = [d.group for d in described if d.error is None and committed[d.group] == {}]
    if bare:  # they may have a first commit that is still pending
        from kgtool.queries.cluster.pending import first_commits

        committed.update((yield from first_commits(cluster, bare, strict=True)))
    described = yield from mark_unlisted(described, options.kinds, committed)
    groups_ = [_Group(d, committed[d.group], options.topics) for d in described]
    if options.whole:
        yield from _add_uncommitted(cluster, groups_, options.topics)
    batch = _Batch(groups_, options)
    ends = yield from log_ends(cluster, batch.partitions(), stable=options.stable, emit=batch.learn)
    batch.ends.update(ends)
    beyond = batch.beyond()
    if beyond:
        batch.ends.update((yield from log_ends(cluster, beyond, stable=options.stable)))
    times: Times = {}
    if options.clock is not None:
        from kgtool.queries.offsets.record_retention import record_retentions
        from kgtool.queries.offsets.time_lag import first_unread

        isolation = READ_COMMITTED if options.stable else READ_UNCOMMITTED
        positions = batch.positions()
        times = yield from first_unread(cluster, positions, isolation=isolation)
        topics = sorted({at.partition.topic for at in positions})
        batch.retentions = yield from record_retentions(cluster, topics)
    batch.finish(times)
    return batch


def _add_uncommitted(
    cluster: Cluster, found: Sequence[_Group], topics: Sequence[TopicSpec] | None
) -> Operation[None]:
    """Add the partitions that groups have no commit in, of topics where they have some."""
    read = [group.read for group in found]
    try:
        yield from ensure_topics(cluster, set().union(*read))
    except KgError:
        return  # the ends of their logs will say why
    for group, by_topic in zip(found, read, strict=True):
        for topic, numbers in by_topic.items():
            count = len(cluster.topics[topic].leaders)
            is_prefix = len(numbers) > 1 and numbers == set(range(len(numbers)))
            if not (group.reads_whole_topics or is_prefix):
                continue  # standalone commits of partitions that somebody chose
            missing = [TopicPartition(topic, n) for n in range(count) if n not in numbers]
            if missing:
                group.add(missing, topics)


class _Batch:
    """Some groups between the reading of their offsets and that of the logs."""

    def __init__(self, groups: list[_Group], options: _Options) -> None:
        self.ends: dict[TopicPartition, LogEnds] = {}
        self.retentions: Retentions = {}
        self.rows = 0
        self.kept: list[GroupOffsets] = []
        """Where no ``emit`` takes them."""
        self._options = options
        self._open = {group.name: group for group in groups}

    def partitions(self) -> list[TopicPartition]:
        return sorted(set().union(*(group.needed for group in self._open.values())))

    def learn(self, ends: dict[TopicPartition, LogEnds]) -> None:
        """Take one leader's answers; finish the groups that have all they need."""
        self.ends.update(ends)
        if self._options.clock is not None:
            return
        known = set(self.ends)
        for group in list(self._open.values()):
            if group.needed <= known:
                found = group.finish(self.ends, {}, None, {})
                if "beyond-end" not in [row.status for row in found.rows]:  # else asked again
                    self._done(found)

    def beyond(self) -> list[TopicPartition]:
        """Return the partitions whose commits seem to lie beyond the end."""
        return sorted({at for group in self._open.values() for at in group.beyond(self.ends)})

    def positions(self) -> list[Position]:
        groups = self._open.values()
        return [at for group in groups for at in group.positions(self.ends).values()]

    def finish(self, times: Times) -> None:
        for group in list(self._open.values()):
            self._done(group.finish(self.ends, times, self._options.clock, self.retentions))

    def _done(self, found: GroupOffsets) -> None:
        del self._open[found.description.group]
        self.rows += len(found.rows)
        (self._options.emit or self.kept.append)(found)


class _Group:
    """One group between the reading of its offsets and that of the logs."""

    def __init__(
        self,
        description: GroupDescription,
        committed: Committed | KgError,
        topics: Sequence[TopicSpec] | None,
    ) -> None:
        self.name = description.group
        self._error: ItemError | None = None
        self._has_members_hidden = _is_hidden(description.error)
        if self._has_members_hidden and isinstance(committed, dict):
            # What it has committed in topics that may be seen can be shown anyway.
            self._error = description.error
            description = description._replace(error=None)
        self._description = description
        self._unread: KgError | None = None
        """Why no commit of the group is known; reported once for all its rows."""
        if isinstance(committed, KgError) and description.error is None:
            self._error = ItemError.of(committed, Target(group=description.group))
            self._unread = committed
        is_known = isinstance(committed, dict) and description.error is None
        self._committed: Committed = committed if is_known else {}  # type: ignore[assignment]
        self._order = [
            (partition, member)
            for partition, member in _in_order(description.members, self._committed)
            if topics is None or any(spec.covers(*partition) for spec in topics)
        ]
        self.needed = {partition for partition, _ in self._order}
        if self._unread is not None:
            self._committed = dict.fromkeys(self.needed, self._unread)
        self._subscribed: dict[str, bool | None] = {}

    @property
    def read(self) -> dict[str, set[int]]:
        """The partitions with a commit, by topic."""
        found: dict[str, set[int]] = {}
        for topic, number in self._committed if self._unread is None else ():
            found.setdefault(topic, set()).add(number)
        return found

    @property
    def reads_whole_topics(self) -> bool:
        """Whether its consumers subscribe: then every partition of a topic is theirs."""
        return self._description.protocol_type == "consumer"

    def add(self, partitions: Iterable[TopicPartition], topics: Sequence[TopicSpec] | None) -> None:
        """Add rows for partitions that have none."""
        for partition in partitions:
            is_asked = topics is None or any(spec.covers(*partition) for spec in topics)
            if is_asked and partition not in self.needed:
                self._order.append((partition, None))
                self.needed.add(partition)
        self._order.sort(key=lambda each: (each[1] is None, () if each[1] else each[0]))

    def beyond(self, ends: Ends) -> list[TopicPartition]:
        known = self._committed
        return [at for at in self.needed if status(known.get(at), ends[at]) == "beyond-end"]

    def positions(self, ends: Ends) -> dict[TopicPartition, Position]:
        """Return where the first unread records are, of the partitions that have any."""
        from kgtool.queries.offsets.time_lag import Position

        found: dict[TopicPartition, Position] = {}
        for partition, _ in self._order:
            value, log = self._committed.get(partition), ends[partition]
            offset = value.offset if isinstance(value, CommittedOffset) else None
            if offset is not None and isinstance(log.end, int) and (lag(offset, log) or 0) > 0:
                end = log.end if log.stable is None else log.stable
                found[partition] = Position(partition, max(offset, log.start or 0), end)
        return found

    def finish(
        self, ends: Ends, times: Times, clock: Clock | None, retentions: Retentions
    ) -> GroupOffsets:
        ages: dict[TopicPartition, Age] = {}
        unreadable: dict[str, ItemError] = {}  # one error a topic: it is a matter of its ACL
        for partition, position in self.positions(ends).items() if times else ():
            written = times.get(position)
            if written == NONE_LEFT:
                ages[partition] = Age(None, True, None)
            elif isinstance(written, int) and clock is not None:
                retention_ms = retentions.get(partition.topic)
                lost_at_ms = None if retention_ms is None else written + retention_ms
                # A producer's clock may be ahead.
                ages[partition] = Age(max(clock() - written, 0), False, lost_at_ms)
            elif isinstance(written, KgError):
                error = ItemError.of(written, Target(self.name, partition.topic))
                unreadable.setdefault(partition.topic, error)
        rows = list(self._rows(ends, ages))
        errors = [row.error for row in rows if row.error is not None]
        errors = [*([] if self._error is None else [self._error]), *errors, *unreadable.values()]
        return GroupOffsets(self._description, rows, errors)

    def _rows(self, ends: Ends, ages: Mapping[TopicPartition, Age]) -> Iterator[OffsetRow]:
        name, committed, subscribed = self.name, self._committed, self._subscribed
        for partition, member in self._order:
            topic = partition.topic
            if topic not in subscribed:
                found = is_subscribed(self._description.members, topic)
                subscribed[topic] = None if self._has_members_hidden else found
            row = offset_row(
                name,
                partition,
                committed.get(partition),
                ends[partition],
                member,
                subscribed[topic],
                ages.get(partition, NO_AGE) if ages else NO_AGE,
            )
            yield row if row.error is None else self._with_reason(row, partition, row.error)

    def _with_reason(
        self, row: OffsetRow, partition: TopicPartition, error: ItemError
    ) -> OffsetRow:
        """Make the error of a row say what is hidden; leave out what is the whole group's."""
        if self._unread is not None:
            return row._replace(error=None)
        if row.status == "denied" and partition not in self._committed:
            # OffsetFetch for a whole group leaves out what may not be seen.
            said = f"{error.message.rstrip('.')}: the offset committed there is hidden."
            return row._replace(error=error._replace(message=said))
        return row


def _is_hidden(error: ItemError | None) -> bool:
    """ConsumerGroupDescribe hides a whole group if one topic of its members may not be seen."""
    return error is not None and error.code == codes.TOPIC_AUTHORIZATION_FAILED


def _in_order(
    members: Sequence[Member], committed: Committed
) -> Iterable[tuple[TopicPartition, Member | None]]:
    """Kafka's order: members by descending number of partitions, then the others."""
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
