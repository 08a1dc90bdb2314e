"""Encode printed records again, so that one decoder reads every input.

Fields that a text lacks get the value that stands for "unknown" in the record's format; columns
made of them are emptied later (``kgtool.analysis.missing_data``).
"""

from __future__ import annotations

import re
import struct
from typing import Any, Final, NamedTuple

import numpy as np

from kgtool.analysis.decode.batches import LogRecords, RecordBlock
from kgtool.analysis.decode.segments import Note
from kgtool.analysis.decode.vector_reader import View
from kgtool.analysis.input.readers.text_ranges import TextRecord
from kgtool.errors import EncodeError
from kgtool.records.json_converter import key_bytes, value_bytes
from kgtool.records.types import GROUP_METADATA, OFFSET_TYPES

REASON_MALFORMED = "text that is not a record"
REASON_CUT_OFF = "record cut off at the end"

REASON_STOPPED = "the tool stopped with an error: {}"

_STOPPED = re.compile(
    r'^(?:Exception in thread "[^"\n]*" )?((?:[a-z]\w*\.)+\w*(?:Exception|Error)\b[^\n]*)',
    re.MULTILINE,
)
_NOISE = re.compile(
    r"""\s*$ | Option\ --\S+\ is\ deprecated
    | (?:log4j|SLF4J|StatusLogger):?\ ? | \[\d{4}-\d\d-\d\d[ T][\d:,.]+\]\ [A-Z]+[ ]
    | \[main\]\ (?:INFO|WARN|ERROR|DEBUG)\ | (?:WARN|WARNING|ERROR|INFO)\b | \s+at\ \S+\(
    | OpenJDK\ | Picked\ up\ \w+: | Defaulted\ container\ | ```\w*\s*$
    | (?!.*::)\s*--[a-z][\w-]+(?:[ =].*)?$
    | (?:\^C)?Processed\ a\ total\ of\ \d | \^C\s*$ | (?!.*::)\S{0,80}\ ?[$#%\u276f]\s*$
    | (?!.*::)[^{]{0,120}[$#%>\u276f]\s+[^{]*
      \b(?:kafka|docker|podman|kubectl|oc|ssh|cat|grep|head|tail)\b
    """,
    re.VERBOSE,
)
"""Lines of tools, loggers, shells and the JVM between the records."""
_RECORD = re.compile(
    r"::(?:NULL|GroupMetadata\(|OffsetAndMetadata|\[OffsetMetadata)|\"key\"\s*:|[oO]ffset: \d+ "
)
"""What only a record has: behind what looks like a logger's own words, too."""
SHORTENED = re.compile(r"\.\.\.|\u2026")
"""What people write for what they leave out."""
MOST_UNREAD = 50
"""Samples of text that is not a record."""

_int16 = struct.Struct(">h").pack
_int32 = struct.Struct(">i").pack
_int64 = struct.Struct(">q").pack
_head = struct.Struct(">hq").pack
_head_3 = struct.Struct(">hqi").pack
_COLUMNS = 7
_LIMIT = 1 << 63
NOT_A_RECORD: Final = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    struct.error,
    EncodeError,
)
"""Errors for text that is not a record."""


class Epochs(NamedTuple):
    """Epochs in a batch's header."""

    leader: int
    producer: int


