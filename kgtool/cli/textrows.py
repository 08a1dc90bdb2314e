"""Rows of a table as text, fast: what says the same in every row is put into the line's form once.

Widths count UTF-16 units, as Java's ``String.format`` does; nothing is ever cut off.
"""

from __future__ import annotations

from collections.abc import Sequence

from kgtool.cli.escape import escape

NO_VALUE = "-"


def width(text: str) -> int:
    """Return the length in UTF-16 units."""
    return len(text) if text.isascii() else len(text) + sum(char > "\uffff" for char in text)


def pad(text: str, size: int) -> str:
    """Pad on the right to ``size`` UTF-16 units; longer text stays as it is."""
    return text + " " * (size - width(text))


def shown(value: object) -> str:
    """Return a table cell: ``-`` for what is unknown, names made harmless."""
    if value is None:
        return NO_VALUE
    return escape(value) if isinstance(value, str) else str(value)


class Table:
    """A table of many rows, built column by column."""

    def __init__(self) -> None:
        self._headers: list[str] = []
        self._forms: list[str] = []
        self._values: list[Sequence[object]] = []
        """Of the columns that differ from row to row: those of ``_forms`` with a ``%``."""

    def names(self, header: str, values: Sequence[str | None], least: int) -> None:
        """Add a column as wide as its longest value, at least ``least``."""
        cells = {value: shown(value) for value in set(values)}  # most of them repeat
        size = max(least, *map(width, cells.values()))
        self._add(header, [cells[value] for value in values], size, is_text=True)

    def last(self, header: str, values: Sequence[str | None]) -> None:
        """Add a column of names without blanks at its end."""
        cells = {value: shown(value) for value in set(values)}
        self._add(header, [cells[value] for value in values], 0, is_text=True)

    def numbers(self, header: str, values: Sequence[int | None], size: int) -> None:
        """Add a column of one width: longer values push the rest of their line to the right."""
        is_text = None in values
        cells = [NO_VALUE if value is None else str(value) for value in values] if is_text else None
        self._add(header, values if cells is None else cells, size, is_text=is_text)

    def _add(self, header: str, cells: Sequence[object], size: int, *, is_text: bool) -> None:
        self._headers.append(pad(header, size))
        first = cells[0]
        if cells.count(first) == len(cells):
            self._forms.append(pad(str(first), size).replace("%", "%%"))
            return
        if is_text and not "".join(map(str, cells)).isascii():  # % counts characters, not units
            cells, size = [pad(str(cell), size) for cell in cells], 0
        self._forms.append(f"%-{size}s")
        self._values.append(cells)

    def text(self, count: int) -> str:
        """Return header and ``count`` rows, a line each."""
        form = " ".join(self._forms) + "\n"
        rows = zip(*self._values, strict=True) if self._values else [()] * count
        return "".join([" ".join(self._headers), "\n", *[form % row for row in rows]])
