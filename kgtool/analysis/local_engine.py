"""The engine without Spark: the same decoder and fold in processes of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import schema
from kgtool.analysis.decode.blobs import Blob, Kept, as_bytes, from_bytes, from_many, nothing, pack
from kgtool.analysis.decode.decoder import decode_split
from kgtool.analysis.decode.job_progress import LocalCounters
from kgtool.analysis.decode.rows import DecodeOptions, Split
from kgtool.analysis.fold.arrays import sum_rows
from kgtool.analysis.fold.folded_log import FoldPlan
from kgtool.analysis.input.input_files import NO_PARTITION, InputFile
from kgtool.analysis.input.readers.ranges import parts, ranges, split_of
from kgtool.analysis.partition_tables import partition_tables
from kgtool.analysis.pipeline import Best, Engine, MapBatches, Order, PostProcess
from kgtool.analysis.table_files import TableFiles, fill, of_topics
from kgtool.errors import AnalysisError, ConfigError

SMALL_BYTES = 8 << 20
"""Up to here starting several processes takes longer than they save."""
_ENDS = (signal.SIGINT, signal.SIGTERM)


class LocalEngine(Engine):
    """Decodes, folds and keeps the tables."""

    def __init__(self, processes: int | None = None) -> None:
        self.counted = LocalCounters()
        self._processes = processes or os.cpu_count() or 1
        self._blobs: defaultdict[int, list[tuple[str, bytes]]] = defaultdict(list)
        self._tables = Kept()
        self.driver_tables: dict[str, pa.Table] = {}
        self._here = True

    def read(self, files: Sequence[InputFile], options: DecodeOptions) -> list[pa.Table]:
        """Decode the inputs; the notes about them."""
        self._blobs.clear()
        self._here = sum(file.size for file in files) <= SMALL_BYTES or self._processes == 1
        rows = [piece for file in files for piece in ranges(split_of(file))]
        decode = partial(_decode, options=options)
        decoded = [] if rows else [nothing(NO_PARTITION)]
        for blobs in map(list, self._each(decode, rows)):
            decoded += blobs
            self.counted.add([from_bytes(b.data) for b in blobs if b.kind == schema.KIND_QUALITY])
        if self.keep_in is not None:
            _write(decoded, self.keep_in)
        decoded += _read(self.earlier)
        for blob in decoded:
            self._blobs[blob.partition].append((blob.kind, blob.data))
        return from_many(blob.data for blob in decoded if blob.kind == schema.KIND_QUALITY)

    def fold(self, plan: FoldPlan) -> None:
        """Make the tables of every log partition."""
        work = sorted(self._blobs.items(), key=lambda each: -sum(len(data) for _, data in each[1]))
        self._tables = Kept()
        for found in self._each(partial(_fold, plan=plan), work):
            for name, data in found:
                self._tables.add(name, data)

    def forget_records(self) -> None:
        """Free what only the fold needs."""
        self._blobs.clear()

    def _each(
        self, do: Callable[[Any], Iterable[Any]], work: Sequence[Any]
    ) -> Iterator[Iterable[Any]]:
        """The results for each piece of work, here or in processes."""
        if self._here or len(work) < 2:
            yield from map(do, work)
            return
        with _workers(self._processes) as pool:
            with _held_back():
                found = _submitted(pool, partial(listed, do), work)
            yield from found

    def collect(self, name: str, topics: Sequence[str] | None = None) -> pa.Table:
        """A table, whole, or its rows of some topics."""
        if name in self.driver_tables:
            return self.driver_tables[name]
        table = pa.concat_tables(self._tables.tables(name), promote_options="permissive")
        return table if topics is None else of_topics(table, topics)

    def rows(
        self, name: str, post: PostProcess, order: Order, limit: int | None
    ) -> Iterator[dict[str, Any]]:
        """The rows of a table; what is missing comes first."""
        table = self.frame(name, post)
        if order:
            table = _ordered(table, order)
        for batch in table[:limit].to_batches(max_chunksize=10_000):
            yield from batch.to_pylist()

    def mapped(self, name: str, post: PostProcess, best: Best, do: MapBatches) -> Iterator[bytes]:
        """What ``do`` gives of a table's Arrow batches, in that order."""
        if best:
            return do(self.frame(name, post).sort_by(list(best)).to_batches())
        return do(batch for table in self._pieces(name, post) for batch in table.to_batches())

    def write(self, tables: Mapping[str, PostProcess], base: str) -> None:
        """Write tables as Parquet, each in its folder below ``base``."""
        for name, post in tables.items():
            with TableFiles(base) as files:
                for table in self._pieces(name, post):
                    files.add(name, table)
        fill(base, tables)

    def _pieces(self, name: str, post: PostProcess) -> Iterator[pa.Table]:
        """A table bit by bit, if it need not be whole."""
        if post.sum_by or name in self.driver_tables:
            yield self.frame(name, post)
        else:
            yield from map(post.each, self._tables.tables(name))

    def frame(self, name: str, post: PostProcess) -> pa.Table:
        """A table of ``schema.TABLES``, an Arrow table."""
        table = post.each(self.collect(name))
        return sum_rows(table, post.sum_by, max_of=post.max_of) if post.sum_by else table


