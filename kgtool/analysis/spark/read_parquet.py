"""Reads Parquet on other file systems with Spark, and decodes its rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kgtool.analysis.decode.rows import DecodeOptions
from kgtool.analysis.input.input_files import TOPIC, InputFile
from kgtool.analysis.input.readers import parquet_rows
from kgtool.analysis.spark.blob_rows import BLOBS, packed
from kgtool.analysis.spark.remote import GLOB
from kgtool.errors import ConfigError

TIMES = {
    "timestamp": "unix_millis(timestamp)",
    # Without a zone it is UTC: in the session's zone an hour would be missing in spring.
    "timestamp_ntz": "1000 * cast(cast(timestamp - TIMESTAMP_NTZ'1970-01-01 00:00:00' "
    "as interval second) as decimal(20, 6))",
}
"""SQL for the column ``timestamp`` in ms, by the column's type."""
_MS = {**TIMES, "bigint": "timestamp div 1000000"}
"""The same; a number is in nanoseconds."""


def read_parquet(
    session: SparkSession, files: Sequence[InputFile], options: DecodeOptions
) -> list[DataFrame]:
    """One DataFrame of blobs for each argument with Parquet files, and each set of column types.

    Nanoseconds must come as numbers (``engine.WHILE_READING``). Raises ConfigError if a column is
    missing.
    """
    roots: dict[str, list[InputFile]] = {}
    for file in files:
        roots.setdefault(file.root, []).append(file)
    decode = partial(parquet_rows.decode_rows, options=options)
    return [
        _rows(session, root, columns, alike).mapInArrow(packed(decode), BLOBS)
        for root, some in roots.items()
        for columns, alike in _by_types(session, root, some)
    ]


def _by_types(
    session: SparkSession, root: str, files: list[InputFile]
) -> list[tuple[StructType, list[InputFile]]]:
    """The files by the types of their columns.

    Spark takes the types of a DataFrame from one of its files, and silently reads another file's
    nanoseconds as that type.
    """
    read = session.read.option("basePath", _base(root, files))
    try:
        columns = read.option("mergeSchema", "true").parquet(*map(_url, files)).schema
    except (PySparkException, Py4JError) as error:
        if "CANNOT_MERGE" not in str(error):
            raise
    else:
        return [(columns, files)]
    read = session.read.option("basePath", _base(root, files))
    found: dict[tuple[str | None, ...], tuple[StructType, list[InputFile]]] = {}
    for file in files:
        columns = read.parquet(_url(file)).schema
        kinds = {field.name: field.dataType.simpleString() for field in columns}
        alike = tuple(map(kinds.get, parquet_rows.COLUMNS))
        found.setdefault(alike, (columns, []))[1].append(file)
    return list(found.values())


def _rows(
    session: SparkSession, root: str, columns: StructType, files: list[InputFile]
) -> DataFrame:
    read = session.read.option("basePath", _base(root, files)).schema(columns)
    frame = read.parquet(*map(_url, files))
    kinds = dict(frame.dtypes)
    missing = [name for name in parquet_rows.COLUMNS if name not in kinds]
    is_bytes = (kinds.get("key"), kinds.get("value")) == ("binary", "binary")
    if missing or not is_bytes or kinds["timestamp"] not in _MS:
        had = ", ".join(f"{name} {kind}" for name, kind in frame.dtypes[:10])
        raise ConfigError(f"{root} lacks the columns of Spark's Kafka source (it has {had}).")
    return frame.where(F.col("topic") == TOPIC).select(
        F.col("_metadata.file_path").alias("path"),
        F.col("partition").cast("int").alias("partition"),
        F.col("offset").cast("bigint").alias("offset"),
        F.expr(f"cast(coalesce({_MS[kinds['timestamp']]}, 0) as bigint)").alias("timestamp_ms"),
        "key",
        "value",
    )


def _base(root: str, files: list[InputFile]) -> str:
    """Spark's basePath: folder names below it (``key=value``) are columns."""
    return root if root.rstrip("/") != files[0].path else root.rpartition("/")[0]


def _url(file: InputFile) -> str:
    return file.path.translate(GLOB)
