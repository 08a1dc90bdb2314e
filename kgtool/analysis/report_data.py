"""What the HTML report shows: a dictionary that fits into JSON, counted by Spark.

Of tables only the first rows come back, those that matter most; everything else is totals.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kgtool.analysis import growth, lacks, schema
from kgtool.analysis.gather import gather
from kgtool.analysis.pipeline import Analysis
from kgtool.analysis.summary import summary
from kgtool.analysis.words import DAY_MS, duration

ROWS = 2000
"""Of a table: what a browser sorts and searches at once."""
LONGEST = 300
"""Characters of a name: Kafka lets a group's have 32,767 bytes."""
BUCKETS = 1500
"""Of the metrics' charts."""
EXACT = 1 << 53
"""Up to here a browser's numbers are exact."""
FAMILIES = 14
MOST_DAYS = 92
"""Ahead."""
CURVE_DAYS = 366
"""Of each what-if curve, at most."""
TITLES: Final = {
    "groups": ("Groups", "most offsets first"),
    "live": ("Live offsets", "first to expire first"),
    "losses": ("Losses", "what was committed again later first"),
    "removals": ("Removals", "latest first"),
    "overdue": ("Overdue", "longest overdue first"),
    "quality": ("Files", "damaged ones first"),
}
SPANS: Final = ("retention_ms", "check_interval_ms", "latency_ms", "overdue_ms", "bucket_ms")
NAMES: Final = ("group", "family", "topic", "path")
_LEFT_OUT: Final = ("problems", "topic_id", "days")


