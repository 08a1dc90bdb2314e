"""Which of the broker's removals were expiry: a cause for every tombstone in the log.

The reasoning is that of ``kgtool.retention.audit``, which explains it: a cause follows from the
state just before the tombstone, what one write does to one group has one cause, and all records
of one write have the same timestamp.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kgtool.analysis import expire, group_records, schema
from kgtool.analysis.live import LIFE, as_life, judge, snapshot
from kgtool.retention import rules as retention
from kgtool.retention.rules import RuleSet

_OFFSET, _OWN, _CHANGE, _STATE = "offset", "group", "change", "state"
_WHERE = ("log_partition", "position", "offsets_left")


def removals(
    records: DataFrame,
    timeline: DataFrame,
    complete: DataFrame,
    rules: RuleSet,
    retention_ms: int,
) -> Callable[[DataFrame], DataFrame]:
    """Rows of ``history`` → rows of ``schema.REMOVALS``, and where in the log each of them is.

    ``complete`` has the partitions (one column) whose log lacks nothing from its start.
    """

    def transform(history: DataFrame) -> DataFrame:
        ended = _group_tombstones(records)
        return (
            _group_events(history, ended, timeline)
            .transform(_circumstances(rules))
            .transform(_conversions(timeline, complete))
            .transform(judge(rules, retention_ms))
            .transform(_causes(rules))
            .transform(_one_cause)
            .select(*[F.col(name).cast(kind) for name, kind in schema.REMOVALS], *_WHERE)
        )

    return transform


def _group_tombstones(records: DataFrame) -> DataFrame:
    ends = F.col("key_type").isin(*group_records.GROUP_TYPES) & F.col("tombstone")
    return records.where((F.col("kind") == schema.KIND_GROUP) & ends).select(
        *schema.GROUP, F.col("log_offset").alias("position"), "timestamp_ms"
    )


def _group_events(history: DataFrame, ended: DataFrame, timeline: DataFrame) -> DataFrame:
    """All that happened to each group whose removals are explained, in one frame."""
    states = timeline.select(
        *schema.GROUP,
        F.col("log_offset").alias("position"),
        "timestamp_ms",
        F.lit(_STATE).alias("role"),
        as_life(timeline),
    )
    events = _losses(history)
    for other in (_gains(history, ended), ended.withColumn("role", F.lit(_OWN)), states):
        events = events.unionByName(other, allowMissingColumns=True)
    return events


def _losses(history: DataFrame) -> DataFrame:
    """The offsets' tombstones."""
    stored = F.col("stored").isNotNull()
    return history.where(F.col("tombstone")).select(
        *schema.GROUP,
        "position",
        "timestamp_ms",
        F.lit(_OFFSET).alias("role"),
        "topic",
        "topic_partition",
        "stored",
        "pending",
        "pending_ended_ms",
        F.when(stored, -1).otherwise(0).alias("change"),
        "pending_change",
    )


def _gains(history: DataFrame, ended: DataFrame) -> DataFrame:
    """Where a group gets an offset, or a transaction's hold on one begins or ends.

    Only where a group itself went does it matter how many it had left.
    """
    changes = (F.col("pending_change") != 0) | F.col("mark").isNotNull()
    changing = ~F.col("tombstone") & (F.col("first") | changes)
    return (
        history.where(changing)
        .join(ended.select(*schema.GROUP).distinct(), on=list(schema.GROUP), how="left_semi")
        .select(
            *schema.GROUP,
            "position",
            "timestamp_ms",
            F.lit(_CHANGE).alias("role"),
            F.col("first").cast("int").alias("change"),
            "pending_change",
            "producer_id",
            "mark",
        )
    )


def _circumstances(rules: RuleSet) -> Callable[[DataFrame], DataFrame]:
    """Add to each tombstone what was there just before it."""
    # A tombstone comes before the state that it leads to, which has the same position.
    in_order = F.when(F.col("role") == _STATE, 1).otherwise(0)
    by_group = Window.partitionBy(*schema.GROUP).orderBy("position", in_order)
    before = by_group.rowsBetween(Window.unboundedPreceding, -1)
    earlier_writes = (
        Window.partitionBy(*schema.GROUP)
        .orderBy("timestamp_ms")
        .rangeBetween(Window.unboundedPreceding, -1)
    )
    lost = (F.col("role") == _OFFSET) | (F.col("pending_change") == -1)
    cleared = F.max(F.when(lost, F.col("timestamp_ms"))).over(earlier_writes)

    def transform(events: DataFrame) -> DataFrame:
        held = F.col("pending_change")
        if rules.marks_outlive_offsets:
            events, held = events.withColumn("mark_change", _mark_change()), F.col("mark_change")
        return (
            events.withColumn("cleared_ms", cleared)
            .withColumns(
                {
                    "offsets_left": F.coalesce(F.sum("change").over(before), F.lit(0)),
                    "pendings_left": F.coalesce(F.sum(held).over(before), F.lit(0)),
                    LIFE: F.last(LIFE, ignorenulls=True).over(before),
                }
            )
            .where(F.col("role").isin(_OFFSET, _OWN))
            .withColumn("removed_at_ms", F.col("timestamp_ms"))
        )

    return transform


def _mark_change() -> Column:
    """Whether the group gains (1) or loses (-1) the mark of a producer's transaction here."""
    marks = Window.partitionBy(*schema.GROUP, "producer_id", F.col("mark").isNotNull())
    last = F.lag("mark").over(marks.orderBy("position"))
    return F.col("mark") - F.coalesce(last, F.lit(0))


