"""The shape that replies repeat most, read fast: fixed fields, a string, fixed fields again.

A partition of OffsetFetch is one (index, offset and epoch; metadata; error code), and a reply may
have a million of them. What comes out is the same as from the general readers of ``plan``.
"""

from __future__ import annotations

import struct as _struct
from collections.abc import Callable, Iterable
from typing import Any

from kgtool.protocol.schema import Struct

EMPTY = 1
"""The compact length of an empty string: lengths are written plus one."""

Bulk = Callable[[bytes, int, int], "tuple[list[Any], int] | None"]


def bulk_reader(cls: type[Struct], first: _struct.Struct, last: _struct.Struct) -> Bulk:
    """Build the reader of a whole array of flexible elements with an empty string in the middle.

    That is what most clients commit as metadata. Such elements are all of one size, so they are
    unpacked at once; the result is None where any of them says something, or has tagged fields.
    """
    row = _struct.Struct(f"{first.format}x{last.format[1:]}x")
    size, middle = row.size, first.size
    build = _builder(cls, len(first.unpack(bytes(first.size))))

    def read(buf: bytes, pos: int, count: int) -> tuple[list[Any], int] | None:
        end = pos + size * count
        if end > len(buf):
            return None
        # Where every length is that of an empty string, each element ends where the next begins.
        if buf[pos + middle : end : size].count(EMPTY) != count:
            return None
        if buf[pos + size - 1 : end : size].count(0) != count:
            return None
        return build(row.iter_unpack(memoryview(buf)[pos:end])), end

    return read


def _builder(cls: type[Struct], split: int) -> Callable[[Iterable[tuple[Any, ...]]], list[Any]]:
    """Make the function that puts an empty string into rows, and makes structs of them.

    Written out with its names, as ``collections.namedtuple`` does: with ``*`` it takes twice as
    long. Only field numbers go into it.
    """
    names = [f"v{at}" for at in range(len(cls.FIELDS))]
    values = ", ".join([*names[:split], '""', *names[split + 1 :], "()"])
    given = ", ".join(names[:split] + names[split + 1 :])
    source = f"lambda rows: [new(cls, ({values})) for {given} in rows]"
    build: Callable[[Iterable[tuple[Any, ...]]], list[Any]] = eval(  # noqa: S307
        source, {"new": tuple.__new__, "cls": cls}
    )
    return build
