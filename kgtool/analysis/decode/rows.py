"""Make rows of ``schema.RECORDS`` of what was read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypedDict

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import missing_data, schema
from kgtool.analysis.decode.batches import LogRecords, Spans
from kgtool.analysis.decode.job_progress import ReadCounters
from kgtool.analysis.decode.segments import Note
from kgtool.analysis.decode.vector_reader import Bools, Ints
from kgtool.analysis.decode.written_by import REASON, VERSIONS

AHEAD_MS = 86_400_000
"""Largest plausible difference between clocks."""
MAX_NOTES = 100
"""Of a chunk; further ones are summed up in one."""


LeaveOut = Mapping[tuple[str, int, int], Ints]
"""Batches or records that came before, by path, position of the content and partition."""


class DecodeOptions(NamedTuple):
    """Which records the tables need, beyond live offsets and tombstones."""

    check_intervals_ms: tuple[int, ...] = ()
    """Two commits of a key with a check between them, at a multiple of one of these, are both
    kept; else only the last one before a tombstone is."""
    bucket_ms: int | None = None
    """Time bucket for counting each group's records; None: don't count."""
    counters: ReadCounters | None = None
    """Progress of the job."""
    keep_all: bool = False
    """Keep every record, because other inputs may have the same ones."""
    as_of_ms: int | None = None
    """Later records are left out."""
    now_ms: int | None = None
    """Records more than a day later than this were written with a wrong clock."""
    by_producer: bool = True
    """Commits with a producer id are transactional, as for the new coordinator; else those in a
    transactional batch are."""
    already_read: Mapping[int, Spans] | None = None
    """Log offsets to leave out, by partition."""
    leave_out: LeaveOut = {}


class Decoded(NamedTuple):
    """Some rows of one kind, of one partition of the log."""

    kind: str
    partition: int
    rows: pa.RecordBatch
    """An Arrow batch of ``schema.RECORDS`` of that kind."""


class RemoteRange(NamedTuple):
    """Bytes of a file that only Spark can read: the ``content`` of a row."""

    data: bytes
    at: int
    """Where they begin in the file."""
    size: int
    """Of the whole file."""
    heading: str
    """The file of whose dump they are, up to the first heading in them."""


class _Range(TypedDict):
    path: str
    partition: int
    start: int
    end: int
    format: str
    missing: int
    order: int
    layout: str


class Split(_Range, total=False):
    """A row of ``schema.SPLITS``, with its bytes where workers can't open the file."""

    content: RemoteRange


class Source(NamedTuple):
    """The file that a chunk is from."""

    path: str
    partition: int
    missing: int = 0
    """Bits of ``kgtool.analysis.missing_data``."""


def file_row(source: Source) -> Decoded:
    """The quality row that every file has, even an empty one."""
    return _note_rows(source, 1, {"records": [0]})


def record_rows(
    source: Source, kind: str, records: LogRecords, columns: dict[str, Any]
) -> Iterator[Decoded]:
    """The records at ``columns["index"]``, with the columns of their kind."""
    index = columns["index"]
    if len(index):
        columns["log_offset"] = records.log_offset[index]
        columns["timestamp_ms"] = records.timestamp_ms[index]
        yield rows(source, kind, len(index), columns)


def rows(source: Source, kind: str, count: int, columns: dict[str, Any]) -> Decoded:
    """Rows of one kind; columns that are not given are null."""
    target = schema.arrow(schema.RECORDS[kind])
    arrays = [
        _column(columns[field.name], field.type)
        if field.name in columns
        else pa.nulls(count, field.type)
        for field in target
    ]
    return Decoded(kind, source.partition, pa.RecordBatch.from_arrays(arrays, schema=target))


def _note_rows(source: Source, count: int, columns: dict[str, Any]) -> Decoded:
    """Rows about a file."""
    columns["path"] = pa.repeat(pa.scalar(source.path), count)
    columns["partition"] = pa.repeat(pa.scalar(source.partition, pa.int32()), count)
    return rows(source, schema.KIND_QUALITY, count, columns)


