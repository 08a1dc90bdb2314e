"""From the inputs to one frame of ``schema.RECORDS``, whatever they are and wherever they lie."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kgtool.analysis import formats, schema
from kgtool.analysis.decode import Detail, decode_splits
from kgtool.analysis.early import Early
from kgtool.analysis.inputs import InputFile
from kgtool.analysis.overlap import may_overlap
from kgtool.analysis.readers import SPLIT_BYTES, parts, ranges, split_of, split_rows

TASK_BYTES = 16 << 20
"""Small files share tasks of about this size."""


def read(
    session: SparkSession,
    files: Sequence[InputFile],
    as_of_ms: int | None,
    detail: Detail,
    settings: Any = None,
    early: Early | None = None,
) -> DataFrame:
    """The records of all inputs; ``settings`` are those of a live cluster among them.

    ``early`` has them already, where that was worth it.
    """
    if early is not None:
        return early.frame(session, detail.tally)
    remote = [file for file in files if file.is_remote]
    tables = [file for file in files if file.format == formats.PARQUET.name]
    plain = [file for file in files if not file.is_remote or file in tables]
    frames = []
    if plain:
        frames.append(_plain(session, plain, as_of_ms, detail, settings))
    if tables:
        from kgtool.analysis.read_parquet import read_parquet

        frames += read_parquet(session, tables, as_of_ms, detail)
    far = [file for file in remote if file not in tables]
    if far:
        from kgtool.analysis.read_remote import read_remote

        frames += read_remote(session, far, as_of_ms, detail)
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return _once(whole) if may_overlap(files) else whole


def _plain(
    session: SparkSession,
    files: Sequence[InputFile],
    as_of_ms: int | None,
    detail: Detail,
    settings: Any,
) -> DataFrame:
    """What workers read themselves: files of this machine, and live clusters."""
    rows = [split_of(file) for file in files]
    is_small = all(_bytes(file) <= SPLIT_BYTES for file in files)
    if is_small:
        rows = [piece for row in rows for piece in ranges(row)]
    if settings is not None:
        settings = settings._replace(trace=None)  # what writes to this terminal stays here
    # Of a list Spark would make rows in Python workers of their own, beside those that decode.
    splits = session.createDataFrame(pa.Table.from_pylist(rows, schema=schema.arrow(schema.SPLITS)))
    total = sum(map(_bytes, files))
    tasks = max(1, min(total // TASK_BYTES, 100_000))
    if not is_small:
        splits = splits.mapInArrow(split_rows, schema.ddl(schema.SPLITS))
    else:
        tasks = min(tasks, len(rows))
    splits = splits.coalesce(1) if tasks == 1 else splits.repartition(tasks)
    decode = partial(
        decode_splits, as_of_ms=as_of_ms, detail=detail, parts=partial(parts, settings=settings)
    )
    return splits.mapInArrow(decode, schema.ddl(schema.RECORDS))


def _bytes(file: InputFile) -> int:
    return TASK_BYTES if file.format == formats.CLUSTER.name else file.size


def _once(records: DataFrame) -> DataFrame:
    """Every record of the log once, whichever inputs have it."""
    kept = F.col("kind").isin(schema.KIND_OFFSET, schema.KIND_GROUP, schema.KIND_MARKER)
    placed = records.where(kept).dropDuplicates(["kind", "partition", "log_offset"])
    return records.where(~kept).unionByName(placed)
