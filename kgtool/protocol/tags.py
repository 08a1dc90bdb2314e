"""The section of tagged fields at the end of every flexible struct (KIP-482)."""

from __future__ import annotations

from typing import Any

from kgtool.protocol import wire
from kgtool.protocol.wire import Reader, read_uvarint, write_uvarint


def read_tags(known: dict[int, tuple[int, Reader]], values: list[Any], buf: bytes, pos: int) -> int:
    """Read a section into ``values``; keep the fields nobody knows in the last of them.

    :param known: tag to the place of its value, and how it is read.
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
        wire.need(buf, end)
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
