"""What a check ought to have removed before the log ends, and has not.

A broker looks once per check interval. What was due for longer than that at the end of the log
points at a coordinator that does not clean up (one that could not load its partition, say), or
at other settings than those that were assumed.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kgtool.analysis import expire, schema
from kgtool.analysis.live import LIFE, latest, snapshot
from kgtool.retention import rules as retention
from kgtool.retention.rules import RuleSet

_GROUP = ("log_partition", "group")


def grace_ms(interval_ms: int) -> int:
    """How long after it was due something is gone at the latest.

    One interval, and the little by which checks drift: the new coordinator starts the next one an
    interval after the last one *ended*.
    """
    return interval_ms + max(1000, interval_ms // 100)


def overdue(
    live: DataFrame, history: DataFrame, timeline: DataFrame, rules: RuleSet, interval_ms: int,
    end_ms: int,
) -> DataFrame:  # fmt: skip
    """Rows of ``schema.OVERDUE`` at the end of the log."""
    # null where a commit timestamp is so absurd that the difference does not fit
    late = F.try_subtract(F.lit(end_ms - interval_ms), F.col("expires_at_ms"))
    latest_ms = end_ms - grace_ms(interval_ms)
    offsets = live.where(F.col("expires_at_ms") < latest_ms)
    groups = _groups(live, history, timeline, rules).where(F.col("expires_at_ms") < latest_ms)
    both = offsets.unionByName(groups, allowMissingColumns=True).withColumn("overdue_ms", late)
    return both.select(*[F.col(name).cast(kind) for name, kind in schema.OVERDUE])


def _groups(live: DataFrame, history: DataFrame, timeline: DataFrame, rules: RuleSet) -> DataFrame:
    """Groups that the next check removes, and since when that is so."""
    seen = expire.as_seen_by(rules, snapshot()._replace(known=F.col(f"{LIFE}.known")))
    empty = (seen.group_state == retention.STATE_EMPTY) & (seen.group_type != retention.TYPE_SHARE)
    last = latest(timeline).withColumnRenamed("partition", "log_partition")
    lost = F.col("tombstone") | (F.col("pending_change") == -1)
    of_history = history.select(
        F.col("partition").alias("log_partition"),
        "group",
        F.when(lost, F.col("timestamp_ms")).alias("lost_ms"),
        (F.col("is_last") & F.col("pending")).alias("held"),
    )
    past = of_history.groupBy(*_GROUP).agg(
        F.max("lost_ms").alias("cleared_ms"), F.max("held").alias("held")
    )
    held = F.coalesce("held", F.lit(False))
    if rules.pending_keeps_group != retention.PENDING_ALWAYS:
        held = F.lit(False)  # a group without offsets then goes all the same
    since = F.coalesce(f"{LIFE}.state_since_ms", f"{LIFE}.entered_ms")
    return (
        last.where(F.col(f"{LIFE}.known") & empty & _leaves_tombstone(rules))
        .join(live.select(*_GROUP).distinct(), on=list(_GROUP), how="left_anti")
        .join(past, on=list(_GROUP), how="left")
        .where(~held)
        .select(
            *_GROUP,
            F.col(f"{LIFE}.group_type").alias("group_type"),
            F.col(f"{LIFE}.group_state").alias("group_state"),
            F.lit(retention.CAUSE_GROUP_EMPTY).alias("rule"),
            F.greatest(since, "cleared_ms").alias("expires_at_ms"),
        )
    )


def _leaves_tombstone(rules: RuleSet) -> Column:
    """As ``retention.rules.group_leaves_tombstone``: only then the log could show that it went."""
    if rules.new_coordinator:
        return F.lit(True)
    classic = F.col(f"{LIFE}.group_type") == retention.TYPE_CLASSIC
    return classic & (F.coalesce(f"{LIFE}.generation", F.lit(0)) > 0)
