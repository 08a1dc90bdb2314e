"""One row a group: what it is, what it did, and what it costs."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kgtool.analysis import expire, group_records, schema
from kgtool.analysis.families import with_family
from kgtool.analysis.live import LIFE, as_life, snapshot
from kgtool.retention import rules as retention
from kgtool.retention.rules import RuleSet

_COUNTS = ("commits", "rebalances", "live_offsets", "live_topics", "expired_offsets", "bytes")


def groups(
    records: DataFrame,
    live: DataFrame,
    removals: DataFrame,
    timeline: DataFrame,
    families: DataFrame,
    rules: RuleSet,
) -> DataFrame:
    """Rows of ``schema.GROUPS``: every group with a record of its own or an offset.

    ``families`` has the ``family`` of each ``group``.
    """
    parts = [
        _live_part(live),
        _group_records(records),
        _removals_part(removals),
        rebalances(records).groupBy(*schema.GROUP).agg(F.count("*").alias("rebalances")),
        _states(timeline, rules),
    ]
    rows = _seen(records)
    for part in parts:
        rows = rows.join(part, on=list(schema.GROUP), how="left")
    rows = rows.withColumn(
        "bytes", F.coalesce("offset_bytes", F.lit(0)) + F.coalesce("own_bytes", F.lit(0))
    )
    rows = rows.fillna(0, subset=list(_COUNTS)).withColumn(
        "group_state", F.coalesce("group_state", F.lit(retention.STATE_DEAD))
    )
    # What a group leaves behind has no members.
    alive = F.col("group_state") != retention.STATE_DEAD
    rows = rows.withColumn("members", F.when(alive, F.col("members")).otherwise(0))
    rows = rows.withColumn("log_partition", F.col("partition")).join(families, on="group")
    return rows.select(*[F.col(name).cast(kind) for name, kind in schema.GROUPS])


def families(records: DataFrame) -> DataFrame:
    """The ``family`` of each ``group`` that the log names."""
    named = F.col("kind").isin(schema.KIND_OFFSET, schema.KIND_GROUP)
    return with_family(records.where(named).select("group").distinct())


def rebalances(records: DataFrame) -> DataFrame:
    """Classic rebalances that were completed: partition, group, ``timestamp_ms``.

    A completed one writes members under a new generation (``CompletingRebalance`` → ``Stable``,
    where the coordinators count it); the same generation again is a static member that came back.
    """
    in_order = Window.partitionBy(*schema.GROUP).orderBy("log_offset")
    states = records.where(
        (F.col("kind") == schema.KIND_GROUP)
        & (F.col("key_type") == group_records.GROUP_METADATA)
        & ~F.col("tombstone")
    )
    generation = F.col("detail.generation")
    before = F.lag(generation).over(in_order)
    return (
        states.withColumn("is_new", before.isNull() | (before != generation))
        .where(F.col("is_new") & (F.col("detail.members") > 0))
        .select(*schema.GROUP, "timestamp_ms")
    )


def _seen(records: DataFrame) -> DataFrame:
    """What the records themselves tell; null values are nobody's sign of life."""
    is_offset = F.col("kind") == schema.KIND_OFFSET
    lives = ~F.col("tombstone")
    commit = is_offset & lives
    at = F.col("timestamp_ms")
    return (
        records.where(is_offset | (F.col("kind") == schema.KIND_GROUP))
        .groupBy(*schema.GROUP)
        .agg(
            F.sum(F.when(commit, F.col("commits"))).alias("commits"),
            F.coalesce(F.min(F.when(lives, F.least("first_ms", at))), F.min(at)).alias(
                "first_seen_ms"
            ),
            F.coalesce(F.max(F.when(lives, at)), F.max(at)).alias("last_seen_ms"),
            F.max(F.when(commit, at)).alias("last_commit_ms"),
        )
    )


def _live_part(live: DataFrame) -> DataFrame:
    return live.groupBy(F.col("log_partition").alias("partition"), "group").agg(
        F.count("*").alias("live_offsets"),
        F.countDistinct("topic").alias("live_topics"),
        F.min("expires_at_ms").alias("next_expiry_ms"),
        F.sum("bytes").alias("offset_bytes"),
    )


def _group_records(records: DataFrame) -> DataFrame:
    """Size of the newest record of each of the group's own keys."""
    own = records.where(F.col("kind") == schema.KIND_GROUP)
    newest = own.groupBy(*schema.GROUP, "key_type", "detail.member", "detail.regex").agg(
        F.max(F.struct("log_offset", "tombstone", "bytes")).alias("newest")
    )
    kept = newest.where(~F.col("newest.tombstone"))
    return kept.groupBy(*schema.GROUP).agg(F.sum("newest.bytes").alias("own_bytes"))


def _removals_part(removals: DataFrame) -> DataFrame:
    expired = removals.where(F.col("cause") == retention.CAUSE_EXPIRED)
    return expired.groupBy(F.col("log_partition").alias("partition"), "group").agg(
        F.count("*").alias("expired_offsets")
    )


def _states(timeline: DataFrame, rules: RuleSet) -> DataFrame:
    """What the coordinator has of each group now."""
    seen = expire.as_seen_by(rules, snapshot())
    here = F.col(f"{LIFE}.known") if rules.new_coordinator else _is_classic()
    was_known = F.when(F.col("known"), F.col("log_offset"))
    states = timeline.groupBy(*schema.GROUP).agg(
        F.max_by(as_life(timeline), "log_offset").alias(LIFE),
        F.max_by("group_type", was_known).alias("last_type"),
    )
    return states.select(
        *schema.GROUP,
        # Of a group that is gone: what it was.
        F.coalesce("last_type", f"{LIFE}.group_type").alias("group_type"),
        F.when(here, seen.group_state).alias("group_state"),
        F.when(here, F.col(f"{LIFE}.protocol_type")).alias("protocol_type"),
        F.col(f"{LIFE}.members").alias("members"),
    )


def _is_classic() -> Column:
    return F.col(f"{LIFE}.known") & (F.col(f"{LIFE}.group_type") == retention.TYPE_CLASSIC)
