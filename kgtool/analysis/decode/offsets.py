"""Decode many OffsetCommit keys and values at once (numpy).

Key types 0 and 1 share one layout, and so do the values: OffsetCommitValue 0 to 4, whatever the
key type, as brokers before 4.1 read them.
"""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis.decode.vector_reader import Bools, Ints, View

NEWEST_VALUE = 4


class OffsetKeys(NamedTuple):
    """Distinct (group, topic, partition) of many keys."""

    code: Ints
    """One entry a record: which distinct key it has."""
    group_code: Ints
    """One entry a distinct key: an index into ``groups``."""
    groups: Any
    """pyarrow string array."""
    topic: Any
    """pyarrow string array, one entry a distinct key."""
    topic_partition: Ints
    """One entry a distinct key."""


class OffsetValues(NamedTuple):
    """OffsetCommitValues, one array entry each."""

    valid: Bools
    """False where the value is damaged or of a version that is not known."""
    version: Ints
    offset: Ints
    commit_timestamp_ms: Ints
    expire_timestamp_ms: Ints
    has_expire: Bools
    """The value is a v1, whose expire timestamp may still be -1."""
    topic_id_at: Ints
    """Position of the 16 bytes, -1 where there is none."""

    def only(self, which: Bools) -> OffsetValues:
        """Those for which ``which`` is set."""
        columns: list[Any] = [column[which] for column in self]
        return OffsetValues(*columns)


def sound_keys(view: View, at: Ints, size: Ints) -> Bools:
    """Which keys hold a group, a topic and a partition and nothing more."""
    group_size = view.i16(at + 2)
    topic_at = at + 4 + np.maximum(group_size, 0)
    topic_size = view.i16(topic_at)
    whole = 10 + group_size + topic_size
    sound: Bools = (size >= 10) & (group_size >= 0) & (topic_size >= 0) & (whole == size)
    return sound


def read_keys(view: View, at: Ints, size: Ints) -> OffsetKeys:
    """The distinct keys among sound ones."""
    # The two bytes of the key type are left out: a commit under type 0 is the same offset.
    code, first = distinct(view, at + 2, size - 2)
    at = at[first]
    group_size = view.i16(at + 2)
    topic_at = at + 4 + group_size
    topic_size = view.i16(topic_at)
    groups = strings(view, at + 4, group_size).dictionary_encode()
    return OffsetKeys(
        code=code,
        group_code=groups.indices.to_numpy().astype(np.int64),
        groups=groups.dictionary,
        topic=strings(view, topic_at + 2, topic_size),
        topic_partition=view.i32(topic_at + 2 + topic_size),
    )


def distinct(view: View, at: Ints, size: Ints) -> tuple[Ints, Ints]:
    """(code of each byte range, first place of each code): equal bytes, equal code."""
    codes = _ranges(view, at, size).dictionary_encode()
    code = codes.indices.to_numpy().astype(np.int64)
    first = np.zeros(len(codes.dictionary), dtype=np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    return code, first


def strings(view: View, at: Ints, size: Ints) -> Any:
    """UTF-8 strings of ``size`` bytes at ``at`` as an Arrow array; bad bytes become U+FFFD."""
    array = _ranges(view, at, size)
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        raw = array.to_pylist()
        return pa.array([value.decode(errors="replace") for value in raw], pa.string())


def _ranges(view: View, at: Ints, size: Ints) -> Any:
    """The bytes of each range, which must not overlap, as an Arrow array."""
    order = np.argsort(at, kind="stable")
    bounds = np.append(np.stack((at, at + size), axis=1)[order], view.size)
    # Without a copy: every other value is what lies between two ranges.
    data = [None, pa.py_buffer(bounds), pa.py_buffer(view.bytes)]
    array = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 2 * len(at), data)
    place = np.empty_like(at)
    place[order] = 2 * np.arange(len(at))
    return array.take(pa.array(place))


def read_values(view: View, at: Ints, size: Ints) -> OffsetValues:
    """OffsetCommitValues of any version, from non-null values."""
    version = np.where(size >= 2, view.i16(at), -1)
    flexible = version == NEWEST_VALUE
    metadata_at = at + np.where(version >= 3, 14, 10)
    classic_size = view.i16(metadata_at)
    compact_size, compact_behind = view.unsigned_varint(metadata_at)
    metadata_size = np.where(flexible, compact_size - 1, classic_size)
    sound = (metadata_size >= 0) & (metadata_size <= size)
    behind = np.where(flexible, compact_behind, metadata_at + 2) + np.where(sound, metadata_size, 0)
    end = behind + np.where(version == 1, 16, 8)
    topic_id_at, tags_end = _topic_id(view, end, at + size, flexible & sound)
    known = (version >= 0) & (version <= NEWEST_VALUE)
    return OffsetValues(
        valid=known & sound & (np.where(flexible, tags_end, end) <= at + size),
        version=version,
        offset=view.i64(at + 2),
        commit_timestamp_ms=view.i64(behind),
        expire_timestamp_ms=view.i64(behind + 8),
        has_expire=version == 1,
        topic_id_at=topic_id_at,
    )


def _topic_id(view: View, at: Ints, ends: Ints, tagged: Bools) -> tuple[Ints, Ints]:
    """Position of tag 0 among the tagged fields at ``at`` (-1: none), and where they end."""
    found = np.full(len(at), -1, dtype=np.int64)
    count, behind = view.unsigned_varint(at)
    running = np.flatnonzero(tagged & (count > 0))
    while running.size:
        tag, place = view.unsigned_varint(behind[running])
        size, place = view.unsigned_varint(place)
        fits = (size >= 0) & (place + np.clip(size, 0, ends[running]) <= ends[running])
        is_id = (tag == 0) & (size == 16) & fits
        found[running[is_id]] = place[is_id]
        # What does not fit ends beyond the value, which read_values refuses.
        behind[running] = np.where(fits, place + size, ends[running] + 1)
        count[running] -= 1
        running = running[fits & (count[running] > 0)]
    return found, behind


def topic_ids(view: View, at: Ints) -> Any:
    """Kafka's spelling (unpadded URL-safe base64) of the ids at these positions; null for -1."""
    present = at >= 0
    ids = _ranges(view, np.maximum(at, 0), np.where(present, 16, 0)).dictionary_encode()
    texts = [
        base64.urlsafe_b64encode(raw).decode().rstrip("=") for raw in ids.dictionary.to_pylist()
    ]
    return pa.array(texts, pa.string()).take(pa.array(ids.indices.to_numpy(), mask=~present))
