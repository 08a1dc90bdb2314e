"""Finds the timestamp of the record at an offset in raw record batches; pure, no requests.

Nothing is decompressed. Of a compressed batch the header tells the range that the timestamps lie
in (``DefaultRecordBatch``: baseTimestamp is that of the first record, maxTimestamp the largest),
which is an answer where both are the same or the batch's first record is the one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

NO_TIMESTAMP = -1
_HEADER = struct.Struct(">qiibIhiqqqhii")
_OLD_HEADER = struct.Struct(">qiIbbq")
_SIZE = struct.Struct(">qi")
_CODEC, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_DELETE_HORIZON = 0x40


class Timestamp(NamedTuple):
    """The record's timestamp in ms; None where the record has none (magic 0, or -1)."""

    ms: int | None


class Span(NamedTuple):
    """The record is in a compressed batch whose timestamps are ``low`` to ``high`` ms."""

    low: int
    high: int


class ReadOn(NamedTuple):
    """There is no such record before ``offset``; -1 if not one whole batch was there."""

    offset: int


class _Batch(NamedTuple):
    start: int
    end: int
    base_offset: int
    last_offset: int
    attributes: int
    base_ms: int
    max_ms: int
    producer_id: int


Answer = Timestamp | Span | ReadOn


def first_timestamp(data: bytes, offset: int, aborted: Iterable[tuple[int, int]] = ()) -> Answer:
    """Return when the first record at or after ``offset`` was written, as far as ``data`` tells.

    Markers of transactions are no records. Records of aborted transactions are passed over too.

    :param data: what a Fetch brought: batches, the last one perhaps cut off.
    :param aborted: ``(producer id, first offset)`` of the aborted transactions, as a Fetch with
        read_committed lists them; empty to take every record.
    """
    following = -1
    gone: set[int] = set()
    waiting = sorted(aborted, key=lambda pair: pair[1])
    pos = 0
    while pos + _OLD_HEADER.size <= len(data):
        if data[pos + 16] < 2:
            answer, pos, last = _old_message(data, pos, offset)
        else:
            batch = _batch(data, pos)
            if batch is None:
                break
            while waiting and waiting[0][1] <= batch.last_offset:
                gone.add(waiting.pop(0)[0])
            answer = _in_batch(data, batch, offset, gone)
            pos, last = batch.end, batch.last_offset
        if answer is not None:
            return answer
        if last is None:
            break
        following = max(following, last + 1)
    return ReadOn(following)


def _batch(data: bytes, pos: int) -> _Batch | None:
    """Read a header; None where the batch is cut off (FETCH stops in the middle of one)."""
    if pos + _HEADER.size > len(data):
        return None
    (base, length, _, _, _, attributes, delta, base_ms, max_ms, producer, _, _, _) = (
        _HEADER.unpack_from(data, pos)
    )
    end = pos + _SIZE.size + length
    if length < _HEADER.size - _SIZE.size or end > len(data):
        return None
    return _Batch(
        pos + _HEADER.size, end, base, base + delta, attributes, base_ms, max_ms, producer
    )


def _in_batch(data: bytes, batch: _Batch, offset: int, gone: set[int]) -> Answer | None:
    if batch.attributes & _CONTROL:
        gone.discard(batch.producer_id)  # whichever marker it is, that transaction is over
        return None
    is_aborted = batch.attributes & _TRANSACTIONAL and batch.producer_id in gone
    if batch.last_offset < offset or is_aborted:
        return None
    if batch.attributes & _LOG_APPEND_TIME:
        return _timestamp(batch.max_ms)
    if not batch.attributes & _CODEC:
        return _in_records(data, batch, offset)
    if batch.attributes & _DELETE_HORIZON:  # baseTimestamp is no record's time then (KIP-534)
        return _timestamp(batch.max_ms)
    if batch.base_ms == batch.max_ms or batch.base_offset >= offset:
        return _timestamp(batch.base_ms)
    return Span(batch.base_ms, batch.max_ms)


def _timestamp(ms: int) -> Timestamp:
    return Timestamp(None if ms == NO_TIMESTAMP else ms)


def _in_records(data: bytes, batch: _Batch, offset: int) -> Timestamp | None:
    """Walk the records of an uncompressed batch; compaction may have taken any of them."""
    pos = batch.start
    try:
        while pos < batch.end:
            length, pos = _varint(data, pos)
            ms_delta, at = _varint(data, pos + 1)
            offset_delta, _ = _varint(data, at)
            if batch.base_offset + offset_delta >= offset:
                return _timestamp(batch.base_ms + ms_delta)
            if length <= 0:
                break
            pos += length
    except IndexError:
        pass
    return None


def _varint(data: bytes, pos: int) -> tuple[int, int]:
    """Read a zigzag varint of at most 10 bytes; return it and where it ends."""
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80 or shift > 63:
            return (value >> 1) ^ -(value & 1), pos
        shift += 7


def _old_message(data: bytes, pos: int, offset: int) -> tuple[Answer | None, int, int | None]:
    """Read a message of magic 0 or 1; a compressed one has the offset and time of its last."""
    last, length, _, magic, _, ms = _OLD_HEADER.unpack_from(data, pos)
    end = pos + _SIZE.size + length
    if length < _OLD_HEADER.size - _SIZE.size - 8 or end > len(data):
        return None, pos, None
    if last < offset:
        return None, end, last
    return (_timestamp(ms) if magic == 1 else Timestamp(None)), end, last
