"""From record batches to records: headers, CRC, decompression, absolute offsets and times.

Compression (attributes bits 0-2): gzip by the stdlib; snappy, lz4 and zstd by ``cramjam``. Java
clients frame snappy as snappy-java does (xerial), librdkafka writes one bare block.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kgtool.analysis.decode.crc32c import crc32c
from kgtool.analysis.decode.segments import ATTRIBUTES_AT, Chunk, Note
from kgtool.analysis.decode.vector_reader import Bools, Ints, View, read_records
from kgtool.records.batch import HEADER_SIZE, PREFIX_SIZE, TooLarge, decompress

REASON_CRC = "wrong CRC"
REASON_CODEC = "batch that can't be decompressed"
REASON_RECORDS = "malformed records in a batch"
PLAIN_BYTES = 64 << 20
"""What a task decompresses at once, and the most of one batch: a broker takes message.max.bytes (1
MiB) of compressed ones, and offsets compress to a thirtieth at best."""
BACK = "offsets go back"
"""Of the notes that tell where the offsets of a range do."""
REASON_BOMB = f"batch that decompresses to more than {PLAIN_BYTES >> 20} MiB"
UNREAD_BATCHES = (REASON_CRC, REASON_CODEC, REASON_BOMB, REASON_RECORDS)
"""Batches none of whose records is read."""

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20


Spans = Sequence[tuple[int, int]]
"""Ranges of log offsets, each [first, end), ascending and disjoint."""


class LogRecords(NamedTuple):
    """Records in log order; arrays with one entry a record."""

    view: View
    """The bytes of keys and values."""
    log_offset: Ints
    timestamp_ms: Ints
    producer_id: Ints
    transactional: Bools
    control: Bools
    key_at: Ints
    key_size: Ints
    value_at: Ints
    value_size: Ints
    stretch: Ints | None = None
    """Records with different numbers here may have others between them."""
    leader_epoch: Ints | None = None
    """Of the partition's leader, which is the coordinator that wrote the record."""
    producer_epoch: Ints | None = None

    def size(self, index: Ints) -> Ints:
        """Bytes of key and value of each of these records."""
        sizes: Ints = self.key_size[index] + np.maximum(self.value_size[index], 0)
        return sizes

    def key_and_value(self, index: int) -> tuple[bytes, bytes | None]:
        """Bytes of one record."""
        data = self.view.memory()
        key_at, value_at = int(self.key_at[index]), int(self.value_at[index])
        key_size, value_size = int(self.key_size[index]), int(self.value_size[index])
        key = bytes(data[key_at : key_at + key_size])
        return key, None if value_size < 0 else bytes(data[value_at : value_at + value_size])

    def filter(self, mask: Bools) -> LogRecords:
        """The records for which ``mask`` is set."""
        columns: list[Any] = [None if each is None else each[mask] for each in self[1:]]
        return LogRecords(self.view, *columns)

    def in_order(self) -> LogRecords:
        """The same by offset, as a log is."""
        order = np.argsort(self.log_offset, kind="stable")
        columns: list[Any] = [None if each is None else each[order] for each in self[1:]]
        found = LogRecords(self.view, *columns)
        return found._replace(stretch=np.cumsum(np.diff(found.log_offset, prepend=0) != 1))

    def without(self, spans: Spans) -> LogRecords:
        """The records whose offsets are in none of these."""
        known = np.zeros(len(self.log_offset), dtype=np.bool_)
        for first, end in spans:
            known |= (first <= self.log_offset) & (self.log_offset < end)
        return self.filter(~known) if known.any() else self


class RecordBlock(NamedTuple):
    """Neighbouring records of one file."""

    position: int
    """Start of the block in the file."""
    size: int
    """Bytes in the file."""
    records: LogRecords
    notes: list[Note]
    partition: int | None = None
    """Of ``__consumer_offsets``, where a file holds several."""


HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", ">i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("records", ">i4"),
    ]
)
"""Of a DefaultRecordBatch."""
_INTS = np.dtype([(name, np.int64) for name in HEADER.names or ()])
Headers = NDArray[np.void]
"""One entry a batch, with the fields of HEADER, all of them as int64."""


def read_headers(view: View, at: Ints) -> Headers:
    """The headers of the batches at these positions."""
    return view.structs(HEADER, at).astype(_INTS)


def drop_batches(chunk: Chunk, spans: Spans) -> Chunk:
    """The chunk without the batches whose offsets are all in one of these."""
    at = np.array(chunk.starts, dtype=np.int64)
    headers = read_headers(View(chunk.data), at)
    first = headers["base_offset"]
    last = first + headers["last_offset_delta"]
    known = np.zeros(len(at), dtype=np.bool_)
    for start, end in spans:
        known |= (start <= first) & (last < end)
    size = headers["length"][~known] + PREFIX_SIZE
    return chunk._replace(starts=at[~known].tolist(), size=int(size.sum()))


