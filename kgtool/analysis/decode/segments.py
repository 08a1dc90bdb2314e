"""Find the record batches of a raw ``.log`` segment.

A segment is record batches end to end (DefaultRecordBatch, magic 2): base offset i64, length i32
(bytes behind it), leader epoch i32, magic i8, CRC u32, ... 61 bytes, then the records. A copied
active segment may end in the middle of a batch or in zeros; a damaged one may hold anything, so
where the chain of lengths breaks the reader looks for the next batch whose CRC is right.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple

import numpy as np

from kgtool.analysis.decode.crc32c import crc32c
from kgtool.analysis.decode.vector_reader import Bools, Ints, View
from kgtool.records.batch import HEADER_SIZE, PREFIX_SIZE

EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
DELTA_AT = 23
COUNT_AT = 57
CHUNK_BYTES = 8 << 20
"""Bytes read and decoded at once: enough for numpy, and a bound on the memory of a task."""
LARGEST_BATCH = 1 << 30

REASON_TRUNCATED = "truncated batch at the end"
REASON_NO_BATCH = "not a record batch"
REASON_FALSE_BATCHES = "more false batch headers than it is worth to look for the next batch among"
SEARCH_BYTES = 64 << 20
"""Of a damaged file, whose checksums are computed to find the next batch."""
REASON_OLD_FORMAT = "message format before 0.11 (magic 0 or 1), which is not read"

_prefix = struct.Struct(">qiib").unpack_from


class Note(NamedTuple):
    """Part of a file that was not read, for the quality table."""

    reason: str
    position: int
    """Bytes from the start of the file."""
    size: int = 0
    """Bytes not read."""
    records: int = 0
    damage: bool = True
    """Whether it should have been readable."""


class Notes(list[Note]):
    """Notes about the records of one chunk."""

    def __init__(self, position: int, notes: Iterable[Note] = ()) -> None:
        super().__init__(notes)
        self.position = position

    def skip(self, reason: str, records: int, *, damage: bool = True) -> None:
        """Note records that can't be used, if there are any."""
        if records:
            self.append(Note(reason, self.position, 0, records, damage))


class Chunk(NamedTuple):
    """Neighbouring batches of one file."""

    position: int
    """Where ``data`` starts in the file."""
    data: bytes
    starts: list[int]
    """Where the batches start in ``data``; they end before the next one or ``data``'s end, but
    for gaps that were noted."""
    size: int
    """Bytes of these batches."""


class Scan(NamedTuple):
    """How far a look at batch headers came."""

    starts: list[int]
    stop: int
    """Position of the first byte that is not part of a whole batch."""
    need: int
    """Size of the batch at ``stop`` if it only lacks bytes; 0: no batch starts there."""


def scan(data: bytes) -> Scan:
    """Step from header to header."""
    starts: list[int] = []
    at = 0
    append, end = starts.append, len(data) - HEADER_SIZE
    while at <= end:
        _, length, _, magic = _prefix(data, at)
        if magic != 2 or length < HEADER_SIZE - PREFIX_SIZE or length > LARGEST_BATCH:
            return Scan(starts, at, 0)
        behind = at + PREFIX_SIZE + length
        if behind > len(data):
            return Scan(starts, at, behind - at)
        append(at)
        at = behind
    return Scan(starts, at, HEADER_SIZE if at < len(data) else 0)


def chunks(file: IO[bytes], start: int, end: int) -> Iterator[Chunk | Note]:
    """The batches of the file between two byte positions at which batches start and end.

    Raises OSError where the file can't be read.
    """
    at, size = start, CHUNK_BYTES
    search = _Search(file, SEARCH_BYTES)
    while at < end:
        data = _read(file, at, min(at + size, end))
        found = scan(data)
        stop = found.stop
        is_broken = stop < len(data) and not (found.need and at + stop + found.need <= end)
        if is_broken and found.starts and not search.is_batch(at + found.starts[-1]):
            # It was that batch's length that led astray: look for the next one behind its head.
            stop = found.starts.pop()
        if found.starts:
            yield Chunk(at, data[:stop], found.starts, stop)
        at, size = at + stop, max(CHUNK_BYTES, found.need)
        if not is_broken:
            continue
        note, at = _broken(file, at, end, search)
        if note is not None:
            yield note


def _read(file: IO[bytes], start: int, end: int) -> bytes:
    file.seek(start)
    data = file.read(end - start)
    if len(data) < end - start:
        raise OSError("the file became shorter while it was read")
    return data


