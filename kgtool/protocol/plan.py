"""Compiles a schema table, for one version, into a reader and a writer.

The only place that knows how classic and flexible versions differ (KIP-482). A plan is a list of
steps built once per (struct, version, flexible) on first use; runs of fixed-width fields become
one ``struct.Struct``, every other field has a closure.

Contract of the compiled functions: a reader may raise ``ValueError``, ``IndexError`` or
``struct.error`` on bytes that are not such a message, and nothing else; it never allocates more
than the bytes at hand can fill, because an array's count is checked against the smallest size its
elements can have. ``decode`` and ``encode`` translate to ``DecodeError`` and ``EncodeError``.
"""

from __future__ import annotations

import struct as _struct
from collections.abc import Callable
from functools import cache
from itertools import repeat
from typing import Any, NamedTuple, TypeVar

from kgtool.errors import DecodeError, EncodeError
from kgtool.protocol import wire
from kgtool.protocol.schema import Field, Struct
from kgtool.protocol.wire import Codec, Reader, Writer, read_tags, read_uvarint, write_section

FIXED = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "bool": "?",
}

NO_TAGS = 0
"""The byte of no tagged fields."""

S = TypeVar("S", bound=Struct)
UniformReader = Callable[[bytes, int, int], "tuple[list[Any], int] | None"]
_new = tuple.__new__


class _Step(NamedTuple):
    """Fields ``low`` to ``high`` (exclusive): one fixed-width run, or one field of its own."""

    low: int
    high: int
    fixed: _struct.Struct | None
    read: Reader | None
    write: Writer | None


def decode(cls: type[S], version: int, buf: bytes, pos: int = 0) -> S:
    """Read a message that ends where ``buf`` does; raise ``DecodeError`` if it isn't one."""
    value, end = decode_prefix(cls, version, buf, pos)
    if end != len(buf):
        left = f"{len(buf) - end} bytes left over"
        raise DecodeError(f"{_name(cls)} v{version}: not a valid message ({left})")
    return value


def decode_prefix(cls: type[S], version: int, buf: bytes, pos: int = 0) -> tuple[S, int]:
    """Read a message and return it with the position after it; what follows is ignored."""
    wire.budget.left = wire.MAX_ELEMENTS
    try:
        return reader(cls, version, version in cls.FLEXIBLE)(buf, pos)
    except (ValueError, IndexError, _struct.error) as exc:
        raise DecodeError(f"{_name(cls)} v{version}: not a valid message ({exc})") from exc


def encode(message: Struct, version: int) -> bytes:
    """Write a message; raise ``EncodeError`` where the version lacks one of its fields."""
    cls = type(message)
    if version not in cls.VERSIONS:
        raise EncodeError(f"{_name(cls)} has no version {version}, only {cls.VERSIONS}")
    out = bytearray()
    try:
        writer(cls, version, version in cls.FLEXIBLE)(out, message)
    except (ValueError, TypeError, AttributeError, OverflowError, _struct.error) as exc:
        raise EncodeError(f"{_name(cls)} v{version}: cannot be written ({exc})") from exc
    return bytes(out)


def _name(cls: type[Struct]) -> str:
    name = cls.__name__
    return f"{cls.NAME}{name}" if name in ("Request", "Response") else name


@cache
def reader(cls: type[Struct], version: int, flexible: bool) -> Reader:
    """Return the compiled reader of a struct."""
    steps = _steps(cls, version, flexible)
    template: list[Any] = [field.default_value() for field in cls.FIELDS]
    template.append(())
    fresh = [at for at, value in enumerate(template) if isinstance(value, list)]
    tags = _tag_readers(cls, version, flexible)
    plan = [
        (
            s.low,
            s.high,
            s.fixed.unpack_from if s.fixed else None,
            s.fixed.size if s.fixed else 0,
            s.read,
        )
        for s in steps
    ]

    def read(buf: bytes, pos: int) -> tuple[Struct, int]:
        values = template[:]
        for at in fresh:
            values[at] = []
        for low, high, unpack, size, read_one in plan:
            if unpack is not None:
                values[low:high] = unpack(buf, pos)
                pos += size
            else:
                values[low], pos = read_one(buf, pos)  # type: ignore[misc]
        if flexible:
            if buf[pos]:
                pos = read_tags(tags, values, buf, pos)
            else:
                pos += 1
        return _new(cls, values), pos

    return read


def _tag_readers(cls: type[Struct], version: int, flexible: bool) -> dict[int, tuple[int, Reader]]:
    if not flexible:
        return {}
    return {
        field.tag: (at, _codec(field, version, flexible, tagged=True)[0])
        for at, field in enumerate(cls.FIELDS)
        if field.tag is not None and version in field.tagged
    }


