"""Record batches, one by one, with the standard library: for parts of a log.

The layout is that of magic 2 (``DefaultRecordBatch``, Kafka 0.11): 61 bytes of header, then the
records, which may be compressed together. The analysis of whole logs has a faster reader
(``kgtool.analysis.decode.batches``); this one needs no numpy. It does not verify checksums: the
broker did when it appended, and CRC-32C in plain Python would take longer than the rest.

gzip is in the standard library; snappy, lz4 and zstd take ``cramjam``, which is imported only for
them: coordinators write uncompressed batches unless ``offsets.topic.compression.codec`` says
otherwise.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kgtool.errors import DecodeError

HEADER_SIZE = 61
PREFIX_SIZE = 12
"""Base offset and length, which the length does not count."""

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qi")
_MAGIC_AT = 16
_ATTRIBUTES_AT = 22
"""The lower byte of the attributes."""
_PRODUCER_EPOCH_AT = 51
_CODEC, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_LOOK_INSIDE = _CODEC | _CONTROL
_GZIP, _SNAPPY, _LZ4, _ZSTD = 1, 2, 3, 4
_NAMES = {_GZIP: "gzip", _SNAPPY: "snappy", _LZ4: "lz4", _ZSTD: "zstd"}
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
MAX_PLAIN_BYTES = 1 << 28
"""More than any broker's ``message.max.bytes`` expands to: the limit for decompression bombs."""


class Batch(NamedTuple):
    """The header of one batch; its records are at ``data[start:end]``."""

    base_offset: int
    last_offset: int
    attributes: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    records: int
    start: int
    end: int

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether it holds a transaction marker instead of data."""
        return bool(self.attributes & _CONTROL)

    @property
    def is_compressed(self) -> bool:
        """Whether the records have to be decompressed."""
        return bool(self.attributes & _CODEC)

    @property
    def is_append_time(self) -> bool:
        """Whether the timestamps are the broker's (``message.timestamp.type=LogAppendTime``)."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    def leader_epoch(self, data: bytes) -> int:
        """Return the leader epoch in which the batch was appended; -1 if unknown."""
        at = self.start - HEADER_SIZE + PREFIX_SIZE
        return int.from_bytes(data[at : at + 4], "big", signed=True)

    def producer_epoch(self, data: bytes) -> int:
        """Return the epoch of the producer; -1 without one."""
        at = self.start - HEADER_SIZE + _PRODUCER_EPOCH_AT
        return int.from_bytes(data[at : at + 2], "big", signed=True)


