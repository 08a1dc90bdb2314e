"""What was read of each file, and what was not and why."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kgtool.analysis import schema
from kgtool.analysis.batches import REASON_CODEC, REASON_CRC, REASON_RECORDS
from kgtool.analysis.decode import REASON_AFTER

_OF_UNREAD_BATCHES = (REASON_CRC, REASON_CODEC, REASON_RECORDS, REASON_AFTER)
"""Reasons whose records are not among those that were counted as read."""


def quality(records: DataFrame) -> DataFrame:
    """Rows of ``schema.RECORDS`` → rows of ``schema.QUALITY``."""
    notes = records.where(F.col("kind") == schema.KIND_QUALITY)
    by_reason = notes.groupBy("path", "partition", "reason").agg(
        F.sum("records").alias("records"),
        F.sum("bytes").alias("bytes"),
        F.min("position").alias("position"),
        F.coalesce(F.max("damage"), F.lit(False)).alias("damage"),
        F.min("log_offset").alias("first_offset"),
        F.max("offset").alias("last_offset"),
    )
    was_read = F.col("reason").isNull()
    unread = F.col("reason").isin(*_OF_UNREAD_BATCHES)
    in_chunks = was_read | (unread & F.col("records").isNotNull())
    problem = F.struct("reason", "records", "bytes", "position", "damage")
    # Bytes of batches within a chunk are counted with the chunk.
    apart = was_read | (~unread & (F.col("bytes") > 0))
    skipped = F.sum(F.when(~was_read, F.col("records")).otherwise(0))
    total = F.sum(F.when(in_chunks, F.col("records")).otherwise(0))
    partition = F.when(F.min("partition") == F.max("partition"), F.min("partition"))
    return by_reason.groupBy("path").agg(
        # A partition that is not told has a negative number.
        F.when(partition >= 0, partition).alias("partition"),
        F.sum(F.when(apart, F.coalesce("bytes", F.lit(0))).otherwise(0)).alias("bytes"),
        total.alias("records"),
        (total - skipped).alias("decoded"),
        skipped.alias("skipped"),
        F.max("damage").alias("damaged"),
        F.min("first_offset").alias("first_offset"),
        F.max("last_offset").alias("last_offset"),
        F.array_sort(F.collect_list(F.when(~was_read, problem))).alias("problems"),
    )


def complete_partitions(records: DataFrame) -> DataFrame:
    """Partitions of ``__consumer_offsets`` of which every record since offset 0 was read."""
    was_read = (F.col("kind") == schema.KIND_QUALITY) & F.col("reason").isNull()
    by_partition = (
        records.where(was_read)
        .groupBy("partition")
        .agg(
            F.min("log_offset").alias("first"),
            F.max("offset").alias("last"),
            F.sum("records").alias("count"),
        )
    )
    gapless = (F.col("first") == 0) & (F.col("count") == F.col("last") + 1)
    return by_partition.where(gapless).select("partition")
