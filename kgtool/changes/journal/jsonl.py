"""Images of groups as JSON Lines, in journals and backups.

::

    {"kind": "group", "group": "g", "type": "classic", "state": "Empty", "protocol_type": "", …}
    {"kind": "offset", "group": "g", "topic": "t", "partition": 0, "offset": 5, …}

One line a group, then one line for each of its offsets. ASCII only, so that a name can neither
break a line nor control a terminal.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from kgtool.changes.snapshot import GroupChange, GroupImage, OffsetImage
from kgtool.errors import ConfigError, readable
from kgtool.held import HeldFile
from kgtool.json_rows import LONGEST_NAME, RowTemplate, shown, unique
from kgtool.model import CommittedOffset, TopicPartition

Source: TypeAlias = "Path | HeldFile"
"""A file to read; ``str`` is its name."""

ABSENT = "absent"
"""The ``after`` of an offset that is going to be deleted."""


_OFFSET: tuple[str, ...] = (
    "kind",
    "group",
    "topic",
    "partition",
    "offset",
    "leader_epoch",
    "metadata",
    "topic_id",
    "log_start_offset",
    "log_end_offset",
)
_PENDING, _AFTER, _TIME = "pending_transaction", "after", "time_ms"


def dump(record: Mapping[str, Any]) -> str:
    """Return a record as a line."""
    return json.dumps(record, separators=(", ", ": ")) + "\n"


def group_lines(recorded: GroupChange) -> str:
    """Return a group and its offsets as lines, with ``after`` where the change has it."""
    image = recorded.image
    head: dict[str, Any] = {
        "kind": "group",
        "group": image.group,
        "type": image.type,
        "state": image.state,
        "protocol_type": image.protocol_type,
        "exists": image.exists,
        "offsets": len(image.offsets),
    }
    if recorded.deletes_group:
        head["deletes_group"] = True
    if recorded.is_blind:
        head["blind"] = True
    if recorded.hidden:
        head["hidden"] = dict(recorded.hidden)
    alike: dict[tuple[str, ...], list[tuple[object, ...]]] = {}
    for partition, offset in image.offsets.items():
        keys = _OFFSET
        values = _offset_values(image.group, partition, offset)
        if offset.committed is not None and offset.committed.is_pending:
            keys, values = (*keys, _PENDING), (*values, True)
        if offset.time_ms is not None:
            keys, values = (*keys, _TIME), (*values, offset.time_ms)
        if partition in recorded.after:
            after = recorded.after[partition]
            keys = (*keys, _AFTER)
            values = (*values, ABSENT if after is None else _value(after))
        alike.setdefault(keys, []).append(values)
    lines = [line for keys, rows in alike.items() for line in RowTemplate(keys).lines(rows)]
    return "\n".join([dump(head)[:-1], *lines, ""])


def _offset_values(group: str, partition: TopicPartition, image: OffsetImage) -> tuple[object, ...]:
    committed, *log = image[:4]
    offset, epoch, metadata, _ = committed or _NOTHING
    return ("offset", group, *partition, offset, epoch, metadata, *log)


_NOTHING = CommittedOffset(None, None, None)


def _value(value: CommittedOffset) -> dict[str, Any]:
    return {"offset": value.offset, "leader_epoch": value.leader_epoch, "metadata": value.metadata}


# ---------------------------------------------------------------------------------------------
# Reading


class Malformed(ConfigError):
    """A line that kgtool can't parse."""


@contextmanager
def at_line(path: Source, line: int) -> Iterator[None]:
    """Add the line to errors about missing fields and wrong types."""
    try:
        yield
    except KeyError as error:
        raise Malformed(f"{path}, line {line}: {error.args[0]} is missing.") from error
    except ValueError as error:
        raise Malformed(f"{path}, line {line}: {error}.") from error


