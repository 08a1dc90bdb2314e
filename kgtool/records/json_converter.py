"""Records from the JSON that Kafka's own tools print, as bytes.

``kafka-dump-log --offsets-decoder`` (3.8+) and the console consumer's formatters (3.9+) print keys
and values by the generated ``*JsonConverter`` classes: camel-case names, bytes in base64, uuids in
unpadded URL-safe base64, without the fields that a version lacks. For classic members the dump tool
also parses the embedded subscription and assignment and prints them as objects
(``OffsetsMessageParser`` of DumpLogSegments).
"""

from __future__ import annotations

import binascii
import struct
from base64 import b64decode, urlsafe_b64decode
from typing import Any
from uuid import UUID

from kgtool.errors import EncodeError
from kgtool.protocol.plan import encode
from kgtool.protocol.schema import Field, Struct
from kgtool.records import RecordType, record_types
from kgtool.records.subscription import ConsumerProtocolAssignment, ConsumerProtocolSubscription

_int16 = struct.Struct(">h").pack
_EMBEDDED = {"subscription": ConsumerProtocolSubscription, "assignment": ConsumerProtocolAssignment}


def key_bytes(number: int, data: object) -> bytes:
    """Return the key of a record of that type.

    :raises ValueError: an unknown type, or malformed data.
    """
    return _message(number, _known(number).key, 0, data)


def value_bytes(number: int, version: int, data: object) -> bytes:
    """Return the value of a record of that type in that version.

    :raises ValueError: an unknown type or version, or malformed data.
    """
    known = _known(number)
    cls = known.values[0]
    if version not in cls.VERSIONS:
        raise ValueError(f"{known.name}: value version {version} is unknown")
    return _message(version, cls, version, data)


def _known(number: int) -> RecordType:
    known = record_types().get(number)
    if known is None:
        raise ValueError(f"record type {number} is unknown")
    return known


def _message(head: int, cls: type[Struct], version: int, data: object) -> bytes:
    try:
        return _int16(head) + encode(_struct(cls, data), version)
    except (EncodeError, TypeError, binascii.Error, struct.error) as error:
        raise ValueError(f"{cls.__name__}: {error}") from None


def _struct(cls: type[Struct], data: object) -> Struct:
    if not isinstance(data, dict):
        raise ValueError(f"{cls.__name__}: no JSON object")
    values = {
        field.name: _value(field, data[field.wire]) for field in cls.FIELDS if field.wire in data
    }
    return cls(**values)


def _value(field: Field, value: Any) -> Any:
    if value is None:
        return None
    if field.kind == "array":
        if isinstance(field.of, type):
            return [_struct(field.of, each) for each in value]
        return [_value(field.of(), each) for each in value]
    if field.kind == "struct":
        return _struct(field.of, value)
    if field.kind == "bytes":
        return (
            _embedded(field, value) if isinstance(value, dict) else b64decode(value, validate=True)
        )
    if field.kind == "uuid":
        return UUID(bytes=urlsafe_b64decode(value + "=" * (-len(value) % 4)))
    return value


def _embedded(field: Field, data: dict[str, Any]) -> bytes:
    """Write a parsed subscription or assignment, in the lowest version that has its fields."""
    cls = _EMBEDDED[field.name]
    version = max((each.versions.low for each in cls.FIELDS if each.wire in data), default=0)
    return _int16(version) + encode(_struct(cls, data), version)
