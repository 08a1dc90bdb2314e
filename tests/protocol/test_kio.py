"""The codec against kio, a second independent implementation with names and types of its own."""

from __future__ import annotations

import datetime
import re
from io import BytesIO
from typing import Any

import pytest

from kgtool.protocol import api
from kgtool.protocol.plan import decode, encode
from kgtool.protocol.schema import NO_UUID, Field, Struct
from tests.protocol.messages import EVERY, Maker, Message, present

SAMPLES = 6
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
MILLISECOND = datetime.timedelta(milliseconds=1)


RENAMED_IN_4_4 = {
    "acceptable_recovery_lag_legacy": "acceptable_recovery_lag",
    "generation_id_or_member_epoch": "generation_id",
}


def schema_of(message: Message) -> Any:
    """kio's class for a message."""
    from kio.index import load_request_schema, load_response_schema

    load = load_request_schema if message.kind == "Request" else load_response_schema
    return load(api.load(message.api).Request.KEY, message.version)


def is_known(message: Message) -> bool:
    """Whether kio has a class for it; not for versions that Kafka 4 removed. To import all of them
    takes seconds, in each process that collects the tests."""
    from kio.schema.index import api_key_map, schema_name_map
    from kio.static.constants import EntityType

    name = api_key_map.get(api.load(message.api).Request.KEY, "")
    versions = schema_name_map.get(name, {})
    return EntityType[message.kind.lower()] in versions.get(message.version, {})


def value_of(theirs: Any, field: Field) -> Any:
    """kio's value of a field: its names are Kafka's in snake case, times without the unit."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", field.wire or "").lower()
    names = (name, name.removesuffix("_ms"), RENAMED_IN_4_4.get(name, ""))
    return next(getattr(theirs, each) for each in names if hasattr(theirs, each))


def plain(value: Any) -> Any:
    """Undo kio's richer types: times to milliseconds, error codes to numbers."""
    if isinstance(value, datetime.timedelta):
        return value // MILLISECOND
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // MILLISECOND
    return value


def mismatches(ours: Any, theirs: Any, version: int, flexible: bool, path: str) -> list[str]:
    """Compare a message of ours with kio's, field by field, by name."""
    if isinstance(ours, Struct):
        found = []
        for field in ours.FIELDS:
            if present(field, version, flexible):
                inner = value_of(theirs, field)
                name = f"{path}.{field.name}"
                found += mismatches(getattr(ours, field.name), inner, version, flexible, name)
        return found
    if isinstance(ours, list) and theirs is not None:
        if len(ours) != len(theirs):
            return [f"{path}: {len(ours)} elements, not {len(theirs)}"]
        return [
            text
            for at, pair in enumerate(zip(ours, theirs, strict=True))
            for text in mismatches(*pair, version, flexible, f"{path}[{at}]")
        ]
    if ours == NO_UUID and theirs is None:
        return []
    return [] if ours == plain(theirs) else [f"{path}: {ours!r}, not {theirs!r}"]


KNOWN = [message for message in EVERY if is_known(message)]


def test_kio_knows_what_kafka_4_knows() -> None:
    assert len(KNOWN) > 350
    assert {message.api for message in KNOWN} == set(api.names())


@pytest.mark.parametrize("message", KNOWN, ids=str)
def test_kio_reads_our_values_and_we_read_its_bytes(message: Message) -> None:
    from kio.serial import entity_reader, entity_writer

    schema = schema_of(message)
    read, write = entity_reader(schema), entity_writer(schema)
    maker = Maker(message, tame=True)
    for _ in range(SAMPLES):
        made = maker.message(message)
        raw = encode(made, message.version)
        theirs, size = read(raw, 0)
        assert size == len(raw)
        assert mismatches(made, theirs, message.version, message.flexible, "") == []
        out = BytesIO()
        write(out, theirs)
        assert out.getvalue().hex() == raw.hex()
        assert decode(message.cls, message.version, out.getvalue()) == made
