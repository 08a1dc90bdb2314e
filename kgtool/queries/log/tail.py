"""Counts what happens to offsets and groups, from the tail of ``__consumer_offsets`` (KIP-496).

The four numbers that brokers have as JMX metrics of their own, for whoever can't reach those:
commits, expirations, deletions and completed rebalances. As the ``metrics`` table of the analysis
counts them: a tombstone is an expiration where its offset was due, and a deletion where it was not,
its group did not end in the same write, and its topic is still there (brokers count OffsetDelete
only).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from kgtool.client.cluster import Cluster, fetch_topic
from kgtool.client.ops import Operation
from kgtool.errors import DecodeError, KgError
from kgtool.model import ItemError, Target, TopicPartition
from kgtool.queries.cluster.offsets_partition import TOPIC
from kgtool.queries.log.fetch import Range, copy_partitions
from kgtool.queries.offsets.list_offsets import LogRange, log_ranges
from kgtool.records import Record, decode
from kgtool.records.batch import batches, read_records
from kgtool.records.types import GROUP_METADATA, GROUP_TYPES, OFFSET_TYPES

COMMITS, EXPIRATIONS, DELETIONS, REBALANCES = (
    "offset_commits",
    "offset_expirations",
    "offset_deletions",
    "group_completed_rebalances",
)


class _Tombstone(NamedTuple):
    group: str
    at: TopicPartition
    written_ms: int


ExpiresAt = Callable[[str, TopicPartition], "int | None"]
"""Returns when an offset was going to expire, as known before; None: never, or not known."""


class LogTail:
    """How far the log was read, and what was counted since the first look, which counts nothing."""

    def __init__(self) -> None:
        self.counts = Counter(dict.fromkeys((COMMITS, EXPIRATIONS, DELETIONS, REBALANCES), 0))
        self.is_begun = False
        self._next: dict[int, int] = {}
        self._generations: dict[str, int] = {}
        self._committed: set[tuple[str, TopicPartition]] = set()
        """Committed since the last look: not due, whatever was known of them before."""
        self._tombstones: list[_Tombstone] = []
        self._ended: set[tuple[str, int]] = set()

    def advance(self, cluster: Cluster, expires_at: ExpiresAt) -> Operation[list[ItemError]]:
        """Read what is new; return why a partition could not be read.

        :param expires_at: as of the last look.
        """
        info = yield from fetch_topic(cluster, TOPIC)
        if info.error is not None:
            return [ItemError.of(info.error, Target(topic=TOPIC))]
        led = [TopicPartition(TOPIC, n) for n, leader in info.leaders.items() if leader >= 0]
        ranges: dict[TopicPartition, Range] = {}
        failed: dict[TopicPartition, KgError] = {}
        for at, log in (yield from log_ranges(cluster, led)).items():
            if not isinstance(log, LogRange):
                failed[at] = log
            elif not self.is_begun or self._next.get(at.partition, 0) > log.end.offset:
                self._next[at.partition] = log.end.offset  # where it begins, or was truncated
            elif self._next.setdefault(at.partition, log.start.offset) < log.end.offset:
                ranges[at] = Range(max(self._next[at.partition], log.start.offset), log.end.offset)
        parts: dict[TopicPartition, list[bytes]] = {at: [] for at in ranges}
        sinks = partial(_keep, parts)
        outcome = (yield from copy_partitions(cluster, ranges, sinks)) if ranges else {}
        failed.update({at: error for at, error in outcome.items() if error is not None})
        for at, wanted in ranges.items():
            if at not in failed:
                self.feed(b"".join(parts[at]))
                self._next[at.partition] = wanted.end
        self.is_begun = self.is_begun or bool(led)
        names = {each.at.topic for each in self._tombstones}
        there = (yield from _existing(cluster, names)) if names else set()
        self.judge(expires_at, there)
        return [ItemError.of(error, Target(None, *at)) for at, error in failed.items()]

    def feed(self, data: bytes) -> None:
        """Count the records of whole batches; what can't be decoded is passed over."""
        for batch in batches(data):
            if batch.is_control:
                continue
            for raw in read_records(data, batch):
                number = int.from_bytes((raw.key or b"")[:2], "big")
                if number in OFFSET_TYPES or number in GROUP_TYPES:
                    try:
                        record = decode(raw.key or b"", raw.value)
                    except DecodeError:
                        continue
                    if isinstance(record, Record):
                        self._take(record, raw.timestamp_ms)

    def _take(self, record: Record, at_ms: int) -> None:
        group = record.key.group
        if record.type in OFFSET_TYPES:
            at = TopicPartition(record.key.topic, record.key.partition)
            if record.value is None:
                self._tombstones.append(_Tombstone(group, at, at_ms))
            else:
                self.counts[COMMITS] += 1
                self._committed.add((group, at))
        elif record.value is None:
            self._ended.add((group, at_ms))
            self._generations.pop(group, None)
        elif record.type == GROUP_METADATA:
            before = self._generations.get(group)
            self._generations[group] = record.value.generation
            # The same generation again is a static member that came back.
            if record.value.members and before != record.value.generation:
                self.counts[REBALANCES] += 1

    def judge(self, expires_at: ExpiresAt, topics: set[str]) -> None:
        """Tell expirations from deletions.

        :param topics: those that still exist.
        """
        for group, at, written_ms in self._tombstones:
            due = None if (group, at) in self._committed else expires_at(group, at)
            if due is not None and due <= written_ms:
                self.counts[EXPIRATIONS] += 1
            elif (group, written_ms) not in self._ended and at.topic in topics:
                self.counts[DELETIONS] += 1
        self._tombstones, self._ended = [], set()
        self._committed.clear()


def _keep(
    parts: Mapping[TopicPartition, list[bytes]], at: TopicPartition, _: int, data: bytes
) -> None:
    parts[at].append(bytes(data))


def _existing(cluster: Cluster, names: set[str]) -> Operation[set[str]]:
    found: set[str] = set()
    for name in sorted(names):
        if (yield from fetch_topic(cluster, name)).error is None:
            found.add(name)
    return found
