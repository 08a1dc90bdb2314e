"""Say what a file that can't be read looks like."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

WAY_OUT: Final = "`kgtool export -b HOST:PORT --out DIR` always works: analyze reads that folder"
"""Ends every refusal but those that say what to do."""
UNPACK: Final = "unpack it first"


class Foreign(str):
    """Why a file can't be read that may lie beside a log and has nothing to do with it."""

    __slots__ = ()


class Fixable(str):
    """Why a file can't be read, with what to do about it."""

    __slots__ = ()


UNKNOWN: Final = Foreign("is not in a known format")

_MAGIC: Final = (
    (0, b"\x1f\x8b", f"is compressed with gzip: {UNPACK}"),
    (0, b"\x28\xb5\x2f\xfd", f"is compressed with zstd: {UNPACK}"),
    (0, b"BZh", f"is compressed with bzip2: {UNPACK}"),
    (0, b"\xfd7zXZ\0", f"is compressed with xz: {UNPACK}"),
    (0, b"\x5d\0\0", f"is compressed with lzma: {UNPACK}"),
    (0, b"\x04\x22\x4d\x18", f"is compressed with lz4: {UNPACK}"),
    (0, b"\xff\x06\0\0sNaPpY", f"is compressed with snappy: {UNPACK}"),
    (0, b"\x82SNAPPY\0", f"is compressed with snappy: {UNPACK}"),
    (0, b"\x1f\x9d", f"is compressed with compress: {UNPACK}"),
    (0, b"PK\x03\x04", f"is a zip archive: {UNPACK}"),
    (0, b"7z\xbc\xaf\x27\x1c", f"is a 7z archive: {UNPACK}"),
    (0, b"Rar!\x1a\x07", f"is a rar archive: {UNPACK}"),
    (257, b"ustar", f"is a tar archive: {UNPACK}"),
    (0, b"!<arch>\n", f"is an ar archive: {UNPACK}"),
    (0, b"Obj\x01", "is Avro, which is not read: write Parquet"),
    (0, b"ORC", "is ORC, which is not read: write Parquet"),
    (0, b"\x89PNG", Foreign("is a picture")),
    (0, b"\xff\xd8\xff", Foreign("is a picture")),
    (0, b"GIF8", Foreign("is a picture")),
    (0, b"%PDF", Foreign("is a PDF document")),
    (0, b"\x7fELF", Foreign("is a program")),
    (0, b"SQLite format 3\0", Foreign("is an SQLite database")),
    (0, b"\xd4\xc3\xb2\xa1", Foreign("is a capture of network packets")),
    (0, b"JAVA PROFILE", Foreign("is a heap dump of a JVM")),
)

