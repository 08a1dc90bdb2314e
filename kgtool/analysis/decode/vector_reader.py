"""Read the records of many record batches at once.

A batch's records can only be found one after the other (each starts where the one before ends),
but batches are independent: one numpy step reads the next record of *every* batch.
Record layout: org.apache.kafka.common.record.DefaultRecord (magic 2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

PADDING = 16
"""Zero bytes behind the data, so that a read of 8 bytes at its end stays inside."""
FEW = 24
"""With fewer batches left than this, plain Python is faster than numpy's fixed cost a step."""
SMALLEST_RECORD = 7
"""Bytes: length, attributes, two deltas, two lengths (-1) and the header count."""


class View:
    """Bytes that can be read at many positions at once, as big-endian integers of any size.

    Positions outside are moved to the end, where zeros are: what a damaged length leads to is
    refused by the caller's bounds check, not here.
    """

    def __init__(self, data: bytes | NDArray[np.uint8]) -> None:
        raw = np.frombuffer(data, dtype=np.uint8) if isinstance(data, bytes) else data
        self.bytes: NDArray[np.uint8] = np.concatenate([raw, np.zeros(PADDING, dtype=np.uint8)])
        self.size = len(raw)

    def memory(self) -> memoryview:
        """The same bytes for reading one at a time."""
        return memoryview(self.bytes.data)

    def structs(self, kind: np.dtype[np.void] | str, positions: Ints) -> NDArray[np.void]:
        """OffsetValues of a numpy type, all of which lie inside."""
        count = max(len(self.bytes) - np.dtype(kind).itemsize + 1, 0)
        view: NDArray[np.void] = np.ndarray((count,), kind, self.bytes, 0, (1,))
        return view[positions]

    def _at(self, kind: str, positions: Ints) -> Ints:
        return self.structs(kind, np.minimum(positions, self.size)).astype(np.int64)

    def u8(self, positions: Ints) -> Ints:
        """Unsigned bytes."""
        return self._at("u1", positions)

    def i16(self, positions: Ints) -> Ints:
        """Signed 16-bit integers."""
        return self._at(">i2", positions)

    def i32(self, positions: Ints) -> Ints:
        """Signed 32-bit integers."""
        return self._at(">i4", positions)

    def i64(self, positions: Ints) -> Ints:
        """Signed 64-bit integers."""
        return self._at(">i8", positions)

    def unsigned_varint(self, positions: Ints) -> tuple[Ints, Ints]:
        """Unsigned varints of up to ten bytes, and the positions behind them."""
        byte = self.u8(positions)
        value = byte & 0x7F
        behind = positions + 1
        more = np.flatnonzero(byte >= 0x80)
        shift = 7
        while more.size and shift < 70:
            byte = self.u8(behind[more])
            value[more] |= (byte & 0x7F) << shift
            behind[more] += 1
            more = more[byte >= 0x80]
            shift += 7
        return value, behind

    def varint(self, positions: Ints) -> tuple[Ints, Ints]:
        """Zigzag varints and varlongs, and the positions behind them."""
        value, behind = self.unsigned_varint(positions)
        return ((value >> 1) & 0x7FFF_FFFF_FFFF_FFFF) ^ -(value & 1), behind


class RecordPositions(NamedTuple):
    """The records of all good batches, in the order of the batches; one array entry each."""

    batch: Ints
    """Index of the record's batch."""
    timestamp_delta: Ints
    offset_delta: Ints
    key_at: Ints
    """Where the key starts in the view."""
    key_size: Ints
    """Bytes; -1 for null."""
    value_at: Ints
    value_size: Ints
    """Bytes; -1 for null, a tombstone."""


_FIELDS = len(RecordPositions._fields) - 1


def read_records(
    view: View, starts: Ints, ends: Ints, counts: Ints
) -> tuple[RecordPositions, Bools]:
    """All records of the batches whose payloads lie at ``starts`` to ``ends``.

    ``counts`` are the record counts that the headers claim. Returns the records and one flag a
    batch: False where the payload is not exactly that many records; none of its records is told.
    """
    good = (counts >= 0) & (counts <= (ends - starts) // SMALLEST_RECORD)
    counts = np.where(good, counts, 0)
    first = np.cumsum(counts) - counts
    table = np.zeros((_FIELDS, int(counts.sum())), dtype=np.int64)
    cursor = starts.copy()
    running = np.flatnonzero(counts > 0)
    step = 0
    while running.size > FEW:
        fields, behind, valid = _one_record(view, cursor[running], ends[running])
        table[:, first[running] + step] = fields
        cursor[running] = behind
        good[running[~valid]] = False
        step += 1
        running = running[valid & (counts[running] > step)]
    for index in running.tolist():
        place = slice(int(first[index]) + step, int(first[index] + counts[index]))
        end, rows = _rest_of_batch(view, int(cursor[index]), int(ends[index]), place)
        good[index] = end >= 0
        cursor[index] = end
        table[:, place] = rows
    # A payload with something behind its last record is damaged too (DefaultRecordBatch).
    good &= cursor == ends
    batch = np.repeat(np.arange(len(counts)), counts)
    keep = good[batch]
    return RecordPositions(batch[keep], *table[:, keep]), good


def _one_record(view: View, at: Ints, ends: Ints) -> tuple[Ints, Ints, Bools]:
    """One record at each position: its fields, the position behind it, whether it is sound."""
    size, at = view.varint(at)
    behind = at + size
    valid = (size >= SMALLEST_RECORD - 1) & (behind <= ends)
    timestamp_delta, at = view.varint(at + 1)
    offset_delta, at = view.varint(at)
    key_size, key_at = view.varint(at)
    value_size, value_at = view.varint(key_at + _inside(key_size, ends))
    valid &= (key_size >= -1) & (value_size >= -1) & (offset_delta >= 0)
    valid &= value_at + _inside(value_size, ends) < behind
    fields = np.stack((timestamp_delta, offset_delta, key_at, key_size, value_at, value_size))
    return fields, np.where(valid, behind, 0), valid


def _inside(size: Ints, ends: Ints) -> Ints:
    """A size that can be added to a position without leaving int64 or going backwards."""
    return np.clip(size, 0, ends)


def _rest_of_batch(view: View, at: int, end: int, place: slice) -> tuple[int, Ints]:
    """The remaining records of one batch, one by one; (-1, zeros) if they are damaged."""
    rows = np.zeros((_FIELDS, place.stop - place.start), dtype=np.int64)
    data = view.memory()
    for row in range(rows.shape[1]):
        size, at = _varint(data, at)
        behind = at + size
        if size < SMALLEST_RECORD - 1 or behind > end:
            return -1, rows
        timestamp_delta, at = _varint(data, at + 1)
        offset_delta, at = _varint(data, at)
        key_size, key_at = _varint(data, at)
        if key_size < -1 or offset_delta < 0 or key_at + key_size >= behind:
            return -1, rows
        value_size, value_at = _varint(data, key_at + max(key_size, 0))
        if value_size < -1 or value_at + value_size >= behind:
            return -1, rows
        rows[:, row] = (timestamp_delta, offset_delta, key_at, key_size, value_at, value_size)
        at = behind
    return at, rows


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[at] if at < len(data) else 0
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    decoded = (value >> 1) ^ -(value & 1)
    return (decoded if -(2**63) <= decoded < 2**63 else -2), at
