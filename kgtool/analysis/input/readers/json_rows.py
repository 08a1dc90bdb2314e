"""JSON objects that hold a record's key and value in base64, as Spark, Connect sinks and the REST
proxy write them::

    {"key": "AAEAB2JpbGxpbmc…", "value": "AAMAAAAA…", "topic": "__consumer_offsets",
     "partition": 5, "offset": 0, "timestamp": "2024-01-25T07:06:13.455Z"}

one behind the other or in an array. Bytes and place are those of the log; a null value, or none,
is a tombstone. Names may lie one level deeper, or in an envelope with a schema.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis.decode.batches import RecordBlock
from kgtool.analysis.decode.segments import Note
from kgtool.analysis.input.input_files import TOPIC
from kgtool.analysis.input.lookalikes import objects
from kgtool.analysis.input.readers.parquet_rows import INPUT, in_order
from kgtool.analysis.input.readers.reencode import REASON_MALFORMED, PrintedRecords
from kgtool.analysis.input.readers.text_ranges import TextRecord
from kgtool.records.types import KNOWN_TYPES

_VALUES = ("value", "payload", "content", "message")
_TIMES = ("timestamp", "timestamp_ms", "ts", "time")
_FRACTION = re.compile(r"\.\d+")
_UNITS = ((10**17, 1_000_000), (10**14, 1_000))
"""From this number on, so many of its units are a millisecond."""


class Row(NamedTuple):
    """A record; None where its object does not tell."""

    partition: int | None
    offset: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    is_other: bool
    """Whether it is of another topic."""


def row_of(found: Mapping[str, Any]) -> Row:
    """The record in an object. Raises ValueError if there is none."""
    flat = _flat(found)
    if "key" not in flat:
        raise ValueError("there is no key")
    value = next((flat[name] for name in _VALUES if flat.get(name) is not None), None)
    key = _bytes(flat["key"])
    if key is not None and int.from_bytes(key[:2], "big") not in KNOWN_TYPES:
        raise ValueError("that is no key of the log")
    time = next((flat[name] for name in _TIMES if flat.get(name) is not None), None)
    return Row(
        _whole(flat.get("partition")),
        _whole(flat.get("offset")),
        None if time is None else _ms(time),
        key,
        _bytes(value),
        str(flat.get("topic", TOPIC)) != TOPIC,
    )


def _flat(found: Mapping[str, Any]) -> dict[str, Any]:
    """Its names and those one level below it."""
    inner = found.get("payload")
    if "key" not in found and isinstance(inner, Mapping):
        found = inner
    below: dict[str, Any] = {}
    for name, value in found.items():
        if isinstance(value, Mapping) and name not in ("key", *_VALUES, "headers"):
            below |= value
    return below | dict(found)


def _bytes(value: Any) -> bytes | None:
    if isinstance(value, Mapping) and "payload" in value:
        value = value["payload"]
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError("it is not base64")
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise ValueError("it is not base64") from None


def _whole(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
    return value if is_number else None


def _ms(value: Any) -> int:
    if isinstance(value, str) and not value.lstrip("-").isdigit():
        text = _FRACTION.sub(lambda found: f"{found[0]:0<7.7}", value.strip())
        moment = datetime.fromisoformat(text.replace("Z", "+00:00").replace("UTC", "+00:00"))
        return round(moment.replace(tzinfo=moment.tzinfo or timezone.utc).timestamp() * 1000)
    number = int(value)
    return next((number // by for least, by in _UNITS if number >= least), number)


def rows(block: Iterable[TextRecord]) -> Iterator[tuple[int, Row | None, str]]:
    """Position, record (None: it can't be read) and text of each object."""
    for unit in block:
        text, at = unit.data.decode(errors="replace"), 0
        for found, begin, end in objects(text):
            try:
                row = row_of(found)
            except (ValueError, TypeError, OverflowError):
                row = None
            yield unit.position, row, text[begin:end]
            at = end
        left = text[at:].strip(" \t\r\n,[]\ufeff")
        if left:
            yield unit.position, None, left


def blocks(block: Iterable[TextRecord], path: str, partition: int) -> Iterator[RecordBlock]:
    """The records of some objects, by partition and offset; ``partition``: where none is told."""
    found, bad = [], 0
    for _, row, _ in rows(block):
        if row is None:
            bad += 1
        elif not row.is_other:
            place = partition if row.partition is None else row.partition
            found.append((path, place, row.offset, row.timestamp_ms or 0, row.key, row.value))
    kinds = (pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.binary(), pa.binary())
    columns = zip(*found, strict=True) if found else [[]] * len(INPUT)
    arrays = [pa.array(list(some), kind) for some, kind in zip(columns, kinds, strict=True)]
    pieces = [piece for _, piece in in_order(pa.table(arrays, names=list(INPUT)))]
    if bad:
        pieces = pieces or [PrintedRecords(0, 0).block(0, 0)]
        pieces[0].notes.append(Note(REASON_MALFORMED, 0, 0, bad))
    yield from pieces
