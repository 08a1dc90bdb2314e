"""The state of some groups after a stretch of ``__consumer_offsets``, read in log order.

Only the newest record of each key is kept: the newest commit of each partition, the newest
metadata of each group, the commits of open transactions. So memory is bounded by what the groups
have, not by how often they commit. The log need not be read from its beginning: ``None`` means
that a stretch has no record of something, so that it is older.

The members and the state of a group come from DescribeGroups, never from here
(``kgtool.retention.history`` replays whole logs instead).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.errors import DecodeError, KgError
from kgtool.model import TopicPartition
from kgtool.queries.cluster.offsets_partition import TOPIC
from kgtool.queries.log.fetch import Range, copy_partitions
from kgtool.queries.offsets.list_offsets import log_ranges
from kgtool.records import Record, control, decode
from kgtool.records.batch import Batch, RawRecord, batches_containing, read_records
from kgtool.records.types import (
    CONSUMER_MEMBER,
    GROUP_METADATA,
    GROUP_TYPES,
    OFFSET_TYPES,
    REGULAR_EXPRESSION,
    STREAMS_MEMBER,
    STREAMS_TOPOLOGY,
)
from kgtool.retention.groups import Group, read_detail
from kgtool.retention.rules import CommittedOffset, GroupSnapshot, RuleSet

SEARCHED_GROUPS = 8
"""Up to this many groups are searched for as bytes, which skips nearly all of a log undecoded."""

_PROTECTING_TYPES = (
    GROUP_METADATA,
    CONSUMER_MEMBER,
    REGULAR_EXPRESSION,
    STREAMS_MEMBER,
    STREAMS_TOPOLOGY,
)
"""Records that change which offsets are protected: of a classic group, and the members, regular
expressions and topologies of the others."""

Feed = Callable[[bytes], None]
"""Takes whole batches; raises the reason why the partition can't be read."""


class _Raw(NamedTuple):
    position: int
    written_ms: int
    key: bytes
    value: bytes | None


