"""From record batches to records: headers, CRC, decompression, absolute offsets and times.

Compression (attributes bits 0-2): gzip by the stdlib; snappy, lz4 and zstd by ``cramjam``. Java
clients frame snappy as snappy-java does (xerial), librdkafka writes one bare block.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np

from kgtool.analysis.decode.crc32c import crc32c
from kgtool.analysis.decode.lockstep import Bools, Ints, View, read_records
from kgtool.analysis.decode.segments import ATTRIBUTES_AT, Chunk, Note
from kgtool.records.batch import HEADER_SIZE, PREFIX_SIZE, decompress

REASON_CRC = "wrong CRC"
REASON_CODEC = "batch that can't be decompressed"
REASON_RECORDS = "malformed records in a batch"

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20


class Decoded(NamedTuple):
    """The records of a chunk in log order; arrays with one entry a record."""

    view: View
    """Where the keys and values lie."""
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
    """Where other parts of the log may lie between two records, their numbers here differ."""
    leader_epoch: Ints | None = None
    """Of the partition's leader, and so of the coordinator that wrote the record."""
    producer_epoch: Ints | None = None

    def size(self, index: Ints) -> Ints:
        """Bytes of key and value of each of these records."""
        sizes: Ints = self.key_size[index] + np.maximum(self.value_size[index], 0)
        return sizes

    def only(self, which: Bools) -> Decoded:
        """Those for which ``which`` is set."""
        columns: list[Any] = [None if each is None else each[which] for each in self[1:]]
        return Decoded(self.view, *columns)


class _Headers(NamedTuple):
    """One entry a batch."""

    at: Ints
    base_offset: Ints
    size: Ints
    leader_epoch: Ints
    attributes: Ints
    base_timestamp: Ints
    max_timestamp: Ints
    producer_id: Ints
    producer_epoch: Ints
    record_count: Ints

    def only(self, which: Bools) -> _Headers:
        return _Headers(*(column[which] for column in self))


def read_chunk(chunk: Chunk) -> tuple[Decoded, list[Note]]:
    """Every record of the chunk's sound batches, and a note for each of the others."""
    view = View(chunk.data)
    headers = _headers(view, np.array(chunk.starts, dtype=np.int64))
    notes: list[Note] = []
    right = _crc_matches(view, headers)
    headers = _without(headers, right, REASON_CRC, chunk, notes)
    view, starts, ends, readable = _payloads(view, chunk.data, headers)
    headers = _without(headers, readable, REASON_CODEC, chunk, notes)
    starts, ends = starts[readable], ends[readable]
    records, sound = read_records(view, starts, ends, headers.record_count)
    _without(headers, sound, REASON_RECORDS, chunk, notes)
    batch = records.batch
    attributes = headers.attributes[batch]
    own_time = headers.base_timestamp[batch] + records.timestamp_delta
    appended = (attributes & LOG_APPEND_TIME) != 0
    decoded = Decoded(
        view=view,
        log_offset=headers.base_offset[batch] + records.offset_delta,
        timestamp_ms=np.where(appended, headers.max_timestamp[batch], own_time),
        producer_id=headers.producer_id[batch],
        transactional=(attributes & TRANSACTIONAL) != 0,
        control=(attributes & CONTROL) != 0,
        key_at=records.key_at,
        key_size=records.key_size,
        value_at=records.value_at,
        value_size=records.value_size,
        leader_epoch=headers.leader_epoch[batch],
        producer_epoch=headers.producer_epoch[batch],
    )
    return decoded, notes


def _headers(view: View, at: Ints) -> _Headers:
    return _Headers(
        at=at,
        base_offset=view.i64(at),
        size=view.i32(at + 8) + PREFIX_SIZE,
        leader_epoch=view.i32(at + PREFIX_SIZE),
        attributes=view.i16(at + ATTRIBUTES_AT),
        base_timestamp=view.i64(at + 27),
        max_timestamp=view.i64(at + 35),
        producer_id=view.i64(at + 43),
        producer_epoch=view.i16(at + 51),
        record_count=view.i32(at + 57),
    )


def _crc_matches(view: View, headers: _Headers) -> Bools:
    found = crc32c(view.bytes, headers.at + ATTRIBUTES_AT, headers.at + headers.size)
    matches: Bools = found == view.u32(headers.at + 17)
    return matches


def _without(
    headers: _Headers, good: Bools, reason: str, chunk: Chunk, notes: list[Note]
) -> _Headers:
    """The good ones; the others are noted."""
    if good.all():
        return headers
    bad = headers.only(~good)
    for at, size, count in zip(
        bad.at.tolist(), bad.size.tolist(), bad.record_count.tolist(), strict=True
    ):
        notes.append(Note(reason, chunk.position + at, size, max(count, 0)))
    return headers.only(good)


def _payloads(view: View, data: bytes, headers: _Headers) -> tuple[View, Ints, Ints, Bools]:
    """Where each batch's records are, once those that are compressed are not any more."""
    starts = headers.at + HEADER_SIZE
    ends = headers.at + headers.size
    readable = np.ones(len(starts), dtype=np.bool_)
    compressed = np.flatnonzero(headers.attributes & CODEC_MASK)
    if not compressed.size:
        return view, starts, ends, readable
    parts: list[bytes] = [data]
    behind = len(data)
    for index in compressed.tolist():
        payload = data[int(starts[index]) : int(ends[index])]
        plain = _decompress(payload, int(headers.attributes[index]) & CODEC_MASK)
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
