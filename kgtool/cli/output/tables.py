"""Plain tables that can fit a terminal and have colours there.

tabulate, which ``analyze --table`` uses in a pipe, is slow to import (24 ms, a third of a ``list``)
and draws no table in parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kgtool.cli.output import terminal
from kgtool.cli.output.output import Output
from kgtool.columns import LAG, NAME, STATUS, TEXT, Column, Row

_GAP = "  "
_LEAST, _TEXT, _SPARE, _READABLE, _LONG, _LONGEST, _PADDED = 8, 16, 20, 24, 32, 40, 64
"""Letters of a shortened name: at least, of a sentence, of a name that is hidden if it has fewer,
while other columns can be hidden, where there is no room for all, and in padding: a member id ends
in a UUID."""

_COLORS = {
    "before-start": terminal.ORANGE,
    "pending-transaction": terminal.ORANGE,
    "no-leader": terminal.ORANGE,
    "unknown-topic": terminal.ORANGE,
    "PreparingRebalance": terminal.ORANGE,
    "CompletingRebalance": terminal.ORANGE,
    "Assigning": terminal.ORANGE,
    "Reconciling": terminal.ORANGE,
    "NotReady": terminal.ORANGE,
    "beyond-end": terminal.RED,
    "denied": terminal.RED,
    "error": terminal.RED,
    "Dead": terminal.RED,
}


_FAILED = ("failed", "unknown", "changed", "not-reached", "not reached")
"""How statuses of what was not done begin."""


Cells = dict[Column, list[str]]
"""The cells of each column, as text."""


class Fit(NamedTuple):
    """The columns of a table that fits, and their widths."""

    sizes: dict[Column, int]
    hidden: list[str]
    """Headers of the hidden columns."""

    @property
    def width(self) -> int:
        """The width of the whole table."""
        return sum(self.sizes.values()) + len(_GAP) * (len(self.sizes) - 1)


def draw(
    columns: Sequence[Column],
    rows: Sequence[Row],
    *,
    sizes: Mapping[Column, int] | None = None,
    colored: bool = False,
    mark: str = "…",
    cut: bool = True,
) -> str:
    """Return a table with a header, no wider than needed; colour marks what is wrong.

    :param sizes: the columns to draw and their widths (see ``fit``), if not all of them.
    :param colored: colours for headers, statuses and lags.
    :param cut: shorten what is wider than its column, which otherwise moves the rest of its row.
    """
    cells = _cells(columns if sizes is None else sizes, rows)
    if sizes is None:
        sizes, cut = _fit(cells, None).sizes, False
    return _draw(cells, sizes, mark if cut else None, colored)


def draw_for(output: Output, columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """Draw a table for stdout: as wide as the terminal, or whole for a program.

    A note on stderr names the columns that do not fit.
    """
    cells = _cells(columns, rows)
    return _draw_sized(output, _sizes_for(output, cells), cells)


def _cells(columns: Iterable[Column], rows: Sequence[Row]) -> Cells:
    return {column: column.cells(rows) for column in columns}


def _sizes_for(output: Output, cells: Cells) -> dict[Column, int]:
    fitting = _fit(cells, output.table_width)
    if fitting.hidden:
        output.note_once(
            f"Hidden columns (terminal too narrow): {', '.join(fitting.hidden)}. "
            "Widen the terminal or use -o json."
        )
    return fitting.sizes


def _draw_sized(output: Output, sizes: Mapping[Column, int], cells: Cells) -> str:
    mark = terminal.mark_for() if output.table_width is not None else None
    table = _draw(cells, sizes, mark, output.is_colored)
    return table.partition("\n")[2] if output.no_headers else table


def show_table(
    output: Output,
    columns: Sequence[Column],
    rows: Sequence[Row],
    head: str = "",
    *,
    page: bool = False,
) -> None:
    """Show a table, if it has any row; ``page``: through a pager, where it is long."""
    if rows and output.is_text:
        if page:
            output.page()
        output.text(head + draw_for(output, columns, rows[: output.limit]), end="")


def preview(output: Output, columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Show a table on stderr before a question: cut and coloured only on a terminal."""
    is_seen = terminal.is_terminal(output.stderr)
    output.note(draw_for(output, columns, rows) if is_seen else draw(columns, rows), end="")


