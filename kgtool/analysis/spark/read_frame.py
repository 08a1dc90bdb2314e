"""A DataFrame as input: Spark's Kafka source, a Delta table, or any other."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kgtool.analysis import missing_data
from kgtool.analysis.decode.rows import DecodeOptions
from kgtool.analysis.input import formats
from kgtool.analysis.input.input_files import NO_PARTITION, TOPIC, InputFile, Inputs
from kgtool.analysis.input.readers import parquet_rows
from kgtool.analysis.spark.blob_rows import BLOBS, packed
from kgtool.analysis.spark.read_parquet import TIMES
from kgtool.errors import UsageError

NAME = "DataFrame"
BUCKETS = 50
"""Parts into which rows without a partition are divided, by group (as many as
offsets.topic.num.partitions has by default)."""
_GROUP = "substring(key, 3, 2 + cast(conv(hex(substring(key, 3, 2)), 16, 10) as int))"
"""The group in a key: bytes 1-2 are the key's type, 3-4 the length of the group's name
(OffsetCommitKey.json, GroupMetadataKey.json and later ones)."""


def find_frame(frame: DataFrame) -> Inputs:
    """The DataFrame as the only input. Raises UsageError if it lacks a column."""
    kinds = dict(frame.dtypes)
    wrong = [name for name in ("key", "value") if kinds.get(name) != "binary"]
    at = kinds.get("timestamp")
    if wrong or at not in (None, *TIMES):
        had = ", ".join(f"{name} {kind}" for name, kind in frame.dtypes[:10])
        raise UsageError(
            "A DataFrame needs the columns of Spark's Kafka source: key and value, binary, and "
            f"where there are any partition, offset and timestamp (it has {had or 'none'})."
        )
    missing = formats.FRAME.missing
    missing |= missing_data.TIMES if at is None else 0
    missing |= 0 if "offset" in kinds else missing_data.PLACES
    file = InputFile(NAME, formats.FRAME.name, NO_PARTITION, 0, 0, missing, root=NAME)
    return Inputs([file], None, [], [], [])


def read_frame(frame: DataFrame, options: DecodeOptions) -> DataFrame:
    """Its records, as rows of BLOBS."""
    (file,) = find_frame(frame).files
    kinds = dict(frame.dtypes)
    if "topic" in kinds:
        frame = frame.where(F.col("topic") == TOPIC)
    if "offset" not in kinds and "timestamp" in kinds:
        frame = frame.orderBy("timestamp")
    # Rows without a partition are divided by group: a group's records must stay together.
    nowhere = F.expr(f"-2 - coalesce(pmod(xxhash64({_GROUP}), {BUCKETS}), 0)")
    at_ms = TIMES[kinds["timestamp"]] if "timestamp" in kinds else "0"
    rows = frame.select(
        F.lit(NAME).alias("path"),
        (F.col("partition") if "partition" in kinds else nowhere).cast("int").alias("partition"),
        (F.col("offset") if "offset" in kinds else F.monotonically_increasing_id())
        .cast("bigint")
        .alias("offset"),
        F.expr(f"cast(coalesce({at_ms}, 0) as bigint)").alias("timestamp_ms"),
        "key",
        "value",
    )
    decode = partial(parquet_rows.decode_rows, options=options, missing=file.missing)
    return rows.mapInArrow(packed(decode), BLOBS)
