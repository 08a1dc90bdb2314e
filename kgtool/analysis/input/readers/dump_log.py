"""Output of ``kafka-dump-log --offsets-decoder`` (DumpLogSegments), 2.0 to 4.3.

A line for each batch (since 2.2), and a line for each record that ends in what the decoder makes
of its key and value. Four shapes, all seen in runs of 2.0.1 to 4.3.1:

* 3.8+: ``key: {"type":"1","data":{…}} payload: {"version":"3","data":{…}}``: all that the record
  holds; 3.8 and 3.9 know the types 0 to 8 and print ``key: Unknown record type 16 at offset 9,
  skipping.`` for others;
* 2.4 - 3.7: ``key: offset_commit::group=g,partition=t-0 payload: offset=5,metadata=m`` and
  ``key: group_metadata::group=g payload: {"protocolType":…,"assignment":"{m=[t-0]}"}``, without
  any timestamp but the record's own; ``key: unknown::version=5`` for others (3.4+);
* up to 2.3: ``key: offset::g:t:0 payload: 5`` and ``key: {"metadata":"g"} payload: {…}``, and of
  a tombstone not even the key;
* ``endTxnMarker: COMMIT coordinatorEpoch: 0`` for the end of a transaction, in all versions.

Compressed batches are printed as any others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from kgtool.analysis.decode.batches import REASON_CRC
from kgtool.analysis.decode.decoder import REASON_MARKER, REASON_UNKNOWN_KEY
from kgtool.analysis.decode.group_records import DECODED_TYPES
from kgtool.analysis.decode.offset_records import REASON_KEY, REASON_VALUE
from kgtool.analysis.decode.segments import REASON_TRUNCATED
from kgtool.analysis.input.input_files import TOPIC_NAME
from kgtool.analysis.input.readers.formatter_text import group_value
from kgtool.analysis.input.readers.reencode import (
    NOT_A_RECORD,
    Epochs,
    PrintedRecords,
    group_key,
    is_noise,
    marker,
    offset_key,
    plain_offset,
    printed_key,
    printed_value,
)
from kgtool.analysis.input.readers.text_ranges import TextRecord
from kgtool.records.control import ABORT, COMMIT
from kgtool.records.types import KNOWN_TYPES

REASON_KEYLESS = "tombstone without a key (kafka-dump-log before 2.4)"
REASON_UNDECODED = "record that kafka-dump-log did not decode"
REASON_TYPE_NOT_DECODED = "key type {} that this kafka-dump-log did not decode"

DELETE = "<DELETE>"
_FIELD = re.compile(r"(\w+): (-?\w+)")
_TIMES = ("CreateTime", "LogAppendTime", "NoTimestampType")
_KEYS_END = "headerKeys: ["
_KEY, _PAYLOAD = "key: ", " payload: "
_MARKER = re.compile(r"endTxnMarker: (\w+) ")
_UNKNOWN = re.compile(r"Unknown record type (-?\d+) at offset|unknown::version=(-?\d+)")
_COMMIT_2_4 = re.compile(
    rf"offset_commit::group=(.*?),partition=({TOPIC_NAME})-(\d+) payload: "
    r"(?:offset=(-?\d+)(?:,metadata=.*)?|<DELETE>)\s*$",
    re.DOTALL,
)
_GROUP_2_4 = re.compile(r"group_metadata::group=(.*) payload: (<DELETE>|\{.*\})\s*$", re.DOTALL)
_COMMIT_2_0 = re.compile(rf"offset::(.*?):({TOPIC_NAME}):(\d+) payload: (-?\d+)\s*$", re.DOTALL)
_ERROR = 'Exception in thread "'
_INVALID_END = re.compile(r"^Found \d+ invalid bytes at the end of", re.MULTILINE)
_HEADING = re.compile(
    r"Dumping |(?:Log s|S)tarting offset: |Found |Mismatches in |Non-consecutive offsets in "
    r"|\s+(?:Index (?:offset|position)|\d+ is followed by)"
)
_RECORD = re.compile(r"(?:\| )?offset: ")
_BATCH = re.compile("baseOffset: ")
_WHOLE = re.compile(
    r"baseOffset: (?:-?\w+(?: \w+: (?:[\w.-]+(?:\[-?\d*\])?))*)\s*"
    r"|(?:Log s|S)tarting offset: -?\d+\s*|(?!baseOffset|Log s|Starting).*",
    re.DOTALL,
)
"""Lines of batches and headings, without anything behind them."""
_decode = json.JSONDecoder().raw_decode
_SHARED = {"producerId": "-1", "isTransactional": "false", "isvalid": "true"}


def read_units(block: Iterable[TextRecord], into: PrintedRecords) -> None:
    """Read the records of some batches."""
    for unit in block:
        is_last = into.is_last(unit) and not unit.data.endswith(b"\n")
        text = unit.data.decode(errors="replace").removeprefix("\ufeff")
        if "\nFound " in text and _INVALID_END.search(text):
            into.skip(REASON_TRUNCATED, unit.position, damage=False)
        # With 2>&1 an error's first line stands right behind the record it is about.
        text, error, trace = text.partition(_ERROR)
        into.skip_text(error + trace, unit.position)
        _read_batch(list(_whole(text)), unit.position, into, is_last=is_last)


def _whole(text: str) -> Iterator[str]:
    """The lines but for noise, each record with the line breaks that its metadata has."""
    record = ""
    for line in text.split("\n"):
        if _RECORD.match(line) or _BATCH.match(line) or _HEADING.match(line):
            if record:
                yield record
            record = line.removesuffix("\r")
        elif not is_noise(line):
            record += f"\n{line}" if record else line
    if record:
        yield record


def _read_batch(lines: list[str], position: int, into: PrintedRecords, *, is_last: bool) -> None:
    batch = _SHARED
    for number, line in enumerate(lines):
        if "\n" in line and not _RECORD.match(line):
            line, _, more = line.partition("\n")
            into.skip_text(more, position)
        if not _WHOLE.fullmatch(line):
            into.skip_text(line, position, is_last=is_last and number == len(lines) - 1)
        if _BATCH.match(line):
            batch = dict(_FIELD.findall(line))
            if batch.get("isvalid", "true") != "true":
                into.skip(REASON_CRC, position)
                return
        elif _RECORD.match(line):
            try:
                _read_record(line, batch, position, into)
            except NOT_A_RECORD:
                into.skip_text(line, position, is_last=is_last and number == len(lines) - 1)
        elif not _HEADING.match(line):
            into.skip_text(line, position)


def _read_record(line: str, batch: dict[str, str], position: int, into: PrintedRecords) -> None:
    """Read one record; ValueError or LookupError if the line is not one."""
    head, found, tail = line.partition(_KEYS_END)
    fields = dict(_FIELD.findall(head))
    if not found:
        raise ValueError("the line ends before the record")
    log_offset = int(fields["offset"])
    at_ms = [int(fields[name]) for name in _TIMES if name in fields][0]
    size = int(fields["valueSize"] if "valueSize" in fields else fields["valuesize"])
    shared = fields if batch is _SHARED else batch  # before 2.2 its line has what is its batch's
    about: dict[str, Any] = {
        "producer_id": int(shared.get("producerId", -1)),
        "transactional": shared.get("isTransactional") == "true",
        "epochs": _epochs(batch),
    }
    body = tail.partition("]")[2].lstrip()
    ends = _MARKER.match(body)
    if ends:
        if ends[1] not in ("ABORT", "COMMIT"):
            into.skip(REASON_MARKER, position, damage=False)
            return
        key, value = marker(COMMIT if ends[1] == "COMMIT" else ABORT)
        into.add(log_offset, at_ms, key, value, control=True, **about)
    elif body.startswith(_KEY):
        pair = _pair(body[len(_KEY) :], position, into)
        if pair is not None:
            into.add(log_offset, at_ms, *pair, **about)
    elif size < 0:
        into.skip(REASON_KEYLESS, position, damage=False)
    else:
        into.skip(REASON_UNDECODED, position)


def _epochs(batch: dict[str, str]) -> Epochs | None:
    """Epochs of leader and producer; None before 2.2, which prints no line for a batch."""
    names = ("partitionLeaderEpoch", "producerEpoch")
    return Epochs(*(int(batch[name]) for name in names)) if batch.keys() >= set(names) else None


def _pair(body: str, position: int, into: PrintedRecords) -> tuple[bytes, bytes | None] | None:
    """Key and value; None, and a note, if they can't be used."""
    if body.startswith("{"):
        return _json_pair(body, position, into)
    unknown = _UNKNOWN.match(body)
    if unknown:
        _skip_type(int(unknown[1] or unknown[2]), position, into)
        return None
    commit = _COMMIT_2_4.match(body)
    if commit:
        group, topic, partition, offset = commit.groups()
        return _commit(group, topic, partition, offset)
    group_record = _GROUP_2_4.match(body)
    if group_record:
        group, payload = group_record.groups()
        return group_key(group), None if payload == DELETE else _group(payload)
    commit = _COMMIT_2_0.match(body)
    if commit:
        return _commit(*commit.groups())
    into.skip(REASON_UNDECODED, position)
    return None


