"""The Spark engine: one task per range decodes, one per log partition folds; there are no joins.

Decoded records and tables are persisted in Spark as blobs; only small tables reach the driver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import SparkContext, StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kgtool.analysis import schema
from kgtool.analysis.decode.blobs import from_bytes, from_many
from kgtool.analysis.decode.job_progress import ReadCounters, State
from kgtool.analysis.decode.rows import DecodeOptions
from kgtool.analysis.fold.folded_log import FoldPlan
from kgtool.analysis.input.input_files import InputFile
from kgtool.analysis.local_engine import LocalEngine, listed
from kgtool.analysis.pipeline import Best, Engine, MapBatches, Order, PostProcess
from kgtool.analysis.spark.blob_rows import (
    BLOBS,
    file_rows,
    file_sums,
    fold_rows,
    open_rows,
    pick_rows,
    tell_rows,
)
from kgtool.analysis.spark.foreign_session import changed
from kgtool.analysis.spark.output_folder import is_url
from kgtool.analysis.spark.read import read
from kgtool.analysis.spark.session import is_local
from kgtool.analysis.table_files import TableFiles, check_files, fill

if TYPE_CHECKING:
    from kgtool.config import Settings

TASK_BYTES = 16 << 20
"""Decoded bytes per task of the fold."""
LEAST, MOST = 8, 2000
"""Number of tasks if one is not enough and there are as many log partitions."""
WHILE_READING = {
    # Spark reads timestamps in nanoseconds only as numbers.
    "spark.sql.legacy.parquet.nanosAsLong": "true"
}
_LARGE = (
    *(name for name, table in schema.TABLES.items() if not table.by_driver),
    "offset_changes",
    "cleanup",
)


class SparkEngine(Engine):
    """Decodes and folds in the workers of a Spark session."""

    def __init__(
        self, session: SparkSession, settings: Settings | None = None, rows: DataFrame | None = None
    ) -> None:
        """:param settings: connection settings of a live cluster among the inputs.
        :param rows: the DataFrame behind the input of the format ``formats.FRAME``.
        """
        self.session = session
        self._settings = settings
        self._rows = rows
        self.driver_tables: dict[str, pa.Table] = {}
        self._small: dict[str, list[pa.Table]] = {}
        self._kept: list[DataFrame] = []
        # On one machine the page cache serves as well, and the JVM stays small (8 M records: 1.5
        # instead of 1.7 GB of all processes, in the same time).
        self._level = StorageLevel.DISK_ONLY if is_local(session) else StorageLevel.MEMORY_AND_DISK
        self._sizes: Counter[int] = Counter()
        """Decoded bytes of each log partition."""

    def read(self, files: Sequence[InputFile], options: DecodeOptions) -> list[pa.Table]:
        """Decode the inputs; return the notes about them."""
        self.free()
        self._kept.clear()
        self._sizes.clear()
        with changed(self.session, WHILE_READING):
            blobs = read(self.session, files, options, self._settings, self._rows)
            self._blobs = self._keep(blobs)
            if self.keep_in is not None:
                self._blobs.write.mode("overwrite").parquet(as_url(self.keep_in))
            if self.earlier:
                before = self.session.read.schema(BLOBS).parquet(*map(as_url, self.earlier))
                self._blobs = self._blobs.unionByName(before)
            notes = self._blobs.where(F.col("kind") == schema.KIND_QUALITY)
            found = notes.select("data").collect()
        tables = from_many(bytes(row.data) for row in found)
        for table in tables:
            columns = (table[name].to_pylist() for name in ("partition", "bytes"))
            for number, size in zip(*columns, strict=True):
                self._sizes[number] += size or 0
        self._tasks = min(_tasks(sum(self._sizes.values())), len(self._sizes) or 1)
        return tables

    def fold(self, plan: FoldPlan) -> None:
        """Build the tables of every log partition."""
        blobs = self._by_partition(self._blobs)
        for earlier in self._kept[1:]:
            earlier.unpersist()
        del self._kept[1:]
        self._small.clear()
        tables = blobs.mapInArrow(partial(fold_rows, plan=plan), BLOBS)
        self._tables = self._keep(tables)
        small = self._tables.where(~F.col("kind").isin(*_LARGE))
        for row in small.collect():
            self._small.setdefault(row.kind, []).append(from_bytes(bytes(row.data)))

    def forget_records(self) -> None:
        """Free what only the fold needs."""
        self._kept.pop(0).unpersist()

    def _by_partition(self, blobs: DataFrame) -> DataFrame:
        """The blobs with each log partition's together; the first tasks have the largest ones."""
        is_alone = self._tasks == len(self._sizes)
        if self._tasks == 1:
            blobs = blobs.coalesce(1)
        elif hasattr(blobs, "repartitionById"):
            largest_first = sorted(self._sizes, key=lambda number: -self._sizes[number])
            places = ",".join(f"{number},{place}" for place, number in enumerate(largest_first))
            blobs = blobs.repartitionById(self._tasks, F.expr(f"map({places})[partition]"))
        else:  # Spark 4.0
            blobs, is_alone = blobs.repartition(self._tasks, "partition"), False
        # One that is alone in its task may have gigabytes, which a sort would hold.
        return blobs if is_alone else blobs.sortWithinPartitions("partition")

    def collect(self, name: str, topics: Sequence[str] | None = None) -> pa.Table:
        """A small table, whole, or the rows of some topics."""
        if name in self.driver_tables:
            return self.driver_tables[name]
        if name not in _LARGE:
            return pa.concat_tables(self._small.get(name, []), promote_options="permissive")
        some = self._tables.where(F.col("kind") == name)
        rows = some.mapInArrow(partial(pick_rows, topics=topics or ()), BLOBS)
        return pa.concat_tables(from_bytes(bytes(row.data)) for row in rows.collect())

    def frame(self, name: str, post: PostProcess) -> DataFrame:
        """A table of ``schema.TABLES`` as a DataFrame."""
        table = schema.TABLES.get(name)
        kinds = schema.CLEANUP if table is None else table.columns
        names, ddl = schema.names(kinds), schema.ddl(kinds)
        if name in self.driver_tables:
            return self.session.createDataFrame(self.driver_tables[name].to_pylist(), ddl)
        some = self._tables.where(F.col("kind") == name).select("data")
        rows = some.mapInArrow(partial(open_rows, post=post.each, names=names), ddl)
        if post.sum_by:
            others = [each for each in names if each not in post.sum_by]
            sums = [(F.max if each in post.max_of else F.sum)(each).alias(each) for each in others]
            rows = rows.groupBy(*post.sum_by).agg(*sums)
        return rows.select(*names)

    def rows(
        self, name: str, post: PostProcess, order: Order, limit: int | None
    ) -> Iterator[dict[str, Any]]:
        """The rows of a table; nulls come first."""
        frame = self.frame(name, post)
        frame = frame.orderBy(*order) if order else frame
        # Without a limit all rows may not fit into this process.
        found = (
            frame.toLocalIterator(prefetchPartitions=True)
            if limit is None
            else frame.limit(limit).collect()
        )
        return (row.asDict(recursive=True) for row in found)

    def mapped(self, name: str, post: PostProcess, best: Best, do: MapBatches) -> Iterator[bytes]:
        """Run ``do`` in the workers over a table's Arrow batches, in that order."""
        keys = [
            F.desc_nulls_last(column) if how == "descending" else F.asc_nulls_last(column)
            for column, how in best
        ]
        frame = self.frame(name, post)
        frame = (frame.orderBy(*keys) if keys else frame).mapInArrow(
            partial(tell_rows, do=do), "data binary"
        )
        return (bytes(row.data) for row in frame.toLocalIterator(prefetchPartitions=True))

    def write(self, tables: Mapping[str, PostProcess], base: str) -> None:
        """Write tables as Parquet, each in its folder below ``base``.

        Workers write files into a folder by themselves, all tables in one job: one Spark job for
        each of fifteen tables takes more than half of a run (2 M records: 20 of 38 s). Only Spark
        can write to a URL.
        """
        if is_url(base):
            for name, post in tables.items():
                self.frame(name, post).write.mode("overwrite").parquet(f"{base}/{name}")
            return
        theirs = {name: post for name, post in tables.items() if name not in self.driver_tables}
        if theirs:
            some = self._tables.where(F.col("kind").isin(list(theirs)))
            put = partial(file_rows, tables=theirs, base=base, buckets=self._tasks)
            add = partial(file_sums, tables=theirs, base=base)
            if self._tasks > 1:
                rows = some.mapInArrow(put, BLOBS).repartition("partition").mapInArrow(add, BLOBS)
            else:  # in one worker; starting another takes longer
                rows = some.mapInArrow(lambda rows: add(put(rows)), BLOBS)
            check_files(base, (bytes(row.data).decode() for row in rows.collect()))
        with TableFiles(base) as files:
            for name in tables.keys() & self.driver_tables.keys():
                files.add(name, self.driver_tables[name])
        fill(base, tables)

    def free(self) -> None:
        """Unpersist everything: the session lives on."""
        for frame in self._kept:
            frame.unpersist()

    def _keep(self, frame: DataFrame) -> DataFrame:
        self._kept.append(frame.persist(self._level))
        return self._kept[-1]


