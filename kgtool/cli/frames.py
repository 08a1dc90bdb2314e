"""One of the analysis's tables on stdout."""

from __future__ import annotations

from typing import Any

from kgtool.analysis.words import about, when
from kgtool.cli import terminal
from kgtool.cli.escape import escape
from kgtool.cli.output import Output

SHOWN_ROWS = 100
"""Rows that the text format shows."""
WIDEST = 40
"""Columns of a name in the text format."""
SPANS = ("retention_ms", "check_interval_ms", "latency_ms", "overdue_ms", "bucket_ms")
"""Columns that are time spans; all others that end in ``_ms`` are moments."""
_ORDER = (
    "bucket_start_ms", "rules", "retention_ms", "check_interval_ms", "family", "group", "topic",
    "partition", "removed_at_ms", "lost_at_ms", "path",
)  # fmt: skip


def put_table(frame: Any, output: Output) -> None:
    """All rows in the formats for programs, the first ones as text."""
    names = frame.columns
    output.begin(names, output.cluster_id)
    keys = [name for name in _ORDER if name in names]
    ordered = frame.orderBy(*(["group", *keys] if "group" in keys else keys))
    if output.is_text:
        _put_text(ordered, output)
        return
    # An iterator, not collect: the rows need not fit into this process.
    for row in ordered.toLocalIterator(prefetchPartitions=True):
        output.row(row.asDict(recursive=True))
        if output.reader_gone:
            break


def _put_text(frame: Any, output: Output) -> None:
    from tabulate import tabulate

    flat = [field.name for field in frame.schema.fields if "array" not in field.dataType.typeName()]
    rows = frame.select(*flat).limit(SHOWN_ROWS + 1).collect()
    mark = terminal.mark_for()
    cells = [
        [_cell(name, value, mark) for name, value in zip(flat, row, strict=True)]
        for row in rows[:SHOWN_ROWS]
    ]
    numeric = ("int", "bigint")
    kinds = dict(frame.dtypes)
    align = [
        "right" if kinds[name] in numeric and not name.endswith("_ms") else "left" for name in flat
    ]
    head = [name.removesuffix("_ms").upper() for name in flat]
    output.text(tabulate(cells, head, tablefmt="plain", disable_numparse=True, colalign=align)
                if cells else tabulate([], head, tablefmt="plain"))  # fmt: skip
    if len(rows) > SHOWN_ROWS:
        output.note(f"Only the first {SHOWN_ROWS} rows: -o ndjson, or --out DIR, gives all.")


def _cell(name: str, value: Any, mark: str) -> str:
    if value is None:
        return "-"
    if name in SPANS:
        return about(value)
    if name.endswith("_ms"):
        return when(value)
    return terminal.shorten(escape(str(value)), WIDEST, mark)