def records(
    path: Source, damaged: Callable[[Malformed], None] | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read the lines of a file with their numbers, up to a torn last line.

    A process that is killed in a write leaves such a line; nothing that depends on it was done.

    :param damaged: called with a line in the middle that is not a JSON object, where reading ends.
    :raises ConfigError: the file can't be read, or has such a line and ``damaged`` is None.
    """
    with readable(path), path.open("rb") as file:
        for number, line in enumerate(file, 1):
            record = record_of(line)
            if record is not None:
                yield number, record
            elif line.endswith(b"\n"):
                found = Malformed(f"{path}, line {number}: {refusal(line)}.")
                if damaged is None:
                    raise found
                damaged(found)
                return


def first_record(path: Source, kind: str) -> dict[str, Any]:
    """Return the first line of a file.

    :param kind: what the file should be.
    :raises ConfigError: the file can't be read, or has no such line.
    """
    try:
        found = next((record for _, record in records(path)), None)
    except Malformed as error:
        raise Malformed(f"{path} is not a kgtool {kind}.") from error
    if found is None:
        raise Malformed(f"{path} is not a kgtool {kind}: it is empty.")
    return found


def record_of(line: bytes) -> dict[str, Any] | None:
    """Parse one line; None where it is refused (see ``refusal``)."""
    try:
        record = json.loads(line, object_pairs_hook=unique)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def refusal(line: bytes) -> str:
    """Return why ``record_of`` has refused a line."""
    try:
        is_object = isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        is_object = False
    return "a key appears twice" if is_object else "not a JSON object"


def groups(path: Source, lines: Iterable[tuple[int, dict[str, Any]]]) -> Iterator[GroupChange]:
    """Read groups with their offsets; lines of other kinds are skipped.

    :raises ConfigError: a line lacks something or has something of the wrong type.
    """
    head: GroupChange | None = None
    offsets: dict[TopicPartition, OffsetImage] = {}
    after: dict[TopicPartition, CommittedOffset | None] = {}
    for number, record in lines:
        kind = record.get("kind")
        with at_line(path, number):
            if kind == "group":
                if head is not None:
                    yield head
                offsets, after = {}, {}
                head = _group(record, offsets, after)
            elif kind == "offset":
                if head is None or record["group"] != head.image.group:
                    raise ValueError("it stands before its group's line")
                _take_offset(record, offsets, after)
    if head is not None:
        yield head


def _group(record: dict[str, Any], offsets: Any, after: Any) -> GroupChange:
    image = GroupImage(
        typed(record, "group", str),
        typed(record, "type", str, none=True),
        typed(record, "state", str),
        typed(record, "protocol_type", str),
        typed(record, "exists", bool),
        offsets,
    )
    return GroupChange(
        image,
        after,
        bool(record.get("deletes_group")),
        bool(record.get("blind")),
        record.get("hidden"),
    )


def _take_offset(record: dict[str, Any], offsets: Any, after: Any) -> None:
    partition = TopicPartition(typed(record, "topic", str), number(record, "partition", 2**31))
    if partition in offsets:
        raise ValueError(f"{partition} appears twice")
    offsets[partition] = OffsetImage(
        _committed(record, bool(record.get("pending_transaction"))),
        typed(record, "topic_id", str, none=True),
        _optional(record, "log_start_offset"),
        _optional(record, "log_end_offset"),
        _optional(record, _TIME) if _TIME in record else None,
    )
    if "after" in record:
        then = record["after"]
        if then != ABSENT and not isinstance(then, dict):
            raise ValueError("after is neither an offset nor absent")
        after[partition] = None if then == ABSENT else _committed(then)


def _committed(record: dict[str, Any], is_pending: bool = False) -> CommittedOffset | None:
    if record["offset"] is None:
        return None
    return CommittedOffset(
        number(record, "offset"),
        _optional(record, "leader_epoch", 2**31),
        typed(record, "metadata", str, none=True),
        is_pending,
    )


def _optional(record: dict[str, Any], key: str, limit: int = 2**63) -> int | None:
    return None if record[key] is None else number(record, key, limit)


def number(record: dict[str, Any], key: str, limit: int = 2**63) -> int:
    """Return a whole number from 0 on; ValueError otherwise."""
    value = record[key]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < limit:
        raise ValueError(f"{key} is not a whole number of 0 or more: {shown(value)}")
    return value


def typed(record: dict[str, Any], key: str, kind: type, *, none: bool = False) -> Any:
    """Return a value of one type; ValueError otherwise, KeyError where it is missing."""
    value = record[key]
    if not (isinstance(value, kind) or (none and value is None)):
        raise ValueError(f"{key} is not of the right type: {shown(value)}")
    # Names that can't be sent are found now, not by the first request. Bytes that are not UTF-8,
    # which some brokers keep, are sent as they came.
    if isinstance(value, str) and len(value.encode("utf-8", "surrogateescape")) > LONGEST_NAME:
        raise ValueError(f"{key} is longer than {LONGEST_NAME:,} bytes")
    return value


# ---------------------------------------------------------------------------------------------
# Append-only files that hold whole lines only.


_BUFFER_BYTES = 256 * 1024


class LineFile:
    """An open file to which lines are appended.

    A failed write leaves no torn line behind: the file is cut after the last whole one. The lines
    that did not fit are kept and written with the next ones, or dropped by ``cut``.

    :param number: the file's descriptor; ``close`` closes it.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.size = os.fstat(number).st_size
        self._waiting = bytearray()
        self._torn: OSError | None = None

    def write(self, lines: str) -> None:
        """Buffer lines; ``flush``, or a full buffer, hands them to the system."""
        self._waiting += lines.encode("ascii")
        if len(self._waiting) >= _BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand everything to the system, so that it outlives this process."""
        if self._torn is not None:
            raise self._torn
        lines, done = self._waiting, 0
        try:
            while done < len(lines):
                done += os.write(self.number, lines[done : done + _BUFFER_BYTES])
        except OSError:
            done = lines.rfind(b"\n", 0, done) + 1
            self._truncate(self.size + done)
            raise
        finally:
            self.size += done
            del lines[:done]

    def sync(self) -> None:
        """Put everything on the disk."""
        self.flush()
        os.fsync(self.number)

    def cut(self, size: int) -> None:
        """Drop what was written behind ``size``, and the buffer."""
        self._waiting.clear()
        self._truncate(size)
        self.size = size

    def _truncate(self, size: int) -> None:
        try:
            os.ftruncate(self.number, size)
        except OSError as error:
            # Readers skip a torn last line: nothing may follow it.
            self._torn = error

    def close(self) -> None:
        """Close the file; errors are ignored."""
        with contextlib.suppress(OSError):
            os.close(self.number)


def append(path: Path, line: str) -> None:
    """Append a line durably to a file that a killed process may have left torn.

    :raises OSError: it can't be written.
    """
    number = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    try:
        drop_torn_line(number)
        file = LineFile(number)
        file.write(line)
        file.sync()
    finally:
        os.close(number)


def drop_torn_line(number: int) -> None:
    """Cut off the part of a last line that a killed writer left: it would garble the next one."""
    size = os.fstat(number).st_size
    keep = size
    while keep:
        start = max(0, keep - 65536)
        at = os.pread(number, keep - start, start).rfind(b"\n")
        keep = start if at < 0 else start + at + 1
        if at >= 0:
            break
    if keep < size:
        os.ftruncate(number, keep)
