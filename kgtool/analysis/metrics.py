"""The four metrics of KIP-496 (``kafka.server:type=group-coordinator-metrics``) over time.

What the log shows, which is what the brokers' counters should say. Measured: 4.1 to 4.3 over-count
offset-expiration (they add the running size of the check's records, group after group), and the
Scala coordinator of 3.9.1 counts a commit of several offsets as one offset-commit.

OffsetDelete, DeleteGroups and a topic's deletion leave the same tombstones, and brokers count only
OffsetDelete (2.4+) as offset-deletion. They are told apart as far as that goes: DeleteGroups takes
the group along in the same write (the Scala coordinator writes that down only for a generation
above 0, so there what empties a group counts as DeleteGroups), and what leaves no offset of a topic
in any group is taken for the topic's deletion.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kgtool.analysis import schema
from kgtool.analysis.groups import rebalances
from kgtool.retention import rules as retention
from kgtool.retention.rules import RuleSet

AT_ONCE_MS = 10_000
"""A deleted topic's offsets go from all groups within that time."""

_NAMES = (
    "offset_commits",
    "offset_expirations",
    "offset_deletions",
    "group_completed_rebalances",
)


def metrics(
    records: DataFrame, removals: DataFrame, changes: DataFrame, rules: RuleSet, bucket_ms: int
) -> DataFrame:
    """Rows of ``schema.METRICS``, one for each bucket with anything in it.

    ``changes`` are those of ``growth.changes``.
    """
    counted = records.where(F.col("kind") == schema.KIND_COUNT)
    of_offsets = removals.where(F.col("topic").isNotNull())
    expired = of_offsets.where(F.col("cause") == retention.CAUSE_EXPIRED)
    parts = [
        _tally(counted, F.col("timestamp_ms"), F.col("commits"), "offset_commits"),
        _tally(expired, F.col("removed_at_ms"), F.lit(1), "offset_expirations"),
        _tally(
            _offset_deletes(removals, changes, rules),
            F.col("removed_at_ms"),
            F.lit(1),
            "offset_deletions",
        ),
        _tally(rebalances(records), F.col("timestamp_ms"), F.lit(1), "group_completed_rebalances"),
    ]
    union = parts[0]
    for part in parts[1:]:
        union = union.unionByName(part, allowMissingColumns=True)
    start = F.col("at_ms") - F.pmod("at_ms", F.lit(bucket_ms))
    rows = union.groupBy(start.alias("bucket_start_ms")).agg(
        *[F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _NAMES]
    )
    rows = rows.withColumn("bucket_ms", F.lit(bucket_ms))
    return rows.select(*[F.col(name).cast(kind) for name, kind in schema.METRICS])


def _tally(rows: DataFrame, at: Column, count: Column, name: str) -> DataFrame:
    return rows.select(at.alias("at_ms"), count.cast("bigint").alias(name))


def _offset_deletes(removals: DataFrame, changes: DataFrame, rules: RuleSet) -> DataFrame:
    """Offsets that went by hand, and not because their group or their topic did."""
    write = Window.partitionBy("log_partition", "group", "removed_at_ms")
    with_group = F.max(F.col("topic").isNull().cast("int")).over(write) == 1
    by_hand = (F.col("cause") == retention.CAUSE_EXPLICIT) & F.col("topic").isNotNull()
    found = removals.withColumn("with_group", with_group).where(by_hand & ~F.col("with_group"))
    if not rules.reads_subscriptions:  # before 2.4 there was no OffsetDelete
        return found.where(F.lit(False)).select("removed_at_ms")
    topics = _emptied(changes, found, ["topic"], AT_ONCE_MS)
    found = found.join(topics, on=["topic", "removed_at_ms"], how="left_anti")
    if not rules.new_coordinator:
        of_group = _emptied(changes, found, ["log_partition", "group"], 0)
        found = found.join(
            of_group, on=["log_partition", "group", "removed_at_ms"], how="left_anti"
        )
    return found.select("removed_at_ms")


def _emptied(changes: DataFrame, removed: DataFrame, what: list[str], within_ms: int) -> DataFrame:
    """Moments of removals after which nothing was left of that topic, or of that group."""
    moments = removed.select(*what, F.col("removed_at_ms").alias("at_ms")).distinct()
    of_these = changes.join(moments.select(*what).distinct(), on=what, how="left_semi")
    so_far = (
        Window.partitionBy(*what)
        .orderBy("at_ms")
        .rangeBetween(Window.unboundedPreceding, within_ms)
    )
    both = of_these.select(*what, "at_ms", "change", F.lit(False).alias("asks")).unionByName(
        moments.withColumns({"change": F.lit(0), "asks": F.lit(True)})
    )
    return (
        both.withColumn("left", F.sum("change").over(so_far))
        .where(F.col("asks") & (F.col("left") <= 0))
        .select(*what, F.col("at_ms").alias("removed_at_ms"))
    )
