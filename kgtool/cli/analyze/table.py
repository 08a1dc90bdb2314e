"""``kgtool analyze --table``: the rows of one table on stdout."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from fnmatch import translate
from itertools import islice
from typing import Any

from kgtool.analysis import schema
from kgtool.analysis.words import about, when
from kgtool.cli.output import terminal
from kgtool.cli.output.output import Output
from kgtool.cli.output.tables import draw_for
from kgtool.columns import COUNT, NAME, PLAIN, Column, Row
from kgtool.errors import UsageError
from kgtool.text import escape

SHOWN_ROWS = 100
"""Rows that the text format shows."""
WIDEST = 40
"""Columns of a name in the text format."""
SPANS = (
    "retention_ms",
    "check_interval_ms",
    "latency_ms",
    "overdue_ms",
    "bucket_ms",
    "longest_gap_ms",
    "safe_retention_ms",
)
"""Columns that are time spans; all others that end in ``_ms`` are moments."""
_ORDER = (
    "bucket_start_ms",
    "rules",
    "retention_ms",
    "check_interval_ms",
    "family",
    "group",
    "topic",
    "partition",
    "removed_at_ms",
    "lost_at_ms",
    "path",
)
_TIES = ("bucket_ms", "log_partition", "producer_id", "producer_epoch")
"""The order of rows that are equal in all columns of ``_ORDER``."""
_NAMES = ("group", "topic", "family", "path")
_NEEDED = ("cause", "overdue_ms", "removed_offsets", "live_offsets")
"""Columns that are never hidden, like those of ``_ORDER``."""
_IMPORTANT = (
    "offset",
    "rule",
    "expires_at_ms",
    "lag",
    "missed_offsets",
    "group_state",
    "members",
    "records",
    "damaged",
)
"""Columns that a narrow terminal keeps longer than others."""
_BUCKET = {"bucket_ms": "bucket_start_ms"}


def check_group(name: str | None, glob: str | None) -> None:
    """Refuse ``--group`` for nothing, and for a table that has no groups.

    :raises UsageError: so.
    """
    if glob is None:
        return
    having = [table for table, one in schema.TABLES.items() if "group" in dict(one.columns)]
    if name not in having:
        what = "takes --table" if name is None else f"is for tables with groups, not {name}"
        raise UsageError(f"--group {what}: {', '.join(having)}.")


def put_table(analysis: Any, name: str, output: Output, group: str | None = None) -> None:
    """Put out all rows in the formats for programs, the first ones as text.

    :param group: only groups whose name matches this glob.
    """
    kinds = dict(schema.TABLES[name].columns)

    def chosen(order: list[str], most: int | None = None) -> Iterator[dict[str, Any]]:
        if group is None:
            return iter(analysis.rows(name, order, *(() if most is None else (most,))))
        matches = re.compile(translate(group)).match
        found = (row for row in analysis.rows(name, order) if matches(row["group"] or ""))
        return islice(found, most)

    output.begin(list(kinds), output.cluster_id)
    keys = [name for name in (*_ORDER, *_TIES) if name in kinds]
    order = ["group", *keys] if "group" in keys else keys
    if output.is_text:
        rows = list(chosen(order, SHOWN_ROWS + 1))
        if "bucket_start_ms" not in kinds:  # bucket_ms is the moment then, not a span
            kinds, *rows = (
                {_BUCKET.get(key, key): value for key, value in each.items()}
                for each in (kinds, *rows)
            )
        flat = [name for name, kind in kinds.items() if not kind.startswith("array")]
        numeric = [name for name in flat if kinds[name] in ("int", "bigint")]
        show_rows(flat, rows[:SHOWN_ROWS], numeric, output)
        if len(rows) > SHOWN_ROWS:
            output.note(f"Only the first {SHOWN_ROWS} rows: -o ndjson, or --out DIR, gives all.")
        return
    for row in chosen(order):
        output.row(row)
        if output.reader_gone:
            break


def show_rows(
    names: Sequence[str], rows: Sequence[Row], numeric: Collection[str], output: Output
) -> None:
    """Show a table that fits the terminal; in a pipe all columns, with long names cut."""
    cells = [{name: _cell(name, row[name]) for name in names} for row in rows]
    counts = [name for name in numeric if not name.endswith("_ms")]
    if output.table_width is not None:
        columns = [_fitting_column(at, name, names, counts) for at, name in enumerate(names)]
        output.text(draw_for(output, columns, cells), end="")
        return
    from tabulate import tabulate

    mark = terminal.mark_for()
    lines = [
        [terminal.shorten_name(escape(text), WIDEST, mark) for text in row.values()]
        for row in cells
    ]
    align = ["right" if name in counts else "left" for name in names] if lines else None
    headers = [_header(name) for name in names]
    output.text(tabulate(lines, headers, "plain", disable_numparse=True, colalign=align))


def _fitting_column(at: int, name: str, names: Sequence[str], counts: Collection[str]) -> Column:
    """Return a column; the last ones are hidden first where a terminal is too narrow."""
    kept = len(names) if name in _IMPORTANT else 0
    needed = name in (*_ORDER, *_NEEDED) or (name == "expires_at_ms" and "cause" not in names)
    spare = 0 if needed else len(names) - at + kept
    kind = NAME if name in _NAMES else COUNT if name in counts else PLAIN
    return Column(name, _header(name), kind, spare=spare)


def _header(name: str) -> str:
    return name.removesuffix("_ms").upper()


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name in SPANS:
        return about(value)
    return when(value) if name.endswith("_ms") else str(value)
