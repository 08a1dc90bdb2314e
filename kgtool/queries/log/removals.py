"""What the log of one group says of what is gone: tombstones, with the cause of each.

Works for groups that exist and for those that don't any more, as long as compaction has left
their tombstones (``delete.retention.ms``, a day by default, and more as long as the segment is
being written).
"""

from __future__ import annotations

from typing import NamedTuple

from kgtool.client.cluster import Cluster, know_topic
from kgtool.client.ops import Operation
from kgtool.errors import KgError
from kgtool.queries.cluster.offsets_partition import TOPIC, offsets_partition
from kgtool.queries.log.scan import scan
from kgtool.records import Record
from kgtool.records.batch import Batch, RawRecord, batches_containing, read_records
from kgtool.records.types import GROUP_METADATA, OFFSET_TYPES
from kgtool.retention.audit import Removal, audit
from kgtool.retention.groups import classic_snapshot
from kgtool.retention.history import Entry, History, LiveOffset, read_entry
from kgtool.retention.rules import GroupSnapshot, RuleSet

_UNIMPORTANT = (4, 6, 7, 8, 9, 12, 13, 14, 15, 20, 21, 22)
"""Assignments and the like: they say nothing of what expires."""


class GroupPast(NamedTuple):
    """A group's removals in the order of its log, and what is left in the log.

    ``left``: offsets that no tombstone has taken. Of a group that the coordinator does not know
    they are orphans.
    """

    removals: list[Removal]
    left: list[LiveOffset]
    begin_ms: int | None
    """From when on the log was read; None: all of it."""


def group_past(
    cluster: Cluster, group: str, rules: RuleSet, retention_ms: int, begin_ms: int | None
) -> Operation[GroupPast | KgError]:
    """Read a group's records and explain what was removed.

    :param begin_ms: read from there on only; what was committed before has no known cause.
    """
    info = yield from know_topic(cluster, TOPIC)
    if info.error is not None:
        return info.error
    number = offsets_partition(group, len(info.leaders))
    reader = _Reader(group, number)
    part = (yield from scan(cluster, {number: reader.feed}, begin_ms))[number]
    if isinstance(part, KgError):
        return part
    entries = reader.entries()
    history = History(rules, retention_ms)
    for entry in entries:
        history.feed(entry)
    return GroupPast(
        [row for row in audit(entries, rules, retention_ms) if row.group == group],
        [live for live in history.live() if live.key.group == group],
        part.before_ms,
    )


class _Reader:
    """Keeps the records of one group which tell what became of its offsets.

    Commits that were followed by another one for the same partition before any tombstone are
    forgotten again, and a classic group that says the same once more is not listened to: memory
    is bounded by what the group has and lost, not by how often it commits or rebalances.
    """

    def __init__(self, group: str, partition: int) -> None:
        self._name = group.encode("utf-8", "surrogateescape")
        self._needle = len(self._name).to_bytes(2, "big") + self._name
        self._partition = partition
        self._kept: dict[int, Entry] = {}
        self._newest: dict[bytes, int] = {}
        self._last_said: GroupSnapshot | None = None
        self._producers: set[int] = set()

    def feed(self, data: bytes) -> None:
        """Read whole batches."""
        for batch in batches_containing(data, [self._needle]):
            for record in read_records(data, batch):
                self._take(batch, record)

    def entries(self) -> list[Entry]:
        """Return what was kept, in the order of the log."""
        return [self._kept[offset] for offset in sorted(self._kept)]

    def _take(self, batch: Batch, record: RawRecord) -> None:
        key = record.key or b""
        if batch.is_control:
            if batch.producer_id in self._producers:
                self._keep(batch, record)
            return
        number = int.from_bytes(key[:2], "big")
        is_mine = key[2 : 4 + len(self._name)] == self._needle
        if is_mine and number not in _UNIMPORTANT:
            if number in OFFSET_TYPES:
                self._thin_offsets(batch, record, key[2:])
            self._keep(batch, record)
            if number == GROUP_METADATA:
                self._thin_metadata(record.offset)

    def _keep(self, batch: Batch, record: RawRecord) -> None:
        self._kept[record.offset] = read_entry(
            self._partition, record.offset, record.timestamp_ms, record.key or b"", record.value,
            producer_id=batch.producer_id, transactional=batch.is_transactional,
            is_control=batch.is_control, base_offset=batch.base_offset,
        )  # fmt: skip

    def _thin_offsets(self, batch: Batch, record: RawRecord, key: bytes) -> None:
        if batch.producer_id != -1:
            self._producers.add(batch.producer_id)
            self._newest.pop(key, None)
        elif record.value is None:
            self._newest.pop(key, None)
        else:
            before = self._newest.get(key)
            if before is not None:
                del self._kept[before]
            self._newest[key] = record.offset

    def _thin_metadata(self, offset: int) -> None:
        record = self._kept[offset].record
        assert isinstance(record, Record)
        said = None
        if record.value is not None:
            said = classic_snapshot(record.value)._replace(generation=0)
            if record.value.members:
                said = said._replace(state_since_ms=None)
        if said is not None and said == self._last_said:
            del self._kept[offset]
        self._last_said = said