@contextmanager
def _workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """Processes, not copies of this one, which has threads. AnalysisError if one is killed.

    Ctrl-C does not reach them (``_held_back``): what it ends, and says, is this process.
    """
    hook = threading.excepthook
    try:
        with ProcessPoolExecutor(count, get_context("spawn")) as pool:
            try:
                yield pool
            except BaseException:
                threading.excepthook = lambda _: None  # the pool's own, which misses them
                for process in active_children():
                    process.kill()
                raise
    except BrokenProcessPool:
        raise AnalysisError(
            "A process that decoded or folded was killed, maybe because the machine ran out of "
            "memory."
        ) from None
    finally:
        threading.excepthook = hook


def _submitted(
    pool: ProcessPoolExecutor, do: Callable[[Any], Iterable[Any]], work: Sequence[Any]
) -> Iterator[Iterable[Any]]:
    """The results to come. BrokenProcessPool also where one was killed while another started."""
    try:
        return pool.map(do, work)
    except (OSError, ValueError):  # the pool has closed the pipes that the other should inherit
        pool.submit(int)
        raise


@contextmanager
def _held_back() -> Iterator[None]:
    """Start processes whole: what would end this one comes afterwards.

    They keep the mask of the thread that starts them; this process may have threads without it.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    came: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    handlers = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (_ENDS if is_main else ())
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for held in came:
            signal.raise_signal(held)


def _ordered(table: pa.Table, order: Order) -> pa.Table:
    """Sorted by these columns; what is missing comes first."""
    kept = table.column_names
    keys = []
    for name in order:
        if table[name].null_count:
            table = table.append_column(f"has {name}", table[name].is_valid())
            keys.append((f"has {name}", "ascending"))
        keys.append((name, "ascending"))
    return table.sort_by(keys).select(kept)


def _write(blobs: Sequence[Blob], place: str) -> None:
    import pyarrow.parquet as parquet  # type: ignore[import-untyped]

    folder = Path(place)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rows = [blob._asdict() for blob in blobs]
    table = pa.Table.from_pylist(rows, schema=schema.arrow(schema.BLOBS))
    parquet.write_table(table, folder / "part-0.parquet")


def _read(places: Sequence[str]) -> Iterator[Blob]:
    import pyarrow.dataset as ds  # type: ignore[import-untyped]

    for place in places:
        try:
            rows = ds.dataset(place, format="parquet").to_table().to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise ConfigError(f"{place} is damaged: give --rebuild to start again.") from error
        yield from (Blob(**row) for row in rows)


def _decode(row: Split, options: DecodeOptions) -> Iterator[Blob]:
    return pack(decode_split(row, options, parts))


def _fold(work: tuple[int, list[tuple[str, bytes]]], plan: FoldPlan) -> Iterator[tuple[str, bytes]]:
    partition, blobs = work
    for name, table in partition_tables(partition, Kept(blobs), plan):
        for data in as_bytes(table):
            yield name, data


def listed(do: Callable[[Any], Iterable[Any]], work: Any) -> list[Any]:
    """The results in one piece, for another process."""
    return list(do(work))
