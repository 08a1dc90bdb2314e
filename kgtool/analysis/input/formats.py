"""Tell by its content what a file is, and what that format can't tell."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from kgtool.analysis import missing_data
from kgtool.analysis.input import lookalikes
from kgtool.analysis.input.input_files import TOPIC_NAME
from kgtool.analysis.input.lookalikes import UNKNOWN as UNKNOWN

OFFSETS, GROUPS, JSON, DUMP, ROWS = "offsets", "groups", "json", "dump", "rows"
"""Names of families."""


class Family(NamedTuple):
    """Text formats whose lines look alike, wherever somebody copied them from."""

    label: str
    """What prints them, for people."""
    sign: re.Pattern[str]
    """What tells that a text may be of it."""
    start: re.Pattern[str]
    """How a record begins, or a batch, or a dump."""
    once: re.Pattern[bytes] | None = None
    """What each record has once, but for strange names and metadata."""


FAMILIES: Final = {
    DUMP: Family(
        "kafka-dump-log --offsets-decoder",
        re.compile(r"offset: ?\d+ |baseOffset:|Log starting offset"),
        re.compile(
            r"Dumping \S|(?:Log s|S)tarting offset: \d|baseOffset: \d+ lastOffset: \d"
            r"|(?:\| )?offset: \d+ (?:position|CreateTime|LogAppendTime|NoTimestampType|isValid): "
        ),
    ),
    JSON: Family(
        "a JSON formatter",
        re.compile(r'"key"\s*:\s*\{\s*"(?:type|version|data)"'),
        re.compile(r'\{\s*"key"\s*:'),
    ),
    ROWS: Family(
        "a tool that writes keys and values in base64",
        re.compile(r'"key"\s*:\s*(?:"[A-Za-z0-9+/=]{8,}"|\{)'),
        re.compile(r"\{"),
    ),
    GROUPS: Family(
        "GroupMetadataMessageFormatter",
        re.compile(r"::GroupMetadata\("),
        re.compile(r"(?P<group>.+?)::GroupMetadata\(groupId=(?P=group),|.+::NULL$"),
        re.compile(rb"::GroupMetadata\(groupId="),
    ),
    OFFSETS: Family(
        "OffsetsMessageFormatter",
        re.compile(r",\d+\]::|::OffsetAndMetadata|::\[OffsetMetadata"),
        re.compile(
            rf"\[.*?,{TOPIC_NAME},\d+\]::(?:NULL$|OffsetAndMetadata[(\[]|\[OffsetMetadata\[)"
        ),
        re.compile(rb"\]::(?:NULL|OffsetAndMetadata|\[OffsetMetadata)"),
    ),
}
"""The likeliest first."""


class Format(NamedTuple):
    """A format that is read."""

    name: str
    label: str
    """For people."""
    missing: int
    """Bits of ``kgtool.analysis.missing_data``."""
    family: str = ""
    """Empty: it is no text."""


_PRINTED = missing_data.TRANSACTIONS | missing_data.TIMES
_OLD_DUMP = (
    missing_data.STATE_TIMES
    | missing_data.SUBSCRIPTIONS
    | missing_data.COMMIT_TIMES
    | missing_data.NEW_GROUPS
    | missing_data.TOPIC_IDS
)

SEGMENT: Final = Format("segment", "raw segments", 0)
CLUSTER: Final = Format("cluster", "a live cluster", 0)
PARQUET: Final = Format("parquet", "Parquet of Spark's Kafka source", missing_data.TRANSACTIONS)
FRAME: Final = Format("dataframe", "rows of Spark", missing_data.TRANSACTIONS)
OFFSETS_JSON: Final = Format(
    "offsets-json",
    "OffsetsMessageFormatter, JSON",
    _PRINTED | missing_data.GROUPS | missing_data.NEW_GROUPS,
    JSON,
)
GROUPS_JSON: Final = Format(
    "groups-json",
    "GroupMetadataMessageFormatter, JSON",
    _PRINTED | missing_data.OFFSETS | missing_data.NEW_GROUPS,
    JSON,
)
OFFSETS_TEXT: Final = Format(
    "offsets-text",
    "OffsetsMessageFormatter, text",
    OFFSETS_JSON.missing | missing_data.TOPIC_IDS,
    OFFSETS,
)
GROUPS_TEXT: Final = Format(
    "groups-text",
    "GroupMetadataMessageFormatter, text",
    GROUPS_JSON.missing | missing_data.STATE_TIMES | missing_data.SUBSCRIPTIONS,
    GROUPS,
)
ROWS_JSON: Final = Format(
    "rows-json", "JSON with keys and values in base64", missing_data.TRANSACTIONS, ROWS
)
DUMP_JSON: Final = Format("dump-json", "kafka-dump-log 3.8+", 0, DUMP)
DUMP_TEXT: Final = Format("dump-text", "kafka-dump-log 2.4 to 3.7", _OLD_DUMP, DUMP)
DUMP_OLD: Final = Format(
    "dump-old", "kafka-dump-log up to 2.3", _OLD_DUMP | missing_data.REMOVED_KEYS, DUMP
)

FORMATS: Final = {
    each.name: each
    for each in (
        SEGMENT,
        CLUSTER,
        PARQUET,
        FRAME,
        OFFSETS_JSON,
        GROUPS_JSON,
        OFFSETS_TEXT,
        GROUPS_TEXT,
        ROWS_JSON,
        DUMP_JSON,
        DUMP_TEXT,
        DUMP_OLD,
    )
}
FORMATTERS: Final = (OFFSETS_JSON, GROUPS_JSON, OFFSETS_TEXT, GROUPS_TEXT)
"""These don't say where in which partition a record was."""
DUMPS: Final = (DUMP_JSON, DUMP_TEXT, DUMP_OLD)
PLACED: Final = tuple(kind.name for kind in (SEGMENT, CLUSTER, PARQUET, ROWS_JSON, *DUMPS))
"""Names of those that tell where in the log a record was."""