def _conversions(timeline: DataFrame, complete: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Add ``converted``: whether the group went on as one of another type."""

    def transform(rows: DataFrame) -> DataFrame:
        onward = timeline.where(F.col("converted_from").isNotNull()).select(
            *schema.GROUP, F.col("converted_from").alias("position"), "converted_at_once"
        )
        whole = complete.select("partition", F.lit(True).alias("is_complete"))
        # In a compacted log the rest of that write may be gone, because it was superseded; a
        # group that leaves offsets behind did not go by itself.
        later = F.col("is_complete").isNull() & (F.col("offsets_left") > 0)
        converted = (F.col("role") == _OWN) & (F.col("converted_at_once") | later)
        return (
            rows.join(onward, on=[*schema.GROUP, "position"], how="left")
            .join(F.broadcast(whole), on="partition", how="left")
            .withColumn(
                "converted",
                F.coalesce(converted & F.col("converted_at_once").isNotNull(), F.lit(False)),
            )
        )

    return transform


def _causes(rules: RuleSet) -> Callable[[DataFrame], DataFrame]:
    """Add ``cause``, and to a group's removal when it was due."""

    def transform(rows: DataFrame) -> DataFrame:
        write = Window.partitionBy(*schema.GROUP, "timestamp_ms")
        of_offset = F.col("role") == _OFFSET
        rows = rows.withColumn(
            "with_offsets", F.max(of_offset.cast("int")).over(write) == 1
        ).withColumn("offsets_due_ms", F.max("expires_at_ms").over(write))
        cause = F.when(of_offset, _offset_cause()).otherwise(_group_cause(rules))
        own_due = F.greatest(
            _empty_since(), F.col("cleared_ms"), F.col("offsets_due_ms"), F.lit(-(2**63))
        )
        due = F.when(of_offset, F.col("expires_at_ms")).when(
            cause == retention.CAUSE_GROUP_EMPTY,
            F.when(own_due > -(2**63), own_due).otherwise(F.col("removed_at_ms")),
        )
        gone_by_itself = cause.isin(retention.CAUSE_EXPIRED, retention.CAUSE_GROUP_EMPTY)
        return rows.withColumn("cause", cause).withColumn(
            "expires_at_ms",
            # Clocks of two coordinators may differ by more than the time between their records.
            F.when(gone_by_itself, F.least(due, F.col("removed_at_ms"))).otherwise(due),
        )

    return transform


def _offset_cause() -> Column:
    # Only the hands of DeleteGroups, OffsetDelete and topic deletion reach for pending ones;
    # where nothing was stored as far as the log tells, the cause can't be told either.
    unknown = F.when(F.col("pending"), F.lit(retention.CAUSE_EXPLICIT))
    was_due = F.coalesce(F.col("due_ms") <= F.col("removed_at_ms"), F.lit(False))
    known = F.when(was_due, F.lit(retention.CAUSE_EXPIRED)).otherwise(
        F.lit(retention.CAUSE_EXPLICIT)
    )
    return F.when(F.col("stored").isNull(), unknown).otherwise(known)


def _group_cause(rules: RuleSet) -> Column:
    by_itself = F.when(_may_go(rules), F.lit(retention.CAUSE_GROUP_EMPTY)).otherwise(
        F.lit(retention.CAUSE_EXPLICIT)
    )
    known = F.coalesce(F.col(f"{LIFE}.known"), F.lit(False))
    return F.when(F.col("converted"), F.lit(retention.CAUSE_CONVERTED)).when(known, by_itself)


def _may_go(rules: RuleSet) -> Column:
    """Whether a check removes the group, as ``retention.rules.group_may_go``."""
    seen = expire.as_seen_by(rules, snapshot())
    empty = (seen.group_state == retention.STATE_EMPTY) & (seen.group_type != retention.TYPE_SHARE)
    nothing_left = F.col("offsets_left") == 0
    pending = F.col("pendings_left") > 0
    if rules.pending_keeps_group == retention.PENDING_IGNORED:
        free = F.lit(True)
    elif rules.pending_keeps_group == retention.PENDING_WITH_OFFSETS:
        free = ~pending | ~F.col("with_offsets")
    else:
        free = ~pending
    return empty & nothing_left & free


def _empty_since() -> Column:
    return F.coalesce(F.col(f"{LIFE}.state_since_ms"), F.col(f"{LIFE}.entered_ms"))


def _one_cause(rows: DataFrame) -> DataFrame:
    """Make all that one write took from one group explicit if part of it was; add the latency."""
    write = Window.partitionBy(*schema.GROUP, "timestamp_ms")
    by_hand = F.max((F.col("cause") == retention.CAUSE_EXPLICIT).cast("int")).over(write) == 1
    by_itself = F.col("cause").isin(retention.CAUSE_EXPIRED, retention.CAUSE_GROUP_EMPTY)
    spoilt = F.coalesce(by_hand & by_itself, F.lit(False))
    own = F.col("role") == _OWN
    return (
        rows.withColumn("spoilt", spoilt)
        .withColumn(
            "cause",
            F.when(F.col("spoilt"), F.lit(retention.CAUSE_EXPLICIT)).otherwise(F.col("cause")),
        )
        .withColumn("expires_at_ms", F.when(~(F.col("spoilt") & own), F.col("expires_at_ms")))
        # null where a commit timestamp is so absurd that the difference does not fit
        .withColumn("latency_ms", F.try_subtract("removed_at_ms", "expires_at_ms"))
        .withColumn("log_partition", F.col("partition"))
        .withColumn("partition", F.col("topic_partition"))
    )