def _column(values: Any, kind: Any) -> Any:
    return values if isinstance(values, pa.Array) else pa.array(values, type=kind)


def read_row(
    source: Source, records: LogRecords, size: int, skipped: int, now_ms: int | None
) -> Decoded:
    """The quality row that counts the records read and those skipped."""
    # A position in a file is not an offset.
    has_offsets = len(records.log_offset) and not source.missing & (
        missing_data.TIMES | missing_data.PLACES
    )
    at_ms = records.timestamp_ms
    past = at_ms if now_ms is None else at_ms[at_ms <= now_ms + AHEAD_MS]
    columns = {
        "first_offset": [int(records.log_offset.min()) if has_offsets else None],
        "last_offset": [int(records.log_offset.max()) if has_offsets else None],
        "newest_ms": [int(past.max()) if len(past) else None],
        "newest_future_ms": [int(at_ms.max()) if len(past) < len(at_ms) else None],
        "future_records": [len(at_ms) - len(past)],
        "records": [len(at_ms) + skipped],
        "bytes": [size],
        "missing": [source.missing],
    }
    return _note_rows(source, 1, columns)


def epoch_rows(source: Source, records: LogRecords) -> Iterator[Decoded]:
    """A row for the first record of each leader epoch."""
    if records.leader_epoch is None or not len(records.log_offset):
        return
    epoch, first = np.unique(records.leader_epoch, return_index=True)
    columns = {
        "log_offset": records.log_offset[first],
        "timestamp_ms": records.timestamp_ms[first],
        "leader_epoch": epoch,
    }
    yield rows(source, schema.KIND_EPOCH, len(first), columns)


def version_rows(
    source: Source, records: LogRecords, key_type: Ints, version: Ints
) -> Iterator[Decoded]:
    """Quality rows of the kinds of records, with the first and last time of each.

    :param version: of the values; -1: a tombstone, or not of interest.
    """
    code = np.where(version >= 0, key_type * VERSIONS + version, -1)
    kinds = np.flatnonzero(np.bincount(code[code >= 0]))
    if not kinds.size:
        return
    times = [records.timestamp_ms[code == each] for each in kinds]
    columns = {
        "reason": [REASON] * len(kinds),
        "value_kind": kinds,
        "oldest_ms": [int(each.min()) for each in times],
        "newest_ms": [int(each.max()) for each in times],
    }
    yield _note_rows(source, len(kinds), columns)


def note_rows(source: Source, notes: list[Note]) -> Iterator[Decoded]:
    """Quality rows of what was not read."""
    if not notes:
        return
    if len(notes) > MAX_NOTES:
        rest = notes[MAX_NOTES:]
        records, size = sum(n.records for n in rest), sum(n.size for n in rest)
        more = Note("more of the same", rest[0].position, size, records)
        notes = [*notes[:MAX_NOTES], more]
    columns = {
        "reason": [note.reason for note in notes],
        "records": [note.records for note in notes],
        "position": [note.position for note in notes],
        "bytes": [note.size for note in notes],
        "damage": [note.damage for note in notes],
    }
    yield _note_rows(source, len(notes), columns)


def count_rows(
    source: Source, records: LogRecords, index: Ints, group: Any, is_commit: Bools, bucket_ms: int
) -> Iterator[Decoded]:
    """Records, commits and bytes of each group (an Arrow array) in each time bucket."""
    if not len(index):
        return
    group = group.dictionary_encode()
    times, bucket = np.unique(records.timestamp_ms[index] // bucket_ms, return_inverse=True)
    groups = len(group.dictionary)
    pairs, code = np.unique(bucket * groups + group.indices.to_numpy(), return_inverse=True)
    columns = {
        "bucket_start_ms": times[pairs // groups] * bucket_ms,
        "group": group.dictionary.take(pa.array(pairs % groups)),
        "commits": np.bincount(code, is_commit).astype(np.int64),
        "records": np.bincount(code),
        "bytes": np.bincount(code, records.size(index)).astype(np.int64),
    }
    yield rows(source, schema.KIND_COUNT, len(pairs), columns)
