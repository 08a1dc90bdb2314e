"""Kafka's primitive types as pairs of small functions.

A reader takes ``(buf, pos)`` and returns ``(value, new_pos)``; a writer takes ``(out, value)`` and
appends to the bytearray ``out``. Readers never look past the end of ``buf``: where a slice would
silently come out short they raise ``ValueError``; ``IndexError`` and ``struct.error`` do it for
the rest. ``plan.decode`` turns all three into one ``DecodeError``.

Strings are UTF-8; bytes that are not come back as lone surrogates (``surrogateescape``), so that a
name which a careless client wrote can still be shown, sent back and deleted.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

Reader = Callable[[bytes, int], tuple[Any, int]]
Writer = Callable[[bytearray, Any], None]
Codec = tuple[Reader, Writer]

MAX_STRING = 0x7FFF
"""The largest size of a string in bytes of UTF-8, in every encoding."""

INT16, INT32 = struct.Struct(">h"), struct.Struct(">i")
"""The lengths of strings, and of bytes, records and arrays."""


def need(buf: bytes, end: int) -> None:
    """Raise ``ValueError`` unless ``buf`` has at least ``end`` bytes."""
    if end > len(buf):
        raise ValueError(f"{end - len(buf)} bytes missing")


def read_uvarint(buf: bytes, pos: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits (``ByteUtils.readUnsignedVarint``)."""
    value = buf[pos]
    pos += 1
    if value < 0x80:
        return value, pos
    value &= 0x7F
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, pos
    raise ValueError("varint is longer than 32 bits")


def write_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_uuid(buf: bytes, pos: int) -> tuple[UUID, int]:
    """Read 16 raw bytes."""
    need(buf, pos + 16)
    return UUID(bytes=buf[pos : pos + 16]), pos + 16


def write_uuid(out: bytearray, value: UUID) -> None:
    """Append 16 raw bytes."""
    out += value.bytes


def uuid_text(value: UUID) -> str:
    """Write a UUID as Kafka's tools do: URL-safe base64 without padding, 22 characters."""
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(value.bytes).decode().rstrip("=")


def id_text(topic_id: UUID | None) -> str | None:
    """Write a topic id as Kafka's tools do; None where a broker has none."""
    return uuid_text(topic_id) if topic_id else None


def _read_compact_length(buf: bytes, pos: int) -> tuple[int, int]:
    value, pos = read_uvarint(buf, pos)
    return value - 1, pos


def _write_compact_length(out: bytearray, length: int) -> None:
    write_uvarint(out, length + 1)


def length_codec(flexible: bool, fixed: struct.Struct) -> Codec:
    """Build reader and writer of a length, -1 for null: compact, or ``fixed`` if not flexible."""
    if flexible:
        return _read_compact_length, _write_compact_length

    def read(buf: bytes, pos: int) -> tuple[int, int]:
        return fixed.unpack_from(buf, pos)[0], pos + fixed.size

    def write(out: bytearray, length: int) -> None:
        out += fixed.pack(length)

    return read, write


def string_codec(flexible: bool, nullable: bool) -> Codec:
    """Build reader and writer of a string."""
    length_of, write_length = length_codec(flexible, INT16)

    def read(buf: bytes, pos: int) -> tuple[str | None, int]:
        if flexible and 0 < (first := buf[pos]) < 0x80:  # nearly all of them: a length of one byte
            length, pos = first - 1, pos + 1
        else:
            length, pos = length_of(buf, pos)
        if length <= 0:
            if length == 0:
                return "", pos
            if nullable and length == -1:
                return None, pos
            raise ValueError("null where a string must be")
        end = pos + length
        if end > len(buf):
            raise ValueError(f"{end - len(buf)} bytes missing")
        return buf[pos:end].decode("utf-8", "surrogateescape"), end

    def write(out: bytearray, value: str | None) -> None:
        if value is None:
            write_null(out, write_length, nullable, "a string")
            return
        raw = value.encode("utf-8", "surrogateescape")
        if len(raw) > MAX_STRING:  # a compact length could say more, but Kafka refuses it
            raise ValueError(f"a string of {len(raw)} bytes is longer than {MAX_STRING}")
        write_length(out, len(raw))
        out += raw

    return read, write


def bytes_codec(flexible: bool, nullable: bool) -> Codec:
    """Build reader and writer of bytes or records."""
    length_of, write_length = length_codec(flexible, INT32)

    def read(buf: bytes, pos: int) -> tuple[bytes | None, int]:
        length, pos = length_of(buf, pos)
        if length < 0:
            if nullable and length == -1:
                return None, pos
            raise ValueError("null where bytes must be")
        end = pos + length
        need(buf, end)
        return buf[pos:end], end

    def write(out: bytearray, value: bytes | None) -> None:
        if value is None:
            write_null(out, write_length, nullable, "bytes")
            return
        write_length(out, len(value))
        out += value

    return read, write


def write_null(out: bytearray, write_length: Writer, nullable: bool, what: str) -> None:
    """Append the length of null."""
    if not nullable:
        raise ValueError(f"null where {what} must be")
    write_length(out, -1)


# ---------------------------------------------------------------------------------------------
# The section of tagged fields at the end of every flexible struct (KIP-482)


def read_tags(known: dict[int, tuple[int, Reader]], values: list[Any], buf: bytes, pos: int) -> int:
    """Read a section into ``values``, unknown fields into the last of them.

    :param known: by tag, the position of the value and its reader.
    """
    count, pos = read_uvarint(buf, pos)
    if count * 2 > len(buf) - pos:
        raise ValueError(f"{count} tagged fields in {len(buf) - pos} bytes")
    unknown = []
    last = -1
    for _ in range(count):
        tag, pos = read_uvarint(buf, pos)
        if tag <= last:  # ascending, each once
            raise ValueError(f"tag {tag} comes after tag {last}")
        last = tag
        size, pos = read_uvarint(buf, pos)
        end = pos + size
        need(buf, end)
        # A slice of its own: what precedes must not be copied again for every tag.
        body = buf[pos:end]
        if tag in known:
            at, read_one = known[tag]
            values[at], stop = read_one(body, 0)
            if stop != size:
                raise ValueError(f"tag {tag} says {size} bytes and has {stop}")
        else:
            unknown.append((tag, body))
        pos = end
    values[-1] = tuple(unknown)
    return pos


def write_section(out: bytearray, section: list[tuple[int, bytes]]) -> None:
    """Append the tagged fields, each with its bytes, in the order of their tags."""
    write_uvarint(out, len(section))
    for tag, raw in sorted(section):
        write_uvarint(out, tag)
        write_uvarint(out, len(raw))
        out += raw


# ---------------------------------------------------------------------------------------------
# The size of a message in memory

MAX_ELEMENTS = 10_000_000
"""Of all arrays of a message together. An element of three bytes becomes objects of 150: without a
limit a frame of 512 MB would fill 24 GB."""


class _Budget(threading.local):
    """The number of elements that the message being read may still have."""

    left = MAX_ELEMENTS

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise ValueError(f"more than {MAX_ELEMENTS} elements")


budget = _Budget()
