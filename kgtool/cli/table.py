"""Plain tables that can fit a terminal and have colours there."""

from __future__ import annotations

from collections.abc import Sequence

from kgtool.cli import terminal
from kgtool.cli.columns import NAME, STATUS, Column, Row
from kgtool.cli.output import Output

_GAP = "  "
_LEAST = 8
"""Columns that a shortened name keeps."""

_COLORS = {
    "ok": terminal.GREEN, "Stable": terminal.GREEN,
    "Empty": terminal.DIM, "no-commit": terminal.DIM,
    "before-start": terminal.YELLOW, "pending-transaction": terminal.YELLOW,
    "no-leader": terminal.YELLOW, "unknown-topic": terminal.YELLOW,
    "PreparingRebalance": terminal.YELLOW, "CompletingRebalance": terminal.YELLOW,
    "Assigning": terminal.YELLOW, "Reconciling": terminal.YELLOW, "NotReady": terminal.YELLOW,
    "beyond-end": terminal.RED, "denied": terminal.RED, "error": terminal.RED,
    "Dead": terminal.RED,
}  # fmt: skip


def draw(
    columns: Sequence[Column],
    rows: Sequence[Row],
    *,
    width: int | None = None,
    colored: bool = False,
    mark: str = "…",
) -> str:
    """Return a table, no wider than needed, with a header.

    :param width: shorten names so that lines fit into so many columns, as far as that goes.
    :param colored: statuses have their colour.
    """
    cells = [[column.cell(row) for column in columns] for row in rows]
    sizes = [
        max([terminal.columns_of(column.header), *(terminal.columns_of(c[at]) for c in cells)])
        for at, column in enumerate(columns)
    ]
    if width is not None:
        _fit(columns, sizes, width)
    header = [column.header for column in columns]
    lines = [_line(columns, header, sizes, mark, terminal.BOLD if colored else None)]
    lines += [_line(columns, row, sizes, mark, "status" if colored else None) for row in cells]
    return "".join(line + "\n" for line in lines)


def draw_for(output: Output, wanted: Sequence[Column], found: Sequence[Row]) -> str:
    """Draw a table for whoever reads stdout: people at a terminal, or a program."""
    return draw(
        wanted, found, width=output.table_width, colored=output.is_colored, mark=terminal.mark_for()
    )


def _fit(columns: Sequence[Column], sizes: list[int], width: int) -> None:
    """Take from the longest names, one column at a time, until the line fits."""
    least = [
        min(size, _LEAST) if column.kind == NAME else size
        for column, size in zip(columns, sizes, strict=True)
    ]
    excess = sum(sizes) + len(_GAP) * (len(sizes) - 1) - width
    while excess > 0:
        at = max(range(len(sizes)), key=lambda index: (sizes[index] - least[index] > 0)
                 and sizes[index])  # fmt: skip
        if sizes[at] <= least[at]:
            return
        sizes[at] -= 1
        excess -= 1


def _line(
    columns: Sequence[Column], cells: Sequence[str], sizes: Sequence[int], mark: str,
    color: str | None,
) -> str:  # fmt: skip
    parts = []
    for column, cell, size in zip(columns, cells, sizes, strict=True):
        text = terminal.shorten(cell, size, mark)
        room = " " * (size - terminal.columns_of(text))
        if color == "status":
            text = terminal.paint(text, _COLORS.get(cell) if column.kind == STATUS else None)
        else:
            text = terminal.paint(text, color)
        parts.append(text + room)
    return _GAP.join(parts).rstrip()