def collect(analysis: Analysis, cluster_id: str | None) -> dict[str, Any]:
    """Everything that the report shows."""
    days = max(1, min(analysis.wanted.horizon_ms // DAY_MS, MOST_DAYS))
    facts = summary(analysis, days=days, with_whatif=True)
    live = facts["live_offsets"]
    bucket_ms = _bucket_ms(analysis.wanted.bucket_ms, facts)
    families = analysis.groups.transform(growth.family_sizes(FAMILIES))
    found = gather(
        {
            **{f"rows {name}": _first_rows(analysis, name) for name in TITLES},
            "groups": analysis.groups.agg(F.count("*").alias("rows")),
            "families": families.withColumn("family", _cut("family")),
            "metrics": _buckets(analysis.table("metrics"), bucket_ms),
        }
    )
    return {
        "cluster_id": cluster_id,
        "summary": facts,
        "untold": lacks.words(analysis.lacks),
        "as_of_ms": facts["as_of_ms"],
        "bucket_ms": bucket_ms,
        "growth": _columns(facts["growth"], ("at_ms", "offsets", "groups")),
        "days": _days(facts["next_days"], days) if facts["untold"] < live or not live else [],
        "families": sorted(
            found["families"], key=lambda row: (-row["live_offsets"], row["family"])
        ),
        "whatif": [_scenario(row, analysis) for row in facts["whatif"]],
        "scenario_columns": [_column(name) for name in _SCENARIO],
        "metrics": _columns(
            _every_bucket(found["metrics"], bucket_ms), ("bucket_start_ms", *_COUNTERS)
        ),
        "tables": [
            _table(name, found[f"rows {name}"], total)
            for name, total in _totals(facts, found["groups"][0]["rows"]).items()
        ],
    }


# --- tables --------------------------------------------------------------------------------------


def _first_rows(analysis: Analysis, name: str) -> DataFrame:
    frame = analysis.table(name)
    if name == "quality":
        reasons = F.transform("problems", lambda problem: problem["reason"])
        frame = frame.withColumn("reasons", F.array_join(F.array_distinct(reasons), "; "))
    orders: dict[str, list[Column]] = {
        "groups": [F.desc("live_offsets"), F.col("group")],
        "live": [F.asc_nulls_last("expires_at_ms"), F.col("group")],
        "losses": [F.asc_nulls_last("committed_again_ms"), F.col("lost_at_ms")],
        "removals": [F.desc("removed_at_ms"), F.col("group")],
        "overdue": [F.desc("overdue_ms"), F.col("group")],
        "quality": [F.desc("damaged"), F.col("path")],
    }
    kept = [column for column in frame.columns if column not in _LEFT_OUT]
    first = frame.select(*kept).orderBy(*orders[name]).limit(ROWS)
    names = {column: _cut(column) for column in (*NAMES, "reasons") if column in kept}
    return first.withColumns({**names, "#": F.monotonically_increasing_id()})


def _cut(name: str) -> Column:
    """A name with an ellipsis where it is too long to be shown."""
    text = F.col(name)
    short = F.concat(F.substring(text, 1, LONGEST - 1), F.lit("…"))
    return F.when(F.length(text) > LONGEST, short).otherwise(text)


def _totals(facts: dict[str, Any], groups: int) -> dict[str, int]:
    """How many rows each table has: all but one were counted already."""
    return {
        "groups": groups,
        "live": facts["live_offsets"],
        "losses": sum(row["removed_offsets"] + row["next_offsets"] for row in facts["whatif"]),
        "removals": sum(row["removals"] for row in facts["removals"]),
        "overdue": facts["overdue"] or 0,
        "quality": facts["quality"]["files"],
    }


def _table(name: str, rows: list[dict[str, Any]], total: int) -> dict[str, Any]:
    names = [column for column in schema.names(schema.TABLES[name]) if column not in _LEFT_OUT]
    names += ["reasons"] if name == "quality" else []
    title, note = TITLES[name]
    rows.sort(key=lambda row: int(row["#"]))
    return {
        "name": name,
        "title": title,
        "note": note,
        "total": total,
        "columns": [_column(column) for column in names],
        "rows": [[_exact(row[column]) for column in names] for row in rows],
    }


def _exact(value: Any) -> Any:
    return str(value) if isinstance(value, int) and abs(value) > EXACT else value


def _column(name: str) -> dict[str, str]:
    if name in SPANS:
        kind = "span"
    elif name.endswith("_ms"):
        kind = "moment"
    elif name == "bytes":
        kind = "bytes"
    else:
        kind = "name" if name in NAMES else _KINDS.get(name, "text")
    label = name.removesuffix("_ms").replace("_", " ")
    return {"name": name, "label": label, "kind": kind}


_KINDS: Final = {
    name: "bool" if kind == "boolean" else "int"
    for table in schema.TABLES.values()
    for name, kind in table
    if kind in ("int", "bigint", "boolean")
}


# --- charts --------------------------------------------------------------------------------------


def _columns(rows: list[dict[str, Any]], names: tuple[str, ...]) -> list[list[Any]]:
    """Rows as columns, the first one in seconds, as charts want it."""
    first, *others = names
    return [[row[first] / 1000 for row in rows], *[[row[name] for row in rows] for name in others]]


_COUNTERS: Final = (
    "offset_commits", "offset_expirations", "offset_deletions", "group_completed_rebalances",
)  # fmt: skip


def _bucket_ms(wanted_ms: int | None, facts: dict[str, Any]) -> int:
    """The buckets of the metrics' charts: as wanted, or as many in one as a screen needs."""
    assert wanted_ms is not None
    curve = facts["growth"]
    step = growth.step_ms(facts["as_of_ms"] - curve[0]["at_ms"]) if curve else 0
    return max(-(-step // wanted_ms), 1) * wanted_ms


def _buckets(metrics: DataFrame, bucket_ms: int) -> DataFrame:
    at = F.col("bucket_start_ms")
    start = at - F.pmod(at, F.lit(bucket_ms))
    sums = metrics.groupBy(start.alias("bucket_start_ms")).agg(
        *[F.sum(name).alias(name) for name in _COUNTERS]
    )
    return sums.orderBy(F.desc("bucket_start_ms")).limit(BUCKETS)


def _every_bucket(rows: list[dict[str, Any]], bucket_ms: int) -> list[dict[str, Any]]:
    """In order, and with those in which nothing happened, as far as they are not too many."""
    known = {int(row["bucket_start_ms"]): row for row in rows}
    if not known:
        return []
    last = max(known)
    first = max(min(known), last - (BUCKETS - 1) * bucket_ms)
    nothing = dict.fromkeys(_COUNTERS, 0)
    return [
        {**nothing, **known.get(at, {}), "bucket_start_ms": at}
        for at in range(first, last + 1, bucket_ms)
    ]


def _days(rows: list[dict[str, Any]], days: int) -> list[dict[str, Any]]:
    known = {row["day"]: row for row in rows}
    empty = {"offsets": 0, "groups": 0}
    return [{**empty, **known.get(day, {}), "day": day} for day in range(1, days + 1)]


_SCENARIO: Final = (
    "rules", "retention_ms", "check_interval_ms", "removed_offsets", "missed_offsets",
    "removed_groups", "live_offsets", "live_groups", "next_offsets",
)  # fmt: skip


def _scenario(row: dict[str, Any], analysis: Analysis) -> dict[str, Any]:
    basis = analysis.basis
    is_basis = (row["rules"], row["retention_ms"], row["check_interval_ms"]) == (
        basis.rules.name, basis.retention_ms, basis.check_interval_ms,
    )  # fmt: skip
    scenarios = analysis.wanted.scenarios
    parts = [duration(row["retention_ms"])]
    if len({each.rules.name for each in scenarios}) > 1:
        parts.insert(0, row["rules"])
    if len({each.interval_ms for each in scenarios}) > 1:
        parts.append(f"every {duration(row['check_interval_ms'])}")
    return {
        "name": ", ".join(parts) + (" (as it was)" if is_basis else ""),
        "is_basis": is_basis,
        "days": [
            {"day_ms": day["day_ms"], "live_offsets": day["live_offsets"]}
            for day in _thinned(row["days"])
        ],
        "cells": [row[name] for name in _SCENARIO],
    }


def _thinned(days: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every so-manieth day, the last one among them, so that a curve is no longer than a screen."""
    step = -(-len(days) // CURVE_DAYS)
    return days[::-1][::step][::-1] if days else []
