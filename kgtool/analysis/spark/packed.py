"""Blobs as rows of Spark's: what ``mapInArrow`` functions of the decoder and the fold give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis.decode.blobs import as_bytes, from_bytes, pack
from kgtool.analysis.fold.arrays import summed
from kgtool.analysis.fold.buckets import split
from kgtool.analysis.fold.scene import Plan
from kgtool.analysis.pipeline import Finish
from kgtool.analysis.table_files import TableFiles, of_topics
from kgtool.analysis.tell import tell

BLOBS: Final = "partition int, kind string, data binary"
TABLES: Final = "name string, data binary"
SUMS: Final = "bucket int, name string, data binary"
Decode = Callable[[Iterable[Any]], Iterator[Any]]
_TYPES: Final = {"int": pa.int32(), "string": pa.string(), "binary": pa.binary()}


def packed(decode: Decode) -> Decode:
    """The function that gives rows of BLOBS where ``decode`` gives those of ``schema.RECORDS``."""

    def pack_rows(tables: Iterable[Any]) -> Iterator[Any]:
        for blob in pack(decode(tables)):
            yield _row(BLOBS, blob)

    return pack_rows


def fold_rows(tables: Iterable[Any], plan: Plan) -> Iterator[Any]:
    """Rows of TABLES of rows of BLOBS, which are sorted by partition."""
    blobs = (
        (partition, kind, data.as_buffer())
        for table in tables
        for partition, kind, data in zip(
            table["partition"].to_pylist(), table["kind"].to_pylist(), table["data"], strict=True
        )
    )
    for partition, some in groupby(blobs, itemgetter(0)):
        yield from _rows(tell(partition, [blob[1:] for blob in some], plan))


def _rows(tables: Iterable[tuple[str, Any]]) -> Iterator[Any]:
    """Tables as rows of TABLES."""
    for name, table in tables:
        for data in as_bytes(table):
            yield _row(TABLES, (name, data))


def _row(columns: str, values: Iterable[Any]) -> Any:
    """One row of BLOBS, TABLES or SUMS."""
    kinds = [column.split() for column in columns.split(", ")]
    return pa.RecordBatch.from_arrays(
        [pa.array([value], _TYPES[kind]) for (_, kind), value in zip(kinds, values, strict=True)],
        [name for name, _ in kinds],
    )


def open_rows(
    tables: Iterable[Any], finish: Callable[[Any], Any], names: list[str]
) -> Iterator[Any]:
    """A table's rows of its rows of TABLES."""
    for table in tables:
        for data in table["data"]:
            rows = finish(from_bytes(data.as_buffer())).select(names)
            yield from rows.combine_chunks().to_batches()


def pick_rows(rows: Iterable[Any], topics: Sequence[str]) -> Iterator[Any]:
    """What is of some topics, of rows of TABLES."""
    return _rows((name, of_topics(table, topics)) for name, table in _read(rows))


def file_rows(
    rows: Iterable[Any], tables: Mapping[str, Finish], base: str, buckets: int
) -> Iterator[Any]:
    """Write rows of TABLES to Parquet files.

    Gives rows of SUMS: of a table whose rows are added up what this task has of it. A task that is
    repeated writes the same files again.
    """
    sums: dict[str, Any] = {}
    with TableFiles(base, _task()) as files:
        for name, table in _read(rows):
            finish = tables[name]
            some = finish.each(table)
            if finish.sum_by:
                sums[name] = _added(sums.get(name), some, finish)
            else:
                files.add(name, some)
    for name, table in sums.items():
        for number, some in split(table, "family", buckets):
            for data in as_bytes(some):
                yield _row(SUMS, (number, name, data))


def file_sums(rows: Iterable[Any], tables: Mapping[str, Finish], base: str) -> Iterator[Any]:
    """Write what all tasks have of some rows, in SUMS, to Parquet files."""
    sums: dict[str, Any] = {}
    for name, table in _read(rows):
        sums[name] = _added(sums.get(name), table, tables[name])
    part = _task()
    with TableFiles(base, part) as files:
        for name, table in sums.items():
            files.add(name, table)
    yield pa.RecordBatch.from_pydict({"part": pa.array([part], pa.int32())})


def _read(rows: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for batch in rows:
        for name, data in zip(batch["name"].to_pylist(), batch["data"], strict=True):
            yield name, from_bytes(data.as_buffer())


def _added(sums: Any, table: Any, finish: Finish) -> Any:
    both = table if sums is None else pa.concat_tables([sums, table])
    return summed(both, finish.sum_by, most=finish.most)


def _task() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


def tell_rows(
    tables: Iterable[Any], do: Callable[[Iterable[Any]], Iterator[bytes]]
) -> Iterator[Any]:
    """A row for each of the bytes that ``do`` makes of Arrow batches."""
    for data in do(tables):
        yield pa.RecordBatch.from_pydict({"data": pa.array([data], pa.binary())})
