"""Offset commits and their tombstones (numpy): the rows of ``schema.RECORDS`` of a chunk.

A key's commits supersede each other, so of a run of ordinary commits in one chunk only the last
is passed on, with the number of records it stands for: the rows are about as many as the live
offsets, not as the records. A run ends at a tombstone, a transactional commit, the group's own
tombstone, and at a check that a what-if plays.

Key types 0 and 1 share one layout, and so do the values: OffsetCommitValue 0 to 4, whatever the
key type, as brokers before 4.1 read them.
"""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from kgtool.analysis.decode.batches import LogRecords
from kgtool.analysis.decode.rows import DecodeOptions
from kgtool.analysis.decode.segments import Notes
from kgtool.analysis.decode.vector_reader import Bools, Ints, View

NEWEST_VALUE = 4
REASON_KEY = "malformed key"
REASON_VALUE = "malformed value"
REASON_UNKNOWN_VALUE = "unknown offset commit value version {}"


class OffsetKeys(NamedTuple):
    """Group, topic and partition of many keys; equal keys have equal codes."""

    code: Ints
    """One entry a record: the record's key, an index into the arrays below."""
    group: Ints
    """One entry a record: an index into ``groups``."""
    groups: Any
    """pyarrow string array."""
    topic: Any
    """pyarrow string array, one entry a distinct key."""
    topic_partition: Ints
    """One entry a distinct key."""


class OffsetValues(NamedTuple):
    """OffsetCommitValues, one array entry each."""

    valid: Bools
    """False where the value is damaged or of an unknown version."""
    version: Ints
    offset: Ints
    commit_timestamp_ms: Ints
    expire_timestamp_ms: Ints
    has_expire: Bools
    """The value is a v1, whose expire timestamp may still be -1."""
    topic_id_at: Ints
    """Position of the 16 bytes, -1 where there is none."""

    def filter(self, mask: Bools) -> OffsetValues:
        """The values for which ``mask`` is set."""
        columns: list[Any] = [column[mask] for column in self]
        return OffsetValues(*columns)


class OffsetRecords(NamedTuple):
    """Valid offset records, tombstones among them; one array entry each."""

    at: Ints
    """Index among the chunk's records."""
    tombstone: Bools
    values: OffsetValues
    pending: Bools
    """Within a transaction."""


def valid_records(
    records: LogRecords, index: Ints, notes: Notes, *, by_producer: bool
) -> OffsetRecords:
    """The valid ones of the offset records at ``index``; the others are noted.

    :param by_producer: see ``DecodeOptions``.
    """
    view = records.view
    sound = _sound_keys(view, records.key_at[index], records.key_size[index])
    notes.skip(REASON_KEY, int((~sound).sum()))
    index = index[sound]
    values = read_values(view, records.value_at[index], records.value_size[index])
    tombstone = records.value_size[index] < 0
    valid = tombstone | values.valid
    _note_values(values.version[~valid], notes)
    index = index[valid]
    values = values.filter(valid)
    pending = records.producer_id[index] != -1 if by_producer else records.transactional[index]
    return OffsetRecords(index, tombstone[valid], values, pending)


def _note_values(versions: Ints, notes: Notes) -> None:
    known = (versions >= 0) & (versions <= NEWEST_VALUE)
    for version in np.unique(versions[~known]).tolist():
        reason = REASON_UNKNOWN_VALUE.format(version) if version >= 0 else REASON_VALUE
        notes.skip(reason, int((versions == version).sum()))
    notes.skip(REASON_VALUE, int(known.sum()))


