"""The committed offsets at the end of the log, and what becomes of each."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kgtool.analysis import expire, schema
from kgtool.retention import rules as retention
from kgtool.retention.rules import RuleSet

LIFE = "life"
"""Struct column with a row of ``schema.TIMELINE``: the group as it was at that moment."""


def live(
    timeline: DataFrame, rules: RuleSet, retention_ms: int
) -> Callable[[DataFrame], DataFrame]:
    """Rows of ``history`` → rows of ``schema.LIVE``, with ``log_partition`` and ``bytes``."""

    def transform(history: DataFrame) -> DataFrame:
        present = F.col("is_last") & ~F.col("tombstone") & F.col("stored").isNotNull()
        rows = history.where(present).join(latest(timeline), on=list(schema.GROUP), how="left")
        return rows.transform(judge(rules, retention_ms)).select(*_live_columns(rules))

    return transform


def latest(timeline: DataFrame) -> DataFrame:
    """Each group's last state, as the struct LIFE."""
    newest = Window.partitionBy(*schema.GROUP).orderBy(F.col("log_offset").desc())
    return (
        timeline.withColumn("age", F.row_number().over(newest))
        .where(F.col("age") == 1)
        .select(*schema.GROUP, as_life(timeline))
    )


def as_life(timeline: DataFrame) -> Column:
    """All of a timeline row but its group, as the struct LIFE."""
    return F.struct(*[name for name in timeline.columns if name not in schema.GROUP]).alias(LIFE)


def snapshot(life: str = LIFE) -> expire.Snapshot:
    """The columns that the rules look at, where LIFE, ``stored`` and ``pending`` are."""
    return expire.Snapshot(
        known=F.col(f"{life}.known"),
        group_type=F.col(f"{life}.group_type"),
        group_state=F.col(f"{life}.group_state"),
        protocol_type=F.col(f"{life}.protocol_type"),
        state_since_ms=F.col(f"{life}.state_since_ms"),
        topics=F.col(f"{life}.topics"),
        topic=F.col("topic"),
        commit_timestamp_ms=F.col("stored.commit_timestamp_ms"),
        expire_timestamp_ms=F.col("stored.expire_timestamp_ms"),
        pending=F.col("pending"),
    )


def judge(rules: RuleSet, retention_ms: int) -> Callable[[DataFrame], DataFrame]:
    """Add ``rule``, ``due_ms`` (the rule's time) and ``expires_at_ms``.

    ``expires_at_ms`` is the earliest moment at which the broker may remove the offset: not before
    the rule's time, and not before the record that took away the offset's last protection.
    """

    def transform(rows: DataFrame) -> DataFrame:
        verdict = expire.verdict(rules, snapshot(), retention_ms)
        judged = rows.withColumn("verdict", F.when(F.col("stored").isNotNull(), verdict))
        due = F.col("verdict.expires_at_ms")
        moments = [due, F.col("stored.timestamp_ms"), *_released(rules)]
        return judged.withColumns(
            {
                "rule": F.col("verdict.rule"),
                "due_ms": due,
                "expires_at_ms": F.when(due.isNotNull(), F.greatest(*moments)),
            }
        )

    return transform


def _released(rules: RuleSet) -> list[Column]:
    """Since when the offset has been judged by its time alone; null: always."""
    if rules.fixed_at_commit:
        return []
    by_topic = F.element_at(F.col(f"{LIFE}.released"), F.col("topic"))
    by_time = F.col("verdict.rule") != retention.RULE_EXPLICIT
    later_before = F.col("stored.commit_timestamp_ms") < F.col(f"{LIFE}.dated_before_ms")
    moments = [
        F.coalesce(by_topic, F.col(f"{LIFE}.judged_since_ms")),
        F.when(by_time & later_before, F.col(f"{LIFE}.dated_until_ms")),
    ]
    if rules.pending_protects_offset:
        moments.append(F.col("pending_ended_ms"))
    return moments


def _live_columns(rules: RuleSet) -> list[Column]:
    seen = expire.as_seen_by(rules, snapshot())
    since = F.coalesce(F.col(f"{LIFE}.state_since_ms"), F.col(f"{LIFE}.entered_ms"))
    known = seen.known
    columns = {
        "group": F.col("group"),
        "topic": F.col("topic"),
        "partition": F.col("topic_partition"),
        "offset": F.col("stored.offset"),
        "commit_timestamp_ms": F.col("stored.commit_timestamp_ms"),
        "expire_timestamp_ms": F.col("stored.expire_timestamp_ms"),
        "topic_id": F.col("stored.topic_id"),
        "group_type": F.when(known, seen.group_type),
        "group_state": F.when(known, seen.group_state),
        "state_since_ms": F.when(known, since),
        "subscribed": F.when(known, expire.subscribed(seen)),
        "pending_transaction": F.col("pending"),
        "rule": F.col("rule"),
        "expires_at_ms": F.col("expires_at_ms"),
    }
    of_record = [F.col("partition").alias("log_partition"), F.col("stored.bytes").alias("bytes")]
    return [*[columns[name].cast(kind).alias(name) for name, kind in schema.LIVE], *of_record]
