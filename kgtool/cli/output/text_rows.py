"""Rows of a table as text, fast: what says the same in every row is put into the line's form once.

Widths count UTF-16 units, as Java's ``String.format`` does; nothing is ever cut off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgtool.text import shown

MIN_WIDTH = 15


def width(text: str) -> int:
    """Return the length in UTF-16 units."""
    return len(text) if text.isascii() else len(text) + sum(char > "\uffff" for char in text)


def pad(text: str, size: int) -> str:
    """Pad on the right to ``size`` UTF-16 units; longer text stays as it is."""
    return text + " " * (size - width(text))


class Table:
    """A table of many rows, built column by column."""

    def __init__(self) -> None:
        self._headers: list[str] = []
        self._forms: list[str] = []
        self._values: list[Sequence[object]] = []
        """Of the columns that differ from row to row: those of ``_forms`` with a ``%``."""

    def names(self, header: str, values: Sequence[object], least: int = MIN_WIDTH) -> None:
        """Add a column as wide as its longest value, at least ``least``."""
        cells = {value: shown(value) for value in set(values)}  # many of them repeat
        self._add(header, values, cells, max([least, *map(width, cells.values())]))

    def words(self, header: str, values: Sequence[object], size: int = 0) -> None:
        """Add a column of one width: longer values push the rest of their line to the right."""
        self._add(header, values, {value: shown(value) for value in set(values)}, size)

    def numbers(self, header: str, values: Sequence[int | None], size: int = 0) -> None:
        """Add a column of one width, as ``words`` does."""
        if values and values.count(values[0]) != len(values):
            self._headers.append(pad(header, size))
            self._forms.append(f"%-{size}s")
            self._values.append([shown(v) for v in values] if None in values else values)
        else:
            self.words(header, values, size)

    def _add(
        self, header: str, values: Sequence[object], cells: Mapping[object, str], size: int
    ) -> None:
        self._headers.append(pad(header, size))
        if len(cells) == 1:
            (cell,) = cells.values()
            self._forms.append(pad(cell, size).replace("%", "%%"))
        elif "".join(cells.values()).isascii():
            self._forms.append(f"%-{size}s")
            self._values.append([cells[value] for value in values])
        else:  # % counts characters, not units
            self._forms.append("%s")
            self._values.append([pad(cells[value], size) for value in values])

    def text(self, count: int, gap: str = " ") -> str:
        """Return header and ``count`` rows, a line each."""
        form = gap.join(self._forms) + "\n"
        rows = zip(*self._values, strict=True) if self._values else [()] * count
        return "".join([gap.join(self._headers), "\n", *[form % row for row in rows]])
