"""The shape that replies repeat most, read fast: fixed fields, one of its own, fixed fields again.

A partition of OffsetFetch is one (index, offset and epoch; metadata; error code), and a reply may
have a million of them. What comes out is the same as from the general readers of ``plan``.
"""

from __future__ import annotations

import struct as _struct
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from kgtool.protocol.schema import Struct
from kgtool.protocol.tags import read_tags
from kgtool.protocol.wire import Reader

SHORT = 0x80
"""Compact lengths below take one byte; they are written plus one, 0 is null."""

Bulk = Callable[[bytes, int, int], "tuple[list[Any], int] | None"]
_new = tuple.__new__


def reader(
    cls: type[Struct],
    flexible: bool,
    first: _struct.Struct,
    read_middle: Reader,
    last: _struct.Struct,
) -> Reader:
    """Build the reader of one element: the general one takes twice as long."""
    head, head_size = first.unpack_from, first.size
    tail, tail_size = last.unpack_from, last.size

    def read(buf: bytes, pos: int) -> tuple[Struct, int]:
        before = head(buf, pos)
        value, at = read_middle(buf, pos + head_size)
        after = tail(buf, at)
        at += tail_size
        if not flexible:
            return _new(cls, (*before, value, *after, ())), at
        if not buf[at]:
            return _new(cls, (*before, value, *after, ())), at + 1
        values = [*before, value, *after, ()]
        at = read_tags({}, values, buf, at)
        return _new(cls, values), at

    return read


def bulk_reader(cls: type[Struct], first: _struct.Struct, last: _struct.Struct) -> Bulk:
    """Build the reader of a whole array of flexible elements with strings of one length.

    Most clients commit empty metadata, Kafka Streams 12 characters. Such elements are all of one
    size, so they are unpacked at once; the result is None where the lengths differ, or an element
    has tagged fields.
    """
    middle = first.size
    split = len(first.unpack(bytes(middle)))

    @cache
    def rows(length: int) -> tuple[_struct.Struct, Callable[[Any], list[Any]]]:
        row = _struct.Struct(f"{first.format}x{length}s{last.format[1:]}x")
        return row, _builder(cls, split, is_empty=not length)

    def read(buf: bytes, pos: int, count: int) -> tuple[list[Any], int] | None:
        told = buf[pos + middle] if count else 0
        if not 0 < told < SHORT:
            return None
        row, build = rows(told - 1)
        size = row.size
        end = pos + size * count
        if end > len(buf):
            return None
        # Where every length is that of the first, each element ends where the next begins.
        if buf[pos + middle : end : size].count(told) != count:
            return None
        if buf[pos + size - 1 : end : size].count(0) != count:
            return None
        return build(row.iter_unpack(memoryview(buf)[pos:end])), end

    return read


def _builder(
    cls: type[Struct], split: int, *, is_empty: bool
) -> Callable[[Iterable[tuple[Any, ...]]], list[Any]]:
    """Make the function that makes a string of a value in rows, and structs of the rows.

    Written out with its names, as ``collections.namedtuple`` does: with ``*`` it takes twice as
    long. Only field numbers go into it.
    """
    names = [f"v{at}" for at in range(len(cls.FIELDS))]
    text = '""' if is_empty else f'str(v{split}, "utf-8", "surrogateescape")'
    values = ", ".join([*names[:split], text, *names[split + 1 :], "()"])
    source = f"lambda rows: [new(cls, ({values})) for {', '.join(names)} in rows]"
    build: Callable[[Iterable[tuple[Any, ...]]], list[Any]] = eval(  # noqa: S307
        source, {"new": tuple.__new__, "cls": cls}
    )
    return build