def _broken(file: IO[bytes], at: int, end: int, search: _Search) -> tuple[Note | None, int]:
    """What to say of the bytes at which no whole batch starts, and where to go on."""
    resume = search.next_batch(at + 1, end)
    first = _read(file, at, min(at + (1 << 20), end))
    if search.is_over:
        return Note(REASON_FALSE_BATCHES, at, resume - at), resume
    if resume == end:
        if not any(first):  # a preallocated segment
            return None, end
        if _begins_a_batch(first, end - at, behind_another=at > 0):
            return Note(REASON_TRUNCATED, at, end - at, damage=False), end
    old = len(first) > MAGIC_AT and first[MAGIC_AT] in (0, 1) and 14 <= _length(first) <= end - at
    return Note(REASON_OLD_FORMAT if old else REASON_NO_BATCH, at, resume - at), resume


def _begins_a_batch(data: bytes, left: int, *, behind_another: bool) -> bool:
    """Whether the file, which has ``left`` more bytes, may just have been cut off here."""
    if len(data) <= MAGIC_AT:
        return behind_another
    least = max(HEADER_SIZE - PREFIX_SIZE, left - PREFIX_SIZE + 1)
    plausible = least <= _length(data) <= LARGEST_BATCH
    return data[MAGIC_AT] == 2 and data[0] < 0x80 and plausible


def _length(data: bytes) -> int:
    return int.from_bytes(data[8:12], "big", signed=True)


class _Search:
    """Looks for batches by their checksums, until that has taken too much.

    :param left: bytes whose checksums may still be computed.
    """

    def __init__(self, file: IO[bytes], left: int) -> None:
        self._file, self._left = file, left

    @property
    def is_over(self) -> bool:
        """Whether no more is looked for."""
        return self._left <= 0

    def next_batch(self, at: int, end: int) -> int:
        """The next position at which a batch with the right CRC starts; ``end`` if none does."""
        while at + HEADER_SIZE <= end and not self.is_over:
            data = _read(self._file, at, min(at + CHUNK_BYTES, end))
            view = View(data)
            places: Ints = np.flatnonzero(view.bytes[MAGIC_AT : view.size] == 2).astype(np.int64)
            lengths = view.i32(places + 8)
            room = end - at - places - PREFIX_SIZE
            places = places[(lengths >= HEADER_SIZE - PREFIX_SIZE) & (lengths <= room)]
            places = places[_plausible(view, places)]
            for place in places.tolist():
                if self.is_batch(at + place):
                    return int(at + place)
                if self._left <= 0:
                    return end
            at += max(len(data) - HEADER_SIZE + 1, 1)
        return end

    def is_batch(self, at: int) -> bool:
        """Whether a batch with the right CRC starts there."""
        head = _read(self._file, at, at + HEADER_SIZE)
        size = PREFIX_SIZE + _length(head)
        if size > LARGEST_BATCH or head[ATTRIBUTES_AT] or head[ATTRIBUTES_AT + 1] & 7 > 4:
            return False
        self._left -= size
        if self.is_over:
            return False
        batch = _read(self._file, at, at + size)
        data = np.frombuffer(batch, dtype=np.uint8)
        found = crc32c(data, np.array([ATTRIBUTES_AT]), np.array([len(data)]))
        return int(found[0]) == int.from_bytes(head[CRC_AT : CRC_AT + 4], "big")


def _plausible(view: View, places: Ints) -> Bools:
    """Where the other fields of a header may be such: not among random bytes."""
    deltas, counts = view.i32(places + DELTA_AT), view.i32(places + COUNT_AT)
    sane: Bools = (view.i16(places) == 0) & (view.i32(places + EPOCH_AT) >= -1)
    sane &= (deltas >= 0) & (counts >= 0) & (counts <= deltas + 1)
    return sane


def split(file: IO[bytes], size: int, target: int) -> Iterator[tuple[int, int]]:
    """Byte ranges of about ``target`` bytes that begin and end between batches.

    Only headers are looked at. Behind damage the rest of the file is one range, whose reader
    looks for the next batch.
    """
    start = at = 0
    while at < size:
        data = _read(file, at, min(at + target, size))
        found = scan(data)
        at += found.stop
        damaged = found.stop < len(data) and not found.need
        if found.stop == 0 or at >= size or damaged:
            break
        yield start, at
        start = at
    if start < size:
        yield start, size
