"""Writes segments by hand, one record at a time: the slow, obvious opposite of kgtool.analysis."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import cramjam

TRANSACTIONAL, CONTROL = 0x10, 0x20


class Raw(NamedTuple):
    """One record of a batch."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 0


def _bits(register: int) -> int:
    """Bit by bit, from the polynomial's definition (RFC 3720)."""
    for _ in range(8):
        register = (register >> 1) ^ (0x82F63B78 if register & 1 else 0)
    return register


_BYTES = [_bits(byte) for byte in range(256)]


def crc32c(data: bytes) -> int:
    """Byte by byte: for one range faster than kgtool's, which is made for thousands."""
    register = 0xFFFFFFFF
    for byte in data:
        register = (register >> 8) ^ _BYTES[(register ^ byte) & 0xFF]
    return register ^ 0xFFFFFFFF


def varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


def record(raw: Raw, delta: int, base_ms: int) -> bytes:
    body = b"\x00" + varint(raw.timestamp_ms - base_ms) + varint(delta)
    for part in (raw.key, raw.value):
        body += varint(-1) if part is None else varint(len(part)) + part
    body += varint(0)
    return varint(len(body)) + body


def xerial(data: bytes) -> bytes:
    """As snappy-java frames it, in blocks of 100 bytes."""
    out = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for at in range(0, len(data), 100):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + 100]))
        out += struct.pack(">i", len(block)) + block
    return out


CODECS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "none": (0, lambda data: data),
    "gzip": (1, gzip.compress),
    "snappy-java": (2, xerial),
    "snappy-librdkafka": (2, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "lz4": (3, lambda data: bytes(cramjam.lz4.compress(data))),
    "zstd": (4, lambda data: bytes(cramjam.zstd.compress(data))),
}


def batch(
    base_offset: int,
    records: Iterable[Raw],
    *,
    codec: str = "none",
    attributes: int = 0,
    producer_id: int = -1,
    leader_epoch: int = 0,
    crc: Callable[[bytes], int] = crc32c,
) -> bytes:
    rows = list(records)
    base_ms = rows[0].timestamp_ms if rows else 0
    number, compress = CODECS[codec]
    payload = compress(b"".join(record(row, i, base_ms) for i, row in enumerate(rows)))
    last_ms = max((row.timestamp_ms for row in rows), default=0)
    tail = struct.pack(
        ">hiqqqhii",
        attributes | number,
        max(len(rows) - 1, 0),
        base_ms,
        last_ms,
        producer_id,
        0,
        -1,
        len(rows),
    )
    body = struct.pack(">ibI", leader_epoch, 2, crc(tail + payload)) + tail + payload
    return struct.pack(">qi", base_offset, len(body)) + body


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def offset_key(group: str, topic: str = "t", partition: int = 0, kind: int = 1) -> bytes:
    return struct.pack(">h", kind) + text(group) + text(topic) + struct.pack(">i", partition)


def offset_value(offset: int, commit_ms: int, version: int = 3, expire_ms: int = -1) -> bytes:
    head = struct.pack(">hq", version, offset)
    if version == 3:
        head += struct.pack(">i", -1)
    tail = struct.pack(">q", expire_ms) if version == 1 else b""
    return head + text("meta") + struct.pack(">q", commit_ms) + tail


def commits(first: int, count: int, group: str = "g", **options: str) -> bytes:
    """``count`` batches of one commit each, to partition 0, 1, 2 … of topic ``t``."""
    return b"".join(
        batch(
            at,
            [Raw(offset_key(group, "t", at), offset_value(at * 10, 1000 + at), 1000 + at)],
            **options,  # type: ignore[arg-type]
        )
        for at in range(first, first + count)
    )


def segment(folder: Path, data: bytes, partition: int = 0, base: int = 0) -> Path:
    path = folder / f"__consumer_offsets-{partition}" / f"{base:020}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
