"""What ``__consumer_offsets`` holds: one file per record family, in the schema language.

::

    record = decode(key, value)
    record.type, record.key.group          # 1, "billing"
    record.version, record.value.offset    # 4, 1000
    record.value is None                   # a tombstone

Key and value classes are found by name: ``<Type>Key`` and ``<Type>Value`` with the record type as
the class's ``key``; keys of only a group, or a group and a member, are generated. A key's body is
never flexible; the int16 in front of it is the record type, the one in front of a value its
version.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from kgtool.errors import DecodeError
from kgtool.protocol import plan
from kgtool.protocol.schema import Struct, StructMeta, string
from kgtool.records.types import MEMBER_KEY_TYPES

FAMILIES = ("offset_commit", "group_metadata", "consumer_group", "share", "streams")
"""Modules of this package; imported when the first record is read, because describing a group
needs nothing of this package but ``subscription``."""


class RecordType(NamedTuple):
    """One type of record: its number, Kafka's name, the key and the forms of the value."""

    number: int
    name: str
    key: type[Struct]
    values: tuple[type[Struct], ...]
    """The current form first; other forms that were once written under the same version."""


class Record(NamedTuple):
    """A record of a known type."""

    type: int
    name: str
    key: Any
    version: int | None
    """The value's version, ``None`` for a tombstone."""
    value: Any
    """``None`` for a tombstone."""


class UnknownRecord(NamedTuple):
    """A record of an unknown type; brokers skip such records too."""

    type: int
    key: bytes
    value: bytes | None


@cache
def record_types() -> dict[int, RecordType]:
    """All known record types by their number."""
    from kgtool.records import offset_commit

    modules = [import_module(f"{__name__}.{name}") for name in FAMILIES]
    structs = [cls for module in modules for cls in vars(module).values() if hasattr(cls, "KEY")]
    keys = {cls.KEY: cls for cls in structs if cls.__name__.endswith("Key")}
    values = [cls for cls in structs if cls.__name__.endswith("Value")]
    values.sort(key=lambda cls: cls.__name__.startswith("Early"))
    types: dict[int, RecordType] = {}
    for number in sorted({cls.KEY for cls in values}):
        forms = [cls for cls in values if number == cls.KEY]
        name = forms[0].__name__.removesuffix("Value")
        if number == offset_commit.LegacyOffsetCommitKey.KEY:
            forms = [offset_commit.OffsetCommitValue]
        key = keys.get(number) or _key(name, number)
        types[number] = RecordType(number, name, key, tuple(forms))
    return types


def _key(name: str, number: int) -> Any:
    """Return the key class of a record type whose key is a group, or a group and a member."""
    fields = {"group": string(wire="groupId")}
    if number in MEMBER_KEY_TYPES:
        fields["member_id"] = string()
    namespace = {"__module__": __name__, **fields}
    return StructMeta(f"{name}Key", (Struct,), namespace, key=number, versions="0")


def decode(key: bytes, value: bytes | None) -> Record | UnknownRecord:
    """Read one record of ``__consumer_offsets`` (not a control record: see ``control``).

    As tolerant as brokers are: unknown tagged fields are kept, bytes after the end of a key or
    value are ignored.

    :raises DecodeError: a key or value that is cut short, or an unknown value version.
    """
    number = _int16(key, "key")
    known = record_types().get(number)
    if known is None:
        return UnknownRecord(number, key, value)
    key_struct = _read(known, known.key, 0, key, "key")
    if value is None:
        return Record(number, known.name, key_struct, None, None)
    version = _int16(value, f"{known.name} value")
    if version not in known.values[0].VERSIONS:
        raise DecodeError(f"{known.name}: value version {version} is unknown")
    return Record(number, known.name, key_struct, version, _value(known, version, value))


def _value(known: RecordType, version: int, value: bytes) -> Struct:
    """Read a value; where several forms share a version, the one that fits to the last byte."""
    for cls in known.values if len(known.values) > 1 else ():
        try:
            struct, end = plan.decode_prefix(cls, version, value, 2)
        except DecodeError:
            continue
        if end == len(value):
            return struct
    return _read(known, known.values[0], version, value, f"value v{version}")


def _read(known: RecordType, cls: type[Struct], version: int, buf: bytes, what: str) -> Struct:
    try:
        return plan.decode_prefix(cls, version, buf, 2)[0]
    except DecodeError as exc:
        raise DecodeError(f"{known.name} {what} can't be read ({exc.__cause__})") from exc


def _int16(buf: bytes, what: str) -> int:
    if len(buf) < 2:
        raise DecodeError(f"{what}: {len(buf)} bytes where an int16 must be")
    return int.from_bytes(buf[:2], "big", signed=True)
