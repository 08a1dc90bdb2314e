"""From files to rows of ``schema.RECORDS``: chunks → batches → records → columns.

Runs in Spark's Python workers and in the processes of the local engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import schema
from kgtool.analysis.decode import offset_records
from kgtool.analysis.decode.batches import (
    BACK,
    UNREAD_BATCHES,
    LogRecords,
    RecordBlock,
    Spans,
    drop_batches,
    leave_out,
    read_chunk,
)
from kgtool.analysis.decode.group_records import group_columns
from kgtool.analysis.decode.offset_records import REASON_KEY
from kgtool.analysis.decode.rows import (
    Decoded,
    DecodeOptions,
    Source,
    Split,
    count_rows,
    epoch_rows,
    file_row,
    note_rows,
    read_row,
    record_rows,
    version_rows,
)
from kgtool.analysis.decode.segments import Chunk, Note, Notes
from kgtool.analysis.decode.vector_reader import Ints
from kgtool.analysis.decode.written_by import VERSIONS
from kgtool.records import types
from kgtool.records.control import ABORT, COMMIT
from kgtool.retention.written_by import UNDATED

REASON_MARKER = "control record that ends no transaction"
REASON_UNKNOWN_KEY = "unknown key type {}"
REASON_AFTER = "after --as-of"
REASON_UNREADABLE = "can't be read: {}"

LARGEST_TIME_MS = 1 << 61
"""Timestamps are clipped to this (73 million years), so that differences fit into an int64."""

Content = Chunk | RecordBlock | Note
"""Part of a file."""


def decode_split(
    row: Split, options: DecodeOptions, read: Callable[[Split], Iterator[Content]]
) -> Iterator[Decoded]:
    """Rows of ``schema.RECORDS`` from a row of ``schema.SPLITS``.

    :param read: gives the content of a row (``ranges.parts``).
    """
    source = Source(row["path"], row["partition"], row.get("missing") or 0)
    yield file_row(source)
    try:
        for content in read(row):
            yield from decode_content(source, content, options)
    except OSError as error:
        why = REASON_UNREADABLE.format(str(error.strerror or error).rstrip("."))
        size = row["end"] - row["start"]
        yield from note_rows(source, [Note(why, row["start"], size)])


def decode_content(source: Source, content: Content, options: DecodeOptions) -> Iterator[Decoded]:
    """Rows of one part of a file."""
    if isinstance(content, Note):
        yield from note_rows(source, [content])
        return
    if isinstance(content, RecordBlock) and content.partition is not None:
        source = source._replace(partition=content.partition)
    twice = options.leave_out.get((source.path, content.position, source.partition))
    if twice is not None:
        content = leave_out(content, twice)
    already_read = (options.already_read or {}).get(source.partition, ())
    if isinstance(content, RecordBlock):
        yield from _decode_block(source, content, already_read, options)
        return
    chunk = drop_batches(content, already_read) if already_read else content
    for block in read_chunk(chunk):
        yield from _decode_block(source, block, already_read, options)


def _decode_block(
    source: Source, content: RecordBlock, already_read: Spans, options: DecodeOptions
) -> Iterator[Decoded]:
    size, records = content.size, content.records.without(already_read)
    notes = Notes(content.position, content.notes)
    if (records.log_offset[1:] <= records.log_offset[:-1]).any():
        yield from note_rows(source, [Note(BACK, content.position, damage=False)])
        records = records.in_order()
    times = np.clip(records.timestamp_ms, -LARGEST_TIME_MS, LARGEST_TIME_MS)
    records = records._replace(timestamp_ms=times)
    # Records of unread batches are not counted as read.
    skipped = sum(note.records for note in notes if note.reason not in UNREAD_BATCHES)
    if options.counters is not None:
        options.counters.add(len(times) + skipped, size)
    if options.as_of_ms is not None:
        early = times <= options.as_of_ms
        notes.skip(REASON_AFTER, int((~early).sum()), damage=False)
        records = records.filter(early)
    if len(records.log_offset) or skipped:
        yield read_row(source, records, size, skipped, options.now_ms)
        yield from epoch_rows(source, records)
    if len(records.log_offset):
        yield from _decode_records(source, records, notes, options)
    yield from note_rows(source, notes)


def _decode_records(
    source: Source, records: LogRecords, notes: Notes, options: DecodeOptions
) -> Iterator[Decoded]:
    """Group, marker, count and offset rows; unusable records are noted."""
    view, control = records.view, records.control
    key_type = np.where(records.key_size >= 2, view.i16(records.key_at), -1)
    known = np.isin(key_type, list(types.KNOWN_TYPES))
    unknown, counts = np.unique(key_type[~control & ~known], return_counts=True)
    for number, count in zip(unknown.tolist(), counts.tolist(), strict=True):
        reason = REASON_KEY if number == -1 else REASON_UNKNOWN_KEY.format(number)
        notes.skip(reason, count, damage=number == -1)
    is_offset = ~control & np.isin(key_type, types.OFFSET_TYPES)
    groups, deletions = group_columns(records, key_type, ~control & ~is_offset, notes)
    yield from record_rows(source, schema.KIND_GROUP, records, groups)
    markers = _marker_columns(records, np.flatnonzero(control), notes)
    yield from record_rows(source, schema.KIND_MARKER, records, markers)
    offsets = offset_records.valid_records(
        records, np.flatnonzero(is_offset), notes, by_producer=options.by_producer
    )
    yield from version_rows(source, records, key_type, _versions(records, key_type, offsets))
    index = offsets.at
    keys = offset_records.read_keys(view, records.key_at[index], records.key_size[index])
    if options.bucket_ms is not None:
        own = pa.array(groups["group"], pa.string())
        yield from count_rows(
            source,
            records,
            np.concatenate([index, groups["index"]]),
            pa.concat_arrays([keys.groups.take(pa.array(keys.group)), own]),
            np.append(~offsets.tombstone, np.zeros(len(own), dtype=np.bool_)),
            options.bucket_ms,
        )
    columns = offset_records.offset_columns(records, key_type, offsets, keys, deletions, options)
    yield from record_rows(source, schema.KIND_OFFSET, records, columns)


def _versions(records: LogRecords, key_type: Ints, offsets: offset_records.OffsetRecords) -> Ints:
    """Value versions that tell which brokers wrote them, as ``written_by.Written`` has them."""
    version = np.full(len(key_type), -1)
    values = offsets.values
    undated = (values.version == 1) & (values.expire_timestamp_ms == -1)
    version[offsets.at] = np.where(
        offsets.tombstone, -1, np.where(undated, UNDATED, values.version)
    )
    others = np.flatnonzero(~records.control & np.isin(key_type, _TELLING))
    found = np.where(
        records.value_size[others] >= 2, records.view.i16(records.value_at[others]), -1
    )
    version[others] = np.where(found < VERSIONS, found, -1)
    return version


_TELLING = tuple(sorted(types.KNOWN_TYPES - {*types.OFFSET_TYPES}))


def _marker_columns(records: LogRecords, index: Ints, notes: Notes) -> dict[str, Any]:
    # ControlRecordType: version i16, type i16.
    kind = np.where(records.key_size[index] >= 4, records.view.i16(records.key_at[index] + 2), -1)
    ends = (kind == ABORT) | (kind == COMMIT)
    notes.skip(REASON_MARKER, int((~ends).sum()), damage=False)
    return {
        "index": index[ends],
        "producer_id": records.producer_id[index[ends]],
        "committed": kind[ends] == COMMIT,
    }
