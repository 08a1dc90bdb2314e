"""Read a range of a large text file record by record, without reading the file.

A record belongs to the range in which it begins, so ranges that meet give every record once,
wherever the file was cut. Where records begin is told by a pattern of what lies between two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, NamedTuple

BLOCK_BYTES = 8 << 20
LOOKBACK = 256
"""Bytes before a range in which what separates its first record from the one before may begin."""

JSON_OBJECTS = re.compile(rb'\}\s*,?\s*(?=\{\s*"key"\s*:)')
"""Between two objects that begin with ``"key"``. This can't occur inside a JSON string, where a
quote has a backslash before it, nor inside an object, whose arrays' elements have no key."""
OFFSET_LINES = re.compile(rb"\n(?=\[)")
GROUP_LINES = re.compile(rb"\n(?=[^\n]+::(?:GroupMetadata\(|NULL))")
BATCHES = re.compile(rb"\n(?=(?:baseOffset|offset): \d|Dumping )")
"""Between what kafka-dump-log prints of two batches; before 2.2 it prints records only."""
ROWS = re.compile(rb"\n(?=\{)")
"""Between JSON objects on lines of their own."""
NOISE_BYTES = 1 << 20
"""Before the first heading there may be as much that a logger wrote."""
SECTION = re.compile(rb"^(?:\xef\xbb\xbf)?Dumping ([^\r\n]*)", re.MULTILINE)
"""The heading of a file that was dumped; a byte order mark may stand before it."""


class TextRecord(NamedTuple):
    """The bytes of one record, or of one batch, with what separates it from the next."""

    position: int
    """Bytes from the start of the file."""
    data: bytes


def units(
    file: IO[bytes], start: int, end: int, between: re.Pattern[bytes]
) -> Iterator[list[TextRecord]]:
    """The records that begin in a range of the file, a block of them at a time.

    Raises OSError where the file can't be read.
    """
    at = max(start - LOOKBACK, 0)
    file.seek(at)
    data = b""
    begin = 0 if start == 0 else None
    is_over = start >= end
    while not is_over:
        block = file.read(BLOCK_BYTES)
        data += block
        found: list[TextRecord] = []
        for match in between.finditer(data, begin or 0):
            place = match.end()
            if at + place < start:
                continue
            if begin is not None:
                found.append(TextRecord(at + begin, data[begin:place]))
            begin = place
            if at + place >= end:
                is_over = True
                break
        if not block and not is_over:
            is_over = True
            if begin is not None and begin < len(data):
                found.append(TextRecord(at + begin, data[begin:]))
        if found:
            yield found
        # What is left begins with a record that is not complete yet, or may hold half a boundary.
        kept = max(len(data) - LOOKBACK, 0) if begin is None else begin
        data, at, begin = data[kept:], at + kept, None if begin is None else 0


def sections(file: IO[bytes], size: int, name: str = "") -> Iterator[tuple[int, int, str]]:
    """(start, end, file that was dumped) of each part of a kafka-dump-log output.

    :param name: the file that the first part is of, where its heading came before.

    Raises OSError where the file can't be read.
    """
    start = 0
    for position, found in _headings(file):
        if position > start and (name or position > NOISE_BYTES):
            yield start, position, name
            start = position
        name = found
    yield start, size, name


def _headings(file: IO[bytes]) -> Iterator[tuple[int, str]]:
    at, data = 0, b""
    while block := file.read(BLOCK_BYTES):
        data += block
        # A heading that the block cuts is seen whole together with the next one.
        last = data.rfind(b"\n") + 1
        for match in SECTION.finditer(data, 0, last):
            yield at + match.start(), match[1].decode(errors="replace")
        data, at = data[last:], at + last
