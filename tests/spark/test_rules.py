"""The rules as columns say what the rules in plain Python say."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import functions as F

from kgtool.analysis.expire import Snapshot, subscribed, verdict
from kgtool.retention import rules as r

pytestmark = pytest.mark.spark

SCHEMA = (
    "known boolean, group_type string, group_state string, protocol_type string, "
    "state_since_ms bigint, topics array<string>, topic string, commit_timestamp_ms bigint, "
    "expire_timestamp_ms bigint, pending boolean"
)
RETENTION_MS = 60_000
SETS = {**r.RULE_SETS, "2.1.x": r.RULES_2_1_X}


def _snapshots(count: int) -> list[tuple[Any, ...]]:
    rng = random.Random(20)
    times = [0, 1, 59_999, 10**12, 2**62, r.MAX_TIMESTAMP_MS - 1, r.MAX_TIMESTAMP_MS]
    states = [r.STATE_EMPTY, r.STATE_STABLE, r.STATE_PREPARING_REBALANCE,
              r.STATE_COMPLETING_REBALANCE, r.STATE_DEAD]  # fmt: skip
    types = [r.TYPE_CLASSIC, r.TYPE_CLASSIC, r.TYPE_CONSUMER, r.TYPE_SHARE, r.TYPE_STREAMS]
    return [
        (
            True, rng.choice(types), rng.choice(states), rng.choice(["", "consumer", "connect"]),
            rng.choice([None, -1, *times]), rng.choice([None, [], ["t1"], ["t1", "t2"]]),
            rng.choice(["t1", "t2"]), rng.choice(times), rng.choice([None, None, -1, *times]),
            rng.random() < 0.3,
        )
        if rng.random() > 0.05
        else (False, None, None, None, None, None, "t1", rng.choice(times), None, False)
        for _ in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_same_verdict_as_the_specification(spark: Any, name: str) -> None:
    rules = SETS[name]
    rows = _snapshots(2000)
    frame = spark.createDataFrame([(i, *row) for i, row in enumerate(rows)], f"id int, {SCHEMA}")
    snapshot = Snapshot(*[F.col(field) for field in Snapshot._fields])
    found = {
        row.id: (row.v.expires_at_ms, row.v.rule)
        for row in frame.select("id", verdict(rules, snapshot, RETENTION_MS).alias("v")).collect()
    }
    for i, row in enumerate(rows):
        known, kind, state, protocol, since, topics, topic, cts, ets, pending = row
        group = r.GroupSnapshot(
            kind, state, protocol, since, None if topics is None else frozenset(topics)
        )
        offset = r.CommittedOffset(cts, ets)
        expected = r.verdict(rules, group if known else None, offset, topic, RETENTION_MS, pending)
        assert found[i] == tuple(expected), (rules.name, row)
    assert {rule for _, rule in found.values()} >= {r.RULE_EXPLICIT, r.RULE_COMMIT}


def test_subscribed_is_unknown_where_the_subscription_is(spark: Any) -> None:
    rows = [
        (r.TYPE_CONSUMER, r.STATE_STABLE, "", ["t1"], True),
        (r.TYPE_CONSUMER, r.STATE_STABLE, "", ["t2"], False),
        (r.TYPE_CLASSIC, r.STATE_STABLE, "consumer", None, None),
        (r.TYPE_CLASSIC, r.STATE_EMPTY, "consumer", None, False),
        (r.TYPE_CLASSIC, r.STATE_EMPTY, "", None, False),
    ]
    frame = spark.createDataFrame(
        rows, "group_type string, group_state string, protocol_type string, "
        "topics array<string>, expected boolean",
    ).withColumn("topic", F.lit("t1"))  # fmt: skip
    fields = {name: F.lit(None) for name in Snapshot._fields}
    fields |= {name: F.col(name) for name in frame.columns if name in fields}
    for row in frame.withColumn("found", subscribed(Snapshot(**fields))).collect():
        assert row.found == row.expected, row
