"""A program's DataFrame as input: Spark's Kafka source, a table of Delta's, what there is."""

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
"""What a log without partitions is divided into, by group; offsets.topic.num.partitions is 50."""
_GROUP = "substring(key, 3, 2 + cast(conv(hex(substring(key, 3, 2)), 16, 10) as int))"
"""A key begins with its type and its group, each with two bytes before it (the schemas of
OffsetCommitKey.json, GroupMetadataKey.json and later ones)."""


def find_frame(frame: DataFrame) -> Inputs:
    """The frame as the only input. Raises UsageError if it has not the columns."""
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


def read_frame(frame: DataFrame, as_of_ms: int | None, detail: DecodeOptions) -> DataFrame:
    """Its records as blobs."""
    (file,) = find_frame(frame).files
    kinds = dict(frame.dtypes)
    if "topic" in kinds:
        frame = frame.where(F.col("topic") == TOPIC)
    if "offset" not in kinds and "timestamp" in kinds:
        frame = frame.orderBy("timestamp")
    # Without a partition a group's records are together all the same.
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
    decode = partial(
        parquet_rows.decode_rows, as_of_ms=as_of_ms, detail=detail, missing=file.missing
    )
    return rows.mapInArrow(packed(decode), BLOBS)