class SmallEngine(LocalEngine):
    """Decodes and folds small local logs in one worker of a SparkContext, without DataFrames.

    Loading Spark SQL takes longer than analyzing such a log (10,000 records, CPU seconds of all
    processes on a busy machine: 10 instead of 17).
    """

    def __init__(self, context: SparkContext) -> None:
        super().__init__()
        self._context = context

    def _each(
        self, do: Callable[[Any], Iterable[Any]], work: Sequence[Any]
    ) -> Iterator[Iterable[Any]]:
        yield from self._context.parallelize(work, 1).map(partial(listed, do)).collect()


class Watch:
    """The progress of a session's jobs."""

    def __init__(self, session: SparkSession, counters: ReadCounters, total_bytes: int) -> None:
        self._tracker = session.sparkContext.statusTracker()
        self._counters = counters
        self._total_bytes = total_bytes

    def look(self) -> State | None:
        """The state now; None if Spark does not answer."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            stages = [self._tracker.getStageInfo(at) for at in self._tracker.getActiveStageIds()]
        except (Py4JError, PySparkException, OSError):
            return None
        known = [stage for stage in stages if stage is not None]
        return State(
            self._counters.records.value,
            self._counters.bytes.value,
            self._total_bytes,
            sum(stage.numCompletedTasks for stage in known),
            sum(stage.numTasks for stage in known),
        )


def as_url(place: str) -> str:
    """A local folder as a URL, so that Spark's default file system does not matter."""
    return place if is_url(place) else f"file://{place}"


def _tasks(size: int) -> int:
    """Number of tasks of the fold for that many decoded bytes."""
    return 1 if size <= TASK_BYTES else min(max(size // TASK_BYTES, LEAST), MOST)