class GroupLog:
    """Takes record batches of one partition; answers questions about ``groups``.

    :param wants: the topics whose offsets are kept; default: all.
    """

    def __init__(
        self, rules: RuleSet, groups: Iterable[str], wants: Callable[[str], bool] | None = None
    ) -> None:
        self._rules = rules
        self._wants = wants
        self._names = {name.encode("utf-8", "surrogateescape"): name for name in groups}
        few = self._names if len(self._names) <= SEARCHED_GROUPS else ()
        self._needles = [len(name).to_bytes(2, "big") + name for name in few]
        self._latest: dict[bytes, _Raw] = {}
        self._pending: dict[int, dict[bytes, _Raw]] = {}
        self._freed: dict[bytes, int] = {}
        self._metadata: dict[str, _Raw] = {}
        self._classic: dict[str, Group] = {}
        self._sure: set[str] = set()
        self._epoch = -1
        self._regexes: dict[bytes, _Raw] = {}
        self._changed: dict[str, int] = {}
        self._touched: dict[str, int] = {}
        self._ended: set[str] = set()
        self.is_doubtful = False
        """Whether what came before the stretch may matter more than what is in it."""

    # --- reading ---------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take whole batches, in the order of the log without gaps.

        :raises DecodeError: they can't be read.
        """
        for batch in batches_containing(data, self._needles):
            self.reach(batch.leader_epoch(data))
            if batch.is_control:
                self._end_transaction(data, batch)
                continue
            for record in read_records(data, batch):
                self._take(batch, record)

    def reach(self, epoch: int) -> None:
        """Apply the epoch of the partition's leader: a newer one has loaded the partition."""
        if epoch > self._epoch >= 0:
            for group in self._classic.values():
                group.load()
            self._sure.update(self._classic)
        self._epoch = max(epoch, self._epoch)

    def _take(self, batch: Batch, record: RawRecord) -> None:
        key = record.key
        if key is None or len(key) < 4:
            return
        group = self._names.get(key[4 : 4 + int.from_bytes(key[2:4], "big")])
        if group is None:
            return
        number = int.from_bytes(key[:2], "big")
        # The Scala coordinator compares where batches begin, the new one where records are.
        position = record.offset if self._rules.new_coordinator else batch.base_offset
        raw = _Raw(position, record.timestamp_ms, key, record.value)
        if number in OFFSET_TYPES:
            if self._wants is None or self._wants(_parts(key[2:])[1]):
                self._take_offset(batch, raw)
            if group in self._ended and raw.value is not None:
                # It revives the group, which restarts the expiry clock of its old offsets.
                self._ended.discard(group)
                self._changed[group] = record.timestamp_ms
            return
        self._take_of_group(group, number, raw)

    def _take_of_group(self, group: str, number: int, raw: _Raw) -> None:
        """Take one of the group's own records: when a member joins, leaves or changes."""
        self._touched[group] = max(raw.written_ms, self._touched.get(group, 0))
        if number not in _PROTECTING_TYPES and (number not in GROUP_TYPES or raw.value is not None):
            return
        self._changed[group] = raw.written_ms
        if raw.value is not None:
            self._ended.discard(group)
        elif number in GROUP_TYPES:  # others' tombstones come with it, in any order
            self._ended.add(group)
        if number == GROUP_METADATA:
            self._metadata[group] = raw
            self._take_metadata(group, raw)
        elif number == REGULAR_EXPRESSION:
            self._regexes[raw.key] = raw

    def _take_metadata(self, name: str, raw: _Raw) -> None:
        group = self._classic.setdefault(name, Group(self._rules))
        before = group.generation if group.known else None
        try:
            record = decode(raw.key, raw.value)
        except DecodeError:  # whoever asks for ``metadata`` is told
            del self._classic[name]
            return
        assert isinstance(record, Record)
        group.apply_record(record.type, read_detail(record), tombstone=raw.value is None)
        if before is not None and group.generation != before:
            self._sure.add(name)

    def _take_offset(self, batch: Batch, raw: _Raw) -> None:
        key = raw.key[2:]  # an offset stored under type 0 is the same as one under type 1
        new = self._rules.new_coordinator
        in_transaction = batch.producer_id != -1 if new else batch.is_transactional
        if in_transaction and raw.value is not None:
            self._pending.setdefault(batch.producer_id, {})[key] = raw
            return
        if in_transaction and not new:  # it removes what the transaction itself has written
            self._pending.get(batch.producer_id, {}).pop(key, None)
            return
        self._put(key, raw, raw.written_ms)
        if raw.value is None and self._rules.tombstone_drops_pending:
            for pending in self._pending.values():
                pending.pop(key, None)

    def _end_transaction(self, data: bytes, batch: Batch) -> None:
        # A COMMIT that overwrites even newer offsets may have done so with some from before this
        # stretch.
        self.is_doubtful |= self._rules.commit_always_replaces
        held = self._pending.pop(batch.producer_id, None)
        if not held:
            return
        for record in read_records(data, batch):
            marker = control.decode_marker(record.key or b"", record.value)
            for key, raw in held.items():
                if marker.type == control.COMMIT:
                    self._commit(key, raw, record.timestamp_ms)
                elif self._rules.pending_protects_offset:
                    self._freed[key] = record.timestamp_ms

    def _commit(self, key: bytes, raw: _Raw, now_ms: int) -> None:
        self._freed[key] = now_ms
        present = self._latest.get(key)
        # A tombstone leaves nothing behind that could be newer.
        newest = -1 if present is None or present.value is None else present.position
        if raw.position > newest or self._rules.commit_always_replaces:
            self._put(key, raw, now_ms)

    def _put(self, key: bytes, raw: _Raw, _now_ms: int) -> None:
        """Take a record of an offset when it is in effect: a transaction's from its marker on."""
        self._latest[key] = raw

    # --- questions -------------------------------------------------------------------------

    def commit(self, group: str, partition: TopicPartition) -> CommittedOffset | None:
        """Return the newest commit of an offset; None: not in what was read, or deleted.

        :raises DecodeError: its value is of an unknown version.
        """
        raw = self._latest.get(offset_key(group, partition))
        record = None if raw is None else decode(raw.key, raw.value)
        if not isinstance(record, Record) or record.value is None:
            return None
        own = record.value.expire_timestamp if record.version == 1 else None
        return CommittedOffset(record.value.commit_timestamp, own)

    def is_deleted(self, group: str, partition: TopicPartition) -> bool:
        """Whether the newest record of an offset is a tombstone."""
        raw = self._latest.get(offset_key(group, partition))
        return raw is not None and raw.value is None

    def is_pending(self, group: str, partition: TopicPartition) -> bool:
        """Whether an open transaction holds a commit for an offset."""
        key = offset_key(group, partition)
        return any(key in held for held in self._pending.values())

    def pending(self, group: str) -> list[TopicPartition]:
        """Return the partitions that open transactions hold commits for."""
        prefix = _text(group)
        keys = {key for held in self._pending.values() for key in held if key.startswith(prefix)}
        return sorted(TopicPartition(*_parts(key)[1:]) for key in keys)

    def holders(self, group: str) -> frozenset[int]:
        """Return the producers whose open transactions hold commits of a group."""
        prefix = _text(group)
        return frozenset(
            producer
            for producer, held in self._pending.items()
            if any(key.startswith(prefix) for key in held)
        )

    def topic_id(self, group: str, partition: TopicPartition) -> UUID | None:
        """Return the id of the topic that an offset in effect was committed for; None where the
        record has none (before v4, and in transactions)."""
        value = _value(self._latest.get(offset_key(group, partition)))
        found: UUID | None = getattr(value, "topic_id", None)
        return found if found is not None and found.int else None

    def metadata(self, group: str) -> Any:
        """Return the newest GroupMetadataValue of a classic group.

        :raises DecodeError: it can't be read.
        """
        return _value(self._metadata.get(group))

    def classic(self, group: str, *, is_whole: bool) -> GroupSnapshot | None:
        """Return a classic group as its coordinator has it in memory; None: what was read does not
        tell, as the same generation may have been written with other topics before.

        :param is_whole: the log was read from its beginning.
        """
        found = self._classic.get(group)
        if found is None or not (is_whole or group in self._sure):
            return None
        return found.snapshot()

    def regex_topics(self, group: str, regex: str) -> frozenset[str] | None:
        """Return the topics that a regular expression was resolved to (KIP-848)."""
        raw = self._regexes.get(REGULAR_EXPRESSION.to_bytes(2, "big") + _text(group) + _text(regex))
        if raw is None:
            return None
        value = _value(raw)
        return frozenset() if value is None else frozenset(value.topics)

    def topics(self) -> dict[str, Counter[str]]:
        """Count by group the offsets of each topic: those in effect, and those still pending."""
        keys = {key for key, raw in self._latest.items() if raw.value is not None}
        found: dict[str, Counter[str]] = {}
        for key in keys.union(*self._pending.values()):
            group, topic, _ = _parts(key)
            found.setdefault(group, Counter())[topic] += 1
        return found

    def changed_ms(self, group: str) -> int | None:
        """Return when the group's own records last changed; None: not in what was read."""
        return self._touched.get(group)

    def free_since_ms(self, group: str, partition: TopicPartition) -> int:
        """Return when an offset last lost something that could have protected it."""
        key = offset_key(group, partition)
        raw = self._latest.get(key)
        times = [self._freed.get(key), self._changed.get(group), raw.written_ms if raw else None]
        return max((time for time in times if time is not None), default=0)