class PrintedRecords:
    """Records of one block of a text file, in log order.

    :param order: added to a record's position in the file to make its offset.
    :param end: size of the file.
    """

    def __init__(self, order: int, end: int) -> None:
        self.order, self._end = order, end
        self.notes: list[Note] = []
        self._rows: list[tuple[int, ...]] = []
        self._epochs: list[Epochs | None] = []
        self._parts: list[bytes] = []
        self._counts: dict[tuple[str, bool], list[int]] = {}
        self.unread: list[str] = []
        """Some of the text that is neither record nor noise."""

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self,
        log_offset: int,
        timestamp_ms: int,
        key: bytes,
        value: bytes | None,
        *,
        producer_id: int = -1,
        transactional: bool = False,
        control: bool = False,
        epochs: Epochs | None = None,
    ) -> None:
        """Add a record; ``value`` None is a tombstone. ValueError for a number beyond 64 bits."""
        for number in (log_offset, timestamp_ms, producer_id, *(epochs or ())):
            if not -_LIMIT <= number < _LIMIT:
                raise ValueError(f"{number} is not a 64-bit number")
        self._parts.append(key if value is None else key + value)
        self._epochs.append(epochs)
        self._rows.append(
            (
                log_offset,
                timestamp_ms,
                producer_id,
                transactional,
                control,
                len(key),
                -1 if value is None else len(value),
            )
        )

    def is_last(self, unit: TextRecord) -> bool:
        """Whether the file ends with this record."""
        return unit.position + len(unit.data) >= self._end

    def skip(self, reason: str, position: int, *, damage: bool = True) -> None:
        """Count an unusable record; the first position of each reason is kept."""
        count = self._counts.setdefault((reason, damage), [0, position])
        count[0] += 1

    def skip_text(self, text: str, position: int, *, is_last: bool = False) -> None:
        """Skip text that is not a record: noise, the torn end of a file, or damage."""
        stopped = _STOPPED.search(text)
        if stopped:
            self.notes.append(Note(REASON_STOPPED.format(stopped[1].strip()[:200]), position))
            return
        if all(map(is_noise, text.splitlines())):
            return
        if len(self.unread) < MOST_UNREAD and (not is_last or SHORTENED.search(text[:1000])):
            self.unread.append(text[:1000])
        reason = REASON_CUT_OFF if is_last else REASON_MALFORMED
        self.skip(reason, position, damage=not is_last)

    def block(self, position: int, size: int) -> RecordBlock:
        """The records, and one note for each reason to skip some."""
        skipped = [
            Note(reason, at, 0, count, damage)
            for (reason, damage), (count, at) in self._counts.items()
        ]
        return RecordBlock(position, size, self._records(), [*self.notes, *skipped])

    def _records(self) -> LogRecords:
        table = np.array(self._rows, dtype=np.int64).reshape(-1, _COLUMNS)
        log_offset, at_ms, producer, transactional, control, key, value = table.T
        sizes = key + np.maximum(value, 0)
        ends = np.cumsum(sizes)
        key_at = ends - sizes
        has_epochs = None not in self._epochs
        epochs = np.array(self._epochs if has_epochs else [], dtype=np.int64).reshape(-1, 2)
        return LogRecords(
            view=View(b"".join(self._parts)),
            log_offset=log_offset,
            timestamp_ms=at_ms,
            producer_id=producer,
            transactional=transactional.astype(np.bool_),
            control=control.astype(np.bool_),
            key_at=key_at,
            key_size=key,
            value_at=key_at + key,
            value_size=value,
            leader_epoch=epochs[:, 0] if has_epochs else None,
            producer_epoch=epochs[:, 1] if has_epochs else None,
        )


def is_noise(line: str) -> bool:
    """Whether a line is neither a record nor a part of one."""
    return _NOISE.match(line) is not None and _RECORD.search(line, 0, 1000) is None


def marker(kind: int) -> tuple[bytes, bytes]:
    """Key and value of a control record that ends a transaction: ABORT or COMMIT."""
    return _int16(0) + _int16(kind), bytes(6)


# These raise one of NOT_A_RECORD for text, numbers or JSON that fit into no record.


def offset_key(group: str, topic: str, partition: int, number: int = 1) -> bytes:
    """OffsetCommitKey."""
    return _int16(number) + _text(group) + _text(topic) + _int32(partition)


def group_key(group: str) -> bytes:
    """GroupMetadataKey."""
    return _int16(GROUP_METADATA) + _text(group)


def plain_offset(offset: int, commit_ms: int, expire_ms: int | None) -> bytes:
    """OffsetCommitValue v3, or v1 where there is an expire timestamp; no metadata."""
    if expire_ms is None:
        return _head_3(3, offset, -1) + b"\0\0" + _int64(commit_ms)
    return _head(1, offset) + b"\0\0" + _int64(commit_ms) + _int64(expire_ms)


def printed_key(number: int, data: Any) -> bytes:
    """The key of a record that a tool printed as JSON."""
    if number in OFFSET_TYPES:
        return offset_key(data["group"], data["topic"], data["partition"], number)
    return key_bytes(number, data)


def printed_value(number: int, version: int, data: Any) -> bytes:
    """The value of a record that a tool printed as JSON."""
    if number in OFFSET_TYPES and 1 <= version <= 3:
        return _offset_value(version, data)
    return value_bytes(number, version, data)


def _offset_value(version: int, data: Any) -> bytes:
    """As the schema says; by hand, because of these there are millions."""
    metadata, committed = _text(data["metadata"]), _int64(data["commitTimestamp"])
    if version == 3:
        return _head_3(3, data["offset"], data["leaderEpoch"]) + metadata + committed
    expire = _int64(data.get("expireTimestamp", -1)) if version == 1 else b""
    return _head(version, data["offset"]) + metadata + committed + expire


def _text(value: str) -> bytes:
    raw = value.encode("utf-8", "replace")
    return _int16(len(raw)) + raw