def offset_columns(
    records: LogRecords,
    key_type: Ints,
    offsets: OffsetRecords,
    keys: OffsetKeys,
    group_tombstones: list[tuple[str, int]],
    options: DecodeOptions,
) -> dict[str, Any]:
    """Columns of the offset rows, without superseded commits.

    :param group_tombstones: group, and index of the record that deletes it.
    """
    epoch = _group_epochs(offsets.at, keys, group_tombstones)
    if records.stretch is not None:
        stretch = records.stretch[offsets.at]
        epoch = epoch * (int(stretch.max(initial=0)) + 1) + stretch
    creates = _first_commits(keys.group, epoch, ~offsets.tombstone)
    at_ms = records.timestamp_ms[offsets.at]
    # Number of the first check that sees the commit.
    checks = [-(-at_ms // interval_ms) for interval_ms in options.check_intervals_ms]
    checks += [np.arange(len(at_ms))] if options.keep_all else []
    last, commits, first = _runs(offsets, keys.code, creates, [epoch, *checks])
    index, code, values = offsets.at[last], keys.code[last], offsets.values
    no_value, not_pending = offsets.tombstone[last], ~offsets.pending[last]
    producer_epoch: Any = pa.nulls(len(index), pa.int32())
    if records.producer_epoch is not None:
        producer_epoch = _masked(records.producer_epoch[index].astype(np.int32), not_pending)
    return {
        "index": index,
        "key_type": key_type[index].astype(np.int32),
        "group": keys.groups.take(pa.array(keys.group[last])),
        "tombstone": no_value,
        "producer_id": _masked(records.producer_id[index], not_pending),
        "producer_epoch": producer_epoch,
        "topic": keys.topic.take(pa.array(code)),
        "topic_partition": keys.topic_partition[code].astype(np.int32),
        "offset": _masked(values.offset[last], no_value),
        "commit_timestamp_ms": _masked(values.commit_timestamp_ms[last], no_value),
        "expire_timestamp_ms": _masked(
            values.expire_timestamp_ms[last], no_value | ~values.has_expire[last]
        ),
        "topic_id": _topic_ids(records.view, np.where(no_value, -1, values.topic_id_at[last])),
        "commits": np.where(no_value, 0, commits),
        "first_ms": at_ms[first],
        "creates_group": creates[last],
        "bytes": records.size(index),
    }


def _masked(values: NDArray[Any], null: Bools) -> Any:
    return pa.array(values, mask=null)


def _runs(
    offsets: OffsetRecords, code: Ints, creates: Bools, numbers: list[Ints]
) -> tuple[Ints, Ints, Ints]:
    """Last record, number of records and first record of each run, in log order.

    Commits that differ in one of ``numbers`` are not of one run.
    """
    order = np.argsort(code, kind="stable")
    code = code[order]
    plain = (~offsets.tombstone & ~offsets.pending)[order]
    # The commit that created the group stays on its own: its time is the group's first.
    follows = (code[1:] == code[:-1]) & plain[1:] & plain[:-1] & ~creates[order][:-1]
    for number in numbers:
        number = number[order]
        follows &= number[1:] == number[:-1]
    begins = np.flatnonzero(np.append(True, ~follows)[: len(order)])
    ends = np.append(begins, len(order))[1:]
    last = order[ends - 1]
    in_log_order = np.argsort(last)
    return last[in_log_order], (ends - begins)[in_log_order], order[begins][in_log_order]


def _group_epochs(index: Ints, keys: OffsetKeys, tombstones: list[tuple[str, int]]) -> Ints:
    """A number for each record that grows at each tombstone of the record's group."""
    codes = (
        {group: code for code, group in enumerate(keys.groups.to_pylist())} if tombstones else {}
    )
    ends = sorted((codes[group], at) for group, at in tombstones if group in codes)
    if not ends:
        return np.zeros(len(index), dtype=np.int64)
    span = int(index.max()) + 1 if len(index) else 1
    marks = np.array([code * span + min(at, span - 1) for code, at in ends], dtype=np.int64)
    return np.searchsorted(marks, keys.group * span + index, side="left").astype(np.int64)


def _first_commits(group: Ints, epoch: Ints, commit: Bools) -> Bools:
    """The first commit of each group in each of its epochs."""
    places = np.flatnonzero(commit)
    result = np.zeros(len(group), dtype=np.bool_)
    if places.size:
        combined = group[places] * (int(epoch.max()) + 1) + epoch[places]
        _, first = np.unique(combined, return_index=True)
        result[places[first]] = True
    return result


# --- keys and values -----------------------------------------------------------------------------


def _sound_keys(view: View, at: Ints, size: Ints) -> Bools:
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
        group=groups.indices.to_numpy().astype(np.int64)[code],
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
    topic_id_at, tags_end = _topic_id_positions(view, end, at + size, flexible & sound)
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


def _topic_id_positions(view: View, at: Ints, ends: Ints, tagged: Bools) -> tuple[Ints, Ints]:
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


def _topic_ids(view: View, at: Ints) -> Any:
    """Kafka's spelling (unpadded URL-safe base64) of the ids at these positions; null for -1."""
    present = at >= 0
    ids = _ranges(view, np.maximum(at, 0), np.where(present, 16, 0)).dictionary_encode()
    texts = [
        base64.urlsafe_b64encode(raw).decode().rstrip("=") for raw in ids.dictionary.to_pylist()
    ]
    return pa.array(texts, pa.string()).take(pa.array(ids.indices.to_numpy(), mask=~present))