_AS_TEXT = "whose keys and values are bytes printed as text: they can't be read back"
_NO_LOG = "which is no copy of the log"
_TEXTS: Final = tuple(
    (re.compile(pattern, re.MULTILINE | re.IGNORECASE if "<html" in pattern else re.MULTILINE), why)
    for pattern, why in (
        (
            r"^(?:CreateTime|LogAppendTime):-?\d+\t",
            "is the console consumer's default output, where keys and values are bytes printed as "
            "text: they can't be read back",
        ),
        (r"^\s*(?:<!doctype|<html)", Foreign("looks like a web page")),
        (
            r"^\s*(?:\"?GROUP\"?[\s,|]+)?\"?TOPIC\"?[\s,|]+\"?PARTITION\"?[\s,|]+.*\bCURRENT[-_]OFFSET",
            f"looks like the output of describe (kafka-consumer-groups --describe), {_NO_LOG}",
        ),
        (
            r"^\s*GROUP\s+(?:.*\s)?(?:COORDINATOR|CONSUMER-ID|STATE|MEMBERS|PROTOCOL)\b",
            f"looks like the output of kafka-consumer-groups or rpk group describe, {_NO_LOG}",
        ),
        (
            r"^[ \t]*Topic: ?\S+[ \t]+(?:TopicId|PartitionCount|Partition):",
            f"looks like the output of kafka-topics --describe, {_NO_LOG}",
        ),
        (
            r"^\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d{3}\S*\s+"
            r"\[?(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b",
            Foreign(f"looks like a log file of a broker or another program, {_NO_LOG}"),
        ),
        (
            r"^[ \t]*Key \(-?\d+ bytes\):|^% Reached end of topic|^%\d?\|?\d*.*\|rdkafka",
            f"looks like the output of kcat, {_AS_TEXT}",
        ),
        (
            r"^\"?[^\",\n]{1,249}\"?,\"?[\w.-]{1,249}\"?,\d+,\d+(?:,\"?.*)?$",
            f"looks like offsets that reset-offsets --export wrote, {_NO_LOG}",
        ),
        (r"^[\w.-]{1,249}:\d+:\d+$", f"looks like the output of kafka-get-offsets, {_NO_LOG}"),
        (
            r"^.+::NULL$",
            "has lines that end in ::NULL and nothing else of a formatter's output: whether they "
            "are records can't be told",
        ),
    )
)
_BINARY = re.compile(rb"\0[\0-\x03]\0.[^\0]+\0")
"""An offset's key among other bytes."""
_KEYS: Final = (
    ({"tstype"}, "kcat -J"),
    ({"partitionID"}, "Redpanda Console"),
    ({"compression", "isTransactional"}, "Redpanda Console"),
    ({"keySerde"}, "kafka-ui"),
    ({"valueSerde"}, "kafka-ui"),
    ({"content", "partition"}, "kafka-ui"),
    ({"keyFormat"}, "kafka-ui"),
    ({"keySchemaId"}, "AKHQ"),
    ({"schema", "payload"}, "Kafka Connect's JsonConverter"),
    ({"command", "results", "errors"}, "kgtool -o json"),
)


def by_magic(head: bytes) -> str | None:
    """What begins with these bytes, if it is no text and nothing that is read."""
    for at, magic, why in _MAGIC:
        if head.startswith(magic, at):
            return why
    return None


def looks_like(head: bytes, text: str) -> str:
    """Why a file can't be read that is in no known format."""
    found = _json(text)
    if found is not None:
        return found
    for pattern, why in _TEXTS:
        if pattern.search(text):
            return why
    if b"\0\1\0" in head and _BINARY.search(head):
        return f"looks like what a consumer printed without a formatter, {_AS_TEXT}"
    return UNKNOWN


def _json(text: str) -> str | None:
    first, *_ = next(objects(text), (None,))
    if first is None:
        return None
    names = {*first, *(name for each in first.values() if isinstance(each, dict) for name in each)}
    tool = next((tool for keys, tool in _KEYS if keys <= names), None)
    has_bytes = any(mark in text[:100_000] for mark in ("\\u0000", "\\ufffd", "\0", "\ufffd"))
    if tool is None and {"topic", "key", "partition", "offset"} <= names:
        tool = "rpk topic consume" if "value" in names else "a user interface such as Conduktor"
    if tool is not None:
        why = _AS_TEXT if has_bytes else "which does not hold the bytes of keys and values"
        return f"looks like the JSON of {tool}, {why if tool != 'kgtool -o json' else _NO_LOG}"
    if {"key", "value"} <= names and names & {"partition", "offset", "timestamp"}:
        return (
            "looks like the JSON of a user interface such as Conduktor, which does not hold the "
            "bytes of keys and values"
        )
    return None


def objects(text: str) -> Iterator[tuple[dict[str, Any], int, int]]:
    """JSON objects with their begin and end, one behind the other or in an array, while there are
    any."""
    decode, at = json.JSONDecoder().raw_decode, 0
    while True:
        at = _GAP.match(text, at).end()  # type: ignore[union-attr]  # it always matches
        if not text.startswith("{", at):
            return
        try:
            found, end = decode(text, at)
        except (ValueError, RecursionError):
            return
        yield found, at, end
        at = end


_GAP = re.compile(r"[\s,\[\]\ufeff]*")
