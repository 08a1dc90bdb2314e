"""The content of the HTML report: a dictionary of totals for JSON, and the rows of the tables.

Rows come as ``blocks``, the most important first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import missing_data, schema
from kgtool.analysis.fold.arrays import ints, sum_rows
from kgtool.analysis.pipeline import Analysis
from kgtool.analysis.report import blocks
from kgtool.analysis.report.blocks import cut
from kgtool.analysis.report.summary import summary
from kgtool.analysis.tables.metrics import COUNTS
from kgtool.analysis.tables.totals import FAMILIES, merge_families, step_ms
from kgtool.analysis.words import DAY_MS, duration

BUCKETS = 1500
"""Maximum points of a metrics chart."""
MOST_DAYS = 92
"""Maximum days of the chart of days ahead."""
CURVE_DAYS = 366
"""Maximum days of a what-if curve."""


class TableView(NamedTuple):
    """How the report shows a table."""

    title: str
    note: str = ""
    best: tuple[tuple[str, str], ...] = ()
    """Its order: columns, each with a direction; nulls come last. No two rows are equal in all of
    these columns, so that every report has the same order."""
    commands: tuple[tuple[str, ...], ...] = ()
    """Commands about a row; the first one whose ``{column}`` values are all known is shown."""


def _by(*columns: str) -> tuple[tuple[str, str], ...]:
    """An order; a minus before a column means descending."""
    return tuple(
        (each.removeprefix("-"), "descending" if each[0] == "-" else "ascending")
        for each in columns
    )


_EXPLAIN = ("kgtool", "explain", "--group", "{group}")
_DESCRIBE = (
    "kgtool",
    "describe",
    "--group",
    "{group}",
    "--topic",
    "{topic}:{partition}",
    "--expiry",
)
_KEEP = ("kgtool", "keep", "--group", "{group}", "--dry-run")
_LIST = ("kgtool", "list", "--match", "{family}")
_COORDINATOR = ("kgtool", "coordinator", "--group", "{group}")
SHOWN: Final = {
    "groups": TableView(
        "Groups seen",
        "most live offsets first",
        _by("-live_offsets", "group", "log_partition"),
        (_EXPLAIN,),
    ),
    "live": TableView(
        "Live offsets",
        "first to expire first",
        _by("expires_at_ms", "group", "topic", "partition"),
        (_DESCRIBE,),
    ),
    "losses": TableView(
        "Would have lost",
        "what was committed again later first",
        _by(
            "committed_again_ms",
            "lost_at_ms",
            "group",
            "topic",
            "partition",
            "rules",
            "retention_ms",
            "check_interval_ms",
        ),
        (_KEEP,),
    ),
    "removals": TableView(
        "Removals",
        "latest first",
        _by("-removed_at_ms", "group", "topic", "partition", "cause", "expires_at_ms"),
        (_EXPLAIN,),
    ),
    "overdue": TableView(
        "Overdue",
        "longest overdue first",
        _by("-overdue_ms", "group", "topic", "partition"),
        (_COORDINATOR,),
    ),
    "partitions": TableView("Partitions", "largest first", _by("-bytes", "log_partition")),
    "writers": TableView(
        "Writers", "most commits first", _by("-commits", "bucket_ms", "family"), (_LIST,)
    ),
    "transactions": TableView(
        "Open transactions",
        "oldest first",
        _by("since_ms", "group", "producer_id", "producer_epoch"),
        (_EXPLAIN,),
    ),
    "orphans": TableView("Orphans", "", _by("group", "topic", "partition"), (_DESCRIBE,)),
    "gaps": TableView("Gaps", "longest first", _by("-longest_gap_ms", "family"), (_LIST,)),
    "upgrades": TableView(
        "Upgrade to KIP-848", "most offsets lost first", _by("-lost_offsets", "group"), (_EXPLAIN,)
    ),
    "quality": TableView(
        "Files",
        "damaged ones first",
        commands=(("kgtool", "analyze", "{path}", "--table", "quality"),),
    ),
}
"""The report's tables, in this order; those that were not computed are left out."""
SPANS: Final = (
    "retention_ms",
    "check_interval_ms",
    "latency_ms",
    "overdue_ms",
    "longest_gap_ms",
    "safe_retention_ms",
)
NAMES: Final = ("group", "family", "topic", "path")
_FIRST: Final = (
    "group",
    "topic",
    "partition",
    "group_state",
    "members",
    "live_offsets",
    "next_expiry_ms",
    "expires_at_ms",
    "last_commit_ms",
    "last_seen_ms",
    "offset",
)
"""What decides stands first, also in what is printed."""
_LEFT_OUT: Final = ("problems", "topic_id", "days")


def collect(analysis: Analysis, cluster_id: str | None) -> dict[str, Any]:
    """The dictionary of the report."""
    days = days_ahead(analysis.options.horizon_ms)
    facts = summary(analysis, with_whatif=True)
    live = facts["live_offsets"]
    bucket_ms = _bucket_ms(analysis.options.bucket_ms, facts)
    families = sorted(
        merge_families(analysis.small("family_sizes")),
        key=lambda row: (-row["live_offsets"], -row["groups"], row["family"]),
    )[:FAMILIES]
    return {
        "cluster_id": cluster_id,
        "summary": facts,
        "untold": missing_data.words(analysis.missing),
        "as_of_ms": facts["as_of_ms"],
        "bucket_ms": bucket_ms,
        "growth": _columns(facts["growth"], ("at_ms", "offsets", "groups")),
        "days": _days(facts["next_days"], days) if facts["untold"] < live or not live else [],
        "families": [{**row, "family": cut(row["family"])} for row in families],
        "whatif": [_scenario(row, analysis) for row in facts["whatif"]],
        "scenario_columns": [column(name) for name in _SCENARIO],
        "metrics": _columns(_buckets(analysis.metrics, bucket_ms), ("bucket_start_ms", *COUNTS)),
        "tables": [
            table(name, _total(analysis, name, facts)) for name in SHOWN if name in analysis.names()
        ],
    }


