"""Plain tables that can fit a terminal and have colours there.

tabulate draws what ``analyze --table`` pipes; elsewhere its import (24 ms, a third of a ``list``)
buys nothing: these tables come in waves, and it pads wide characters wrongly without wcwidth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kgtool.cli.output import terminal
from kgtool.cli.output.output import Output
from kgtool.columns import COUNT, LAG, NAME, STATUS, Column, Row

_GAP = "  "
_LEAST, _READABLE = 8, 24
"""Columns that a shortened name keeps: at the least, and as long as others can be left out."""

_COLORS = {
    "ok": terminal.GREEN, "Stable": terminal.GREEN,
    "Empty": terminal.DIM, "no-commit": terminal.DIM,
    "before-start": terminal.ORANGE, "pending-transaction": terminal.ORANGE,
    "no-leader": terminal.ORANGE, "unknown-topic": terminal.ORANGE,
    "PreparingRebalance": terminal.ORANGE, "CompletingRebalance": terminal.ORANGE,
    "Assigning": terminal.ORANGE, "Reconciling": terminal.ORANGE, "NotReady": terminal.ORANGE,
    "beyond-end": terminal.RED, "denied": terminal.RED, "error": terminal.RED,
    "Dead": terminal.RED,
}  # fmt: skip


class Fit(NamedTuple):
    """Which columns a table has, and how wide they are."""

    sizes: dict[Column, int]
    left_out: list[str]
    """Headers of the columns that there was no room for."""

    @property
    def width(self) -> int:
        """How wide the whole table is."""
        return sum(self.sizes.values()) + len(_GAP) * (len(self.sizes) - 1)


def draw(
    columns: Sequence[Column],
    rows: Sequence[Row],
    *,
    sizes: Mapping[Column, int] | None = None,
    colored: bool = False,
    mark: str = "…",
) -> str:
    """Return a table, no wider than needed, with a header.

    :param sizes: the columns to draw and how wide they may be (see ``fit``), if not all of them.
    :param colored: statuses have their colour.
    """
    sizes = fit(columns, rows).sizes if sizes is None else sizes
    headers = {column: column.header for column in sizes}
    lines = [_line(headers, sizes, mark, terminal.BOLD if colored else None)]
    for row in rows:
        cells = {column: column.cell(row) for column in sizes}
        lines.append(_line(cells, sizes, mark, "status" if colored else None))
    return "".join(line + "\n" for line in lines)


def draw_for(output: Output, wanted: Sequence[Column], found: Sequence[Row]) -> str:
    """Draw a table for stdout: as wide as the terminal, or whole for a program.

    A note on stderr names the columns that do not fit.
    """
    fitting = fit(wanted, found, output.table_width)
    if fitting.left_out:
        output.note_once(
            f"Hidden columns (terminal too narrow): {', '.join(fitting.left_out)}. "
            "A wider terminal or -o shows them."
        )
    return draw(
        wanted, found, sizes=fitting.sizes, colored=output.is_colored, mark=terminal.mark_for()
    )


def show_table(
    output: Output, wanted: Sequence[Column], rows: Sequence[Row], head: str = "", *,
    page: bool = False,
) -> None:  # fmt: skip
    """Show a table, if it has any row; ``page``: through a pager, where it is long."""
    if rows and output.is_text:
        if page:
            output.page()
        output.text(head + draw_for(output, wanted, rows), end="")


def preview(output: Output, wanted: Sequence[Column], rows: Sequence[Row]) -> None:
    """Show a table on stderr, before a question: cut and coloured only where somebody looks."""
    is_seen = terminal.is_terminal(output.stderr)
    output.note(draw_for(output, wanted, rows) if is_seen else draw(wanted, rows), end="")


class Streamed:
    """A table that comes in parts, its columns where they were (``with``): restore, diff.

    The first rows are held back to measure it; a name that is longer than all of them moves the
    rest of its table to the right, and none is cut where nobody looks.
    """

    HELD = 500

    def __init__(self, output: Output, columns: Sequence[Column]) -> None:
        self._output, self._columns = output, columns
        self._held: list[Row] = []
        self._sizes: dict[Column, int] | None = None

    def __enter__(self) -> Streamed:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def add(self, rows: Sequence[Row]) -> None:
        """Take more rows."""
        if self._output.is_text:
            self._held += rows
            if len(self._held) >= self.HELD:
                self.flush()

    def flush(self) -> None:
        """Show what is held back."""
        held, self._held = self._held, []
        if not held:
            return
        if self._sizes is None:
            text = draw_for(self._output, self._columns, held)
            self._sizes = fit(self._columns, held, self._output.table_width).sizes
        else:
            self._grow(held)
            drawn = draw(
                self._columns, held, sizes=self._sizes, colored=self._output.is_colored,
                mark=terminal.mark_for(),
            )  # fmt: skip
            text = drawn.partition("\n")[2]
        self._output.text(text, end="")

    def _grow(self, rows: Sequence[Row]) -> None:
        assert self._sizes is not None
        for column, size in self._sizes.items():
            if self._output.table_width is None or column.kind != NAME:
                self._sizes[column] = max(size, _size(column, rows))


def fit(columns: Sequence[Column], rows: Sequence[Row], width: int | None = None) -> Fit:
    """Measure a table, and make it fit into so many columns of a terminal as far as that goes.

    Columns that say nothing go first; then the longest names are shortened, those that tell a row
    from the others last; then what can best be done without is left out, one column at a time.
    """
    sizes = {column: _size(column, rows) for column in columns}
    fitting = Fit(sizes, [])
    if width is None:
        return fitting
    spare = sorted((column for column in columns if column.spare), key=lambda c: c.spare)
    for column in spare:
        if fitting.width > width and all(column.cell(row) == "-" for row in rows):
            del sizes[column]
    _shrink_names(fitting, rows, width)
    for column in spare:
        if fitting.width > width and column in sizes:
            del sizes[column]
            fitting.left_out.append(column.header)
            _shrink_names(fitting, rows, width)  # there may be room again
    names = [column for column in sizes if column.kind == NAME]
    _shrink(fitting, width, names, _LEAST)
    return fitting


def _shrink_names(fitting: Fit, rows: Sequence[Row], width: int) -> None:
    """Shorten the names that can be done without a lot, and the others down to a readable rest."""
    names = [column for column in fitting.sizes if column.kind == NAME]
    for column in names:
        fitting.sizes[column] = _size(column, rows)
    _shrink(fitting, width, [column for column in names if column.spare], _LEAST)
    _shrink(fitting, width, names, _READABLE)


def _size(column: Column, rows: Sequence[Row]) -> int:
    cells = (terminal.columns_of(column.cell(row)) for row in rows)
    return max([terminal.columns_of(column.header), *cells])


def _shrink(fitting: Fit, width: int, names: Sequence[Column], least: int) -> None:
    """Take from the longest of these columns until the table fits, or all are short."""
    sizes = fitting.sizes
    excess = fitting.width - width
    while excess > 0 and names:
        longest = max(names, key=lambda column: sizes[column])
        if sizes[longest] <= least:
            return
        sizes[longest] -= 1
        excess -= 1


def _color(column: Column, cell: str) -> str | None:
    if column.kind == LAG and cell != "-":
        return terminal.RED if cell[0] == "-" else terminal.DIM if cell == "0" else terminal.ORANGE
    return _COLORS.get(cell) if column.kind == STATUS else None


def _line(
    cells: Mapping[Column, str], sizes: Mapping[Column, int], mark: str, color: str | None
) -> str:
    parts = []
    for column, size in sizes.items():
        cell = cells[column]
        cut = terminal.shorten if column.kind == STATUS else terminal.shorten_name
        text = cut(cell, size, mark)
        room = " " * (size - terminal.columns_of(text))
        if color == "status":
            text = terminal.paint(text, _color(column, cell))
        else:
            text = terminal.paint(text, color)
        parts.append(room + text if column.kind == COUNT else text + room)
    return _GAP.join(parts).rstrip()
