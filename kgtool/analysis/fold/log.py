"""One partition of ``__consumer_offsets`` as arrays, keys and names as numbers."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kgtool.analysis import schema
from kgtool.analysis.decode.blobs import Kinds, empty, release
from kgtool.analysis.fold.arrays import (
    MAX,
    NONE,
    Bools,
    Ints,
    Runs,
    bools,
    codes,
    encode_texts,
    ints,
    lean,
)
from kgtool.analysis.fold.group_life import LOAD, GroupEvent
from kgtool.records.types import GROUP_METADATA, GROUP_TYPES
from kgtool.retention.groups import GroupDetail

_NUMBERS = (
    "log_offset",
    "timestamp_ms",
    "producer_id",
    "producer_epoch",
    "topic_partition",
    "offset",
    "commit_timestamp_ms",
    "expire_timestamp_ms",
    "bytes",
    "commits",
    "first_ms",
)
SUCCESSOR_DROPPED = "successor_dropped"
"""A column of the rows that ``compact`` kept."""


class OffsetRecords(NamedTuple):
    """Commits and tombstones in log order; one array entry each."""

    log_offset: Ints
    at_ms: Ints
    key: Ints
    """Group, topic and partition: an index into ``Log.keys``."""
    tombstone: Bools
    producer_id: Ints
    """NONE: an ordinary commit."""
    producer_epoch: Ints
    offset: Ints
    commit_ms: Ints
    expire_ms: Ints
    topic_id: Ints
    bytes: Ints
    commits: Ints
    """Records that the row stands for: the decoder drops superseded ones."""
    first_ms: Ints
    creates: Bools
    successor_dropped: Bools
    """``compact`` has dropped the key's next commit, which came soon."""


class OffsetKeys(NamedTuple):
    """Group, topic and partition of each key; the last entry is of no key."""

    group: Ints
    topic: Ints
    partition: Ints


class GroupRecords(NamedTuple):
    """The groups' own records in log order."""

    log_offset: Ints
    at_ms: Ints
    group: Ints
    key_type: Ints
    tombstone: Bools
    bytes: Ints
    generation: Ints
    members: Ints
    key: Ints
    """A number of the record's key."""
    is_again: Bools
    """Of a classic group with static members: whether the record was written so long after the
    state began that a static member may have come back with other topics."""
    detail: Any
    """Arrow structs."""

    def events(self, rows: Any = slice(None)) -> list[GroupEvent]:
        """The records of these rows for ``GroupLife``."""
        columns = (self.at_ms, self.log_offset, self.key_type, self.tombstone)
        values = [column[rows].tolist() for column in columns]
        found = self.detail.take(np.arange(len(self.group))[rows]).to_pylist()
        detail = [GroupDetail(**each) for each in found]
        return list(map(GroupEvent, *values, detail))


class Loads(NamedTuple):
    """Loads of the partition by a coordinator that change a group, by group; one array entry each.

    ``log_offset`` is that just before the first record of the new leader epoch, ``at_ms`` that
    record's time.
    """

    group: Ints
    log_offset: Ints
    at_ms: Ints

    def events(self) -> list[GroupEvent]:
        """Those loads for ``GroupLife``."""
        return [
            GroupEvent(at_ms, place, LOAD)
            for place, at_ms in zip(self.log_offset.tolist(), self.at_ms.tolist(), strict=True)
        ]


class Markers(NamedTuple):
    """Ends of transactions in log order."""

    log_offset: Ints
    at_ms: Ints
    producer_id: Ints
    committed: Bools


