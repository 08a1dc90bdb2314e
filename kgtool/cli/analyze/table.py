"""One of the analysis's tables on stdout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kgtool.analysis import schema
from kgtool.analysis.words import about, when
from kgtool.cli.output import terminal
from kgtool.cli.output.output import Output
from kgtool.cli.output.tables import draw_for
from kgtool.columns import NAME, PLAIN, Column
from kgtool.text import escape

SHOWN_ROWS = 100
"""Rows that the text format shows."""
WIDEST = 40
"""Columns of a name in the text format."""
SPANS = ("retention_ms", "check_interval_ms", "latency_ms", "overdue_ms", "bucket_ms",
         "longest_gap_ms", "safe_retention_ms")  # fmt: skip
"""Columns that are time spans; all others that end in ``_ms`` are moments."""
_ORDER = (
    "bucket_start_ms", "rules", "retention_ms", "check_interval_ms", "family", "group", "topic",
    "partition", "removed_at_ms", "lost_at_ms", "path",
)  # fmt: skip
_TIES = ("bucket_ms", "log_partition", "producer_id", "producer_epoch")
"""What orders the rows that are equal in all columns of ``_ORDER``."""
_NAMES = ("group", "topic", "family", "path")
_NEEDED = ("cause", "overdue_ms", "removed_offsets", "live_offsets")
"""What a table is for, besides the columns of its order: always there."""
_TELLING = (
    "offset", "rule", "expires_at_ms", "lag", "missed_offsets", "group_state", "members", "records",
    "damaged",
)  # fmt: skip
"""Columns that a narrow terminal keeps longer than others."""
_BUCKET = {"bucket_ms": "bucket_start_ms"}
Row = Mapping[str, Any]


def put_table(analysis: Any, name: str, output: Output) -> None:
    """All rows in the formats for programs, the first ones as text."""
    kinds = dict(schema.TABLES[name])
    output.begin(list(kinds), output.cluster_id)
    keys = [name for name in (*_ORDER, *_TIES) if name in kinds]
    order = ["group", *keys] if "group" in keys else keys
    if output.is_text:
        rows = list(analysis.rows(name, order, SHOWN_ROWS + 1))
        if "bucket_start_ms" not in kinds:  # the moment itself, no length
            kinds, *rows = ({_BUCKET.get(key, key): value for key, value in each.items()}
                            for each in (kinds, *rows))  # fmt: skip
        _put_text(rows, kinds, output)
        return
    for row in analysis.rows(name, order):
        output.row(row)
        if output.reader_gone:
            break


def _put_text(rows: list[Row], kinds: Mapping[str, str], output: Output) -> None:
    flat = [name for name, kind in kinds.items() if not kind.startswith("array")]
    shown = rows[:SHOWN_ROWS]
    if output.table_width is not None:
        put_fitting(flat, shown, output)
    else:
        numeric = [name for name in flat if kinds[name] in ("int", "bigint")]
        _put_whole(flat, shown, numeric, output)
    if len(rows) > SHOWN_ROWS:
        output.note(f"Only the first {SHOWN_ROWS} rows: -o ndjson, or --out DIR, gives all.")


def put_fitting(names: Sequence[str], rows: Sequence[Row], output: Output) -> None:
    """A table for a terminal: what there is no room for is left out, and named."""
    columns = []
    for place, name in enumerate(names):
        kept = len(names) if name in _TELLING else 0
        needed = name in (*_ORDER, *_NEEDED) or (name == "expires_at_ms" and "cause" not in names)
        spare = 0 if needed else len(names) - place + kept
        kind = NAME if name in _NAMES else PLAIN
        columns.append(Column(name, _head(name), kind, spare=spare))
    cells = [{name: _cell(name, row[name], None) for name in names} for row in rows]
    output.text(draw_for(output, columns, cells), end="")


def _put_whole(
    names: Sequence[str], rows: Sequence[Row], numeric: Sequence[str], output: Output
) -> None:
    """The same for a pipe, as wide as it is."""
    from tabulate import tabulate

    mark = terminal.mark_for()
    cells = [[_cell(name, row[name], mark) for name in names] for row in rows]
    align = ["right" if name in numeric and not name.endswith("_ms") else "left" for name in names]
    head = [_head(name) for name in names]
    output.text(tabulate(cells, head, tablefmt="plain", disable_numparse=True, colalign=align)
                if cells else tabulate([], head, tablefmt="plain"))  # fmt: skip


def _head(name: str) -> str:
    return name.removesuffix("_ms").upper()


def _cell(name: str, value: Any, mark: str | None) -> str:
    if value is None:
        return "-"
    if name in SPANS:
        return about(value)
    if name.endswith("_ms"):
        return when(value)
    text = escape(str(value))
    return text if mark is None else terminal.shorten_name(text, WIDEST, mark)
