"""From record batches to records: headers, CRC, decompression, absolute offsets and times.

Compression (attributes bits 0-2): gzip by the stdlib; snappy, lz4 and zstd by ``cramjam``. Java
clients frame snappy as snappy-java does (xerial), librdkafka writes one bare block.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kgtool.analysis.decode.crc32c import crc32c
from kgtool.analysis.decode.segments import ATTRIBUTES_AT, Chunk, Note
from kgtool.analysis.decode.vector_reader import Bools, Ints, View, read_records
from kgtool.records.batch import HEADER_SIZE, PREFIX_SIZE, decompress

REASON_CRC = "wrong CRC"
REASON_CODEC = "batch that can't be decompressed"
REASON_RECORDS = "malformed records in a batch"
UNREAD_BATCHES = (REASON_CRC, REASON_CODEC, REASON_RECORDS)
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


def read_chunk(chunk: Chunk) -> RecordBlock:
    """Every record of the chunk's sound batches, and a note for each of the others."""
    view, at = View(chunk.data), np.array(chunk.starts, dtype=np.int64)
    headers = read_headers(view, at)
    ends = at + PREFIX_SIZE + headers["length"]
    notes: list[Note] = []
    right = crc32c(view.bytes, at + ATTRIBUTES_AT, ends) == headers["crc"]
    notes += _bad(headers, at, ~right, REASON_CRC, chunk)
    at, ends, headers = at[right], ends[right], headers[right]
    view, starts, ends, readable = _payloads(view, chunk.data, at + HEADER_SIZE, ends, headers)
    notes += _bad(headers, at, ~readable, REASON_CODEC, chunk)
    at, starts, ends, headers = at[readable], starts[readable], ends[readable], headers[readable]
    records, sound = read_records(view, starts, ends, headers["records"])
    notes += _bad(headers, at, ~sound, REASON_RECORDS, chunk)
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


def _payloads(
    view: View, data: bytes, starts: Ints, ends: Ints, headers: Headers
) -> tuple[View, Ints, Ints, Bools]:
    """Where each batch's records are after decompression."""
    readable = np.ones(len(starts), dtype=np.bool_)
    compressed = np.flatnonzero(headers["attributes"] & CODEC_MASK)
    if not compressed.size:
        return view, starts, ends, readable
    parts: list[bytes] = [data]
    behind = len(data)
    for index in compressed.tolist():
        payload = data[int(starts[index]) : int(ends[index])]
        plain = _decompress(payload, int(headers["attributes"][index]) & CODEC_MASK)
        if plain is None:
            readable[index] = False
            continue
        starts[index], ends[index] = behind, behind + len(plain)
        parts.append(plain)
        behind += len(plain)
    return View(b"".join(parts)), starts, ends, readable


def _decompress(payload: bytes, codec: int) -> bytes | None:
    """The plain records, or None where the bytes are not what the codec writes."""
    import cramjam

    try:
        return decompress(payload, codec)
    except (zlib.error, cramjam.DecompressionError, ValueError):
        return None
