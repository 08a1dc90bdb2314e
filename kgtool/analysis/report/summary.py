"""The summary of an analysis as a dictionary, from the totals of every log partition."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc  # type: ignore[import-untyped]

from kgtool.analysis import missing_data
from kgtool.analysis.fold.arrays import sum_rows
from kgtool.analysis.pipeline import Analysis
from kgtool.analysis.tables.totals import COUNTS, TOP, growth, merge_families

PROBLEM_FILES = 20
_GROWTH = missing_data.TIMES | missing_data.OFFSETS | missing_data.REMOVED_KEYS
"""Bits of missing data that make the growth unknown."""


def summary(analysis: Analysis, *, with_whatif: bool = False) -> dict[str, Any]:
    """Totals, next expirations, families, growth, removals, quality; ``with_whatif`` scenarios.

    ``overdue`` is None and ``growth`` is empty if the input lacks the data for them.
    """
    basis, as_of_ms = analysis.basis, analysis.end_ms
    kinds = sorted(
        sum_rows(analysis.small("group_kinds"), ["group_type", "group_state"]).to_pylist(),
        key=lambda row: (-row["groups"], str(row["group_type"]), str(row["group_state"])),
    )
    families = merge_families(analysis.small("live_families"))
    late = [row for row in analysis.small("overdue_counts").to_pylist() if row["rows"]]
    is_blind = bool(analysis.missing & missing_data.BLIND)
    has_growth = not analysis.missing & _GROWTH
    return {
        "rules": basis.rules.name,
        "rules_were": [{"from_ms": at, "rules": each.name} for at, each in basis.rule_changes],
        "retention_ms": basis.retention_ms,
        "wrote": [{"from_ms": at, "retention_ms": ms} for at, ms in basis.changes],
        "check_interval_ms": basis.check_interval_ms,
        "as_of_ms": as_of_ms,
        "live_groups": sum(row["groups"] for row in kinds),
        **{
            f"live_{name}" if name == "offsets" else name: sum(row[name] for row in kinds)
            for name in COUNTS
        },
        "overdue": None if is_blind else sum(row["rows"] for row in late),
        "overdue_partitions": [] if is_blind else sorted(row["log_partition"] for row in late),
        "groups_by_state": kinds,
        "next_days": sorted(
            (
                row
                for row in sum_rows(analysis.small("expiring_by_day"), ["day"]).to_pylist()
                if row["offsets"]
            ),
            key=lambda row: int(row["day"]),
        ),
        "expiring_next": sorted(
            (row for row in families if row["next_7d"]),
            key=lambda row: (row["next_expiry_ms"], row["family"]),
        )[:TOP],
        "largest_families": sorted(families, key=lambda row: (-row["offsets"], row["family"]))[
            :TOP
        ],
        "growth": growth(analysis.small("growth"), as_of_ms) if has_growth else [],
        "whatif": analysis.whatif if with_whatif else [],
        "removals": sorted(
            sum_rows(
                analysis.small("removal_counts"), ["cause", "of_offset"], max_of=("max_latency_ms",)
            ).to_pylist(),
            key=lambda row: (not row["of_offset"], str(row["cause"])),
        ),
        "quality": _quality(analysis.quality),
    }


def _quality(quality: Any) -> dict[str, Any]:
    sums = {
        name: pc.sum(quality[name]).as_py() or 0
        for name in ("bytes", "records", "decoded", "skipped")
    }
    files = (row for row in quality.to_pylist() if row["problems"])
    ordered = sorted(files, key=lambda row: (not row["damaged"], row["path"]))
    return {
        "files": len(quality),
        **sums,
        "damaged_files": pc.sum(quality["damaged"]).as_py() or 0,
        "problem_files": [
            {name: row[name] for name in ("path", "damaged", "problems")}
            for row in ordered[:PROBLEM_FILES]
        ],
    }