@cache
def writer(cls: type[Struct], version: int, flexible: bool) -> Writer:
    """Return the compiled writer of a struct."""
    steps = _steps(cls, version, flexible)
    absent = [
        (at, field)
        for at, field in enumerate(cls.FIELDS)
        if version not in field.versions and not field.ignorable
    ]
    tags = sorted(
        (field.tag, at, field, _codec(field, version, flexible, tagged=True)[1])
        for at, field in enumerate(cls.FIELDS)
        if flexible and field.tag is not None and version in field.tagged
    )

    def write(out: bytearray, value: Any) -> None:
        if type(value) is not cls:
            raise TypeError(f"{cls.__qualname__} expected, not {type(value).__qualname__}")
        for at, field in absent:
            if value[at] != field.default_value():
                raise ValueError(f"{field.name} does not exist in this version")
        for step in steps:
            if step.fixed is not None:
                out += step.fixed.pack(*value[step.low : step.high])
            else:
                step.write(out, value[step.low])  # type: ignore[misc]
        if flexible:
            _write_tags(out, value, tags)
        elif value[-1]:
            raise ValueError("tagged fields do not exist in this version")

    return write


def _write_tags(out: bytearray, value: Any, tags: list[tuple[Any, int, Field, Writer]]) -> None:
    """Append the section of tagged fields: the known ones that differ, then the unknown."""
    section: list[tuple[int, bytes]] = list(value[-1])
    for tag, at, field, write_one in tags:
        if value[at] != field.default_value():
            body = bytearray()
            write_one(body, value[at])
            section.append((tag, bytes(body)))
    write_section(out, section)


def _steps(cls: type[Struct], version: int, flexible: bool) -> list[_Step]:
    """Group the fields that this version has, in wire order, into steps."""
    steps: list[_Step] = []
    run: list[int] = []

    def flush() -> None:
        if run:
            layout = ">" + "".join(FIXED[cls.FIELDS[at].kind] for at in run)
            steps.append(_Step(run[0], run[-1] + 1, _struct.Struct(layout), None, None))
            run.clear()

    for at, field in enumerate(cls.FIELDS):
        if version not in field.versions or (flexible and version in field.tagged):
            flush()
        elif field.kind in FIXED:
            run.append(at)
        else:
            flush()
            steps.append(_Step(at, at + 1, None, *_codec(field, version, flexible)))
    flush()
    return steps


def min_size(cls: type[Struct], version: int, flexible: bool) -> int:
    """Return the fewest bytes that a struct takes at this version."""
    size = 1 if flexible else 0
    for field in cls.FIELDS:
        if version in field.versions and not (flexible and version in field.tagged):
            size += _min_field_size(field, version, flexible)
    return size


def _min_field_size(field: Field, version: int, flexible: bool) -> int:
    if field.kind in FIXED:
        return _struct.calcsize(">" + FIXED[field.kind])
    if field.kind == "uuid":
        return 16
    if field.kind == "struct":
        nullable = version in field.nullable
        return 1 if nullable else min_size(field.of, version, flexible)
    if flexible:
        return 1
    return 2 if field.kind == "string" else 4


def _codec(field: Field, version: int, flexible: bool, *, tagged: bool = False) -> Codec:
    nullable = version in field.nullable
    kind = field.kind
    if kind in FIXED:
        return _fixed_codec(FIXED[kind])
    if kind == "uuid":
        return wire.read_uuid, wire.write_uuid
    if kind == "string":
        return wire.string_codec(flexible, nullable)
    if kind in ("bytes", "records"):
        return wire.bytes_codec(flexible, nullable)
    if kind == "array":
        array = (field.of, version, flexible, nullable)
        return _array_reader(*array), _array_writer(*array)
    codec = reader(field.of, version, flexible), writer(field.of, version, flexible)
    return _nullable_codec(*codec, tagged) if nullable else codec


def _fixed_codec(layout: str) -> Codec:
    fixed = _struct.Struct(">" + layout)

    def read(buf: bytes, pos: int) -> tuple[Any, int]:
        return fixed.unpack_from(buf, pos)[0], pos + fixed.size

    def write(out: bytearray, value: Any) -> None:
        out += fixed.pack(value)

    return read, write