class TableStream:
    """A table shown in parts with the same column widths (``with``): reset, restore, diff.

    The first rows are held back to measure it; a longer name later moves the rest of the table to
    the right. Names are cut on a terminal only.

    :param folds: the rows are results of a change: on a terminal, of more than ``FOLDED`` only the
        failures are shown, and one total; with ``--verbose`` all.
    """

    HELD = 500
    FOLDED = 20

    def __init__(self, output: Output, columns: Sequence[Column], *, folds: bool = False) -> None:
        self._output, self._columns = output, columns
        self._held: list[Row] = []
        self._sizes: dict[Column, int] | None = None
        self._sums = folds and not output.is_kafka_form
        self._folds = folds and output.folds_results
        self._counts: Counter[str] = Counter()

    def __enter__(self) -> TableStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows."""
        if not self._output.is_text:
            return
        self._held += rows
        if self._sums:
            self._counts.update(_status_of(self._columns, row) for row in rows)
            if self._folds and self.is_folded:
                self._held = [row for row in self._held if not self._is_done(row)]
        if len(self._held) >= self.HELD:
            self._put()

    @property
    def is_folded(self) -> bool:
        """Whether there are so many results that one total tells them."""
        return self._counts.total() > self.FOLDED

    def _is_done(self, row: Row) -> bool:
        status = _status_of(self._columns, row)
        return not (status.startswith(("would-", *_FAILED)) or status in _COLORS)

    def flush(self) -> None:
        """Show the rows that are held back, and the total if there are too many."""
        self._put()
        counts, self._counts = self._counts, Counter()
        if counts.total() > self.FOLDED and any(not s.startswith("would-") for s in counts):
            said = ", ".join(f"{count:,} {status}" for status, count in counts.most_common())
            if self._folds:
                self._output.text(f"{said} (-v shows all).")
            else:  # rows are read by programs
                self._output.note(f"{said}.")

    def _put(self) -> None:
        rows, self._held = self._held, []
        if not rows:
            return
        cells = _cells(self._columns if self._sizes is None else self._sizes, rows)
        if self._sizes is None:
            self._sizes = _sizes_for(self._output, cells)
            self._output.text(_draw_sized(self._output, self._sizes, cells), end="")
            return
        for column, size in self._sizes.items():
            if column.kind != NAME:
                self._sizes[column] = max(size, _size(column, cells[column]))
            elif self._output.table_width is None:
                self._sizes[column] = max(size, _padding(column, cells[column]))
        table = _draw_sized(self._output, self._sizes, cells)
        more = table if self._output.no_headers else table.partition("\n")[2]
        self._output.text(more, end="")


def _status_of(columns: Sequence[Column], row: Row) -> str:
    """Return the first word of the row's status."""
    cells = (column.cell(row) for column in columns if column.key == "status")
    return next(cells, "").split(":")[0]


def fit(columns: Sequence[Column], rows: Sequence[Row], width: int | None = None) -> Fit:
    """Measure a table, and make it fit into ``width`` columns of a terminal as far as possible.

    Empty columns are removed first; then the longest names are shortened, those that identify a row
    last; then the columns with the lowest ``spare`` are hidden, one at a time. Without a width, one
    long name does not move the other rows.
    """
    return _fit(_cells(columns, rows), width)


def _fit(cells: Cells, width: int | None) -> Fit:
    if width is None:
        return Fit({c: (_padding if c.kind == NAME else _size)(c, cells[c]) for c in cells}, [])
    whole = {column: _size(column, cells[column]) for column in cells}
    sizes = dict(whole)
    fitting = Fit(sizes, [])
    spare = sorted((column for column in cells if column.spare), key=lambda c: c.spare)
    for column in (*spare, *(column for column in cells if not column.spare)):
        is_empty = not column.decides and all(cell == "-" for cell in cells[column])
        if fitting.width > width and is_empty:
            del sizes[column]
    _shrink_names(fitting, width)
    for column in spare:
        if fitting.width > width and column in sizes:
            del sizes[column]
            fitting.hidden.append(column.header)
            sizes.update({other: whole[other] for other in sizes})  # there may be room again
            _shrink_names(fitting, width)
    texts = [column for column in sizes if column.kind == TEXT]
    _shrink(fitting, width, texts, _READABLE)
    _shrink(fitting, width, [column for column in sizes if column.kind == NAME], _LEAST)
    _shrink(fitting, width, texts, _TEXT)
    return fitting