def leave_out(content: Chunk | RecordBlock, some: Ints) -> Chunk | RecordBlock:
    """The content without these of its batches, or of its records."""
    if isinstance(content, RecordBlock):
        keep = np.ones(len(content.records.log_offset), dtype=np.bool_)
        keep[some] = False
        return content._replace(records=content.records.filter(keep))
    starts = np.delete(np.array(content.starts, dtype=np.int64), some)
    headers = read_headers(View(content.data), starts)
    size = int((headers["length"] + PREFIX_SIZE).sum())
    return content._replace(starts=starts.tolist(), size=size)


def read_chunk(chunk: Chunk) -> Iterator[RecordBlock]:
    """Every record of the chunk's sound batches, and a note for each of the others.

    Of compressed batches as many at once as ``PLAIN_BYTES`` allow.
    """
    view, at = View(chunk.data), np.array(chunk.starts, dtype=np.int64)
    headers = read_headers(view, at)
    ends = at + PREFIX_SIZE + headers["length"]
    notes: list[Note] = []
    right = crc32c(view.bytes, at + ATTRIBUTES_AT, ends) == headers["crc"]
    notes += _bad(headers, at, ~right, REASON_CRC, chunk)
    at, ends, headers = at[right], ends[right], headers[right]
    size = chunk.size
    while True:
        plain = _payloads(view, chunk.data, at + HEADER_SIZE, ends, headers)
        done = plain.batches
        for reason in (REASON_CODEC, REASON_BOMB):
            some = plain.reason[:done] == reason
            notes += _bad(headers[:done], at[:done], some, reason, chunk)
        block = _block(plain, at[:done], headers[:done], chunk)
        yield block._replace(size=size, notes=[*notes, *block.notes])
        at, ends, headers = at[done:], ends[done:], headers[done:]
        notes, size = [], 0
        if not len(at):
            return


class _Plain(NamedTuple):
    """The records of some batches after decompression."""

    batches: int
    """Number of them."""
    view: View
    starts: Ints
    ends: Ints
    reason: NDArray[np.object_]
    """Why a batch can't be read; empty text: it can."""


def _block(plain: _Plain, at: Ints, headers: Headers, chunk: Chunk) -> RecordBlock:
    """The records of these batches, and notes about those that hold none."""
    view, readable = plain.view, plain.reason[: plain.batches] == ""
    starts, ends = plain.starts[: plain.batches][readable], plain.ends[: plain.batches][readable]
    at, headers = at[readable], headers[readable]
    records, sound = read_records(view, starts, ends, headers["records"])
    notes = _bad(headers, at, ~sound, REASON_RECORDS, chunk)
    header = headers[records.batch]
    attributes = header["attributes"]
    own_time = header["base_timestamp"] + records.timestamp_delta
    appended = (attributes & LOG_APPEND_TIME) != 0
    decoded = LogRecords(
        view=view,
        log_offset=header["base_offset"] + records.offset_delta,
        timestamp_ms=np.where(appended, header["max_timestamp"], own_time),
        producer_id=header["producer_id"].copy(),
        transactional=(attributes & TRANSACTIONAL) != 0,
        control=(attributes & CONTROL) != 0,
        key_at=records.key_at,
        key_size=records.key_size,
        value_at=records.value_at,
        value_size=records.value_size,
        leader_epoch=header["leader_epoch"].copy(),
        producer_epoch=header["producer_epoch"].copy(),
    )
    return RecordBlock(chunk.position, chunk.size, decoded, notes)


def _bad(headers: Headers, at: Ints, bad: Bools, reason: str, chunk: Chunk) -> list[Note]:
    """Notes about batches of which nothing is read."""
    return [
        Note(reason, chunk.position + place, PREFIX_SIZE + length, max(count, 0))
        for place, length, count in zip(
            at[bad].tolist(),
            headers["length"][bad].tolist(),
            headers["records"][bad].tolist(),
            strict=True,
        )
    ]


def _payloads(view: View, data: bytes, starts: Ints, ends: Ints, headers: Headers) -> _Plain:
    """Where the first batches' records are after decompression."""
    starts, ends = starts.copy(), ends.copy()
    reason = np.full(len(starts), "", dtype=np.object_)
    compressed = np.flatnonzero(headers["attributes"] & CODEC_MASK)
    if not compressed.size:
        return _Plain(len(starts), view, starts, ends, reason)
    parts: list[bytes] = [data]
    behind = len(data)
    for index in compressed.tolist():
        if behind - len(data) >= PLAIN_BYTES:
            return _Plain(index, View(b"".join(parts)), starts, ends, reason)
        payload = data[int(starts[index]) : int(ends[index])]
        plain = _decompress(payload, int(headers["attributes"][index]) & CODEC_MASK)
        if isinstance(plain, str):
            reason[index] = plain
            continue
        starts[index], ends[index] = behind, behind + len(plain)
        parts.append(plain)
        behind += len(plain)
    return _Plain(len(starts), View(b"".join(parts)), starts, ends, reason)


def _decompress(payload: bytes, codec: int) -> bytes | str:
    """The plain records, or why there are none."""
    import cramjam

    try:
        return decompress(payload, codec, PLAIN_BYTES)
    except TooLarge:
        return REASON_BOMB
    except (zlib.error, cramjam.DecompressionError, ValueError):
        return REASON_CODEC
