"""From byte ranges of segments to the rows of ``schema.RECORDS``: runs in Spark's workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from kgtool.analysis import schema
from kgtool.analysis.decode import group_records, offsets
from kgtool.analysis.decode.already_read import without_batches, without_records
from kgtool.analysis.decode.batches import REASON_CRC, LogRecords, read_chunk
from kgtool.analysis.decode.commits import (
    REASON_KEY,
    REASON_VALUE,
    DecodeOptions,
    count_rows,
    offset_rows,
    valid_records,
)
from kgtool.analysis.decode.rows import (
    Source,
    batches,
    epoch_rows,
    file_row,
    note_lost,
    note_rows,
    read_row,
)
from kgtool.analysis.decode.segments import Chunk, Note
from kgtool.analysis.decode.vector_reader import Bools, Ints
from kgtool.records import types
from kgtool.records.control import ABORT, COMMIT

REASON_MARKER = "control record that ends no transaction"
REASON_UNKNOWN_KEY = "unknown key type {}"
REASON_AFTER = "after --as-of"
REASON_UNREADABLE = "can't be read: {}"

FAR_MS = 1 << 61
"""No record is taken for older or younger than that (73 million years), so that differences of
times fit into an int64 whatever a broken clock wrote."""


class RecordBlock(NamedTuple):
    """Records that were not read from a segment."""

    position: int
    """Where in the file they begin."""
    size: int
    """Bytes that they take there."""
    records: LogRecords
    notes: list[Note]
    partition: int | None = None
    """Of ``__consumer_offsets``, where a file holds several."""


Content = Chunk | RecordBlock | Note


def decode_splits(
    rows: Iterable[Mapping[str, Any]],
    as_of_ms: int | None,
    detail: DecodeOptions,
    parts: Callable[[Mapping[str, Any]], Iterator[Content]],
) -> Iterator[Any]:
    """Rows of ``schema.SPLITS`` in, Arrow batches of ``schema.RECORDS`` out.

    :param parts: what there is in a row (``ranges.parts``).
    """
    for row in rows:
        source = Source(row["path"], row["partition"], row.get("missing") or 0)
        yield file_row(source)
        try:
            for part in parts(row):
                yield from decode_part(source, part, as_of_ms, detail)
        except OSError as error:
            why = REASON_UNREADABLE.format(str(error.strerror or error).rstrip("."))
            size = row["end"] - row["start"]
            yield from note_rows(source, [Note(why, row["start"], size)])


def decode_part(
    source: Source, part: Content, as_of_ms: int | None, detail: DecodeOptions
) -> Iterator[Any]:
    """The rows of one chunk, or of a note that the reader of the file made."""
    if isinstance(part, Note):
        yield from note_rows(source, [part])
        return
    lost = 0
    if isinstance(part, RecordBlock) and part.partition is not None:
        source = source._replace(partition=part.partition)
    spans = (detail.seen or {}).get(source.partition, ())
    if isinstance(part, RecordBlock):
        records, notes, size = part.records, part.notes, part.size
        lost = sum(note.records for note in notes if note.reason != REASON_CRC)
    else:
        part, size = without_batches(part, spans) if spans else (part, len(part.data))
        records, notes = read_chunk(part)
    records = records._replace(timestamp_ms=np.clip(records.timestamp_ms, -FAR_MS, FAR_MS))
    if spans:
        records = without_records(records, spans)
    if detail.tally is not None:
        detail.tally.add(len(records.log_offset) + lost, size)
    if as_of_ms is not None:
        records = _until(records, as_of_ms, part.position, notes)
    if len(records.log_offset) or lost:
        yield read_row(source, records, size, lost, detail.now_ms)
        yield from epoch_rows(source, records)
    if len(records.log_offset):
        yield from _decode(source, records, part.position, notes, detail)
    yield from note_rows(source, notes)


def _decode(
    source: Source, records: LogRecords, position: int, notes: list[Note], detail: DecodeOptions
) -> Iterator[Any]:
    """Offset, group and marker rows; what can't be used is noted."""
    key_type = np.where(records.key_size >= 2, records.view.i16(records.key_at), -1)
    control, plain = records.control, ~records.control
    is_offset = plain & np.isin(key_type, types.OFFSET_TYPES)
    known = np.isin(key_type, list(types.KNOWN_TYPES))
    for unknown in np.unique(key_type[plain & ~known]).tolist():
        count = int((plain & (key_type == unknown)).sum())
        reason = REASON_KEY if unknown == -1 else REASON_UNKNOWN_KEY.format(unknown)
        notes.append(Note(reason, position, 0, count, damage=unknown == -1))
    groups, ended = _group_rows(records, key_type, plain & ~is_offset, position, notes)
    yield from batches(source, schema.KIND_GROUP, records, groups)
    markers = _markers(records, np.flatnonzero(control), position, notes)
    yield from batches(source, schema.KIND_MARKER, records, markers)
    index = np.flatnonzero(is_offset)
    commits = valid_records(records, index, position, notes, detail)
    at, size = records.key_at[commits.place], records.key_size[commits.place]
    keys = offsets.read_keys(records.view, at, size)
    yield from count_rows(source, records, commits, keys, groups, detail.bucket_ms)
    rows = offset_rows(records, key_type, commits, keys, ended, detail)
    yield from batches(source, schema.KIND_OFFSET, records, rows)


