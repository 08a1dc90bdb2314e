"""Make rows of ``schema.RECORDS`` of what was read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import missing_data, schema
from kgtool.analysis.decode.batches import LogRecords
from kgtool.analysis.decode.segments import Note

AHEAD_MS = 86_400_000
"""How far clocks may differ."""
MAX_NOTES = 100
"""Notes a file and chunk; damage beyond that is told as one."""


class Source(NamedTuple):
    """The file that a chunk is from."""

    path: str
    partition: int
    missing: int = 0
    """Bits of ``kgtool.analysis.missing_data``."""


def file_row(source: Source) -> Any:
    """The quality row that every file has, also one with nothing in it."""
    return rows(source, schema.KIND_QUALITY, 1, {"path": [source.path], "records": [0]})


def batches(
    source: Source, kind: str, records: LogRecords, columns: dict[str, Any]
) -> Iterator[Any]:
    """One Arrow batch of the records at ``columns["index"]``, with the columns of its kind."""
    index = columns["index"]
    if len(index):
        columns["log_offset"] = records.log_offset[index]
        columns["timestamp_ms"] = records.timestamp_ms[index]
        yield rows(source, kind, len(index), columns)


def rows(source: Source, kind: str, count: int, columns: dict[str, Any]) -> Any:
    """An Arrow batch of rows of one kind; columns that are not given are null."""
    target = schema.arrow(schema.RECORDS)
    columns["kind"] = pa.repeat(pa.scalar(kind), count)
    columns["partition"] = pa.repeat(pa.scalar(source.partition, pa.int32()), count)
    arrays = [
        _column(columns[field.name], field.type)
        if field.name in columns
        else pa.nulls(count, field.type)
        for field in target
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _column(values: Any, kind: Any) -> Any:
    return values if isinstance(values, pa.Array) else pa.array(values, type=kind)


def read_row(source: Source, records: LogRecords, size: int, lost: int, now_ms: int | None) -> Any:
    """The quality row that counts what was read; ``lost`` records more could not be used."""
    # A place in a file is no offset.
    has_offsets = len(records.log_offset) and not source.missing & (
        missing_data.TIMES | missing_data.PLACES
    )
    at_ms = records.timestamp_ms
    past = at_ms if now_ms is None else at_ms[at_ms <= now_ms + AHEAD_MS]
    columns = {
        "path": [source.path],
        "log_offset": [int(records.log_offset.min()) if has_offsets else None],
        "offset": [int(records.log_offset.max()) if has_offsets else None],
        "timestamp_ms": [int(past.max()) if len(past) else None],
        "first_ms": [int(at_ms.max()) if len(past) < len(at_ms) else None],
        "commits": [len(at_ms) - len(past)],
        "records": [len(at_ms) + lost],
        "bytes": [size],
        "missing": [source.missing],
    }
    return rows(source, schema.KIND_QUALITY, 1, columns)


def epoch_rows(source: Source, records: LogRecords) -> Iterator[Any]:
    """A row for the first record of each epoch of the partition's leader."""
    if records.leader_epoch is None or not len(records.log_offset):
        return
    epoch, first = np.unique(records.leader_epoch, return_index=True)
    columns = {
        "log_offset": records.log_offset[first],
        "timestamp_ms": records.timestamp_ms[first],
        "commits": epoch,
    }
    yield rows(source, schema.KIND_EPOCH, len(first), columns)


def note_lost(notes: list[Note], reason: str, count: int, position: int) -> None:
    """Note records that can't be used, if there are any."""
    if count:
        notes.append(Note(reason, position, 0, count))


def note_rows(source: Source, notes: list[Note]) -> Iterator[Any]:
    """The quality rows that say what was not read."""
    if not notes:
        return
    if len(notes) > MAX_NOTES:
        rest = notes[MAX_NOTES:]
        records, size = sum(n.records for n in rest), sum(n.size for n in rest)
        more = Note("more of the same", rest[0].position, size, records)
        notes = [*notes[:MAX_NOTES], more]
    columns = {
        "path": [source.path] * len(notes),
        "reason": [note.reason for note in notes],
        "records": [note.records for note in notes],
        "position": [note.position for note in notes],
        "bytes": [note.size for note in notes],
        "damage": [note.damage for note in notes],
    }
    yield rows(source, schema.KIND_QUALITY, len(notes), columns)
