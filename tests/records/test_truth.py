"""Every record of three real logs, decoded as an independent decoder read it."""

from __future__ import annotations

import base64
from typing import Any
from uuid import UUID

import pytest

from kgtool.protocol.schema import Field, Struct
from kgtool.records import Record, UnknownRecord, control, decode
from tests.retention.truth import RULES, raw, truth


def plain(value: Any, like: Any) -> Any:
    """Our value in the words of records.jsonl, with the fields that ``like`` names."""
    if isinstance(value, Struct):
        names = {_lower(name): name for name in like}
        said = {
            names[_lower(field.wire)]: plain(value[at], like[names[_lower(field.wire)]])
            for at, field in enumerate(value.FIELDS)
            if _lower(field.wire) in names
        }
        for at, field in enumerate(value.FIELDS):
            assert _lower(field.wire) in names or _is_default(field, value[at]), field.wire
        if value.unknown_tags:
            said["_unknownTags"] = {str(tag): body.hex() for tag, body in value.unknown_tags}
        return said
    if isinstance(value, list):
        return [plain(item, other) for item, other in zip(value, like, strict=True)]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.hex if isinstance(value, UUID) else value


def _lower(name: str | None) -> str:
    assert name
    return name[0].lower() + name[1:]


def _is_default(field: Field, value: Any) -> bool:
    return bool(value == field.default_value())


@pytest.mark.parametrize("run", RULES)
def test_every_record_is_what_the_independent_decoder_says(run: str) -> None:
    records = truth(run).records
    assert len(records) > 250
    for line in records:
        key, expected = raw(line, "key"), line["decoded"]
        assert key is not None
        if line["control"]:
            marker = control.decode_marker(key, raw(line, "value"))
            assert marker.type == {"ABORT": 0, "COMMIT": 1}[expected["controlType"]]
            assert marker.coordinator_epoch == int(expected["valueHex"][4:], 16)
            continue
        got = decode(key, raw(line, "value"))
        assert got.type == expected["keyVersion"]
        if isinstance(got, UnknownRecord):
            assert expected["type"] is None
            continue
        assert isinstance(got, Record)
        assert (got.name, got.version) == (expected["type"], expected.get("valueVersion"))
        assert plain(got.key, expected["key"]) == expected["key"]
        if got.value is None or expected["value"] is None:
            assert got.value is None
            assert expected["value"] is None
        else:
            assert plain(got.value, expected["value"]) == expected["value"]


def test_the_logs_hold_the_rare_kinds_too() -> None:
    found = {
        (line["decoded"].get("keyVersion"), line["decoded"].get("valueVersion"))
        for run in RULES
        for line in truth(run).records
    }
    assert {(0, 0), (1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (99, None)} <= found
    assert {(2, version) for version in range(5)} <= found
    assert {(number, 0) for number in (3, 5, 6, 7, 8, 16)} <= found