class RawRecord(NamedTuple):
    """One record; a null value is a tombstone."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


RecordHeaders = tuple[tuple[str, "bytes | None"], ...]
"""The headers of a record (KIP-82): names, which may repeat, and values."""


def batches(data: bytes) -> Iterator[Batch]:
    """Yield the headers of the whole batches in ``data``; one cut off at the end is ignored.

    :raises DecodeError: malformed bytes, or a message of magic 0 or 1.
    """
    pos = 0
    while pos + PREFIX_SIZE < len(data):
        batch = read_header(data, pos)
        if batch is None:
            return
        yield batch
        pos = batch.end


def batches_containing(data: bytes, needles: Sequence[bytes]) -> Iterator[Batch]:
    """Yield only the batches that may contain one of ``needles``; without needles, every batch.

    Those that are compressed or end transactions are always among them; the others are skipped
    unread.

    :raises DecodeError: as ``batches`` does.
    """
    hits = [data.find(needle) for needle in needles]
    pos, size = 0, len(data)
    while pos + HEADER_SIZE <= size:
        end = pos + PREFIX_SIZE + _PREFIX.unpack_from(data, pos)[1]
        is_wanted = not needles or data[pos + _ATTRIBUTES_AT] & _LOOK_INSIDE
        for number, hit in enumerate(hits):
            if -1 < hit < pos:
                hit = hits[number] = data.find(needles[number], pos)
            if -1 < hit < end:
                is_wanted = True
        if is_wanted or data[pos + _MAGIC_AT] != 2 or end <= pos + HEADER_SIZE:
            batch = read_header(data, pos)
            if batch is None:
                return
            yield batch
        pos = end


def read_header(data: bytes, pos: int) -> Batch | None:
    """Return the header of the batch that begins at ``pos``; None if the batch is cut off.

    :raises DecodeError: malformed bytes, or a message of magic 0 or 1.
    """
    if pos + PREFIX_SIZE > len(data):
        return None
    base, length = _PREFIX.unpack_from(data, pos)
    end = pos + PREFIX_SIZE + length
    if length <= _MAGIC_AT - PREFIX_SIZE:
        raise DecodeError(f"record batch at offset {base}: a length of {length} bytes")
    if end > len(data):
        return None
    magic = data[pos + _MAGIC_AT]
    if magic != 2 or length < HEADER_SIZE - PREFIX_SIZE:
        raise DecodeError(
            f"record batch at offset {base}: magic {magic} can't be read here",
            hint="Logs from before Kafka 0.11 hold such messages.",
        )
    header = _HEADER.unpack_from(data, pos)
    _, _, _, _, _, attributes, delta, base_ms, max_ms, producer, _, _, number = header
    return Batch(
        base, base + delta, attributes, base_ms, max_ms, producer, number, pos + HEADER_SIZE, end
    )


def read_records(data: bytes, batch: Batch) -> Iterator[RawRecord]:
    """Yield the records of a batch.

    :raises DecodeError: they are malformed, or can't be decompressed.
    """
    for record, _, _, _ in _walk(data, batch):
        yield record


def read_records_with_headers(
    data: bytes, batch: Batch
) -> Iterator[tuple[RawRecord, RecordHeaders]]:
    """Yield the records of a batch with their headers.

    :raises DecodeError: as ``read_records`` does.
    """
    for record, plain, pos, end in _walk(data, batch):
        try:
            headers = _headers(plain, pos, end)
        except (IndexError, ValueError) as error:
            raise _unreadable(batch, error) from error
        yield record, headers


def _walk(data: bytes, batch: Batch) -> Iterator[tuple[RawRecord, bytes, int, int]]:
    """Yield each record, and the place of its headers: bytes, start and end."""
    plain, pos, end = data, batch.start, batch.end
    if batch.is_compressed:
        plain = _decompress(data[pos:end], batch)
        pos, end = 0, len(plain)
    appended = batch.max_timestamp_ms if batch.is_append_time else None
    try:
        for _ in range(batch.records):
            record, headers_at, pos = _record(plain, pos, end, batch, appended)
            yield record, plain, headers_at, pos
    except (IndexError, ValueError) as error:
        raise _unreadable(batch, error) from error


def _unreadable(batch: Batch, error: Exception) -> DecodeError:
    where = f"record batch at offset {batch.base_offset}"
    return DecodeError(f"{where}: a record can't be read ({error})")


def _record(
    data: bytes, pos: int, end: int, batch: Batch, appended_ms: int | None
) -> tuple[RawRecord, int, int]:
    """Read one record; return it, the start of its headers and of the next record."""
    length, pos = _varint(data, pos)
    following = pos + length
    if length < 0 or following > end:
        raise ValueError(f"a length of {length} bytes")
    delta_ms, pos = _varint(data, pos + 1)
    delta, pos = _varint(data, pos)
    key, pos = _bytes(data, pos, following)
    value, pos = _bytes(data, pos, following)
    timestamp = batch.base_timestamp_ms + delta_ms if appended_ms is None else appended_ms
    return RawRecord(batch.base_offset + delta, timestamp, key, value), pos, following


def _headers(data: bytes, pos: int, limit: int) -> RecordHeaders:
    count, pos = _varint(data, pos)
    found = []
    for _ in range(count):
        name, pos = _bytes(data, pos, limit)
        value, pos = _bytes(data, pos, limit)
        found.append(((name or b"").decode("utf-8", "backslashreplace"), value))
    return tuple(found)


def _bytes(data: bytes, pos: int, limit: int) -> tuple[bytes | None, int]:
    length, pos = _varint(data, pos)
    if length < 0:
        return None, pos
    end = pos + length
    if end > limit:
        raise ValueError(f"{end - limit} bytes missing")
    return data[pos:end], end


def _varint(data: bytes, pos: int) -> tuple[int, int]:
    """Read a zigzag varint of at most 64 bits; return it and the position after it."""
    byte = data[pos]
    pos += 1
    if byte < 0x80:  # nearly always
        return (byte >> 1) ^ -(byte & 1), pos
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), pos
        shift += 7
        if shift > 63:
            raise ValueError("a varint of more than 64 bits")


# ---------------------------------------------------------------------------------------------
# Compression


def _decompress(payload: bytes, batch: Batch) -> bytes:
    codec = batch.attributes & _CODEC
    where = f"record batch at offset {batch.base_offset}"
    if codec not in _NAMES:
        raise DecodeError(f"{where}: compression codec {codec} is unknown")
    try:
        return decompress(payload, codec, MAX_PLAIN_BYTES)
    except Exception as error:  # cramjam's DecompressionError can't be named without cramjam
        raise DecodeError(f"{where}: this is not what {_NAMES[codec]} writes ({error})") from error


class TooLarge(ValueError):
    """Compressed bytes that would be more than so many."""

    def __init__(self, most: int) -> None:
        super().__init__(f"more than {most} bytes")


def decompress(payload: bytes, codec: int, most: int) -> bytes:
    """Return at most ``most`` decompressed bytes.

    :raises Exception: malformed bytes, or more than that (TooLarge).
    """
    if codec not in _NAMES:
        raise ValueError(f"compression codec {codec} is unknown")
    if codec == _GZIP:
        return _gunzip(payload, most)
    import cramjam

    if codec == _SNAPPY:
        return _snappy(payload, cramjam.snappy, most)
    library = cramjam.lz4 if codec == _LZ4 else cramjam.zstd
    return _into(library.decompress_into, payload, most)


def _gunzip(payload: bytes, most: int) -> bytes:
    reader = zlib.decompressobj(wbits=31)
    plain = reader.decompress(payload, most)
    if not reader.eof:
        raise TooLarge(most) if len(plain) >= most else ValueError("it is cut short")
    return plain


def _into(decompress_into: Any, payload: bytes, most: int) -> bytes:
    """Decompress into a buffer that grows up to ``most`` bytes."""
    room = min(max(1 << 16, 8 * len(payload)), most)
    while True:
        buffer = bytearray(room)
        try:
            size = decompress_into(payload, buffer)
        except Exception as error:
            if "whole buffer" not in str(error):
                raise
            if room == most:
                raise TooLarge(most) from None
            room = min(8 * room, most)
        else:
            return bytes(memoryview(buffer)[:size])


def _snappy(payload: bytes, snappy: Any, most: int) -> bytes:
    """Java clients frame snappy as snappy-java does; librdkafka writes one bare block."""
    blocks: list[bytes] = []
    size = 0
    for block in _snappy_blocks(payload):
        # A block begins with the size that it has decompressed.
        size += snappy.decompress_raw_len(block)
        if size > most:
            raise TooLarge(most)
        blocks.append(block)
    return b"".join(bytes(snappy.decompress_raw(block)) for block in blocks)


def _snappy_blocks(payload: bytes) -> Iterator[bytes]:
    if not payload.startswith(_XERIAL):
        yield payload
        return
    at = _XERIAL_HEADER
    while at + 4 <= len(payload):
        end = at + 4 + int.from_bytes(payload[at : at + 4], "big")
        yield payload[at + 4 : end]
        at = end
