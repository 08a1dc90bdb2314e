"""Records from Parquet with the columns of Spark's Kafka source: key, value, topic, partition,
offset, timestamp, timestampType, and perhaps headers.

Rows may be in any order and lie in any files, so a commit is only taken for superseded by the next
one of its key if no other row can lie between them: if every offset from one to the other is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kgtool.analysis.decode.batches import LogRecords, RecordBlock
from kgtool.analysis.decode.blobs import Blob
from kgtool.analysis.decode.decoder import decode_content
from kgtool.analysis.decode.rows import Decoded, DecodeOptions, Source
from kgtool.analysis.decode.segments import Note
from kgtool.analysis.decode.vector_reader import Ints, View
from kgtool.analysis.input import formats
from kgtool.analysis.input.input_files import NO_PARTITION, TOPIC, unquoted
from kgtool.analysis.schema import TABLES

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")
INPUT = ("path", "partition", "offset", "timestamp_ms", "key", "value")
REASON_KEYLESS = "record without a key"
REASON_PLACELESS = "record without a partition or an offset"


def refusal(path: str) -> str | None:
    """Why a file of this machine is not such Parquet, or None."""
    import pyarrow.parquet as parquet  # type: ignore[import-untyped]

    try:
        footer = parquet.ParquetFile(path)
        schema = footer.schema_arrow
        topics = _topics(footer)
    except (pa.ArrowException, OSError) as error:
        return f"is damaged Parquet: {str(error).splitlines()[0]}"
    if schema.names in _OWN:
        return formats.OWN
    # Spark takes what a folder's name says for a column: partition=3.
    missing = [name for name in COLUMNS if name not in schema.names and f"/{name}=" not in path]
    if missing:
        return (
            f"lacks the columns of Spark's Kafka source: {', '.join(missing)} is missing "
            f"(it has {', '.join(schema.names[:10])})"
        )
    wrong = [
        f"{name} is {schema.field(name).type}, not {options}"
        for name, options, test in _TYPES
        if name in schema.names and not test(schema.field(name).type)
    ]
    if wrong:
        return f"lacks the columns of Spark's Kafka source: {'; '.join(wrong)}"
    if topics and TOPIC not in topics:
        return f"holds records of {', '.join(sorted(topics))}, not of {TOPIC}"
    return None


_OWN = [list(Blob._fields), *(table.names for table in TABLES.values())]
"""Columns of a state's runs, and of the tables."""


def _topics(footer: Any) -> set[str]:
    """All topics, where the file's statistics tell; otherwise nothing."""
    names = footer.schema_arrow.names
    if "topic" not in names:
        return set()
    found: set[str] = set()
    meta = footer.metadata
    column = next(
        (i for i in range(meta.num_columns) if meta.schema.column(i).path == "topic"), None
    )
    for group in range(meta.num_row_groups):
        stats = None if column is None else meta.row_group(group).column(column).statistics
        if stats is None or not stats.has_min_max or stats.min != stats.max:
            return set()
        found.add(str(stats.min))
    return found


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: Any) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


_TYPES = (
    ("key", "binary", _is_bytes),
    ("value", "binary", _is_bytes),
    ("topic", "string", _is_text),
    ("partition", "int", pa.types.is_integer),
    ("offset", "long", pa.types.is_integer),
    ("timestamp", "timestamp", pa.types.is_timestamp),
)


def pieces(path: str, start: int, end: int) -> Iterator[RecordBlock]:
    """The records of the row groups that begin in a range of a file of this machine.

    Raises OSError where it can't be read.
    """
    try:
        yield from _read(path, start, end)
    except pa.ArrowException as error:
        raise OSError(str(error).splitlines()[0]) from error


def _read(path: str, start: int, end: int) -> Iterator[RecordBlock]:
    import pyarrow.dataset as ds  # type: ignore[import-untyped]

    table = ds.dataset(path, format="parquet", partitioning="hive")
    (file,) = table.get_fragments()
    groups = [group.id for group in file.row_groups if start <= _begin(file, group.id) < end]
    some = file.subset(row_group_ids=groups)
    for batch in some.to_batches(schema=table.schema, filter=ds.field("topic") == TOPIC):
        at_ms = batch["timestamp"].cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        columns = {
            "path": pa.repeat(pa.scalar(path), len(batch)),
            "partition": batch["partition"].cast(pa.int32()),
            "offset": batch["offset"].cast(pa.int64()),
            "timestamp_ms": at_ms.fill_null(0),
            "key": batch["key"],
            "value": batch["value"],
        }
        for _, piece in in_order(pa.table(columns)):
            yield piece


