"""The yardstick: a Spark job that reads the same records from Parquet, decodes and sums them up.

A program of its own: ``python plain_job.py PARQUET OUT``. What a colleague would write in an
hour: no checksums, no tombstone's reason, no expiry.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def number(column: str, start: Any, size: int) -> Any:
    """Read a big-endian integer out of bytes; ``start`` counts from 1."""
    raw = F.col(column).substr(F.lit(1) + start - 1, F.lit(size))
    return F.conv(F.hex(raw), 16, 10).cast("bigint")


def text(column: str, start: Any, size: Any) -> Any:
    """Read UTF-8 out of bytes."""
    return F.col(column).substr(start.cast("int"), size.cast("int")).cast("string")


def main() -> None:
    """Take the last commit of every partition of every group."""
    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    log = spark.read.parquet(sys.argv[1])
    group_size = number("key", F.lit(3), 2)
    topic_size = number("key", F.lit(5) + group_size, 2)
    decoded = log.select(
        text("key", F.lit(5), group_size).alias("group"),
        text("key", F.lit(7) + group_size, topic_size).alias("topic"),
        number("key", F.lit(7) + group_size + topic_size, 4).alias("number"),
        F.col("offset").alias("at"),
        F.struct(
            F.col("value").isNull().alias("gone"),
            number("value", F.lit(3), 8).alias("offset"),
            number("value", F.lit(17) + number("value", F.lit(15), 2), 8).alias("committed_at"),
        ).alias("last"),
    )
    last = decoded.groupBy("group", "topic", "number").agg(F.max_by("last", "at").alias("last"))
    live = last.where("not last.gone").select("group", "topic", "number", "last.*")
    live.write.parquet(sys.argv[2])
    sys.stdout.write(f"{spark.read.parquet(sys.argv[2]).count()}\n")


if __name__ == "__main__":
    main()