class Log:
    """The decoded records of one partition, which come in any order."""

    def __init__(self, kinds: Kinds, lost: int = 0, *, overlapping: bool) -> None:
        """Take the tables out of ``kinds``, which frees them.

        :param lost: ``missing_data`` bits, besides those of the inputs.

        :param overlapping: whether the same record may be there more than once.
        """
        self._overlapping, self._lost = overlapping, lost
        self.notes = _rows(kinds, schema.KIND_QUALITY)
        self.counts = _rows(kinds, schema.KIND_COUNT)
        self.epochs = _rows(kinds, schema.KIND_EPOCH)
        offsets = _in_order(kinds, schema.KIND_OFFSET, overlapping)
        own = _in_order(kinds, schema.KIND_GROUP, overlapping)
        both = [*offsets["group"].chunks, *own["group"].chunks]
        group, self.groups = encode_texts(pa.chunked_array(both))
        size = len(offsets)
        columns = {name: offsets[name] for name in offsets.column_names}
        del offsets, both
        self.offsets, self.keys = self._offsets(columns, group[:size])
        self.group_records = _group_records(own, group[size:])
        markers = _in_order(kinds, schema.KIND_MARKER, overlapping)
        self.markers = Markers(
            ints(markers["log_offset"]),
            ints(markers["timestamp_ms"]),
            ints(markers["producer_id"]),
            bools(markers["committed"]),
        )

    def _offsets(self, rows: dict[str, Any], group: Ints) -> tuple[OffsetRecords, OffsetKeys]:
        numbers = {name: lean(ints(rows.pop(name))) for name in _NUMBERS}
        flags = {name: bools(rows.pop(name)) for name in ("tombstone", "creates_group")}
        no = np.zeros_like(flags["tombstone"])
        successor_dropped = bools(rows.pop(SUCCESSOR_DROPPED)) if SUCCESSOR_DROPPED in rows else no
        release()
        topic, self.topics = encode_texts(rows.pop("topic"))
        topic_id, self.topic_ids = encode_texts(rows.pop("topic_id"))
        partition = numbers.pop("topic_partition")
        key = codes(group, topic, partition)
        first = np.zeros(int(key.max(initial=-1)) + 1, dtype=np.int64)
        first[key[::-1]] = np.arange(len(key))[::-1]
        at_ms = numbers["timestamp_ms"]
        first_ms = first_times(numbers["first_ms"], at_ms)
        found = OffsetRecords(
            numbers["log_offset"],
            at_ms,
            key,
            flags["tombstone"],
            numbers["producer_id"],
            numbers["producer_epoch"],
            numbers["offset"],
            numbers["commit_timestamp_ms"],
            numbers["expire_timestamp_ms"],
            lean(topic_id),
            numbers["bytes"],
            numbers["commits"],
            at_ms if np.array_equal(first_ms, at_ms) else first_ms,
            flags["creates_group"],
            successor_dropped,
        )
        keys = (group[first], -1), (topic[first], -1), (partition[first], NONE)
        return found, OffsetKeys(*(np.append(*each) for each in keys))

    @property
    def size(self) -> int:
        """Number of groups."""
        return len(self.groups)

    @cached_property
    def missing(self) -> int:
        """``missing_data`` bits of this partition's inputs."""
        missing = self._lost
        for bits in pc.unique(self.notes["missing"]).to_pylist():
            missing |= bits or 0
        return missing

    @cached_property
    def moves(self) -> tuple[Ints, Ints]:
        """Log offset and time of the first record of each leader epoch but the first."""
        rows = self.epochs
        epoch, place, at_ms = (
            ints(rows[each]) for each in ("leader_epoch", "log_offset", "timestamp_ms")
        )
        order = np.lexsort((place, epoch))
        _, first = np.unique(epoch[order], return_index=True)
        some = order[first[1:]]
        return place[some], at_ms[some]

    @property
    def moved_ms(self) -> int:
        """Time of the last move of the coordinator to another broker, or NONE."""
        _, at_ms = self.moves
        return int(at_ms[-1]) if len(at_ms) else NONE

    def loads(self, *, of_empty: bool) -> Loads:
        """The loads that change groups: those written with other topics in one generation, and

        :param of_empty: Empty ones, whose date is lost.
        """
        records, (place, at_ms) = self.group_records, self.moves
        some = (
            np.flatnonzero(records.key_type == GROUP_METADATA) if len(place) else np.zeros(0, int)
        )
        some = some[np.argsort(records.group[some], kind="stable")]
        runs, alive = Runs(records.group[some]), ~records.tombstone[some]
        generation, members = records.generation[some], np.where(alive, records.members[some], 0)
        again = (runs.lag(generation, NONE) == generation) & (runs.lag(members, 0) > 0)
        changed = (again & (members > 0)) | (of_empty & alive & (members == 0))
        here = records.log_offset[some]
        load = np.searchsorted(place, here, side="right")
        at = np.minimum(load, len(place) - 1)
        changed &= (load < len(place)) & (place[at] <= runs.lead(here, MAX))
        found = at[changed]
        return Loads(records.group[some][changed], place[found] - 1, at_ms[found])

    @cached_property
    def read(self) -> pa.Table:
        """The chunks of files that were read, a row each."""
        return self.notes.filter(pc.is_null(self.notes["reason"]))

    @property
    def size_in_log(self) -> tuple[int, int]:
        """Bytes and records; overlapping chunks, as of replicas, count once."""
        names = ("first_offset", "last_offset", "bytes", "records")
        first, last, size, records = (ints(self.read[name]) for name in names)
        share = np.ones(len(first))
        if self._overlapping:
            order = np.lexsort((last, first))
            order = order[first[order] != NONE]
            start, end = first[order], last[order] + 1
            behind = np.maximum.accumulate(np.append(0, end))[:-1]
            share[order] = np.maximum(end - np.maximum(start, behind), 0) / (end - start)
        some = records > 0
        return round((share * size)[some].sum()), round((share * records)[some].sum())

    @cached_property
    def is_complete(self) -> bool:
        """Whether every record since offset 0 was read."""
        chunks = zip(
            *(self.read[name].to_pylist() for name in ("first_offset", "last_offset", "records")),
            strict=True,
        )
        known = sorted(chunk for chunk in chunks if chunk[0] is not None)
        if not self._overlapping:
            count = sum(records for _, _, records in known)
            return bool(known) and known[0][0] == 0 and count == max(at for _, at, _ in known) + 1
        behind = 0
        for first, last, records in known:
            if first <= behind and records == last - first + 1:
                behind = max(behind, last + 1)
        return bool(known) and behind == max(at for _, at, _ in known) + 1


