"""The summary: what a tired person wants to know, as a dictionary.

Everything here is counted by Spark; only totals, a few top rows and problem files come back.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kgtool.analysis import growth, lacks, schema
from kgtool.analysis.families import with_family
from kgtool.analysis.gather import gather
from kgtool.analysis.pipeline import Analysis, kept
from kgtool.analysis.session import is_tiny
from kgtool.analysis.together import together
from kgtool.analysis.words import DAY_MS, count

TOP = 10
PROBLEM_FILES = 20
_GROWTH = lacks.TIMES | lacks.OFFSETS | lacks.REMOVED_KEYS
"""Without one of these nobody knows what there was when."""
_COUNTS = ("offsets", "due_now", "next_24h", "next_7d", "never", "untold")


def summary(analysis: Analysis, *, days: int = 7, with_whatif: bool = False) -> dict[str, Any]:
    """Totals, what expires next, families, growth, removals, quality; ``with_whatif`` scenarios.

    Of inputs that can't tell it ``overdue`` is None and ``growth`` is empty.

    ``days``: how many days ahead are told one by one.
    """
    basis, as_of_ms = analysis.basis, analysis.end_ms
    groups = kept(_groups(analysis.live, as_of_ms))
    frames = {
        "kinds": _kinds(groups),
        "soon": _soon(groups),
        "largest": _largest(groups),
        "days": _days(analysis.live, as_of_ms, days),
        "removals": _removals(analysis.removals),
        "overdue": _overdue(analysis.table("overdue")),
        "quality": _quality(analysis.quality),
        "problems": _problems(analysis.quality),
    }
    if with_whatif:
        frames["whatif"] = analysis.table("whatif")
    has_growth = not analysis.lacks & _GROWTH
    found, curve = together(
        [
            lambda: gather(frames),
            lambda: growth.curve(analysis.changes, as_of_ms) if has_growth else [],
        ],
        2 if is_tiny(analysis.session) else 1,
    )
    groups.unpersist()
    kinds = sorted(found["kinds"], key=lambda row: (-row["groups"], _text(row)))
    return {
        "rules": basis.rules.name,
        "retention_ms": basis.retention_ms,
        "check_interval_ms": basis.check_interval_ms,
        "as_of_ms": as_of_ms,
        "live_groups": sum(row["groups"] for row in kinds),
        **{f"live_{name}" if name == "offsets" else name: sum(row[name] for row in kinds)
           for name in _COUNTS},
        "overdue": None if analysis.lacks & lacks.BLIND else found["overdue"][0]["rows"],
        "overdue_partitions": sorted(found["overdue"][0]["log_partitions"]),
        "groups_by_state": kinds,
        "next_days": sorted(found["days"], key=lambda row: int(row["day"])),
        "expiring_next": sorted(
            found["soon"], key=lambda row: (row["next_expiry_ms"], row["family"])
        ),
        "largest_families": sorted(
            found["largest"], key=lambda row: (-row["offsets"], row["family"])
        ),
        "growth": curve,
        "whatif": sorted(found.get("whatif", ()), key=_scenario(analysis)),
        "removals": sorted(
            found["removals"], key=lambda row: (not row["of_offset"], str(row["cause"]))
        ),
        "quality": {
            **found["quality"][0],
            "problem_files": sorted(
                found["problems"], key=lambda row: (not row["damaged"], row["path"])
            ),
        },
    }  # fmt: skip


def _text(row: dict[str, Any]) -> tuple[str, str]:
    return str(row["group_type"]), str(row["group_state"])


def _scenario(analysis: Analysis) -> Any:
    """Key that puts what-if rows in the order in which they were asked for."""
    order = {
        (each.rules.name, each.retention_ms, each.interval_ms): number
        for number, each in enumerate(analysis.wanted.scenarios)
    }
    return lambda row: order[row["rules"], row["retention_ms"], row["check_interval_ms"]]


def _groups(live: DataFrame, as_of_ms: int) -> DataFrame:
    due = F.col("expires_at_ms")
    counts: dict[str, Column] = {
        "due_now": due <= as_of_ms,
        "next_24h": due <= as_of_ms + DAY_MS,
        "next_7d": due <= as_of_ms + 7 * DAY_MS,
        "never": due.isNull() & F.col("rule").isNotNull(),
        "untold": F.col("rule").isNull(),
    }
    groups = live.groupBy("log_partition", "group", "group_type", "group_state").agg(
        F.count("*").alias("offsets"),
        *[F.count(F.when(condition, 1)).alias(name) for name, condition in counts.items()],
        F.min(F.when(due <= as_of_ms + 7 * DAY_MS, due)).alias("next_expiry_ms"),
    )
    return with_family(groups)


def _kinds(groups: DataFrame) -> DataFrame:
    return groups.groupBy("group_type", "group_state").agg(
        F.count("*").alias("groups"), *[F.sum(name).alias(name) for name in _COUNTS]
    )


def _by_family(groups: DataFrame) -> DataFrame:
    return groups.groupBy("family").agg(
        F.count("*").alias("groups"),
        *[F.sum(name).alias(name) for name in _COUNTS],
        F.min("next_expiry_ms").alias("next_expiry_ms"),
    )


def _soon(groups: DataFrame) -> DataFrame:
    expiring = _by_family(groups).where(F.col("next_7d") > 0)
    return expiring.orderBy("next_expiry_ms", "family").limit(TOP)


def _largest(groups: DataFrame) -> DataFrame:
    return _by_family(groups).orderBy(F.desc("offsets"), "family").limit(TOP)


def _days(live: DataFrame, as_of_ms: int, days: int) -> DataFrame:
    """What comes due on each of the next days; day 1 is the next 24 h."""
    due = F.col("expires_at_ms")
    ahead = live.where((due > as_of_ms) & (due <= as_of_ms + days * DAY_MS))
    # ceil: an offset due exactly 24 h ahead belongs to the first day, as in next_24h.
    day = F.ceil((due - as_of_ms) / F.lit(DAY_MS)).cast("int")
    return ahead.groupBy(day.alias("day")).agg(
        F.count("*").alias("offsets"), F.countDistinct("log_partition", "group").alias("groups")
    )


def _removals(removals: DataFrame) -> DataFrame:
    return removals.groupBy("cause", F.col("topic").isNotNull().alias("of_offset")).agg(
        F.count("*").alias("removals"), F.max("latency_ms").alias("max_latency_ms")
    )


def _overdue(overdue: DataFrame) -> DataFrame:
    return overdue.agg(
        F.count("*").alias("rows"), F.collect_set("log_partition").alias("log_partitions")
    )


def _quality(quality: DataFrame) -> DataFrame:
    counts = ("bytes", "records", "decoded", "skipped")
    return quality.agg(
        F.count("*").alias("files"),
        *[F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in counts],
        F.count(F.when(F.col("damaged"), 1)).alias("damaged_files"),
    )


def _problems(quality: DataFrame) -> DataFrame:
    found = quality.where(F.size("problems") > 0).orderBy(F.desc("damaged"), "path")
    return found.select("path", "damaged", "problems").limit(PROBLEM_FILES)


def damaged_files(quality: DataFrame, limit: int) -> list[dict[str, Any]]:
    """Path, records read and problems of the first ``limit`` damaged files."""
    found = quality.where("damaged").orderBy("path").limit(limit)
    names = schema.names(schema.QUALITY)
    return [row.asDict(recursive=True) for row in found.select(*names).collect()]


def problem_text(problem: dict[str, Any]) -> str:
    """One problem of a file in words."""
    parts = [problem["reason"]]
    if problem["records"]:
        parts.append(count(problem["records"], "record"))
    if problem["bytes"]:
        parts.append(f"{problem['bytes']:,} bytes at {problem['position']:,}")
    return ", ".join(parts)
