"""The retention rules as Spark columns.

The same rules as ``kgtool.retention.rules``, which is the specification and holds the sources; a
test feeds both the same snapshots. Times are milliseconds since the epoch.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from kgtool.retention import rules as retention
from kgtool.retention.rules import RuleSet


class Snapshot(NamedTuple):
    """The columns that decide about one committed offset."""

    known: Column
    """Whether the log shows that the coordinator has the group; null or false: not."""
    group_type: Column
    group_state: Column
    protocol_type: Column
    state_since_ms: Column
    topics: Column
    """array<string>, null where not known."""
    topic: Column
    commit_timestamp_ms: Column
    expire_timestamp_ms: Column
    pending: Column


def verdict(rules: RuleSet, snapshot: Snapshot, retention_ms: int) -> Column:
    """struct<expires_at_ms: bigint, rule: string>, as ``retention.rules.verdict``."""
    if rules.fixed_at_commit:
        return _fixed_at_commit(snapshot, retention_ms)
    snapshot = as_seen_by(rules, snapshot)
    return (
        F.when(~snapshot.known, _never(retention.RULE_ORPHAN))
        .when(snapshot.group_type == retention.TYPE_SHARE, _never(retention.RULE_SHARE))
        .when(_rebalancing(snapshot), _never(retention.RULE_REBALANCING))
        .when(_keeps_all(rules, snapshot), _never(retention.RULE_LIVE_GROUP))
        .when(subscribed(snapshot), _never(retention.RULE_SUBSCRIBED))
        .when(
            snapshot.pending & F.lit(rules.pending_protects_offset),
            _never(retention.RULE_PENDING),
        )
        .otherwise(_by_time(rules, snapshot, retention_ms))
    )


def subscribed(snapshot: Snapshot) -> Column:
    """Whether a current member holds the topic; null where that is not known."""
    return F.when(~_has_members(snapshot), F.lit(False)).otherwise(
        F.array_contains(snapshot.topics, snapshot.topic)
    )


def as_seen_by(rules: RuleSet, snapshot: Snapshot) -> Snapshot:
    """The group as this generation's coordinator has it; no column of it is null but two."""
    classic = snapshot.group_type == retention.TYPE_CLASSIC
    dead = snapshot.group_state == retention.STATE_DEAD
    here = F.coalesce(snapshot.known & ~(classic & dead), F.lit(False))
    if rules.new_coordinator:
        return snapshot._replace(known=here)
    # The Scala coordinator gives offsets whose group it does not know a simple group.
    here = F.coalesce(here & classic, F.lit(False))
    return snapshot._replace(
        known=F.lit(True),
        group_type=F.lit(retention.TYPE_CLASSIC),
        group_state=F.when(here, snapshot.group_state).otherwise(F.lit(retention.STATE_EMPTY)),
        protocol_type=F.when(here, snapshot.protocol_type).otherwise(F.lit("")),
    )


def _simple(snapshot: Snapshot) -> Column:
    classic = snapshot.group_type == retention.TYPE_CLASSIC
    return classic & (F.coalesce(snapshot.protocol_type, F.lit("")) == "")


def _has_members(snapshot: Snapshot) -> Column:
    memberless = snapshot.group_state.isin(retention.STATE_EMPTY, retention.STATE_DEAD)
    return ~_simple(snapshot) & ~memberless


def _rebalancing(snapshot: Snapshot) -> Column:
    moving = snapshot.group_state.isin(
        retention.STATE_PREPARING_REBALANCE, retention.STATE_COMPLETING_REBALANCE
    )
    classic = snapshot.group_type == retention.TYPE_CLASSIC
    return classic & ~_simple(snapshot) & moving


def _keeps_all(rules: RuleSet, snapshot: Snapshot) -> Column:
    """A living group whose subscriptions this broker does not know or does not look at."""
    not_empty = ~_simple(snapshot) & (snapshot.group_state != retention.STATE_EMPTY)
    unread = snapshot.topics.isNull()
    classic = snapshot.group_type == retention.TYPE_CLASSIC
    if not rules.reads_subscriptions:
        return not_empty & (classic | unread)
    other_protocol = classic & (snapshot.protocol_type != retention.CONSUMER_PROTOCOL)
    return not_empty & (other_protocol | unread)


def _by_time(rules: RuleSet, snapshot: Snapshot, retention_ms: int) -> Column:
    own = snapshot.expire_timestamp_ms
    explicit = own.isNotNull() if rules.minus_one_is_past else own.isNotNull() & (own != -1)
    classic_empty = (
        (snapshot.group_type == retention.TYPE_CLASSIC)
        & ~_simple(snapshot)
        & (snapshot.group_state == retention.STATE_EMPTY)
    )
    since = snapshot.state_since_ms
    dated = classic_empty & since.isNotNull() & (since != -1)
    return (
        F.when(explicit, _at(own, retention.RULE_EXPLICIT))
        .when(dated, _at(_plus(since, retention_ms), retention.RULE_EMPTY_SINCE))
        .otherwise(_at(_plus(snapshot.commit_timestamp_ms, retention_ms), retention.RULE_COMMIT))
    )


def _fixed_at_commit(snapshot: Snapshot, retention_ms: int) -> Column:
    # Strict: the broker wants the timestamp before its now, so 1 ms later is the first chance.
    own = snapshot.expire_timestamp_ms
    return F.when(
        own.isNull() | (own == -1),
        _at(_plus(snapshot.commit_timestamp_ms, retention_ms + 1), retention.RULE_COMMIT),
    ).otherwise(_at(_plus(own, 1), retention.RULE_EXPLICIT))


def _at(expires_at_ms: Column, rule: str) -> Column:
    return F.struct(expires_at_ms.cast("bigint").alias("expires_at_ms"), F.lit(rule).alias("rule"))


def _never(rule: str) -> Column:
    return _at(F.lit(None), rule)


def _plus(timestamp_ms: Column, duration_ms: int) -> Column:
    # Spark's ANSI mode refuses an overflow; a broker's sum is an int64 too, so stop at its end.
    limit = retention.MAX_TIMESTAMP_MS - duration_ms
    capped = F.when(timestamp_ms > limit, F.lit(limit)).otherwise(timestamp_ms)
    return capped + F.lit(duration_ms).cast("bigint")
