"""The ``mapInArrow`` functions of the Spark engine: blobs as rows of a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import schema
from kgtool.analysis.decode.blobs import Blob, Kept, as_bytes, from_bytes, pack
from kgtool.analysis.decode.decoder import Content, decode_split
from kgtool.analysis.decode.rows import Decoded, DecodeOptions, Split
from kgtool.analysis.fold.arrays import sum_rows
from kgtool.analysis.fold.buckets import split
from kgtool.analysis.fold.folded_log import FoldPlan
from kgtool.analysis.partition_tables import partition_tables
from kgtool.analysis.pipeline import MapBatches, PostProcess
from kgtool.analysis.table_files import TableFiles, of_topics

BLOBS: Final = schema.ddl(schema.BLOBS)
"""Columns of a blob. A task's tables and sums use them too, with the table's name as kind."""
WRITTEN = "written"
"""The kind of a row that names a file."""
Batches = Iterable[pa.RecordBatch]
MapRows = Callable[[Batches], Iterator[pa.RecordBatch]]
"""A ``mapInArrow`` function."""


def packed(decode: Callable[[Batches], Iterator[Decoded]]) -> MapRows:
    """Wrap ``decode`` so that it yields rows of BLOBS instead of rows of ``schema.RECORDS``."""

    return lambda tables: map(_row, pack(decode(tables)))


def split_blobs(
    splits: Iterable[Split], options: DecodeOptions, read: Callable[[Split], Iterator[Content]]
) -> Iterator[pa.RecordBatch]:
    """The records of rows of ``schema.SPLITS``, as rows of BLOBS.

    A blob never has records of two splits: it would span the log offsets of splits between them,
    and ``buckets`` could not compact a large group.
    """
    for row in splits:
        yield from map(_row, pack(decode_split(row, options, read)))


def fold_rows(tables: Batches, plan: FoldPlan) -> Iterator[pa.RecordBatch]:
    """The tables of each log partition; the rows of BLOBS are sorted by partition."""
    for partition, blobs in groupby(_open(tables), itemgetter(0)):
        kept = Kept(blob[1:] for blob in blobs)
        for name, table in partition_tables(partition, kept, plan):
            yield from _rows(partition, name, table)


def _open(rows: Batches) -> Iterator[tuple[int, str, Any]]:
    """Partition, kind and bytes of rows of BLOBS."""
    for batch in rows:
        numbers, kinds = batch["partition"].to_pylist(), batch["kind"].to_pylist()
        for number, kind, data in zip(numbers, kinds, batch["data"], strict=True):
            yield number, kind, data.as_buffer()


def _rows(number: int, kind: str, table: pa.Table) -> Iterator[pa.RecordBatch]:
    """A table as rows of BLOBS."""
    for data in as_bytes(table):
        yield _row(Blob(number, kind, data))


def _row(blob: Blob) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([blob._asdict()], schema=schema.arrow(schema.BLOBS))


def open_rows(
    tables: Batches, post: Callable[[pa.Table], pa.Table], names: list[str]
) -> Iterator[pa.RecordBatch]:
    """The rows of a table, from its rows of BLOBS."""
    for table in tables:
        for data in table["data"]:
            rows = post(from_bytes(data.as_buffer())).select(names)
            yield from rows.combine_chunks().to_batches()


def pick_rows(rows: Batches, topics: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of BLOBS of a table, only those of some topics."""
    for number, name, data in _open(rows):
        yield from _rows(number, name, of_topics(from_bytes(data), topics))


def file_rows(
    rows: Batches, tables: Mapping[str, PostProcess], base: str, buckets: int
) -> Iterator[pa.RecordBatch]:
    """Write tables, rows of BLOBS, to Parquet files.

    Yields the files' names, and this task's part of the tables whose rows are added up, by bucket.
    A repeated task writes the same files again.
    """
    sums: dict[str, pa.Table] = {}
    with TableFiles(base, _task()) as files:
        for _, name, data in _open(rows):
            post = tables[name]
            some = post.each(from_bytes(data))
            if post.sum_by:
                sums[name] = _added(sums.get(name), some, post)
            else:
                files.add(name, some)
    yield from _written(files)
    for name, table in sums.items():
        for number, some in split(table, "family", buckets):
            yield from _rows(number, name, some)


def file_sums(
    rows: Batches, tables: Mapping[str, PostProcess], base: str
) -> Iterator[pa.RecordBatch]:
    """Add up all tasks' parts of some buckets and write them to Parquet files; yields names."""
    sums: dict[str, pa.Table] = {}
    for number, name, data in _open(rows):
        if name == WRITTEN:
            yield _row(Blob(number, name, data.to_pybytes()))
            continue
        sums[name] = _added(sums.get(name), from_bytes(data), tables[name])
    with TableFiles(base, _task()) as files:
        for name, table in sums.items():
            files.add(name, table)
    yield from _written(files)


def _written(files: TableFiles) -> Iterator[pa.RecordBatch]:
    for name in files.names:
        yield _row(Blob(0, WRITTEN, name.encode()))


def _added(sums: pa.Table | None, table: pa.Table, post: PostProcess) -> pa.Table:
    both = table if sums is None else pa.concat_tables([sums, table])
    return sum_rows(both, post.sum_by, max_of=post.max_of)


def _task() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


def tell_rows(tables: Batches, do: MapBatches) -> Iterator[pa.RecordBatch]:
    """One row for each ``bytes`` that ``do`` yields."""
    for data in do(tables):
        yield pa.RecordBatch.from_pydict({"data": pa.array([data], pa.binary())})
