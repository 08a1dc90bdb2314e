"""Reads inputs of every format and place into one DataFrame of blobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from kgtool.analysis import schema
from kgtool.analysis.decode.blobs import nothing
from kgtool.analysis.decode.rows import DecodeOptions
from kgtool.analysis.input import formats
from kgtool.analysis.input.input_files import NO_PARTITION, InputFile
from kgtool.analysis.input.readers.ranges import (
    SPLIT_BYTES,
    SPLIT_TEXT_BYTES,
    parts,
    ranges,
    split_of,
    split_rows,
)
from kgtool.analysis.spark.blob_rows import BLOBS, split_blobs

if TYPE_CHECKING:
    from kgtool.config import Settings

TASK_BYTES = 16 << 20
"""Size of a task that several small files share."""


def read(
    session: SparkSession,
    files: Sequence[InputFile],
    options: DecodeOptions,
    settings: Settings | None = None,
    rows: DataFrame | None = None,
) -> DataFrame:
    """The records of all inputs, as rows of BLOBS.

    :param settings: connection settings of a live cluster among the inputs.
    :param rows: the DataFrame behind the input of the format ``formats.FRAME``.
    """
    remote = [file for file in files if file.is_remote]
    tables = [file for file in remote if file.format == formats.PARQUET.name]
    plain = [file for file in files if not file.is_remote]
    plain += [file._replace(format=formats.FRAME.name) for file in tables]
    frames = []
    if plain:
        frames.append(_plain(session, plain, options, settings))
    if tables:
        from kgtool.analysis.spark.read_parquet import read_parquet

        frames += read_parquet(session, tables, options)
    if rows is not None:
        from kgtool.analysis.spark.read_frame import read_frame

        frames.append(read_frame(rows, options))
    far = [file for file in remote if file not in tables]
    if far:
        from kgtool.analysis.spark.read_remote import read_remote

        frames += read_remote(session, far, options)
    if not frames:
        return session.createDataFrame([nothing(NO_PARTITION)], BLOBS)
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return whole


def _plain(
    session: SparkSession,
    files: Sequence[InputFile],
    options: DecodeOptions,
    settings: Settings | None,
) -> DataFrame:
    """Inputs that workers open themselves: local files and live clusters."""
    rows = [split_of(file) for file in files]
    is_small = all(_bytes(file) <= SPLIT_BYTES for file in files)
    if is_small:
        rows = [piece for row in rows for piece in ranges(row)]
    if settings is not None:
        settings = settings._replace(trace=None)  # it writes to the driver's terminal
    # From a list, Spark would create the rows in additional Python workers.
    splits = session.createDataFrame(pa.Table.from_pylist(rows, schema=schema.arrow(schema.SPLITS)))
    pieces = len(rows) if is_small else sum(map(_pieces, files))
    tasks = max(1, min(sum(map(_bytes, files)) // TASK_BYTES, pieces, 100_000))
    if not is_small:
        splits = splits.mapInArrow(split_rows, schema.ddl(schema.SPLITS))
    splits = splits.coalesce(1) if tasks == 1 else splits.repartition(tasks)

    def decode(tables: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = chain.from_iterable(table.to_pylist() for table in tables)
        return split_blobs(rows, options, partial(parts, settings=settings))

    return splits.mapInArrow(decode, BLOBS)


def _pieces(file: InputFile) -> int:
    """Number of ranges of a file, about."""
    size = SPLIT_BYTES if file.format == formats.SEGMENT.name else SPLIT_TEXT_BYTES
    return -(-_bytes(file) // size) or 1


def _bytes(file: InputFile) -> int:
    return TASK_BYTES if file.format == formats.CLUSTER.name else file.size
