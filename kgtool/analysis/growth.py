"""How many offsets and groups there were over time, as the log shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

POINTS = 160
"""Of a curve, at most."""
STEPS_MS = tuple(
    number * unit
    for unit, numbers in (
        (1000, (1, 5, 15, 30)),
        (60_000, (1, 5, 15, 30)),
        (3_600_000, (1, 2, 6, 12)),
        (86_400_000, (1, 2, 7, 14, 28, 91, 365, 3650)),
    )
    for number in numbers
)


def changes(history: DataFrame) -> DataFrame:
    """Rows of ``history`` → one for each offset that came (``change`` 1) or went (-1).

    Columns: log_partition, group, topic, at_ms, position, change.
    """
    went = F.col("tombstone") & F.col("stored").isNotNull()
    return history.where(went | F.col("first")).select(
        F.col("partition").alias("log_partition"),
        "group",
        "topic",
        F.when(went, F.col("timestamp_ms")).otherwise(F.col("first_ms")).alias("at_ms"),
        "position",
        F.when(went, -1).otherwise(1).alias("change"),
    )


def curve(changes: DataFrame, end_ms: int) -> list[dict[str, Any]]:
    """``at_ms, offsets, groups``: how many there were at each of up to POINTS moments.

    The first row is just before the first change, the last one is at ``end_ms``.
    """
    each = changes.transform(_with_groups).where(F.col("at_ms") <= end_ms)
    first = each.agg(F.min("at_ms")).first()
    if first is None or first[0] is None:
        return []
    step = step_ms(end_ms - first[0])
    start = F.col("at_ms") - F.pmod("at_ms", F.lit(step))
    sums = each.groupBy(start.alias("start_ms")).agg(
        F.sum("change").alias("offsets"), F.sum("group_change").alias("groups")
    )
    rows = [{"at_ms": first[0] - first[0] % step, "offsets": 0, "groups": 0}]
    # At most POINTS rows come back: they are added up here.
    for row in sorted(sums.collect(), key=lambda row: int(row.start_ms)):
        rows.append(
            {
                "at_ms": min(row.start_ms + step, end_ms),
                "offsets": rows[-1]["offsets"] + row.offsets,
                "groups": rows[-1]["groups"] + row.groups,
            }
        )
    if rows[-1]["at_ms"] < end_ms:
        rows.append({**rows[-1], "at_ms": end_ms})
    return rows


def step_ms(span_ms: int) -> int:
    """The distance of a curve's points, in ms: a round one."""
    return next((step for step in STEPS_MS if span_ms <= step * POINTS), span_ms // POINTS + 1)


def _with_groups(changes: DataFrame) -> DataFrame:
    """Add ``group_change``: 1 where a group gets its first offset, -1 where it loses its last."""
    by_group = Window.partitionBy("log_partition", "group").orderBy("position", F.desc("change"))
    left = F.sum("change").over(by_group.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    was_first = (F.col("left") == 1) & (F.col("change") == 1)
    was_last = (F.col("left") == 0) & (F.col("change") == -1)
    return changes.withColumn("left", left).withColumn(
        "group_change", F.when(was_first, 1).when(was_last, -1).otherwise(0)
    )


def family_sizes(limit: int) -> Callable[[DataFrame], DataFrame]:
    """Rows of ``schema.GROUPS`` → the families with most live offsets and groups.

    Columns: family, groups, live_groups, live_offsets, commits, bytes, last_seen_ms.
    """

    def transform(groups: DataFrame) -> DataFrame:
        return (
            groups.groupBy("family")
            .agg(
                F.count("*").alias("groups"),
                F.sum((F.col("live_offsets") > 0).cast("int")).alias("live_groups"),
                F.sum("live_offsets").alias("live_offsets"),
                F.sum("commits").alias("commits"),
                F.sum("bytes").alias("bytes"),
                F.max("last_seen_ms").alias("last_seen_ms"),
            )
            .orderBy(F.desc("live_offsets"), F.desc("groups"), "family")
            .limit(limit)
        )

    return transform