OWN: Final = "is a table that kgtool analyze wrote"
HEAD_BYTES = 1 << 20
"""What is looked at of a file."""

_JSON = re.compile(
    rb'\{\s*"key"\s*:\s*\{\s*(?:"data"\s*:\s*(?:\{[^{}]*\}|"unknown")\s*,\s*)?'
    rb'"(?:type|version)"\s*:\s*"?(\d+)'
)
_JSON_BEGIN = re.compile(rb'\{\s*"key"\s*:\s*\{')
_OFFSETS = re.compile(
    rb"^\[.*?,%b,\d+\]::(?:NULL|OffsetAndMetadata[(\[]|\[OffsetMetadata\[)" % TOPIC_NAME.encode(),
    re.MULTILINE,
)
_GROUPS = re.compile(rb"^.*::GroupMetadata\(groupId=", re.MULTILINE)
_DUMP = re.compile(
    rb"^(?:(?:\xef\xbb\xbf)?Dumping [^\n]+\r?\n(?:Log s|S)tarting offset: "
    rb"|baseOffset: \d+ lastOffset: \d+ |offset: \d+ (?:position|CreateTime|isValid): )",
    re.MULTILINE,
)
_DUMP_BODY = re.compile(
    rb'headerKeys: \[[^\]]*\] (?:(?P<json>key: (?:\{"type":|Unknown record type ))'
    rb"|(?P<text>key: (?:offset_commit|group_metadata|unknown)::)"
    rb'|(?P<old>key: (?:offset::|\{"metadata":))'
    rb"|(?P<plain>key: ))"
)
_RECORD = re.compile(rb"^(?:\| )?offset: \d+ .*$", re.MULTILINE)
_UNDECODED = re.compile(
    rb"^(?:\| )?offset: \d+ (?![^\n]*value[sS]ize: -1)[^\n]*headerKeys: \[[^\]\n]*\]"
    rb"(?: key: (?!\{\W*(?:\w+;\W*)?(?:type|version|metadata)\b|\w+::|Unknown record type )"
    rb"[^\n]* payload: [^\n]*)?\r?$",
    re.MULTILINE,
)
"""A whole record without a key, or with one that is not decoded, nor only quoted in another way.
Up to 2.3 a tombstone has none in any case."""
_KEY_SIZE = re.compile(rb"key[sS]ize: ")
_WHOLE_BATCH = re.compile(rb"^baseOffset: [^\n]*is[vV]alid: \w+\r?$", re.MULTILINE)
_BATCH = re.compile(rb"^baseOffset: \d+ lastOffset: ", re.MULTILINE)
_TOO_OLD = re.compile(rb"^(?:\| )?offset: \d+ position: .*payloadsize: ", re.MULTILINE)