def rows(analysis: Analysis, name: str) -> Iterator[bytes]:
    """The blocks of a table, up to the report's limit."""
    make = partial(blocks.blocks, _names(name))
    found = (
        make([_files(analysis.quality)])
        if name == "quality"
        else analysis.mapped(name, SHOWN[name].best, make)
    )
    return blocks.bounded(found)


def days_ahead(horizon_ms: int) -> int:
    """How many days the report looks ahead."""
    return max(1, min(horizon_ms // DAY_MS, MOST_DAYS))


# --- tables --------------------------------------------------------------------------------------


def _total(analysis: Analysis, name: str, facts: dict[str, Any]) -> int:
    """Number of rows of a table; the summary has counted most."""
    known: dict[str, int] = {
        "live": facts["live_offsets"],
        "losses": sum(row["removed_offsets"] + row["next_offsets"] for row in facts["whatif"]),
        "removals": sum(row["removals"] for row in facts["removals"]),
        "overdue": facts["overdue"] or 0,
        "quality": facts["quality"]["files"],
    }
    if name in known:
        return known[name]
    # A table whose rows are added up has fewer rows than its log partitions gave.
    return analysis.count(name)


def _names(name: str) -> list[str]:
    names = [column for column in schema.TABLES[name].names if column not in _LEFT_OUT]
    names.sort(key=lambda column: _FIRST.index(column) if column in _FIRST else len(_FIRST))
    return names + ["reasons"] if name == "quality" else names


def table(name: str, total: int, names: Sequence[str] | None = None) -> dict[str, Any]:
    """The description of a table, without its rows."""
    shown = SHOWN[name]
    return {
        "name": name,
        "title": shown.title,
        "note": shown.note,
        "total": total,
        "columns": [column(each) for each in names or _names(name)],
        "commands": shown.commands,
    }


def _files(quality: pa.Table) -> pa.Table:
    """The files, damaged ones first, with their problems in words."""
    reasons = [
        "; ".join(dict.fromkeys(each["reason"] for each in problems))
        for problems in quality["problems"].to_pylist()
    ]
    found = quality.append_column("reasons", pa.array(reasons, pa.string()))
    return found.sort_by([("damaged", "descending"), ("path", "ascending")])


def column(name: str) -> dict[str, str]:
    """A column's name, label and kind."""
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
    for name, kind in table.columns
    if kind in ("int", "bigint", "boolean")
}


# --- charts --------------------------------------------------------------------------------------


def _columns(rows: list[dict[str, Any]], names: tuple[str, ...]) -> list[list[Any]]:
    """Rows as columns, the first one in seconds, for charts."""
    first, *others = names
    return [[row[first] / 1000 for row in rows], *[[row[name] for row in rows] for name in others]]


def _bucket_ms(wanted_ms: int | None, facts: dict[str, Any]) -> int:
    """Bucket size of the metrics' charts: the option's, or a multiple of it that fits a screen."""
    assert wanted_ms is not None
    curve = facts["growth"]
    step = step_ms(facts["as_of_ms"] - curve[0]["at_ms"]) if curve else 0
    return max(-(-step // wanted_ms), 1) * wanted_ms


def _buckets(metrics: pa.Table, bucket_ms: int) -> list[dict[str, Any]]:
    """Rows of the last BUCKETS buckets, in order, including empty ones."""
    start = ints(metrics["bucket_start_ms"]) // bucket_ms * bucket_ms
    rows = metrics.select(COUNTS).add_column(0, "bucket_start_ms", pa.array(start))
    known = {row["bucket_start_ms"]: row for row in sum_rows(rows, ["bucket_start_ms"]).to_pylist()}
    if not known:
        return []
    last = max(known)
    first = max(min(known), last - (BUCKETS - 1) * bucket_ms)
    nothing = dict.fromkeys(COUNTS, 0)
    return [
        {**nothing, **known.get(at, {}), "bucket_start_ms": at}
        for at in range(first, last + 1, bucket_ms)
    ]


def _days(rows: list[dict[str, Any]], days: int) -> list[dict[str, Any]]:
    known = {row["day"]: row for row in rows}
    empty = {"offsets": 0, "groups": 0}
    return [{**empty, **known.get(day, {}), "day": day} for day in range(1, days + 1)]


_SCENARIO: Final = (
    "rules",
    "retention_ms",
    "check_interval_ms",
    "removed_offsets",
    "missed_offsets",
    "removed_groups",
    "live_offsets",
    "live_groups",
    "next_offsets",
)


def _scenario(row: dict[str, Any], analysis: Analysis) -> dict[str, Any]:
    basis = analysis.basis
    is_basis = (row["rules"], row["retention_ms"], row["check_interval_ms"]) == (
        basis.rules.name,
        basis.retention_ms,
        basis.check_interval_ms,
    )
    scenarios = analysis.options.scenarios
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
    """At most CURVE_DAYS days, evenly spaced, including the last one."""
    step = -(-len(days) // CURVE_DAYS)
    return days[::-1][::step][::-1] if days else []
