"""Rows of a table as text, fast: what says the same in every row is put into the line's form once.

Widths count UTF-16 units, as Java's ``String.format`` does; nothing is ever cut off.
"""

from __future__ import annotations

from collections.abc import Sequence

from kgtool.text import escape

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
        first = values[0]
        if values.count(first) == len(values):
            self._same(header, shown(first), max(least, width(shown(first))))
            return
        cells = {value: shown(value) for value in set(values)}  # many of them repeat
        size = max(least, *map(width, cells.values()))
        self._differing(header, [cells[value] for value in values], size)

    def last(self, header: str, values: Sequence[str | None]) -> None:
        """Add a column of names without blanks at its end."""
        cells = [shown(value) for value in values]
        if cells.count(cells[0]) == len(cells):
            self._same(header, cells[0], 0)
        else:
            self._differing(header, cells, 0)

    def numbers(self, header: str, values: Sequence[int | None], size: int) -> None:
        """Add a column of one width: longer values push the rest of their line to the right."""
        first = values[0]
        if values.count(first) == len(values):
            self._same(header, shown(first), size)
            return
        self._headers.append(pad(header, size))
        self._forms.append(f"%-{size}s")
        self._values.append(
            [NO_VALUE if value is None else value for value in values] if None in values else values
        )

    def _same(self, header: str, cell: str, size: int) -> None:
        self._headers.append(pad(header, size))
        self._forms.append(pad(cell, size).replace("%", "%%"))

    def _differing(self, header: str, cells: list[str], size: int) -> None:
        self._headers.append(pad(header, size))
        if "".join(cells).isascii():
            self._forms.append(f"%-{size}s")
            self._values.append(cells)
        else:  # % counts characters, not units
            self._forms.append("%s")
            self._values.append([pad(cell, size) for cell in cells])

    def text(self, count: int) -> str:
        """Return header and ``count`` rows, a line each."""
        form = " ".join(self._forms) + "\n"
        rows = zip(*self._values, strict=True) if self._values else [()] * count
        return "".join([" ".join(self._headers), "\n", *[form % row for row in rows]])
