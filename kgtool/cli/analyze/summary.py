"""The summary of ``kgtool analyze`` as text: a few lines, then the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kgtool.analysis.tables.quality import problem_text
from kgtool.analysis.words import DAY_MS, about, count, duration, rules_over_time, size, when
from kgtool.cli.output import terminal
from kgtool.cli.output.tables import draw, fit
from kgtool.columns import COUNT, NAME, Column, Row, written
from kgtool.retention.rules import RULE_SETS
from kgtool.text import escape, listed

WIDTH = 80
"""Columns in a pipe: names are cut to fit, JSON has them whole."""
DAYS = 7
_BARS = "▁▂▃▄▅▆▇█"
_ASCII_BARS = "_.-=+*#"
_LEAST = 12
"""The shortest that a name is cut to."""


class Page:
    """Lines of text, ``width`` columns wide."""

    def __init__(self, width: int = WIDTH, mark: str = "…", *, colored: bool = False) -> None:
        self.width = width
        self.mark = mark
        self.colored = colored
        self.lines: list[str] = []

    def add(self, label: str, text: str, color: str | None = None) -> None:
        """Add a line with a label."""
        painted = terminal.paint(escape(text), color if self.colored else None)
        self.lines.append(f"{self._bold(label.ljust(7))}  {painted}")

    def add_problem(self, path: str, text: str) -> None:
        """Add a problem of a file; of a long path the end, which is its name, stays."""
        text, path = escape(text), escape(path)
        room = max(self.width - len("  : ") - terminal.columns_of(text), 2 * _LEAST)
        if terminal.columns_of(path) > room:
            path = self.mark + terminal.shorten(path[::-1], room - 1, "")[::-1]
        self.lines.append(f"  {path}: {text}")

    def table(self, title: str, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        """Add a table whose first column is a name, which is cut to fit."""
        if not rows:
            return
        sizes = fit(columns, rows).sizes
        others = sum(sizes.values()) - sizes[columns[0]] + 2 * len(sizes)
        sizes[columns[0]] = min(sizes[columns[0]], max(self.width - others, _LEAST))
        self.lines += ["", self._bold(title)]
        drawn = draw(columns, rows, sizes=sizes, mark=self.mark)
        self.lines += [f"  {line}" for line in drawn.splitlines()]

    def sparkline(self, values: Sequence[int], columns: int) -> str:
        """Return a curve in one line, from 0 up."""
        bars = _BARS if self.mark == "…" else _ASCII_BARS
        shown = list(values)
        if len(values) > columns:  # the last value of each of equal pieces
            shown = [values[(at + 1) * len(values) // columns - 1] for at in range(columns)]
        top = max([*shown, 1])
        steps = [max(value, 0) * len(bars) // top for value in shown]
        return "".join(bars[min(len(bars) - 1, step)] for step in steps)

    def _bold(self, text: str) -> str:
        return terminal.paint(text, terminal.BOLD if self.colored else None)


def render(facts: dict[str, Any], page: Page) -> str:
    """Return the whole summary."""
    _head(facts, page)
    page.table(
        "What if (MISSED: removed, then committed again; NEXT: without further commits)",
        _WHATIF,
        facts["whatif"],
    )
    page.table("Expiring next", _EXPIRING, facts["expiring_next"])
    days = [
        {**row, "until": f"until {when(facts['as_of_ms'] + row['day'] * DAY_MS)}"}
        for row in facts["next_days"]
        if row["day"] <= DAYS
    ]
    page.table("Days ahead", _DAYS, days)
    # Only the new coordinator has offsets without a group.
    rules = RULE_SETS.get(facts["rules"])
    orphans = rules is None or rules.new_coordinator
    states = [{**row, "orphans": orphans} for row in facts["groups_by_state"]]
    page.table("Live groups", _STATES, states)
    page.table("Most offsets", _FAMILIES, facts["largest_families"])
    page.table("Removed so far", _REMOVALS, facts["removals"])
    _problems(facts["quality"], page)
    return "\n".join(page.lines)


def _head(facts: dict[str, Any], page: Page) -> None:
    quality = facts["quality"]
    page.add(
        "Log",
        f"{count(quality['files'], 'file')}, {size(quality['bytes'])}, "
        f"{count(quality['records'], 'record')}, until {when(facts['as_of_ms'])}",
    )
    page.add(
        "Rules",
        f"{rules_over_time(facts)}: retention {_retention(facts)}, checked every "
        f"{duration(facts['check_interval_ms'])}",
    )
    page.add(
        "Live",
        f"{count(facts['live_offsets'], 'offset')} of {count(facts['live_groups'], 'group')}",
    )
    _growth(facts["growth"], page)
    page.add(
        "Expires",
        f"{facts['next_24h']:,} within 24 h, {facts['next_7d']:,} within 7 d, "
        f"{facts['never']:,} never; {facts['due_now']:,} overdue"
        + (f"; unknown {facts['untold']:,}" if facts["untold"] else ""),
    )
    if facts["overdue"]:
        partitions = facts["overdue_partitions"]
        where = listed(partitions, 8, " …")
        page.add(
            "Overdue",
            f"{facts['overdue']:,} should be gone: see --table overdue "
            f"(__consumer_offsets {where})",
            terminal.RED,
        )


def _retention(facts: dict[str, Any]) -> str:
    first, *others = facts["wrote"] or [facts]
    later = [f", {duration(each['retention_ms'])} from {when(each['from_ms'])}" for each in others]
    return duration(first["retention_ms"]) + "".join(later)


def _growth(curve: list[dict[str, Any]], page: Page) -> None:
    if len(curve) < 3:
        return
    first, last = curve[0], curve[-1]
    top = max(curve, key=lambda row: int(row["offsets"]))
    words = f" in {about(last['at_ms'] - first['at_ms'])}, most {top['offsets']:,} offsets"
    room = max(page.width - 9 - len(words), 8)
    line = page.sparkline([row["offsets"] for row in curve[1:]], min(room, 48))
    page.add("Growth", line + words)


def _problems(quality: dict[str, Any], page: Page) -> None:
    page.lines.append("")
    if not quality["problem_files"]:
        page.add("Unreadable", "none")
        return
    page.add("Quality", f"{quality['decoded']:,} of {count(quality['records'], 'record')} decoded")
    for file in quality["problem_files"]:
        for problem in file["problems"]:
            page.add_problem(file["path"], problem_text(problem))


# ---------------------------------------------------------------------------------------------
# The tables


def _counts(**headers: str) -> tuple[Column, ...]:
    return tuple(
        Column(key, header, COUNT, written(key, "{:,}".format)) for key, header in headers.items()
    )


def _combination(row: Row) -> str:
    spans = (duration(row[key]) for key in ("retention_ms", "check_interval_ms"))
    return ", ".join([row["rules"], *spans])


def _kind(row: Row) -> str:
    if row["group_type"] is not None:
        return f"{row['group_type']}, {row['group_state']}"
    known = row["orphans"] and not row["untold"]
    return "no group (orphaned offsets)" if known else "not told"


def _after_due(row: Row) -> str:
    return about(row["max_latency_ms"]) if row["cause"] != "explicit" else "-"


_FAMILY = Column("family", "FAMILY", NAME)
_WHATIF = (
    Column("combination", "RULES, RETENTION, CHECK", NAME, _combination),
    *_counts(
        removed_offsets="REMOVED",
        missed_offsets="MISSED",
        removed_groups="GROUPS",
        live_offsets="LIVE",
        next_offsets="NEXT",
    ),
)
_EXPIRING = (
    _FAMILY,
    *_counts(groups="GROUPS", offsets="OFFSETS", next_24h="24H", next_7d="7D"),
    Column("next_expiry_ms", "FIRST", text=lambda row: when(row["next_expiry_ms"])),
)
_DAYS = (Column("until", "DAY", NAME), *_counts(offsets="OFFSETS", groups="GROUPS"))
_STATES = (
    Column("kind", "TYPE, STATE", NAME, _kind),
    *_counts(groups="GROUPS", offsets="OFFSETS", next_24h="24H", next_7d="7D", never="NEVER"),
)
_FAMILIES = (_FAMILY, *_counts(groups="GROUPS", offsets="OFFSETS", never="NEVER"))
_REMOVALS = (
    Column("cause", "CAUSE", NAME, lambda row: row["cause"] or "unknown"),
    Column("of_offset", "OF", text=lambda row: "offsets" if row["of_offset"] else "groups"),
    *_counts(removals="REMOVALS"),
    Column("max_latency_ms", "LONGEST DELAY", text=_after_due),
)
