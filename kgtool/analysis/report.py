"""The summary: what a tired person wants to know, as a dictionary and as text.

Everything here is counted by Spark; only totals, a few top rows and problem files come back.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kgtool.analysis.pipeline import Analysis

DAY_MS = 86_400_000
TOP = 10
PROBLEM_FILES = 20
WIDEST = 50
"""Characters of a name in the text summary."""


def summary(analysis: Analysis, as_of_ms: int) -> dict[str, Any]:
    """Totals, what expires next after ``as_of_ms``, the largest groups, removals, quality."""
    basis = analysis.basis
    return {
        "rules": basis.rules.name,
        "retention_ms": basis.retention_ms,
        "check_interval_ms": basis.check_interval_ms,
        "as_of_ms": as_of_ms,
        **_live(analysis.live, as_of_ms),
        "removals": _removals(analysis.removals),
        "quality": _quality(analysis.quality),
    }


def _live(live: DataFrame, as_of_ms: int) -> dict[str, Any]:
    due = F.col("expires_at_ms")
    groups = live.groupBy("group", "group_type", "group_state").agg(
        F.count("*").alias("offsets"),
        F.sum((due <= as_of_ms).cast("int")).alias("overdue"),
        F.sum((due <= as_of_ms + DAY_MS).cast("int")).alias("next_24h"),
        F.sum((due <= as_of_ms + 7 * DAY_MS).cast("int")).alias("next_7d"),
        F.sum((due.isNull() & F.col("rule").isNotNull()).cast("int")).alias("never"),
        F.sum(F.col("rule").isNull().cast("int")).alias("untold"),
        F.min(due).alias("next_expiry_ms"),
    )
    counts = ("offsets", "overdue", "next_24h", "next_7d", "never", "untold")
    groups = groups.fillna(0, subset=list(counts)).persist()
    kinds = _rows(
        groups.groupBy("group_type", "group_state").agg(
            F.count("*").alias("groups"), *[F.sum(name).alias(name) for name in counts]
        )
    )
    kinds.sort(key=lambda row: (-row["groups"], str(row["group_type"]), str(row["group_state"])))
    soon = groups.where(F.col("next_7d") > 0).orderBy("next_expiry_ms", "group").limit(TOP)
    largest = groups.orderBy(F.col("offsets").desc(), "group").limit(TOP)
    result = {
        "live_groups": sum(row["groups"] for row in kinds),
        "live_offsets": sum(row["offsets"] for row in kinds),
        **{name: sum(row[name] for row in kinds) for name in counts[1:]},
        "groups_by_state": kinds,
        "next_days": _days(live, as_of_ms),
        "expiring_groups": _rows(soon),
        "largest_groups": _rows(largest),
    }
    groups.unpersist()
    return result


def _days(live: DataFrame, as_of_ms: int) -> list[dict[str, Any]]:
    """Offsets and groups that come due on each of the next seven days; day 1 is the next 24 h."""
    due = F.col("expires_at_ms")
    ahead = live.where((due > as_of_ms) & (due <= as_of_ms + 7 * DAY_MS))
    # ceil: an offset due exactly 24 h ahead belongs to the first day, as in next_24h.
    day = F.ceil((due - as_of_ms) / F.lit(DAY_MS)).cast("int")
    rows = ahead.groupBy(day.alias("day")).agg(
        F.count("*").alias("offsets"), F.countDistinct("group").alias("groups")
    )
    return sorted(_rows(rows), key=lambda row: row["day"])


def _removals(removals: DataFrame) -> list[dict[str, Any]]:
    rows = removals.groupBy("cause", F.col("topic").isNotNull().alias("of_offset")).agg(
        F.count("*").alias("removals"), F.max("latency_ms").alias("max_latency_ms")
    )
    return sorted(_rows(rows), key=lambda row: (not row["of_offset"], str(row["cause"])))


def _quality(quality: DataFrame) -> dict[str, Any]:
    counts = ("bytes", "records", "decoded", "skipped")
    totals = quality.agg(
        F.count("*").alias("files"),
        *[F.sum(name).alias(name) for name in counts],
        F.sum(F.col("damaged").cast("int")).alias("damaged_files"),
    )
    problems = quality.where(F.size("problems") > 0).orderBy(F.desc("damaged"), "path")
    return {
        **_rows(totals)[0],
        "problem_files": _rows(problems.select("path", "problems").limit(PROBLEM_FILES)),
    }


def damaged_files(quality: DataFrame, limit: int) -> list[dict[str, Any]]:
    """Path, records read and problems of the first ``limit`` damaged files."""
    found = quality.where("damaged").orderBy("path").limit(limit)
    return _rows(found.select("path", "records", "decoded", "problems"))


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


# --- text ----------------------------------------------------------------------------------------


def text(facts: dict[str, Any]) -> str:
    """The summary for people; names are not escaped, the caller does that."""
    quality = facts["quality"]
    lines = [
        f"Log      {quality['files']:,} files, {_size(quality['bytes'])}, "
        f"{quality['records']:,} records, until {when(facts['as_of_ms'])}",
        f"Rules    {facts['rules']}: retention {duration(facts['retention_ms'])}, checked every "
        f"{duration(facts['check_interval_ms'])}",
        f"Live     {_count(facts['live_offsets'], 'offset')} of "
        f"{_count(facts['live_groups'], 'group')}",
        f"Expires  within 24 h {facts['next_24h']:,} (of these {facts['overdue']:,} due already), "
        f"within 7 days {facts['next_7d']:,}, never as things stand {facts['never']:,}"
        + (f", can't be told {facts['untold']:,}" if facts["untold"] else ""),
    ]
    return "\n".join([*lines, *_live_tables(facts), *_removal_table(facts), *_problems(quality)])


def _live_tables(facts: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    lines += _table(
        "Live groups", ("TYPE", "STATE", "GROUPS", "OFFSETS", "24H", "7D", "NEVER"),
        [
            (r["group_type"] or "unknown", r["group_state"] or "orphaned offsets", r["groups"],
             r["offsets"], r["next_24h"], r["next_7d"], r["never"])
            for r in facts["groups_by_state"]
        ],
    )  # fmt: skip
    lines += _table(
        "Expiring next", ("GROUP", "OFFSETS", "24H", "7D", "FIRST"),
        [
            (r["group"], r["offsets"], r["next_24h"], r["next_7d"], when(r["next_expiry_ms"]))
            for r in facts["expiring_groups"]
        ],
    )  # fmt: skip
    lines += _table(
        "Days ahead", ("DAY", "OFFSETS", "GROUPS"),
        [(f"until {when(facts['as_of_ms'] + r['day'] * DAY_MS)}", r["offsets"], r["groups"])
         for r in facts["next_days"]],
    )  # fmt: skip
    lines += _table(
        "Largest groups", ("GROUP", "TYPE", "STATE", "OFFSETS"),
        [(r["group"], r["group_type"] or "unknown", r["group_state"] or "-", r["offsets"])
         for r in facts["largest_groups"]],
    )  # fmt: skip
    return lines


def _removal_table(facts: dict[str, Any]) -> list[str]:
    return _table(
        "Removed so far", ("WHAT", "CAUSE", "REMOVALS", "LATEST AFTER DUE"),
        [
            ("offsets" if r["of_offset"] else "groups", r["cause"] or "not in the log",
             r["removals"], duration(r["max_latency_ms"]) if r["cause"] != "explicit" else "-")
            for r in facts["removals"]
        ],
    )  # fmt: skip


def _problems(quality: dict[str, Any]) -> list[str]:
    if not quality["problem_files"]:
        return ["", "Quality  every record was read"]
    lines = ["", f"Quality  {quality['decoded']:,} of {quality['records']:,} records decoded"]
    for file in quality["problem_files"]:
        for problem in file["problems"]:
            lines.append(f"  {file['path']}: {problem_text(problem)}")
    return lines


def problem_text(problem: dict[str, Any]) -> str:
    """One problem of a file in words."""
    parts = [problem["reason"]]
    if problem["records"]:
        parts.append(_count(problem["records"], "record"))
    if problem["bytes"]:
        parts.append(f"{problem['bytes']:,} bytes at {problem['position']:,}")
    return ", ".join(parts)


def _table(title: str, head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> list[str]:
    if not rows:
        return []
    cells = [head, *[tuple(_cell(value) for value in row) for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    numeric = [all(isinstance(row[i], int) for row in rows) for i in range(len(head))]
    lines = ["", title]
    for row in cells:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        lines.append("  " + "  ".join(padded).rstrip())
    return lines


def _cell(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    text = str(value)
    # One long group name must not push the numbers off the screen; JSON has it whole.
    return text if len(text) <= WIDEST else f"{text[: WIDEST // 2]}…{text[-WIDEST // 2 + 1 :]}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _size(number: int) -> str:
    size = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def duration(milliseconds: int | None) -> str:
    """``7d``, ``90s``, ``1500ms``: the largest unit that leaves no rest."""
    if milliseconds is None:
        return "-"
    for unit, size in (("d", DAY_MS), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def when(milliseconds: int | None) -> str:
    """A moment in UTC, to the second; the number itself where no calendar reaches."""
    from datetime import datetime, timedelta, timezone

    if milliseconds is None:
        return "-"
    try:
        moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")
