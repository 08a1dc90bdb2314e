"""Empty the columns that depend on what an input doesn't tell.

Everything is computed as if nothing were missing; what would then be a guess is taken out here,
partition by partition, because inputs of several kinds may be analyzed together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kgtool.analysis import lacks, schema
from kgtool.analysis.live import LIFE, latest
from kgtool.retention import rules as retention
from kgtool.retention.rules import RuleSet

NEED_ALL: Final = ("overdue", "whatif", "whatif_families", "losses", "metrics")
"""Tables that are empty if anything of ``lacks.BLIND`` is missing."""

Transform = Callable[[DataFrame], DataFrame]
_LACKS, _OWN = "lacks", "own"


def untold(records: DataFrame) -> DataFrame:
    """``log_partition, lacks`` of the partitions of which something is not told."""
    noted = (F.col("kind") == schema.KIND_QUALITY) & (F.col("lacks") != 0)
    return (
        records.where(noted)
        .groupBy(F.col("partition").alias("log_partition"))
        .agg(F.bit_or("lacks").alias(_LACKS))
    )


def hide_live(missing: DataFrame, timeline: DataFrame, rules: RuleSet) -> Transform:
    """For rows of ``schema.LIVE`` with ``log_partition``."""

    def transform(live: DataFrame) -> DataFrame:
        known = _with_group(live, missing, timeline)
        state_since = F.when(_lacks(lacks.TIMES), F.col(f"{_OWN}.state_since_ms")).otherwise(
            F.col("state_since_ms")
        )
        unknown, rule = _unknown_group(rules), _unknown_rule(rules)
        has_members = F.col("group_state") != retention.STATE_EMPTY
        hidden = {
            "pending_transaction": _lacks(lacks.TRANSACTIONS),
            "commit_timestamp_ms": _lacks(lacks.COMMIT_TIMES),
            "expire_timestamp_ms": _lacks(lacks.COMMIT_TIMES),
            "state_since_ms": unknown | _lacks(lacks.STATE_TIMES),
            "subscribed": unknown | (_lacks(lacks.SUBSCRIPTIONS) & has_members),
            "rule": rule,
            "expires_at_ms": rule,
            "group_type": unknown,
            "group_state": unknown,
        }
        return _hide(known.withColumn("state_since_ms", state_since), hidden, live.columns)

    return transform


def hide_removals(missing: DataFrame, records: DataFrame, complete: DataFrame) -> Transform:
    """For rows of ``schema.REMOVALS`` with ``log_partition``.

    ``complete`` has the partitions whose log lacks nothing: without a gap there is no marker.
    """

    def transform(removals: DataFrame) -> DataFrame:
        known = removals.join(F.broadcast(missing), on="log_partition", how="left").join(
            _doubtful(records, complete), on=["log_partition", "group"], how="left"
        )
        # An aborted commit looks like one that was not due yet when the offset was removed.
        doubtful = F.coalesce(F.col("doubtful"), F.lit(False)) & _lacks(lacks.TRANSACTIONS)
        explicit = F.coalesce(F.col("cause") == retention.CAUSE_EXPLICIT, F.lit(False))
        blind = _lacks(lacks.BLIND) | (doubtful & explicit)
        hidden = {
            "removed_at_ms": _lacks(lacks.TIMES),
            "cause": blind,
            "expires_at_ms": blind,
            "latency_ms": blind,
        }
        return _hide(known, hidden, removals.columns)

    return transform


def _doubtful(records: DataFrame, complete: DataFrame) -> DataFrame:
    """``log_partition, group, doubtful`` of groups with commits that may be transactional.

    Those never carry a topic id, all others do since 4.1.
    """
    maybe = (F.col("kind") == schema.KIND_OFFSET) & ~F.col("tombstone") & F.col("topic_id").isNull()
    groups = records.where(maybe).select("partition", "group").distinct()
    return groups.join(F.broadcast(complete), on="partition", how="left_anti").select(
        F.col("partition").alias("log_partition"), "group", F.lit(True).alias("doubtful")
    )


def hide_groups(missing: DataFrame, timeline: DataFrame, rules: RuleSet) -> Transform:
    """For rows of ``schema.GROUPS``."""

    def transform(groups: DataFrame) -> DataFrame:
        known = _with_group(groups, missing, timeline)
        unknown = _unknown_group(rules)
        hidden = {
            **dict.fromkeys(("group_type", "group_state", "protocol_type", "members"), unknown),
            "rebalances": _lacks(lacks.GROUPS),
            "commits": _lacks(lacks.OFFSETS),
            "first_seen_ms": _lacks(lacks.TIMES),
            "last_seen_ms": _lacks(lacks.TIMES),
            "last_commit_ms": _lacks(lacks.TIMES | lacks.COMMIT_TIMES),
            "expired_offsets": _lacks(lacks.BLIND),
            "log_partition": F.col("log_partition") < 0,
        }
        return _hide(known, hidden, groups.columns)

    return transform


def _with_group(rows: DataFrame, missing: DataFrame, timeline: DataFrame) -> DataFrame:
    """Add what is missing, and the group as its own last record shows it."""
    own = latest(timeline).where(F.col(f"{LIFE}.known") & F.col(f"{LIFE}.generation").isNotNull())
    groups = own.select(
        F.col("partition").alias("log_partition"),
        "group",
        F.struct(f"{LIFE}.protocol_type", f"{LIFE}.state_since_ms").alias(_OWN),
    )
    return rows.join(F.broadcast(missing), on="log_partition", how="left").join(
        groups, on=["log_partition", "group"], how="left"
    )


def _lacks(bits: int) -> Column:
    return F.coalesce(F.col(_LACKS), F.lit(0)).bitwiseAND(bits) != 0


def _unknown_group(rules: RuleSet) -> Column:
    """Whether the group may be one whose records are not there."""
    has_own = F.col(_OWN).isNotNull()
    if not rules.new_coordinator:  # it had no groups of other kinds
        return _lacks(lacks.GROUPS)
    return _lacks(lacks.GROUPS) | (_lacks(lacks.NEW_GROUPS) & ~has_own)


def _unknown_rule(rules: RuleSet) -> Column:
    """Whether it can't be told when the offset may go."""
    if rules.fixed_at_commit:
        return _lacks(lacks.COMMIT_TIMES)
    is_empty = F.coalesce(F.col("group_state") == retention.STATE_EMPTY, F.lit(False))
    protocol = F.coalesce(F.col(f"{_OWN}.protocol_type"), F.lit(""))
    consumers = F.lit(rules.reads_subscriptions) & (protocol == retention.CONSUMER_PROTOCOL)
    by_members = _lacks(lacks.SUBSCRIPTIONS) & ~is_empty & consumers
    own_time = F.coalesce(F.col("expire_timestamp_ms"), F.lit(-1)) != -1
    by_state = _lacks(lacks.STATE_TIMES) & is_empty & (protocol != "") & ~own_time
    return _lacks(lacks.COMMIT_TIMES) | _unknown_group(rules) | by_members | by_state


def _hide(rows: DataFrame, hidden: dict[str, Column], columns: list[str]) -> DataFrame:
    # In one step: what is hidden must not change what the others depend on.
    shown = rows.withColumns({name: F.when(~which, F.col(name)) for name, which in hidden.items()})
    return shown.select(*columns)
