"""What the HTML report shows: a dictionary that fits into JSON.

Of tables only the first rows come back, those that matter most; everything else is totals.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import growth, lacks, schema
from kgtool.analysis.fold.arrays import ints
from kgtool.analysis.pipeline import Analysis
from kgtool.analysis.summary import summary
from kgtool.analysis.tables.totals import (
    FAMILIES,
    ROWS,
    SIZES,
    first_rows,
    merged_families,
)
from kgtool.analysis.words import DAY_MS, duration

LONGEST = 300
"""Characters of a name: Kafka lets a group's have 32,767 bytes."""
BUCKETS = 1500
"""Of the metrics' charts."""
EXACT = 1 << 53
"""Up to here a browser's numbers are exact."""
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
    days = days_ahead(analysis.wanted.horizon_ms)
    facts = summary(analysis, with_whatif=True)
    live = facts["live_offsets"]
    bucket_ms = _bucket_ms(analysis.wanted.bucket_ms, facts)
    sizes = analysis.small("sizes")
    sums = [("groups", "sum"), *((name, "sum") for name in SIZES), ("last_seen_ms", "max")]
    families = sorted(
        merged_families(sizes, sums, "groups"),
        key=lambda row: (-row["live_offsets"], -row["groups"], row["family"]),
    )[:FAMILIES]
    return {
        "cluster_id": cluster_id,
        "summary": facts,
        "untold": lacks.words(analysis.lacks),
        "as_of_ms": facts["as_of_ms"],
        "bucket_ms": bucket_ms,
        "growth": _columns(facts["growth"], ("at_ms", "offsets", "groups")),
        "days": _days(facts["next_days"], days) if facts["untold"] < live or not live else [],
        "families": [
            {**{name: value for name, value in row.items() if name != "name"},
             "family": _cut(row["family"])}
            for row in families
        ],
        "whatif": [_scenario(row, analysis) for row in facts["whatif"]],
        "scenario_columns": [_column(name) for name in _SCENARIO],
        "metrics": _columns(
            _every_bucket(_buckets(analysis.metrics, bucket_ms), bucket_ms),
            ("bucket_start_ms", *_COUNTERS),
        ),
        "tables": [
            _table(name, _first_rows(analysis, name), total)
            for name, total in _totals(facts, analysis.count("groups", "group")).items()
        ],
    }  # fmt: skip


def days_ahead(horizon_ms: int) -> int:
    """How many days the report looks ahead."""
    return max(1, min(horizon_ms // DAY_MS, MOST_DAYS))


# --- tables --------------------------------------------------------------------------------------


def _first_rows(analysis: Analysis, name: str) -> list[dict[str, Any]]:
    if name == "quality":
        rows: list[dict[str, Any]] = analysis.quality.to_pylist()
        rows.sort(key=lambda row: (not row["damaged"], row["path"]))
        for row in rows:
            row["reasons"] = "; ".join(dict.fromkeys(each["reason"] for each in row["problems"]))
    elif analysis.lacks & lacks.BLIND and name in ("overdue", "losses"):
        rows = []
    else:
        found = analysis.small(f"first {name}")
        rows = first_rows(name, found).to_pylist() if len(found) else []
    for row in rows[:ROWS]:
        if name == "groups" and row["family"] not in analysis.families:
            row["family"] = row["group"]
        row.update({text: _cut(row[text]) for text in (*NAMES, "reasons") if row.get(text)})
    return rows[:ROWS]


def _cut(text: str) -> str:
    """A name with an ellipsis where it is too long to be shown."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


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


def _buckets(metrics: Any, bucket_ms: int) -> list[dict[str, Any]]:
    start = ints(metrics["bucket_start_ms"]) // bucket_ms * bucket_ms
    rows = metrics.set_column(0, "bucket_start_ms", pa.array(start))
    found = rows.group_by("bucket_start_ms").aggregate([(name, "sum") for name in _COUNTERS])
    found = found.select(["bucket_start_ms", *(f"{name}_sum" for name in _COUNTERS)])
    found = found.rename_columns(["bucket_start_ms", *_COUNTERS])
    last = found.sort_by([("bucket_start_ms", "descending")]).slice(0, BUCKETS)
    buckets: list[dict[str, Any]] = last.to_pylist()
    return buckets


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
