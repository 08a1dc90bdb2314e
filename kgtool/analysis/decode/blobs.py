"""What was decoded, as bytes that can be moved: Arrow tables of one kind and log partition each."""

from __future__ import annotations

import ctypes
import os
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from tempfile import SpooledTemporaryFile
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import schema
from kgtool.analysis.decode.rows import Decoded

BYTES = 8 << 20
"""Of one blob, at most, before it is compressed."""
IN_MEMORY_BYTES = 16 << 20
"""Of tables that are kept, compressed."""
_NOT_FOLDED = {schema.KIND_OFFSET: {"key_type"}}
"""Columns that the fold needs not, by kind."""
COLUMNS: Final = {
    kind: [name for name in schema.names(columns) if name not in _NOT_FOLDED.get(kind, ())]
    for kind, columns in schema.RECORDS.items()
}
"""Those that are moved."""
_TEXTS = ("group", "topic", "topic_id", "path")


def release() -> None:
    """Give memory back to the system that nothing uses any more.

    Workers live on between tasks: what one of them leaves behind would count for all later ones.
    """
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError, OSError):  # other C libraries than glibc do it by themselves
        ctypes.CDLL(None).malloc_trim(0)


class Blob(NamedTuple):
    """Some rows."""

    partition: int
    kind: str
    data: bytes
    """An Arrow stream."""


TOGETHER = 256
"""Small tables that become one."""
Kinds = dict[str, pa.Table]
"""Arrow tables by kind."""


def pack(decoded: Iterable[Decoded]) -> Iterator[Blob]:
    """What was decoded, as blobs of one kind and partition each."""
    waiting: defaultdict[tuple[int, str], list[pa.RecordBatch]] = defaultdict(list)
    size: defaultdict[tuple[int, str], int] = defaultdict(int)
    for kind, partition, rows in decoded:
        key = (partition, kind)
        waiting[key].append(_slim(rows.select(COLUMNS[kind])))
        size[key] += waiting[key][-1].nbytes
        if size[key] >= BYTES:
            yield from _blobs(key, waiting.pop(key))
            del size[key]
    for key in list(waiting):
        yield from _blobs(key, waiting.pop(key))
    release()


def _slim(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        column.dictionary_encode() if name in _TEXTS else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.record_batch(columns, names=batch.schema.names)


def _blobs(key: tuple[int, str], batches: list[pa.RecordBatch]) -> Iterator[Blob]:
    table = pa.Table.from_batches(batches)
    for data in as_bytes(table):
        yield Blob(*key, data)


def nothing(partition: int) -> Blob:
    """That of a log without records: its tables have no rows, but they are there."""
    return Blob(partition, schema.KIND_QUALITY, next(as_bytes(empty(schema.KIND_QUALITY))))


def as_bytes(table: pa.Table) -> Iterator[bytes]:
    """An Arrow table as streams of up to BYTES each, compressed."""
    table = table.unify_dictionaries().combine_chunks()
    pieces = -(-table.nbytes // BYTES) or 1
    step = -(-len(table) // pieces) or 1
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    for at in range(0, max(len(table), 1), step):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
            stream.write_table(table.slice(at, step))
        yield sink.getvalue().to_pybytes()


def from_bytes(data: Any) -> pa.Table:
    """The Arrow table of a stream."""
    with pa.ipc.open_stream(data) as stream:
        return stream.read_all()


def from_many(streams: Iterable[Any]) -> list[pa.Table]:
    """The Arrow tables of small streams of one kind, as fewer ones.

    A table of a few rows takes 17 kB, nearly all of it for its buffers; among many, 0.8 kB.
    """
    found, more = [], map(from_bytes, streams)
    while some := list(islice(more, TOGETHER)):
        found.append(pa.concat_tables(some).unify_dictionaries().combine_chunks())
    return found


def unpack(blobs: Iterable[tuple[str, Any]]) -> Kinds:
    """Kind and bytes of one partition's blobs as tables."""
    some: defaultdict[str, list[pa.Table]] = defaultdict(list)
    for kind, data in blobs:
        some[kind].append(from_bytes(data))
    return {kind: pa.concat_tables(tables) for kind, tables in some.items()}


def empty(kind: str) -> pa.Table:
    """A table of that kind without rows."""
    batch = schema.arrow(schema.RECORDS[kind]).empty_table().select(COLUMNS[kind])
    return pa.Table.from_batches(
        [_slim(each) for each in batch.to_batches()]
        or [_slim(pa.RecordBatch.from_pylist([], schema=batch.schema))]
    )


class Kept:
    """Tables as bytes: in memory, or in a file without a name once they are many."""

    def __init__(self, blobs: Iterable[tuple[Hashable, Any]] = ()) -> None:
        """:param blobs: names and bytes to begin with."""
        self._file = SpooledTemporaryFile(IN_MEMORY_BYTES)  # noqa: SIM115 - as long as this object
        self._places: defaultdict[Hashable, list[tuple[int, int]]] = defaultdict(list)
        for name, data in blobs:
            self.add(name, data)

    def __del__(self) -> None:
        self._file.close()

    def add(self, name: Hashable, data: Any) -> None:
        """Keep some rows of a table."""
        self._file.seek(0, os.SEEK_END)
        self._places[name].append((self._file.tell(), len(data)))
        self._file.write(data)

    def __iter__(self) -> Iterator[Any]:
        """The names."""
        return iter(self._places)

    def size(self, name: Hashable) -> int:
        """Number of bytes under a name."""
        return sum(size for _, size in self._places.get(name, ()))

    def items(self) -> Iterator[tuple[Any, bytes]]:
        """Names and bytes of all that was kept."""
        return ((name, data) for name in self for data in self.each(name))

    def each(self, name: Hashable) -> Iterator[bytes]:
        """What was kept under a name, in that order."""
        for at, size in self._places.get(name, ()):
            self._file.seek(at)
            yield self._file.read(size)

    def tables(self, name: Hashable) -> Iterator[pa.Table]:
        """The same as Arrow tables."""
        return map(from_bytes, self.each(name))
