"""Messages as JSON, in the form of Kafka's own converters (``FetchRequestDataJsonConverter``).

Names are those of Kafka's message JSON in camel case, bytes are Base64, uuids Kafka's 22
characters, integers numbers. Fields that a version lacks are left out. Reading is more lenient:
``groupId``, ``GroupId`` and ``group_id`` are the same, so are our names and Kafka's, and missing
fields take their defaults; but a field that the version lacks is refused, because its author
expects it to be sent.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode, urlsafe_b64decode
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from kgtool.errors import UsageError
from kgtool.protocol.schema import NO_UUID, Field, Struct
from kgtool.protocol.wire import uuid_text

S = TypeVar("S", bound=Struct)

UNKNOWN_TAGS = "_unknownTaggedFields"
"""The key of tagged fields that the schema does not know: their bytes by tag."""

_EXPECTED = {
    "bool": "true or false",
    "float64": "a number",
    "string": "a string",
    "bytes": "a string in Base64",
    "records": "a string in Base64",
    "uuid": "a uuid",
}
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16}


def carries(field: Field, version: int, flexible: bool) -> bool:
    """Whether a version of a message has a field, in its place or as a tag."""
    return version in field.versions or (flexible and version in field.tagged)


def element(field: Field) -> Field:
    """Return the field that describes one element of an array of scalars."""
    found: Field = field.of()
    return found


def is_struct(of: Any) -> bool:
    """Whether an array's elements are structs."""
    return isinstance(of, type)


# ---------------------------------------------------------------------------------------------
# Writing


def to_json(message: Struct, version: int) -> dict[str, Any]:
    """Return a message as a value for ``json.dumps``."""
    return _struct(message, version, version in type(message).FLEXIBLE)


def _struct(value: Struct, version: int, flexible: bool) -> dict[str, Any]:
    found = {
        str(field.wire): _value(value[at], field, version, flexible)
        for at, field in enumerate(type(value).FIELDS)
        if carries(field, version, flexible)
    }
    if value.unknown_tags:
        found[UNKNOWN_TAGS] = {
            str(tag): b64encode(raw).decode("ascii") for tag, raw in value.unknown_tags
        }
    return found


def _value(value: Any, field: Field, version: int, flexible: bool) -> Any:
    if value is None:
        return None
    if field.kind == "struct":
        return _struct(value, version, flexible)
    if field.kind == "array" and is_struct(field.of):
        return [_struct(item, version, flexible) for item in value]
    if field.kind == "array":
        inner = element(field)
        return [_value(item, inner, version, flexible) for item in value]
    if field.kind in ("bytes", "records"):
        return b64encode(value).decode("ascii")
    if field.kind == "uuid":
        return uuid_text(value)
    return value


# ---------------------------------------------------------------------------------------------
# Reading


class _Place(NamedTuple):
    """The place of a value in a message, and the version of the message."""

    version: int
    flexible: bool
    path: str = ""

    def inside(self, name: str) -> _Place:
        return self._replace(path=f"{self.path}.{name}" if self.path else name)

    def at(self, index: int) -> _Place:
        return self._replace(path=f"{self.path}[{index}]")

    def refuse(self, reason: str) -> UsageError:
        return UsageError(f"{self.path or 'The body'}: {reason}")


def from_json(cls: type[S], version: int, value: object) -> S:
    """Build a message of a value from ``json.loads``; defaults are filled in.

    :raises UsageError: a name that the message or the version doesn't have, or a value that is
        not of the field's type; the message says where.
    """
    return _read_struct(cls, value, _Place(version, version in cls.FLEXIBLE))


def _read_struct(cls: type[S], value: object, where: _Place) -> S:
    if not isinstance(value, dict):
        raise where.refuse(f"a JSON object must be here, not {_shown(value)}.")
    given: dict[str, Any] = {}
    for key, inner in value.items():
        field = _find(cls, str(key), where)
        if field.name in given:
            raise where.inside(str(key)).refuse("it appears twice.")
        given[field.name] = _read(field, inner, where.inside(str(key)))
    return cls(**given)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _find(cls: type[Struct], key: str, where: _Place) -> Field:
    by_name = _names(cls)
    field = by_name.get(_plain(key))
    if field is None:
        raise where.inside(key).refuse(_unknown(cls, key, where))
    if not carries(field, where.version, where.flexible):
        raise where.inside(key).refuse(
            f"versions {field.versions} have it, and this is version {where.version}."
        )
    return field