class ScannedPart(NamedTuple):
    """What was read of a partition: up to which offset, since when (None: all of it), and from
    which offset on."""

    end: int
    before_ms: int | None
    begin: int = 0


def scan(
    cluster: Cluster,
    feeds: Mapping[int, Feed],
    since_ms: int | None = None,
    *,
    begins: Mapping[int, int] | None = None,
    small: int = 0,
) -> Operation[dict[int, ScannedPart | KgError]]:
    """Read partitions of ``__consumer_offsets`` to their ends; each may fail on its own.

    :param feeds: what takes the batches of each partition.
    :param since_ms: where reading begins; None: at the beginning.
    :param begins: the offsets where it begins instead, for some of the partitions.
    :param small: partitions with at most this many records are read from their beginning anyway.
    """
    partitions = [TopicPartition(TOPIC, number) for number in feeds]
    logs = yield from log_ranges(cluster, partitions, since_ms)
    ranges: dict[TopicPartition, Range] = {}
    found: dict[int, ScannedPart | KgError] = {}
    for partition, log in logs.items():
        number = partition.partition
        if isinstance(log, KgError):
            found[number] = log
            continue
        start, end = log.start.offset, log.end.offset
        begin = start
        if begins and number in begins:
            begin = begins[number]
        elif since_ms is not None and end - start > small:
            begin = log.at_time.offset if log.at_time is not None else end
        ranges[partition] = Range(min(max(begin, start), end), end)
        since = None if begin <= start else since_ms
        found[number] = ScannedPart(end, since, ranges[partition].start)

    def take(partition: TopicPartition, _offset: int, data: bytes) -> None:
        number = partition.partition
        if not isinstance(found[number], KgError):
            try:
                feeds[number](data)
            except KgError as error:
                found[number] = error

    outcome = yield from copy_partitions(cluster, ranges, take)
    for partition, problem in outcome.items():
        if problem is not None and not isinstance(found[partition.partition], KgError):
            found[partition.partition] = problem
    return found


def offset_key(group: str, partition: TopicPartition) -> bytes:
    """Return the key of an offset, without its version."""
    return _text(group) + _text(partition.topic) + partition.partition.to_bytes(4, "big")


def _value(raw: _Raw | None) -> Any:
    record = None if raw is None else decode(raw.key, raw.value)
    return record.value if isinstance(record, Record) else None


def _parts(key: bytes) -> tuple[str, str, int]:
    """Read the key of an offset, without its version: group, topic and partition."""
    names, at = [], 0
    for _ in range(2):
        end = at + 2 + int.from_bytes(key[at : at + 2], "big")
        names.append(key[at + 2 : end].decode("utf-8", "surrogateescape"))
        at = end
    return names[0], names[1], int.from_bytes(key[at : at + 4], "big")


def _text(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    return len(raw).to_bytes(2, "big") + raw
