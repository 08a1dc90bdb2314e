"""Finds the timestamp of the record at an offset in raw record batches; pure, no requests."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from kgtool.errors import DecodeError
from kgtool.records.batch import PREFIX_SIZE, Batch, read_header, read_records

NO_TIMESTAMP = -1
_OLD_HEADER = struct.Struct(">qiIbbq")


class Timestamp(NamedTuple):
    """The record's timestamp in ms; None where the record has none (magic 0, or -1)."""

    ms: int | None


class ReadOn(NamedTuple):
    """There is no such record before ``offset``; -1 if not one whole batch was there."""

    offset: int


Answer = Timestamp | ReadOn


def first_timestamp(data: bytes, offset: int, aborted: Iterable[tuple[int, int]] = ()) -> Answer:
    """Return when the first record at or after ``offset`` was written, as far as ``data`` tells.

    Markers of transactions are no records. Records of aborted transactions are passed over too.

    :param data: what a Fetch brought: batches, the last one perhaps cut off.
    :param aborted: ``(producer id, first offset)`` of the aborted transactions, as a Fetch with
        read_committed lists them; empty to take every record.
    """
    following = -1
    hidden = Aborted(aborted)
    pos = 0
    while pos + _OLD_HEADER.size <= len(data):
        if data[pos + 16] < 2:
            answer, pos, last = _old_message(data, pos, offset)
        else:
            try:
                batch = read_header(data, pos)
            except DecodeError:
                break
            if batch is None:  # cut off: FETCH stops in the middle of one
                break
            answer = None if hidden.hides(batch) else _in_batch(data, batch, offset)
            pos, last = batch.end, batch.last_offset
        if answer is not None:
            return answer
        if last is None:
            break
        following = max(following, last + 1)
    return ReadOn(following)


class Aborted:
    """Which batches belong to transactions that were aborted (``CompletedFetch`` in Java).

    :param transactions: ``(producer id, first offset)`` of each.
    """

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        self._coming = sorted(transactions, key=lambda pair: pair[1])
        self._open: set[int] = set()

    def hides(self, batch: Batch) -> bool:
        """Whether a batch holds nothing for a reader; to be asked of each, in their order."""
        while self._coming and self._coming[0][1] <= batch.last_offset:
            self._open.add(self._coming.pop(0)[0])
        if batch.is_control:
            self._open.discard(batch.producer_id)  # whichever marker it is, that one is over
        return batch.is_control or (batch.is_transactional and batch.producer_id in self._open)


def _timestamp(ms: int) -> Timestamp:
    return Timestamp(None if ms == NO_TIMESTAMP else ms)


def _in_batch(data: bytes, batch: Batch, offset: int) -> Timestamp | None:
    """Walk the records; compaction may have taken any of them."""
    if batch.last_offset < offset:
        return None
    if batch.is_append_time:
        return _timestamp(batch.max_timestamp_ms)
    try:
        later = (record for record in read_records(data, batch) if record.offset >= offset)
        found = next(later, None)
    except DecodeError:
        return None
    return None if found is None else _timestamp(found.timestamp_ms)


def _old_message(data: bytes, pos: int, offset: int) -> tuple[Answer | None, int, int | None]:
    """Read a message of magic 0 or 1; a compressed one has the offset and time of its last."""
    last, length, _, magic, _, ms = _OLD_HEADER.unpack_from(data, pos)
    end = pos + PREFIX_SIZE + length
    if length < _OLD_HEADER.size - PREFIX_SIZE - 8 or end > len(data):
        return None, pos, None
    if last < offset:
        return None, end, last
    return (_timestamp(ms) if magic == 1 else Timestamp(None)), end, last
