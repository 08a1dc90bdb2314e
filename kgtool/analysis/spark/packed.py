"""Blobs as rows of Spark's: what ``mapInArrow`` functions of the decoder and the fold give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from kgtool.analysis.decode.blobs import as_bytes, from_bytes, pack
from kgtool.analysis.fold.scene import Plan
from kgtool.analysis.table_files import TableFiles
from kgtool.analysis.tell import tell

BLOBS: Final = "partition int, kind string, data binary"
TABLES: Final = "name string, data binary"
Decode = Callable[[Iterable[Any]], Iterator[Any]]


def packed(decode: Decode) -> Decode:
    """The function that gives rows of BLOBS where ``decode`` gives those of ``schema.RECORDS``."""

    def pack_rows(tables: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa  # type: ignore[import-untyped]

        kinds = pa.schema([("partition", pa.int32()), ("kind", pa.string()), ("data", pa.binary())])
        for blob in pack(decode(tables)):
            yield pa.RecordBatch.from_pylist([blob._asdict()], schema=kinds)

    return pack_rows


def folded(plan: Plan) -> Decode:
    """The function that gives rows of TABLES of rows of BLOBS, which are sorted by partition."""

    def fold_rows(tables: Iterable[Any]) -> Iterator[Any]:
        blobs: list[tuple[str, Any]] = []
        partition: int | None = None
        for table in tables:
            columns = (table["partition"].to_pylist(), table["kind"].to_pylist(), table["data"])
            for number, kind, data in zip(*columns, strict=True):
                if number != partition:
                    yield from _told(partition, blobs, plan)
                    partition, blobs = number, []
                blobs.append((kind, data.as_buffer()))
        yield from _told(partition, blobs, plan)

    return fold_rows


def _told(partition: int | None, blobs: list[tuple[str, Any]], plan: Plan) -> Iterator[Any]:
    import pyarrow as pa

    if partition is None:
        return
    kinds = pa.schema([("name", pa.string()), ("data", pa.binary())])
    for name, table in tell(partition, blobs, plan):
        for data in as_bytes(table):
            yield pa.RecordBatch.from_pylist([{"name": name, "data": data}], schema=kinds)


def opened(finish: Callable[[Any], Any], names: list[str]) -> Decode:
    """The function that gives a table's rows of its rows of TABLES."""

    def open_rows(tables: Iterable[Any]) -> Iterator[Any]:
        for table in tables:
            for data in table["data"]:
                rows = finish(from_bytes(data.as_buffer())).select(names)
                yield from rows.combine_chunks().to_batches()

    return open_rows


def filed(finishes: Mapping[str, Callable[[Any], Any]], base: str) -> Decode:
    """The function that writes rows of TABLES to Parquet files, and gives the number of its task.

    A task that is repeated writes the same files again.
    """

    def file_rows(tables: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        part = context.partitionId()
        with TableFiles(base, part) as files:
            for table in tables:
                for name, data in zip(table["name"].to_pylist(), table["data"], strict=True):
                    files.add(name, finishes[name](from_bytes(data.as_buffer())))
        yield pa.RecordBatch.from_pydict({"part": pa.array([part], pa.int32())})

    return file_rows


def told(do: Callable[[Iterable[Any]], Iterator[bytes]]) -> Decode:
    """The function that gives a row for each of the bytes that ``do`` makes of Arrow batches."""

    def tell_rows(tables: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for data in do(tables):
            yield pa.RecordBatch.from_pydict({"data": pa.array([data], pa.binary())})

    return tell_rows