def _skip_type(number: int, position: int, into: PrintedRecords) -> None:
    """A record of a type that the tool does not know, but kgtool may."""
    is_useful = number in DECODED_TYPES
    if is_useful or number not in KNOWN_TYPES:
        reason = REASON_TYPE_NOT_DECODED if is_useful else REASON_UNKNOWN_KEY
        into.skip(reason.format(number), position, damage=is_useful)


def _json_pair(body: str, position: int, into: PrintedRecords) -> tuple[bytes, bytes | None] | None:
    key, behind = _decode(body)
    if not body.startswith(_PAYLOAD, behind):
        raise ValueError("no payload behind the key")
    payload = body[behind + len(_PAYLOAD) :].strip()
    if "metadata" in key:  # up to 2.3
        return group_key(key["metadata"]), _group(payload)
    try:
        number = int(key["type"])
        raw_key = printed_key(number, key["data"])
    except NOT_A_RECORD:
        into.skip(REASON_KEY, position)
        return None
    if payload == DELETE:
        return raw_key, None
    value = json.loads(payload)
    try:
        return raw_key, printed_value(number, int(value["version"]), value["data"])
    except NOT_A_RECORD:
        into.skip(REASON_VALUE, position)
        return None


def _commit(group: str, topic: str, partition: str, offset: str | None) -> tuple[bytes, Any]:
    value = None if offset is None else plain_offset(int(offset), 0, None)
    return offset_key(group, topic, int(partition)), value


def _group(payload: str) -> bytes:
    """GroupMetadataValue of what the text forms print of it."""
    data = json.loads(payload)
    assignment = str(data.get("assignment") or "{}")
    members = 0 if assignment == "{}" else max(assignment.count("=["), 1)
    return group_value(str(data.get("protocolType") or ""), int(data["generationId"]), members)
