"""Put the job together: inputs → records → tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kgtool.analysis import schema
from kgtool.analysis.decode import decode_splits
from kgtool.analysis.history import history
from kgtool.analysis.live import live
from kgtool.analysis.quality import complete_partitions, quality
from kgtool.analysis.removals import removals
from kgtool.analysis.segments import split
from kgtool.analysis.sources import Basis, SegmentFile
from kgtool.analysis.timeline import timeline
from kgtool.errors import AnalysisError

SPLIT_BYTES = 64 << 20
"""Segments larger than this are several tasks."""
TASK_BYTES = 16 << 20
"""Small segments share tasks of about this size."""


class Analysis:
    """The tables over one set of inputs; frames are lazy, and ``records`` is decoded once."""

    def __init__(
        self, session: SparkSession, files: Sequence[SegmentFile], basis: Basis,
        as_of_ms: int | None = None,
    ) -> None:  # fmt: skip
        self.basis = basis
        decoded = decode(session, files, as_of_ms)
        self.records = decoded.persist(StorageLevel.MEMORY_AND_DISK)
        rules, retention_ms = basis.rules, basis.retention_ms
        self.timeline = self.records.transform(timeline(rules)).persist(
            StorageLevel.MEMORY_AND_DISK
        )
        lives = self.records.transform(history(rules)).persist(StorageLevel.MEMORY_AND_DISK)
        self.live = lives.transform(live(self.timeline, rules, retention_ms)).persist(
            StorageLevel.MEMORY_AND_DISK
        )
        complete = complete_partitions(self.records)
        self.removals = lives.transform(
            removals(self.records, self.timeline, complete, rules, retention_ms)
        ).persist(StorageLevel.MEMORY_AND_DISK)
        self.quality = quality(self.records)

    def table(self, name: str) -> DataFrame:
        """One of ``schema.TABLES``, with the columns that are declared there."""
        frame: DataFrame = getattr(self, name)
        return frame.select(*schema.names(schema.TABLES[name]))

    def last_record_ms(self) -> int | None:
        """Timestamp of the log's newest record."""
        was_read = (F.col("kind") == schema.KIND_QUALITY) & F.col("reason").isNull()
        found = self.records.where(was_read).agg(F.max("timestamp_ms")).first()
        return None if found is None else found[0]


def decode(session: SparkSession, files: Sequence[SegmentFile], as_of_ms: int | None) -> DataFrame:
    """The files' records, as rows of ``schema.RECORDS``."""
    splits = session.createDataFrame(
        [(file.path, file.partition, 0, file.size) for file in files], schema.ddl(schema.SPLITS)
    )
    total = sum(file.size for file in files)
    tasks = max(1, min(total // TASK_BYTES, 100_000))
    if any(file.size > SPLIT_BYTES for file in files):
        splits = splits.mapInArrow(split_files, schema.ddl(schema.SPLITS))
    else:
        tasks = min(tasks, len(files))
    splits = splits.coalesce(1) if tasks == 1 else splits.repartition(tasks)
    return splits.mapInArrow(partial(decode_splits, as_of_ms=as_of_ms), schema.ddl(schema.RECORDS))


def split_files(tables: Iterable[Any]) -> Iterator[Any]:
    """``mapInArrow`` function: one row a file in, one row a range of whole batches out."""
    import pyarrow as pa  # type: ignore[import-untyped]

    for table in tables:
        rows = [
            {**row, "start": start, "end": end}
            for row in table.to_pylist()
            for start, end in _ranges(row["path"], row["end"])
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=schema.arrow(schema.SPLITS))


def _ranges(path: str, size: int) -> list[tuple[int, int]]:
    try:
        return list(split(path, size, SPLIT_BYTES)) or [(0, size)]
    except OSError:
        return [(0, size)]  # whoever reads it says why that is not possible


def write_tables(analysis: Analysis, out: Path, *, overwrite: bool) -> list[Path]:
    """Write every table as Parquet under ``out``. Raises AnalysisError if it may not or can't."""
    check_folder(out, overwrite=overwrite)
    written = []
    for name in schema.TABLES:
        path = out / f"{name}.parquet"
        try:
            analysis.table(name).write.mode("overwrite").parquet(path.absolute().as_uri())
        except Exception as error:
            reason = str(error).strip().splitlines()[0]
            raise AnalysisError(f"{path} could not be written: {reason}") from error
        written.append(path)
    return written


def check_folder(out: Path, *, overwrite: bool) -> None:
    """Refuse a folder that has something in it, unless it may be overwritten."""
    if out.exists() and not out.is_dir():
        raise AnalysisError(f"--out {out} is a file: name a folder.")
    if out.is_dir() and any(out.iterdir()) and not overwrite:
        raise AnalysisError(
            f"--out {out} exists and is not empty: give --overwrite, or name another folder."
        )