def _nullable_codec(read_one: Reader, write_one: Writer, tagged: bool) -> Codec:
    """Wrap a struct's codec: the marker is an int8, inside a tag a uvarint (KIP-893)."""

    def read(buf: bytes, pos: int) -> tuple[Any, int]:
        if tagged:
            marker, pos = read_uvarint(buf, pos)
            if marker > 1:
                raise ValueError(f"{marker} where 0 (null) or 1 must be")
            return read_one(buf, pos) if marker else (None, pos)
        marker, pos = buf[pos], pos + 1
        if marker == 0xFF:
            return None, pos
        if marker != 1:
            raise ValueError(f"{marker} where -1 (null) or 1 must be")
        return read_one(buf, pos)

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0 if tagged else 0xFF)
        else:
            out.append(1)
            write_one(out, value)

    return read, write


def _element(of: Any, version: int, flexible: bool) -> tuple[Codec, int, str]:
    """Return codec, smallest size and fixed layout ("" if none) of array elements."""
    if isinstance(of, type):
        codec = reader(of, version, flexible), writer(of, version, flexible)
        return codec, min_size(of, version, flexible), ""
    field: Field = of()
    size = _min_field_size(field, version, flexible)
    return _codec(field, version, flexible), size, FIXED.get(field.kind, "")


def _array_reader(of: Any, version: int, flexible: bool, nullable: bool) -> Reader:
    length_of, _ = wire.length_codec(flexible, wire.INT32)
    (read_one, _), smallest, layout = _element(of, version, flexible)
    smallest = max(smallest, 1)
    is_struct = isinstance(of, type)
    read_uniform = _uniform_array_reader(of, version) if flexible and is_struct else None

    def read(buf: bytes, pos: int) -> tuple[list[Any] | None, int]:
        count, pos = length_of(buf, pos)
        if count < 0:
            if nullable and count == -1:
                return None, pos
            raise ValueError("null where an array must be")
        if count * smallest > len(buf) - pos:
            raise ValueError(f"{count} elements in {len(buf) - pos} bytes")
        wire.budget.spend(count)
        if layout:
            end = pos + count * smallest
            return list(_struct.unpack_from(f">{count}{layout}", buf, pos)), end
        if read_uniform is not None and (uniform := read_uniform(buf, pos, count)) is not None:
            return uniform
        items: list[Any] = []
        append = items.append
        for _ in range(count):
            item, pos = read_one(buf, pos)
            append(item)
        return items, pos

    return read


def _array_writer(of: Any, version: int, flexible: bool, nullable: bool) -> Writer:
    _, write_length = wire.length_codec(flexible, wire.INT32)
    (_, write_one), _, layout = _element(of, version, flexible)

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            wire.write_null(out, write_length, nullable, "an array")
            return
        write_length(out, len(value))
        if layout:
            out += _struct.pack(f">{len(value)}{layout}", *value)
            return
        for item in value:
            write_one(out, item)

    return write


def _uniform_array_reader(of: type[Struct], version: int) -> UniformReader | None:
    """Return a reader of a whole array whose elements have a string between fixed fields.

    Partitions of OffsetFetch are like that (index, offset and epoch; metadata; error code): a
    reply may have a million of them, and what a client commits as metadata has one length, mostly
    none. Read at once they take a third of the time. The reader returns None where an element has
    tags, or a string that is longer or shorter than the first.
    """
    steps = _steps(of, version, True)
    if len(steps) != 3 or _tag_readers(of, version, True):
        return None
    first, middle, last = steps
    covered = first.low == 0 and first.high == middle.low and last.high == len(of.FIELDS)
    is_string = of.FIELDS[middle.low].kind == "string"
    if not (covered and first.fixed and is_string and last.fixed):
        return None
    head, tail = f"{first.fixed.format}x", f"{last.fixed.format[1:]}x"
    string_at, split = first.fixed.size, first.high

    def read(buf: bytes, pos: int, count: int) -> tuple[list[Any], int] | None:
        length = buf[pos + string_at] if count else 0
        if not 0 < length < 0x80:  # no element, null, or a length of more bytes
            return None
        row = _struct.Struct(f"{head}{length - 1}s{tail}")
        size = row.size
        end = pos + size * count
        if end > len(buf):
            return None
        # Where every length is that of the first, each element ends where the next begins.
        if buf[pos + string_at : end : size].count(length) != count:
            return None
        if buf[pos + size - 1 : end : size].count(NO_TAGS) != count:
            return None
        columns: list[Any] = list(zip(*row.iter_unpack(memoryview(buf)[pos:end]), strict=True))
        columns[split] = [text.decode("utf-8", "surrogateescape") for text in columns[split]]
        return [_new(of, values) for values in zip(*columns, repeat(()))], end

    return read