def _shrink_names(fitting: Fit, width: int) -> None:
    """Shorten names while they stay readable, those that identify a row last."""
    names = [column for column in fitting.sizes if column.kind == NAME]
    if fitting.width > width:
        fitting.sizes.update({name: min(fitting.sizes[name], _LONGEST) for name in names})
    _shrink(fitting, width, [column for column in names if column.spare], _SPARE)
    _shrink(fitting, width, names, _LONG)
    texts = [column for column in fitting.sizes if column.kind == TEXT]
    _shrink(fitting, width, texts, _LONGEST)
    _shrink(fitting, width, names, _READABLE)


def _size(column: Column, cells: Iterable[str]) -> int:
    return max(map(terminal.columns_of, {column.header, *cells}))


def _padding(column: Column, cells: Iterable[str]) -> int:
    """Return a name's width in a pipe: a very long one stands out of its column."""
    sizes = list(map(terminal.columns_of, {column.header, *cells}))
    return max(min(max(sizes), _LONGEST), *(size for size in sizes if size <= _PADDED))


def _shrink(fitting: Fit, width: int, names: Sequence[Column], least: int) -> None:
    """Shorten the longest of these columns until the table fits, or all have ``least``."""
    sizes = fitting.sizes
    excess = fitting.width - width
    while excess > 0 and names:
        longest = max(names, key=lambda column: sizes[column])
        if sizes[longest] <= least:
            return
        sizes[longest] -= 1
        excess -= 1


def _color(column: Column, cell: str) -> str | None:
    if column.kind == LAG:
        return terminal.RED if cell[:1] == "-" and cell != "-" else None
    if column.kind != STATUS:
        return None
    return terminal.RED if cell.startswith(_FAILED) else _COLORS.get(cell)


def _draw(cells: Cells, sizes: Mapping[Column, int], mark: str | None, colored: bool) -> str:
    """Draw a table of these widths; ``mark``: where a cell is cut, None: none is."""
    wrapped = _wrapped({column: cells[column] for column in sizes}, sizes)
    drawn = [_column(*item, sizes[item[0]], mark, colored) for item in wrapped.items()]
    return "".join([_GAP.join(line).rstrip() + "\n" for line in zip(*drawn, strict=True)])


def _wrapped(cells: Cells, sizes: Mapping[Column, int]) -> Cells:
    """Return the columns' cells; a sentence that is wider than its column goes on below."""
    parts = {
        column: [_parts(cell, sizes[column]) for cell in texts]
        for column, texts in cells.items()
        if column.kind == TEXT
    }
    if not any(len(lines) > 1 for column in parts.values() for lines in column):
        return cells
    heights = [max(map(len, row)) for row in zip(*parts.values(), strict=True)]
    for column, texts in cells.items():
        found = parts.get(column) or [[cell] for cell in texts]
        filled = zip(found, heights, strict=True)
        cells[column] = [part for row, high in filled for part in row + [""] * (high - len(row))]
    return cells


def _parts(cell: str, size: int) -> list[str]:
    if terminal.columns_of(cell) <= size:
        return [cell]
    from textwrap import wrap

    return wrap(cell, size, break_long_words=False, break_on_hyphens=False)


def _column(
    column: Column, cells: Sequence[str], size: int, mark: str | None, colored: bool
) -> list[str]:
    """Return the column's header and its cells, all of one width."""
    cut = terminal.shorten if column.kind in (STATUS, TEXT) else terminal.shorten_name
    is_number = column.is_number

    def drawn(cell: str, color: str | None) -> str:
        text = cell if mark is None else cut(cell, size, mark)
        room = " " * (size - terminal.columns_of(text))
        text = terminal.paint(text, color) if colored else text
        return room + text if is_number else text + room

    different = {cell: drawn(cell, _color(column, cell)) for cell in set(cells)}
    return [drawn(column.header, terminal.BOLD), *[different[cell] for cell in cells]]