# --- the group's own records and markers ---------------------------------------------------------


def _group_rows(
    records: LogRecords, key_type: Ints, some: Bools, position: int, notes: list[Note]
) -> tuple[dict[str, Any], list[tuple[str, int]]]:
    """Columns of the group rows, and where in the chunk which groups ended."""
    options = np.flatnonzero(some & np.isin(key_type, list(group_records.DECODED_TYPES)))
    index: list[int] = []
    details: list[dict[str, Any]] = []
    data = records.view.memory()
    lost = 0
    for place in options.tolist():
        key, value = _bytes(data, records, place)
        try:
            record = group_records.decode(int(key_type[place]), key, value)
        except ValueError:
            lost += 1
            continue
        index.append(place)
        details.append(record._asdict())
    note_lost(notes, REASON_VALUE, lost, position)
    rows = np.array(index, dtype=np.int64)
    groups = [str(detail.pop("group")) for detail in details]
    columns = {
        "index": rows,
        "key_type": key_type[rows].astype(np.int32),
        "group": groups,
        "tombstone": records.value_size[rows] < 0,
        "detail": details,
        "bytes": records.size(rows),
    }
    gone = (records.value_size[rows] < 0) & np.isin(key_type[rows], types.GROUP_TYPES)
    return columns, [(groups[place], index[place]) for place in np.flatnonzero(gone)]


def _bytes(data: memoryview, records: LogRecords, place: int) -> tuple[bytes, bytes | None]:
    key_at, value_at = int(records.key_at[place]), int(records.value_at[place])
    value_size = int(records.value_size[place])
    key = bytes(data[key_at : key_at + int(records.key_size[place])])
    return key, None if value_size < 0 else bytes(data[value_at : value_at + value_size])


def _markers(records: LogRecords, index: Ints, position: int, notes: list[Note]) -> dict[str, Any]:
    # ControlRecordType: version i16, type i16.
    kind = np.where(records.key_size[index] >= 4, records.view.i16(records.key_at[index] + 2), -1)
    ends = (kind == ABORT) | (kind == COMMIT)
    if not ends.all():
        notes.append(Note(REASON_MARKER, position, 0, int((~ends).sum()), damage=False))
    return {
        "index": index[ends],
        "producer_id": records.producer_id[index[ends]],
        "committed": kind[ends] == COMMIT,
    }


# --- rows ----------------------------------------------------------------------------------------


def _until(records: LogRecords, as_of_ms: int, position: int, notes: list[Note]) -> LogRecords:
    early = records.timestamp_ms <= as_of_ms
    if not early.all():
        notes.append(Note(REASON_AFTER, position, 0, int((~early).sum()), damage=False))
    return records.only(early)
