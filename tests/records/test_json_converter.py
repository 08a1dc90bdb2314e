"""Records that the real coordinators' JsonConverter classes print, back to bytes."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from kgtool.protocol.plan import encode
from kgtool.records import json_converter
from kgtool.records.offset_commit import LegacyOffsetCommitValue
from tests.protocol.messages import Maker, Message
from tests.records.conftest import Coordinator, Documents
from tests.records.messages import EARLY, EVERY
from tests.records.test_kafka_classes import _java_version, _known


def _print(coordinator: Coordinator, name: str, data: Any, version: int) -> Any:
    converter = getattr(coordinator._records, f"{name}JsonConverter")
    return json.loads(converter.write(data, version).toString())


def test_every_record_that_kafka_prints_comes_back_byte_for_byte(
    coordinator: Coordinator, documents: dict[str, Documents]
) -> None:
    seen = set()
    for form in EVERY:
        if form.cls.KEY < 0 or form.cls in (EARLY, LegacyOffsetCommitValue):
            continue  # no record, or one that shares its number with another form
        for version in _known(coordinator, documents, form):
            maker = Maker((form.cls.__name__, version), unknown_tags=False)
            made = maker.message(Message(form.name, "", form.cls, version))
            raw = encode(made, version)
            data, java_version = (
                coordinator.message(form.name),
                _java_version(coordinator, form, version),
            )
            coordinator.read(data, java_version, raw)
            text = _print(coordinator, form.name, data, java_version)
            if form.name.endswith("Key"):
                back = json_converter.key_bytes(form.cls.KEY, text)
                head = form.cls.KEY
            else:
                back = json_converter.value_bytes(form.cls.KEY, version, text)
                head = version
            assert back[:2] == struct.pack(">h", head)
            again = coordinator.message(form.name)
            assert coordinator.read(again, java_version, back[2:]) == 0
            assert _print(coordinator, form.name, again, java_version) == text
            if coordinator.version != "3.9.1":  # to 3.9 later tags are unknown, so not printed
                assert back[2:] == raw, (form.name, text)
            seen.add(form.name)
    assert len(seen) == (21 if coordinator.version == "3.9.1" else 43)


@pytest.mark.parametrize(
    ("number", "version", "data", "said"),
    [
        (99, 0, {}, "record type 99 is unknown"),
        (1, 5, {}, "OffsetCommit: value version 5 is unknown"),
        (1, 3, [], "no JSON object"),
        (1, 3, {"offset": "many"}, "OffsetCommitValue"),
        (2, 3, {"members": [{"subscription": "*"}]}, "GroupMetadataValue"),
        (2, 3, {"members": 7}, "GroupMetadataValue"),
        (8, 0, {"assignedPartitions": [{"topicId": "short"}]}, "16-char|padding|multiple of 4"),
    ],
)
def test_what_is_no_record_is_a_value_error(
    number: int, version: int, data: Any, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        json_converter.value_bytes(number, version, data)
