"""Output of the console consumer's JSON formatters, 3.9 and later.

``org.apache.kafka.tools.consumer.OffsetsMessageFormatter`` and ``GroupMetadataMessageFormatter``
write ``{"key":{"type":1,"data":{…}},"value":{"version":3,"data":{…}}}`` (3.9: ``"version"`` in the
key too) with nothing between two objects, so that an export is one endless line. A null value is
a tombstone. They print neither offset nor timestamp of a record: its position in the file stands
for the offset, and the time in its value for the timestamp.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from kgtool.analysis.decode.decoder import REASON_UNKNOWN_KEY
from kgtool.analysis.decode.offset_records import REASON_KEY, REASON_UNKNOWN_VALUE, REASON_VALUE
from kgtool.analysis.input.readers.reencode import (
    NOT_A_RECORD,
    PrintedRecords,
    printed_key,
    printed_value,
)
from kgtool.analysis.input.readers.text_ranges import TextRecord
from kgtool.records.types import KNOWN_TYPES

UNKNOWN = "unknown"
"""Printed by the formatters of 3.9 for an unknown key."""

_decode = json.JSONDecoder().raw_decode
_BEGIN = '{"key"'
_BETWEEN = re.compile(r"[\s,\[\]]*")
"""Between the elements of an array, as ``jq -s`` writes it."""
_OBJECT = re.compile(r'\{\s*"key"\s*:')


def read_units(block: Iterable[TextRecord], into: PrintedRecords) -> None:
    """Read the records of a block."""
    for unit in block:
        text = unit.data.decode(errors="replace").removeprefix("\ufeff")
        at = behind = 0
        while at < len(text):
            at = _next(text, behind)
            if at > behind and not _BETWEEN.fullmatch(text, behind, at):
                into.skip_text(text[behind:at], unit.position)
            if at == len(text):
                break
            try:
                found, behind = _decode(text, at)
            except (ValueError, RecursionError):
                behind = _next(text, at + 1)
                is_last = behind == len(text) and into.is_last(unit)
                into.skip_text(text[at:behind], unit.position, is_last=is_last)
                continue
            _record(found, into, into.order + unit.position + at, unit.position)


def _next(text: str, at: int) -> int:
    """Start of the next object, or the end of the text."""
    if text.startswith(_BEGIN, at):
        return at
    found = _OBJECT.search(text, at)
    return found.start() if found else len(text)


def _record(found: Any, into: PrintedRecords, place: int, position: int) -> None:
    try:
        key, value = found["key"], found["value"]
        number = int(key["type"] if "type" in key else key["version"])
        if key["data"] == UNKNOWN:
            # The formatter should have left it out; what it prints of the value is garbage.
            if number not in KNOWN_TYPES:
                into.skip(REASON_UNKNOWN_KEY.format(number), position, damage=False)
            return
        raw_key = printed_key(number, key["data"])
    except NOT_A_RECORD:
        into.skip(REASON_KEY, position)
        return
    if value is None:
        into.add(place, 0, raw_key, None)
        return
    try:
        version, data = int(value["version"]), value["data"]
        if not isinstance(data, dict):  # the formatter knew no such version: "unknown"
            into.skip(REASON_UNKNOWN_VALUE.format(version), position)
            return
        into.add(place, written_ms(data), raw_key, printed_value(number, version, data))
    except NOT_A_RECORD:
        into.skip(REASON_VALUE, position)


def written_ms(data: dict[str, Any]) -> int:
    """The time in the value, in ms; 0 if there is none."""
    stamp = data.get("commitTimestamp", data.get("currentStateTimestamp", 0))
    return max(int(stamp), 0)
