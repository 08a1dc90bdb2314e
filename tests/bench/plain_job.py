"""The floor: a Spark job that reads the same records from Parquet, decodes and sums them up.

A program of its own: ``python plain_job.py PARQUET``. What a colleague would write in an hour: no
checksums, no tombstone's reason, no expiry, nothing written. One job, one hash aggregation by key.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def number(column: str, start: Any, size: int) -> Any:
    """Read a big-endian integer out of bytes; ``start`` counts from 1."""
    raw = F.col(column).substr(F.lit(start).cast("int"), F.lit(size))
    return F.conv(F.hex(raw), 16, 10).cast("bigint")


def text(column: str, start: Any, size: Any) -> Any:
    """Read UTF-8 out of bytes."""
    return F.col(column).substr(F.lit(start).cast("int"), size.cast("int")).cast("string")


def main() -> None:
    """Print how many keys there are, their records, the largest offset, the latest commit."""
    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()
    log = spark.read.parquet(sys.argv[1])
    group_size = number("key", 3, 2)
    topic_size = number("key", 5 + group_size, 2)
    metadata_size = number("value", 15, 2)
    decoded = log.select(
        text("key", 5, group_size).alias("group"),
        text("key", 7 + group_size, topic_size).alias("topic"),
        number("key", 7 + group_size + topic_size, 4).alias("partition"),
        number("value", 3, 8).alias("committed"),
        number("value", 17 + metadata_size, 8).alias("at"),
    )
    keys = decoded.groupBy("group", "topic", "partition").agg(
        F.count("*").alias("records"),
        F.max("committed").alias("committed"),
        F.max("at").alias("at"),
    )
    (row,) = keys.agg(F.count("*"), F.sum("records"), F.max("committed"), F.max("at")).collect()
    sys.stdout.write(" ".join(map(str, row)) + "\n")


if __name__ == "__main__":
    main()
