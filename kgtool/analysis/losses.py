"""What each scenario of a what-if removes and leaves: counted from the lives of the replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from kgtool.analysis import schema
from kgtool.analysis.due import Scenario
from kgtool.analysis.replay import GROUP, OFFSET, TOMBSTONE

DAY_MS = 86_400_000
MOST_DAYS = 3660
"""A day without any change has a row too, in logs of up to so many days."""
_ENDS = "topic string, partition int, log_start_offset bigint, log_end_offset bigint"
_SCENARIO = ("rules", "retention_ms", "check_interval_ms")


def scenario_frame(session: SparkSession, scenarios: Sequence[Scenario]) -> DataFrame:
    """The scenarios by their number."""
    columns: dict[str, list[Any]] = {
        "rules": [each.rules.name for each in scenarios],
        "retention_ms": [each.retention_ms for each in scenarios],
        "check_interval_ms": [each.interval_ms for each in scenarios],
    }
    number = F.col("id").cast("int")
    return session.range(len(scenarios)).select(
        number.alias("scenario"),
        *[
            F.element_at(F.array(*[F.lit(value) for value in values]), number + 1).alias(name)
            for name, values in columns.items()
        ],
    )


def log_ends(session: SparkSession, topics: Iterable[Mapping[str, Any]] | None) -> DataFrame:
    """``topics`` of cluster.json as a frame: topic, partition, log_start_offset, log_end_offset."""
    fields = ("partition", "log_start_offset", "log_end_offset")
    rows = [
        (str(topic.get("name")), *[_whole(each.get(field)) for field in fields])
        for topic in topics or ()
        if isinstance(topic, Mapping)
        for each in topic.get("partitions") or ()
        if isinstance(each, Mapping)
    ]
    return session.createDataFrame(rows, _ENDS)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and abs(value) < 2**63 else None


def losses(lives: DataFrame, scenarios: DataFrame, ends: DataFrame, as_of_ms: int) -> DataFrame:
    """Rows of ``schema.LOSSES``."""
    ahead = F.col("lost_at_ms") > as_of_ms
    lost = lives.where((F.col("role") == OFFSET) & F.col("expired")).withColumn(
        "lost_at_ms", F.col("until_ms")
    )
    lag = F.greatest(F.col("log_end_offset") - F.col("offset"), F.lit(0))
    again = F.greatest(F.least("offset", "log_end_offset") - F.col("log_start_offset"), F.lit(0))
    known = F.col("ahead") & F.col("log_end_offset").isNotNull()
    rows = (
        lost.withColumns({"ahead": ahead, "committed_again_ms": F.col("again_ms")})
        .join(F.broadcast(scenarios), on="scenario")
        .join(F.broadcast(ends), on=["topic", "partition"], how="left")
        .withColumns(
            {
                "lag": F.when(known, lag),
                "skipped_records": F.when(known, lag),
                "replayed_records": F.when(known, again),
            }
        )
    )
    return rows.select(*[F.col(name).cast(kind) for name, kind in schema.LOSSES])


def whatif(lives: DataFrame, scenarios: DataFrame, as_of_ms: int) -> DataFrame:
    """Rows of ``schema.WHATIF``, one for each scenario, also where nothing ever happened."""
    totals = lives.groupBy("scenario").agg(*_totals(as_of_ms), *_moments(as_of_ms))
    days = _days(lives, as_of_ms)
    rows = (
        scenarios.join(totals, on="scenario", how="left")
        .join(days, on="scenario", how="left")
        .withColumn("days", F.coalesce("days", F.array().cast(dict(schema.WHATIF)["days"])))
    )
    counts = [name for name, _ in schema.WHATIF if name.endswith(("_offsets", "_groups"))]
    return rows.fillna(0, subset=counts).select(
        *[F.col(name).cast(kind) for name, kind in schema.WHATIF]
    )


def whatif_families(
    lives: DataFrame, scenarios: DataFrame, families: DataFrame, as_of_ms: int
) -> DataFrame:
    """Rows of ``schema.WHATIF_FAMILIES``: families that have, or lose, an offset.

    ``families`` has the ``family`` of each ``group``.
    """
    rows = (
        lives.join(families, on="group")
        .groupBy("scenario", "family")
        .agg(*_totals(as_of_ms))
        .join(F.broadcast(scenarios), on="scenario")
    )
    return rows.select(*[F.col(name).cast(kind) for name, kind in schema.WHATIF_FAMILIES])


def _totals(as_of_ms: int) -> list[Column]:
    gone = F.col("until_ms") <= as_of_ms
    there = (F.col("from_ms") <= as_of_ms) & (
        F.col("until_ms").isNull() | (F.col("until_ms") > as_of_ms)
    )
    of_offset, expired = F.col("role") == OFFSET, F.col("expired")
    missed = of_offset & expired & gone & F.col("again_ms").isNotNull()
    where = {
        "removed_offsets": of_offset & expired & gone,
        "removed_groups": (F.col("role") == TOMBSTONE) & gone,
        "missed_offsets": missed,
        "live_offsets": of_offset & there,
        "live_groups": (F.col("role") == GROUP) & there,
        "next_offsets": of_offset & expired & ~gone,
    }
    return [
        *[F.count(F.when(condition, 1)).alias(name) for name, condition in where.items()],
        F.countDistinct(F.when(missed, F.struct("log_partition", "group"))).alias("missed_groups"),
        F.countDistinct(
            F.when(of_offset & expired & ~gone, F.struct("log_partition", "group"))
        ).alias("next_groups"),
    ]


def _moments(as_of_ms: int) -> list[Column]:
    at = F.when(
        (F.col("role") == OFFSET) & F.col("expired") & (F.col("until_ms") <= as_of_ms),
        F.col("until_ms"),
    )
    return [F.min(at).alias("first_removal_ms"), F.max(at).alias("last_removal_ms")]


def _days(lives: DataFrame, as_of_ms: int) -> DataFrame:
    """scenario, ``days``: what went on each day, and what was there at its end."""
    is_change = F.explode(
        F.array(
            F.struct(F.col("from_ms").alias("at_ms"), F.lit(1).alias("change")),
            F.struct(F.col("until_ms").alias("at_ms"), F.lit(-1).alias("change")),
        )
    )
    came_and_went = lives.select("scenario", "role", "expired", is_change.alias("c")).where(
        F.col("c.at_ms") <= as_of_ms
    )
    day = F.col("c.at_ms") - F.pmod("c.at_ms", F.lit(DAY_MS))
    went, change = F.col("c.change") == -1, F.col("c.change")
    role = F.col("role")
    sums = came_and_went.groupBy("scenario", day.alias("day_ms")).agg(
        F.count(F.when((role == OFFSET) & F.col("expired") & went, 1)).alias("removed_offsets"),
        F.count(F.when((role == TOMBSTONE) & went, 1)).alias("removed_groups"),
        F.sum(F.when(role == OFFSET, change).otherwise(0)).alias("offset_change"),
        F.sum(F.when(role == GROUP, change).otherwise(0)).alias("group_change"),
    )
    so_far = Window.partitionBy("scenario").orderBy("day_ms")
    fields = schema.DAY
    return (
        _every_day(sums, as_of_ms)
        .withColumn("live_offsets", F.sum("offset_change").over(so_far))
        .withColumn("live_groups", F.sum("group_change").over(so_far))
        .groupBy("scenario")
        .agg(F.sort_array(F.collect_list(F.struct(*fields))).alias("days"))
    )


def _every_day(sums: DataFrame, as_of_ms: int) -> DataFrame:
    """Put in the days on which nothing happened."""
    last = as_of_ms - as_of_ms % DAY_MS
    span = sums.groupBy("scenario").agg(F.min("day_ms").alias("first"))
    fits = F.col("first") >= last - MOST_DAYS * DAY_MS
    start = F.when(fits, F.col("first")).otherwise(F.lit(last))
    days = span.select(
        "scenario", F.explode(F.sequence(start, F.lit(last), F.lit(DAY_MS))).alias("day_ms")
    )
    return sums.join(days, on=["scenario", "day_ms"], how="full").fillna(0)
