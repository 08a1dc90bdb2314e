"""The removals of one group's offsets: the tombstones in its log, with the cause of each.

Works for deleted groups too, as long as compaction has left their tombstones
(``delete.retention.ms``, a day by default, and longer while the segment is being written).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kgtool.client.cluster import Cluster, fetch_topic
from kgtool.client.ops import Operation
from kgtool.errors import KgError
from kgtool.queries.cluster.offsets_partition import TOPIC, offsets_partition
from kgtool.queries.log.scan import SEARCHED_GROUPS, scan
from kgtool.records import Record
from kgtool.records.batch import Batch, RawRecord, batches_containing, read_header, read_records
from kgtool.records.types import GROUP_METADATA, GROUP_TYPES, OFFSET_TYPES
from kgtool.retention.audit import Removal, audit
from kgtool.retention.doubts import INTERVAL_MS
from kgtool.retention.groups import classic_snapshot
from kgtool.retention.history import Entry, History, LiveOffset, read_entry
from kgtool.retention.rules import GroupSnapshot, RuleSet

_IRRELEVANT = (4, 6, 7, 8, 9, 12, 13, 14, 15, 20, 21, 22)
"""Record types, like assignments, on which no expiry depends."""


class GroupPast(NamedTuple):
    """A group's removals in log order, and ``left``: the offsets without a tombstone.

    Those of a group that the coordinator does not know are orphans. ``begin_ms``: the log was read
    from then on; None: all of it.
    """

    removals: list[Removal]
    left: list[LiveOffset]
    begin_ms: int | None


def group_past(
    cluster: Cluster,
    group: str,
    rules: RuleSet,
    retention_ms: int,
    begin_ms: int | None,
    interval_ms: int = INTERVAL_MS,
) -> Operation[GroupPast | KgError]:
    """Read a group's records and explain what was removed.

    :param begin_ms: read from there on only; what was committed before has no known cause.
    """
    info = yield from fetch_topic(cluster, TOPIC)
    if info.error is not None:
        return info.error
    number = offsets_partition(group, len(info.leaders))
    reader = GroupRecords([group], number)
    part = (yield from scan(cluster, {number: reader.feed}, begin_ms))[number]
    if isinstance(part, KgError):
        return part
    entries = reader.entries()
    history = History(rules, retention_ms)
    for entry in entries:
        history.feed(entry)
    return GroupPast(
        [row for row in audit(entries, rules, retention_ms, interval_ms) if row.group == group],
        [live for live in history.live() if live.key.group == group],
        part.before_ms,
    )


class GroupRecords:
    """Keeps the records of some groups that explain the removals of their offsets.

    Commits that were followed by another one for the same partition before any tombstone are
    dropped again, and so is the metadata of a classic group that repeats the one before, but the
    last one before a tombstone, which dates the end of a rebalance: memory is bounded by what the
    group has and lost, not by how often it commits or rebalances.

    :param until_ms: what was written later is left out.
    """

    def __init__(self, groups: Iterable[str], partition: int, until_ms: int | None = None) -> None:
        self._names = {_text(group): group for group in groups}
        self._needles = [*self._names] if len(self._names) <= SEARCHED_GROUPS else []
        self._partition = partition
        self._until_ms = until_ms
        self._kept: dict[int, Entry] = {}
        self._newest: dict[bytes, int] = {}
        self._last_snapshots: dict[bytes, GroupSnapshot | None] = {}
        self._producers: set[int] = set()
        self._next = -1
        self._repeated: dict[bytes, int] = {}
        self._data = b""
        self._epoch = -1
        self._loads: set[int] = set()
        """Records that show that another coordinator has loaded the partition."""
        self.seen: set[str] = set()
        """The groups that have any record."""
        self.first: tuple[int, int] | None = None
        """Offset and time of the first batch; None: there is none."""

    def feed(self, data: bytes) -> None:
        """Read whole batches, in the order of the log; what was read already is skipped."""
        self._data = data
        if self.first is None and (head := read_header(data, 0)) is not None:
            self.first = (head.base_offset, head.base_timestamp_ms)
        for batch in batches_containing(data, self._needles):
            if batch.base_offset < self._next:
                continue
            self._next = batch.last_offset + 1
            for record in read_records(data, batch):
                self._take(batch, record)

    def entries(self) -> list[Entry]:
        """Return what was kept, in the order of the log."""
        return [self._kept[offset] for offset in sorted(self._kept)]

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
        if name not in self._names:
            return
        self.seen.add(self._names[name])
        if number not in _IRRELEVANT:
            if number in OFFSET_TYPES:
                self._drop_replaced(batch, record, key[2:])
            self._keep(batch, record)
            if record.value is None:
                self._repeated.pop(name, None)
            if record.value is None and number in GROUP_TYPES:
                # What the group had decides whether its removal was a check's.
                self._newest = {k: v for k, v in self._newest.items() if not k.startswith(name)}
            if number == GROUP_METADATA:
                self._drop_repeated(record.offset, name)

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
        snapshot = None
        if record.value is not None:
            snapshot = classic_snapshot(record.value)._replace(generation=0)
            if record.value.members:
                snapshot = snapshot._replace(state_since_ms=None)
        repeats = snapshot is not None and snapshot == self._last_snapshots.get(name)
        if repeats and self._repeated.get(name, offset) not in {offset, *self._loads}:
            del self._kept[self._repeated[name]]
        self._repeated.pop(name, None)
        if repeats:
            self._repeated[name] = offset
        self._last_snapshots[name] = snapshot


def _text(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    return len(raw).to_bytes(2, "big") + raw
