"""The removals of one group's offsets: the tombstones in its log, with the cause of each.

Works for deleted groups too, as long as compaction has left their tombstones
(``delete.retention.ms``, a day by default, and longer while the segment is being written).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from kgtool.client.cluster import Cluster, fetch_topic
from kgtool.client.ops import READING_SHARE, Operation, within
from kgtool.errors import KgError
from kgtool.model import TopicPartition
from kgtool.queries.cluster.offsets_partition import TOPIC, offsets_partition
from kgtool.queries.log.scan import SEARCHED_GROUPS, scan
from kgtool.queries.log.seen_batches import SeenBatches
from kgtool.queries.offsets.list_offsets import log_ranges
from kgtool.records import Record
from kgtool.records.batch import Batch, RawRecord, batches_containing, read_records
from kgtool.records.types import GROUP_METADATA, GROUP_TYPES, OFFSET_TYPES
from kgtool.retention import rules as r
from kgtool.retention.audit import audit, judged_alone
from kgtool.retention.doubts import INTERVAL_MS, Seen
from kgtool.retention.groups import classic_snapshot
from kgtool.retention.history import Entry, History, LiveOffset, read_entry
from kgtool.retention.part_of_log import Own, Part
from kgtool.retention.phases import RulePhases
from kgtool.retention.rules import GroupSnapshot, RuleSet
from kgtool.retention.writes import Removal
from kgtool.retention.written_by import Written

OTHERS = 20_000
"""So many records of other groups are kept: what was removed with theirs tells of checks."""
Judge = tuple[RuleSet | RulePhases, int, int]
"""Rules, retention and check interval (ms)."""
Topics = frozenset[str] | None
_IRRELEVANT = (4, 6, 7, 8, 9, 12, 13, 14, 15, 20, 21, 22)
"""Record types, like assignments, on which no expiry depends."""


class GroupPast(NamedTuple):
    """A group's removals in log order, and ``left``: the offsets without a tombstone.

    Those of a group that the coordinator does not know are orphans. ``begin_ms``: the log was read
    from then on; None: all of it. ``lacks_others``: records of other groups, which might
    explain what is unknown, were not read: too many, or on a broker that does not answer.
    """

    removals: list[Removal]
    left: list[LiveOffset]
    begin_ms: int | None
    lacks_others: bool = False


def group_past(
    cluster: Cluster,
    group: str,
    rules: RuleSet | RulePhases,
    retention_ms: int,
    begin_ms: int | None,
    interval_ms: int = INTERVAL_MS,
) -> Operation[GroupPast | KgError]:
    """Read a group's records and explain what was removed.

    :param rules: of the brokers now, unless a record proves that others were there before; or
        those over time.
    :param begin_ms: read from there on first, and from the beginning where that does not tell.
    """
    info = yield from fetch_topic(cluster, TOPIC)
    if info.error is not None:
        return info.error
    number = offsets_partition(group, len(info.leaders))
    judge = rules, retention_ms, interval_ms
    others = Elsewhere(cluster, [each for each in info.leaders if each != number])
    elsewhere, is_needed = None, False
    for since_ms in dict.fromkeys((begin_ms, None)):
        reader = GroupRecords([group], number, others=OTHERS)
        part = (yield from scan(cluster, {number: reader.feed}, since_ms))[number]
        if isinstance(part, KgError):
            return part
        own = reader.own_removals(group, judge, part.begin, elsewhere)
        if not (reader.lacks_others or is_needed) and any(row.cause is None for row in own):
            is_needed = True
            elsewhere = yield from others.read(number, *judge)
            own = reader.own_removals(group, judge, part.begin, elsewhere)
        left = reader.left(rules, retention_ms)
        lacks_others = reader.lacks_others or (is_needed and elsewhere is None)
        past = GroupPast(own, left, part.before_ms, lacks_others)
        if part.before_ms is None or all(row.cause is not None for row in own):
            break
    return past


class Elsewhere:
    """The removals in all log partitions, read once: those of others may tell why an offset went.

    They tell of retentions and of checks; a large log is for ``kgtool analyze``.
    """

    def __init__(self, cluster: Cluster, numbers: Sequence[int]) -> None:
        self._cluster, self._numbers = cluster, numbers
        self._found: dict[int, list[Removal]] | None = None
        self._is_read = False

    def read(
        self, number: int, rules: RuleSet | RulePhases, retention_ms: int, interval_ms: int
    ) -> Operation[list[Removal] | None]:
        """Return those of all partitions but ``number``, each partition judged alone; None: not all
        can be read in a part of the time, or they are more than ``OTHERS`` records."""
        if not self._is_read:
            self._is_read = True
            reading = self._read((rules, retention_ms, interval_ms))
            with suppress(KgError):
                self._found = yield from within(reading, READING_SHARE)
        if self._found is None:
            return None
        return [row for each, rows in self._found.items() if each != number for row in rows]

    def _read(self, judge: Judge) -> Operation[dict[int, list[Removal]] | None]:
        partitions = [TopicPartition(TOPIC, each) for each in self._numbers]
        sizes = [
            OTHERS + 1 if isinstance(log, KgError) else log.end.offset - log.start.offset
            for log in (yield from log_ranges(self._cluster, partitions)).values()
        ]
        if sum(sizes) > OTHERS:
            return None
        readers = {each: GroupRecords([], each, others=OTHERS) for each in self._numbers}
        feeds = {each: reader.feed for each, reader in readers.items()}
        parts = yield from scan(self._cluster, feeds)
        found: dict[int, list[Removal]] = {}
        for each, reader in readers.items():
            part = parts[each]
            if isinstance(part, KgError) or reader.lacks_others:
                return None
            found[each] = reader.judged_alone(*judge, begin=part.begin)
        return found


class GroupRecords:
    """Keeps the records of some groups that explain the removals of their offsets.

    Commits that were followed by another one for the same partition before any tombstone are
    dropped again, and so is the metadata of a classic group that repeats the one before, but the
    last one before a tombstone, which dates the end of a rebalance: memory is bounded by what the
    group has and lost, not by how often it commits or rebalances.

    :param until_ms: what was written later is left out.

    :param others: so many records of other groups are read, too; if there are more, none is kept.
    """

    def __init__(
        self, groups: Iterable[str], partition: int, until_ms: int | None = None, *, others: int = 0
    ) -> None:
        self._names = {_text(group): group for group in groups}
        self._needles = [*self._names] if len(self._names) <= SEARCHED_GROUPS else []
        self._others, self._has_others = others, others > 0
        self.lacks_others = False
        """Whether there were more records of other groups."""
        self._batches = SeenBatches(partition)
        self._own: dict[bytes, Own] = {}
        self._alive: set[bytes] = set()
        """Groups with a record of their own: the first makes them known, whatever its type."""
        self._partition = partition
        self._until_ms = until_ms
        self._kept: dict[int, Entry] = {}
        self._newest: dict[bytes, int] = {}
        self._last_snapshots: dict[bytes, tuple[GroupSnapshot | None, Topics]] = {}
        self._generations: dict[bytes, tuple[int, Topics]] = {}
        """The last generation of each group, and the topics that it began with."""
        self._producers: set[int] = set()
        self._next = -1
        self._repeated: dict[bytes, int] = {}
        self._data = b""
        self._epoch = -1
        self._loads: set[int] = set()
        """Records that show that another coordinator has loaded the partition."""
        self.seen: set[str] = set()
        """The groups that have any record."""

    @property
    def kinds(self) -> list[Written]:
        """The kinds of records that were read."""
        return self._batches.kinds

    @property
    def first(self) -> tuple[int, int] | None:
        """Offset and time of the first batch; None: there is none."""
        return self._batches.first

    @property
    def end(self) -> int:
        """The offset after the last batch; -1: there is none."""
        return self._batches.end

    @property
    def went_back(self) -> int | None:
        """The offset of the last batch that came after a later one; None: there was none."""
        return self._batches.went_back

    @property
    def dense_end(self) -> int | None:
        """The offset after the last batch, if no record is missing since offset 0."""
        is_dense = self._batches.is_gapless and self.first is not None and self.first[0] == 0
        return self._batches.end if is_dense else None

    def feed(self, data: bytes) -> None:
        """Read whole batches, in the order of the log; what was read already is skipped."""
        self._data = data
        self._batches.feed(data)
        for batch in batches_containing(data, [] if self._has_others else self._needles):
            if batch.base_offset < self._next:
                continue
            self._next = batch.last_offset + 1
            for record in read_records(data, batch):
                if not batch.is_control:
                    self._batches.note(record)
                self._take(batch, record)

    def entries(self) -> list[Entry]:
        """Return what was kept, in the order of the log, and where a coordinator loaded it."""
        until_ms = r.MAX_TIMESTAMP_MS if self._until_ms is None else self._until_ms
        moves = {each.offset: each for each in self._batches.moves if each.timestamp_ms <= until_ms}
        return [entry for _, entry in sorted({**moves, **self._kept}.items())]

    def removals(
        self,
        rules: RuleSet | RulePhases,
        retention_ms: int,
        interval_ms: int = INTERVAL_MS,
        *,
        begin: int = 0,
        elsewhere: Sequence[Removal] | None = None,
    ) -> list[Removal]:
        """Return what was removed of all groups kept, with causes as far as this tells.

        :param rules: as for ``group_past``.

        :param begin: the offset where the log, or what was read of it, begins.

        :param elsewhere: the removals in all other partitions of the log; None: unknown.
        """
        part = self._part(rules, begin, elsewhere)
        return audit(self.entries(), rules, retention_ms, interval_ms, part)

    def own_removals(
        self, group: str, judge: Judge, begin: int, elsewhere: Sequence[Removal] | None
    ) -> list[Removal]:
        """Return ``removals`` of one group."""
        found = self.removals(*judge, begin=begin, elsewhere=elsewhere)
        return [row for row in found if row.group == group]

    def judged_alone(
        self, rules: RuleSet | RulePhases, retention_ms: int, interval_ms: int, *, begin: int
    ) -> list[Removal]:
        """Return what was removed, for ``elsewhere`` of another partition's ``removals``."""
        part = self._part(rules, begin, ())
        return judged_alone(self.entries(), rules, retention_ms, interval_ms, part)

    def _part(
        self, rules: RuleSet | RulePhases, begin: int, elsewhere: Sequence[Removal] | None
    ) -> Part:
        first = 0 if self.first is None else self.first[0]
        own = {name[2:].decode("utf-8", "surrogateescape"): has for name, has in self._own.items()}
        is_all = self._has_others and elsewhere is not None
        return Part(
            is_headless=begin > 0,
            is_complete=self._batches.is_gapless and not first,
            seen=Seen.LOG if is_all else Seen.PARTITION if self._has_others else Seen.GROUP,
            lacks_others=not is_all,
            elsewhere=elsewhere or (),
            own=own,
            older_until_ms=self._batches.older_until_ms(rules)
            if isinstance(rules, RuleSet)
            else None,
        )

    def left(self, rules: RuleSet | RulePhases, retention_ms: int) -> list[LiveOffset]:
        """Return what the groups asked for have that was not removed."""
        history = History(rules if isinstance(rules, RuleSet) else rules[-1][1], retention_ms)
        for entry in self.entries():
            history.feed(entry)
        names = set(self._names.values())
        return [live for live in history.live() if live.key.group in names]

    def _take(self, batch: Batch, record: RawRecord) -> None:
        key = record.key or b""
        if self._until_ms is not None and record.timestamp_ms > self._until_ms:
            return
        if batch.is_control:
            if batch.producer_id in self._producers:
                self._keep(batch, record)
            return
        number = int.from_bytes(key[:2], "big")
        name = key[2 : 4 + int.from_bytes(key[2:4], "big")]
        if name in self._names:
            self.seen.add(self._names[name])
        elif not self._takes_others():
            return
        if number in OFFSET_TYPES:
            self._drop_replaced(batch, record, key[2:])
        else:
            own = self._own.get(name, Own())
            at_ms = own.new_ms if number == GROUP_METADATA else record.timestamp_ms
            self._own[name] = Own(record.offset, max(own.new_ms, at_ms))
        is_own = record.value is not None and number not in OFFSET_TYPES
        is_first = is_own and name not in self._alive
        if is_first:
            self._alive.add(name)
        elif record.value is None and number in GROUP_TYPES:
            self._alive.discard(name)
        if is_first or number not in _IRRELEVANT:
            self._keep_last(batch, record, number, name)

    def _keep_last(self, batch: Batch, record: RawRecord, number: int, name: bytes) -> None:
        """Keep a record, and of what it repeats the last one."""
        self._keep(batch, record)
        if record.value is None:
            self._repeated.pop(name, None)
        if record.value is None and number in GROUP_TYPES:
            # What the group had decides whether its removal was a check's.
            self._newest = {k: v for k, v in self._newest.items() if not k.startswith(name)}
        if number == GROUP_METADATA:
            self._drop_repeated(record.offset, name)

    def _takes_others(self) -> bool:
        """Whether records of other groups are read still; from then on that they are not, none."""
        if self._has_others and not self._others:
            self._has_others, self.lacks_others = False, True
            names = set(self._names.values())
            for offset, entry in [*self._kept.items()]:
                if isinstance(entry.record, Record) and entry.record.key.group not in names:
                    del self._kept[offset]
        self._others -= 1
        return self._has_others

    def _keep(self, batch: Batch, record: RawRecord) -> None:
        if batch.leader_epoch(self._data) > self._epoch:
            self._epoch = batch.leader_epoch(self._data)
            self._loads.add(record.offset)
        self._kept[record.offset] = read_entry(
            self._partition,
            record.offset,
            record.timestamp_ms,
            record.key or b"",
            record.value,
            producer_id=batch.producer_id,
            transactional=batch.is_transactional,
            is_control=batch.is_control,
            base_offset=batch.base_offset,
            leader_epoch=batch.leader_epoch(self._data),
        )

    def _drop_replaced(self, batch: Batch, record: RawRecord, key: bytes) -> None:
        before = self._newest.pop(key, None)
        if batch.producer_id != -1:
            self._producers.add(batch.producer_id)
        elif record.value is not None:
            if before is not None and before not in self._loads:
                del self._kept[before]
            self._newest[key] = record.offset

    def _drop_repeated(self, offset: int, name: bytes) -> None:
        record = self._kept[offset].record
        assert isinstance(record, Record)
        snapshot, first = None, None
        if record.value is not None:
            snapshot = classic_snapshot(record.value)._replace(generation=0)
            if record.value.members:
                snapshot = snapshot._replace(state_since_ms=None)
            generation, topics = record.value.generation, snapshot.subscribed_topics
            before, first = self._generations.get(name, (None, None))
            # The new topics of a static member that is back count from the next generation on.
            first = first if generation == before else topics
            self._generations[name] = generation, first
        repeats = snapshot is not None and (snapshot, first) == self._last_snapshots.get(name)
        if repeats and self._repeated.get(name, offset) not in {offset, *self._loads}:
            del self._kept[self._repeated[name]]
        self._repeated.pop(name, None)
        if repeats:
            self._repeated[name] = offset
        self._last_snapshots[name] = snapshot, first


def _text(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    return len(raw).to_bytes(2, "big") + raw