def _names(cls: type[Struct]) -> dict[str, Field]:
    """Return the fields by all their names; Kafka's names take precedence over ours."""
    ours = {_plain(field.name): field for field in cls.FIELDS}
    return ours | {_plain(str(field.wire)): field for field in cls.FIELDS}


def _unknown(cls: type[Struct], key: str, where: _Place) -> str:
    from difflib import get_close_matches

    there = [
        str(field.wire) for field in cls.FIELDS if carries(field, where.version, where.flexible)
    ]
    near = get_close_matches(_plain(key), [_plain(name) for name in there], n=1)
    if near:
        name = next(name for name in there if _plain(name) == near[0])
        return f"there is no such field (did you mean {name}?)."
    listed = ", ".join(there) or "none"
    return f"there is no such field; version {where.version} has {listed}."


def _read(field: Field, value: object, where: _Place) -> Any:
    if value is None:
        if where.version in field.nullable:
            return None
        raise where.refuse(f"it can't be null in version {where.version}.")
    if field.kind == "struct":
        return _read_struct(field.of, value, where)
    if field.kind == "array":
        return _read_array(field, value, where)
    return _read_scalar(field.kind, value, where)


def _read_array(field: Field, value: object, where: _Place) -> list[Any]:
    if not isinstance(value, list):
        raise where.refuse(f"an array must be here, not {_shown(value)}.")
    if is_struct(field.of):
        return [_read_struct(field.of, item, where.at(i)) for i, item in enumerate(value)]
    inner = element(field)
    return [_read(inner, item, where.at(i)) for i, item in enumerate(value)]


def _read_scalar(kind: str, value: object, where: _Place) -> Any:
    if kind in _BITS:
        return _read_integer(kind, value, where)
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "float64" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if kind == "string" and isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise where.refuse("half of a surrogate pair can't be sent as text.") from None
        return value
    if kind in ("bytes", "records") and isinstance(value, str):
        try:
            return b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise where.refuse("bytes are written in Base64, and this is none.") from None
    if kind == "uuid" and isinstance(value, str):
        return _read_uuid(value, where)
    raise where.refuse(f"{_EXPECTED[kind]} must be here, not {_shown(value)}.")


def _read_integer(kind: str, value: object, where: _Place) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise where.refuse(f"a whole number ({kind}) must be here, not {_shown(value)}.")
    bits = _BITS[kind]
    low, high = (0, 2**bits - 1) if kind == "uint16" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if not low <= value <= high:
        raise where.refuse(f"{value} is no {kind}, which goes from {low} to {high}.")
    return value


def _read_uuid(value: str, where: _Place) -> UUID:
    try:
        if len(value) == 22:
            return UUID(bytes=urlsafe_b64decode(value + "=="))
        return UUID(value) if value else NO_UUID
    except (binascii.Error, ValueError):
        raise where.refuse(f"{value!r} is not a uuid, such as AAAAAAAAAAAAAAAAAAAAAA.") from None


def _shown(value: object) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "true or false"}
    found = names.get(type(value))
    return found or ("null" if value is None else f"the number {value}")


# ---------------------------------------------------------------------------------------------
# Error codes


class ResponseError(NamedTuple):
    """An error code in a response, 0 included: its place, and the group, topic … that it is about.

    ``target`` has the names and numbers that stand beside the code or around it.
    """

    path: str
    code: int
    message: str | None
    target: Mapping[str, Any]


def error_codes(message: Struct) -> Iterator[ResponseError]:
    """Yield the error codes of a response, inner ones first; no code 0 around a failure."""
    yield from _codes(message, "", {})


_TARGETS = {
    "group_id": "group",
    "key": "group",
    "name": "topic",
    "topic": "topic",
    "topic_name": "topic",
    "partition": "partition",
    "node_id": "broker",
}


def _codes(value: Struct, path: str, target: Mapping[str, Any]) -> Iterator[ResponseError]:
    fields = dict(value.items())
    own = {
        key: fields[name] for name, key in _TARGETS.items() if fields.get(name) not in (None, "")
    }
    target = {**target, **own}
    has_failed = False
    for field in type(value).FIELDS:
        for place, inner in _inner(fields[field.name], f"{path}{field.wire}"):
            for error in _codes(inner, f"{place}.", target):
                has_failed = has_failed or error.code != 0
                yield error
    code = fields.get("error_code")
    if code is not None and not (code == 0 and has_failed):
        yield ResponseError(f"{path}errorCode", code, fields.get("error_message"), target)


def _inner(value: Any, path: str) -> Iterator[tuple[str, Struct]]:
    if isinstance(value, Struct):
        yield path, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, Struct):
                yield f"{path}[{index}]", item