def recognise(head: bytes) -> Format | str:
    """The format of a file that begins with these bytes, or why it can't be read."""
    return by_magic(head) or _dump(head) or _formatter(head) or UNKNOWN


def by_magic(head: bytes) -> Format | str | None:
    """What begins with these bytes, if it is no text."""
    if head.startswith(b"PAR1"):
        return PARQUET
    return lookalikes.by_magic(head) if head else "is empty"


def looks_like_segment(head: bytes) -> bool:
    """Whether a record batch or message set may begin here, by offset, length and magic."""
    if len(head) < 17 or any(head[:2]):
        return False
    length = int.from_bytes(head[8:12], "big", signed=True)
    return head[16] in (0, 1, 2) and 14 <= length < 1 << 30 and b"\0" in head[:8]


def _dump(head: bytes) -> Format | str | None:
    if not _DUMP.search(head):
        return None
    if _TOO_OLD.search(head):
        return "was made by kafka-dump-log before 0.11, which leaves out tombstones and times"
    body = _DUMP_BODY.search(head)
    if body is None:
        return _dump_without_keys(head)
    shapes = {"json": DUMP_JSON, "text": DUMP_TEXT, "old": DUMP_OLD}
    return shapes.get(body.lastgroup or "") or _no_decoder(head)


def _dump_without_keys(head: bytes) -> Format | str | None:
    record = _RECORD.search(head)
    if record is None:
        # Batches without their records, or no batch at all, so that nothing is missing.
        return _no_decoder(head) if _BATCH.search(head) else DUMP_JSON
    if b"keysize: " in record[0]:  # up to 2.4; up to 2.3 tombstones show nothing of their key
        return DUMP_OLD
    return DUMP_JSON if b"endTxnMarker: " in head else _no_decoder(head)


def _no_decoder(head: bytes) -> str | None:
    sign = _UNDECODED if _KEY_SIZE.search(head) else _WHOLE_BATCH
    if not sign.search(head):
        return None  # lines that were cut, or changed, tell nothing
    return "was made by kafka-dump-log without --offsets-decoder: its keys and values can't be read"


def _formatter(head: bytes) -> Format | str | None:
    # In 3.9 both print something of records that are not theirs.
    numbers = {int(found[1]) for found in _JSON.finditer(head)}
    if numbers:
        return GROUPS_JSON if 2 in numbers and not numbers & {0, 1} else OFFSETS_JSON
    # A group's name may look like a record of the other kind, so the first record tells.
    offset, group = _OFFSETS.search(head), _GROUPS.search(head)
    if offset is not None and (group is None or offset.start() <= group.start()):
        return OFFSETS_TEXT
    return None if group is None else GROUPS_TEXT


def is_without_batches(head: bytes, kind: Format) -> bool:
    """Whether somebody left only the lines of records in a dump that had those of batches."""
    return kind in (DUMP_JSON, DUMP_TEXT) and not _BATCH.search(head) and bool(_RECORD.search(head))


def separator(head: bytes, kind: Format) -> bytes:
    """What stands at the beginning of every record but the first, for readers of lines."""
    if kind in DUMPS:
        return b"\nbaseOffset: " if _BATCH.search(head) else b"\noffset: "
    if kind in (OFFSETS_JSON, GROUPS_JSON):
        found = _JSON_BEGIN.search(head)
        return found[0] if found else b'{"key":{'
    return b"\n"