def _begin(file: Any, group: int) -> int:
    """Where in the file a row group begins."""
    column = file.metadata.row_group(group).column(0)
    return int(column.dictionary_page_offset or column.data_page_offset)


def decode_rows(
    tables: Iterable[Any], options: DecodeOptions, missing: int = formats.PARQUET.missing
) -> Iterator[Decoded]:
    """Rows of INPUT in, rows of ``schema.RECORDS`` out."""
    for table in tables:
        for path, piece in in_order(pa.table(table)):
            source = Source(unquoted(path), NO_PARTITION, missing)
            yield from decode_content(source, piece, options)


def in_order(table: Any) -> Iterator[tuple[str, RecordBlock]]:
    """(file, records of one partition in the order of offsets) of rows of INPUT."""
    if not len(table):
        return
    ordered = table.sort_by([(name, "ascending") for name in ("path", "partition", "offset")])
    paths = ordered["path"].combine_chunks().dictionary_encode()
    path_code = paths.indices.to_numpy()
    partition = ordered["partition"].fill_null(NO_PARTITION).to_numpy()
    changes = (path_code[1:] != path_code[:-1]) | (partition[1:] != partition[:-1])
    starts = [0, *(np.flatnonzero(changes) + 1).tolist(), len(partition)]
    for start, end in zip(starts[:-1], starts[1:], strict=True):
        rows = ordered.slice(start, end - start).combine_chunks()
        yield paths.dictionary[int(path_code[start])].as_py(), _piece(rows, int(partition[start]))


def _piece(rows: Any, partition: int) -> RecordBlock:
    notes = []
    placed = rows.filter(pc.and_(pc.is_valid(rows["partition"]), pc.is_valid(rows["offset"])))
    if len(placed) < len(rows):
        notes.append(Note(REASON_PLACELESS, 0, 0, len(rows) - len(placed)))
    rows, offset = placed, placed["offset"].to_numpy().astype(np.int64)
    # A dump that was made twice has its rows twice.
    first = np.ones(len(offset), dtype=np.bool_)
    first[1:] = offset[1:] != offset[:-1]
    has_key = pc.is_valid(rows["key"]).to_numpy()
    if not has_key[first].all():
        notes.append(Note(REASON_KEYLESS, 0, 0, int((~has_key[first]).sum())))
    rows = rows.filter(pa.array(first & has_key))
    decoded = _decoded(rows)
    return RecordBlock(0, decoded.view.size, decoded, notes, partition)


def _decoded(rows: Any) -> LogRecords:
    both = [rows[name].combine_chunks().cast(pa.large_binary()) for name in ("key", "value")]
    data, at, size = _bytes(pa.concat_arrays(both))
    (key_at, value_at), (key_size, value_size) = np.split(at, 2), np.split(size, 2)
    offset = rows["offset"].to_numpy().astype(np.int64)
    nothing = np.zeros(len(offset), dtype=np.bool_)
    gap = np.zeros(len(offset), dtype=np.int64)
    gap[1:] = offset[1:] != offset[:-1] + 1
    return LogRecords(
        view=View(data),
        log_offset=offset,
        timestamp_ms=rows["timestamp_ms"].to_numpy().astype(np.int64),
        producer_id=np.full(len(offset), -1, dtype=np.int64),
        transactional=nothing,
        control=nothing,
        key_at=key_at,
        key_size=key_size,
        value_at=value_at,
        value_size=value_size,
        stretch=np.cumsum(gap),
    )


def _bytes(array: Any) -> tuple[bytes, Ints, Ints]:
    """The bytes of all of an array of its own, and where each value is: size -1 is null."""
    _, bounds, data = array.buffers()
    at = np.frombuffer(bounds, dtype=np.int64, count=len(array) + 1)
    size = np.where(array.is_valid().to_numpy(zero_copy_only=False), np.diff(at), -1)
    return b"" if data is None else data.to_pybytes(), at[:-1], size