AGAIN_MS = 1_000
"""The first record of a generation comes so soon after the state that it is in."""


def first_times(first_ms: Ints, at_ms: Ints) -> Ints:
    """Times of the first commits that rows stand for; by default the rows' own."""
    return np.where(first_ms == NONE, at_ms, first_ms) if (first_ms == NONE).any() else first_ms


def _rows(kinds: Kinds, kind: str) -> pa.Table:
    return kinds.pop(kind) if kind in kinds else empty(kind)


def _in_order(kinds: Kinds, kind: str, overlapping: bool) -> pa.Table:
    rows = _rows(kinds, kind)
    place = ints(rows["log_offset"])
    if overlapping:
        _, first = np.unique(place, return_index=True)
        return rows.take(pa.array(first)) if len(first) < len(place) or _is_mixed(place) else rows
    return rows.take(pa.array(np.argsort(place, kind="stable"))) if _is_mixed(place) else rows


def _is_mixed(place: Ints) -> bool:
    return bool((place[1:] < place[:-1]).any())


def _group_records(rows: pa.Table, group: Ints) -> GroupRecords:
    detail = rows["detail"].combine_chunks()
    key_type = ints(rows["key_type"])
    member, _ = encode_texts(detail.field("member"))
    regex, _ = encode_texts(detail.field("regex"))
    since_ms = np.maximum(ints(detail.field("state_since_ms")), 0)  # -2^63: none, so long ago
    return GroupRecords(
        ints(rows["log_offset"]),
        ints(rows["timestamp_ms"]),
        group,
        key_type,
        bools(rows["tombstone"]),
        ints(rows["bytes"]),
        ints(detail.field("generation")),
        ints(detail.field("members")),
        codes(group, key_type, member, regex),
        bools(detail.field("is_static")) & (ints(rows["timestamp_ms"]) - since_ms > AGAIN_MS),
        detail,
    )


def ends_group(records: GroupRecords) -> Bools:
    """Which records are tombstones of groups."""
    ends = np.isin(records.key_type, GROUP_TYPES)
    return np.asarray(records.tombstone & ends, dtype=np.bool_)
