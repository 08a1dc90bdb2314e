"""Tables at the end of a test run: what was tried against what, and how it went.

A test fills a cell with ``outcome``; pytest's terminal summary shows the tables, also where the
tests ran in xdist's workers, since user properties travel with the reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

PROPERTY = "kgtool-outcome"
FAILED = "FAILED"


class Cell:
    """One field of a table; a test that ends early leaves FAILED in it."""

    def __init__(self) -> None:
        self.text = "ok"

    def says(self, text: str) -> None:
        self.text = text


Outcome = Callable[[str, str, str], AbstractContextManager[Cell]]


@pytest.fixture
def outcome(record_property: Callable[[str, object], None]) -> Outcome:
    """``with outcome("brokers", "2.1.1", "list") as cell: …; cell.says("3 groups")``."""

    @contextmanager
    def fill(table: str, row: str, column: str) -> Iterator[Cell]:
        cell = Cell()
        try:
            yield cell
        except BaseException:
            record_property(PROPERTY, [table, row, column, FAILED])
            raise
        record_property(PROPERTY, [table, row, column, cell.text])

    return fill


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Show the tables."""
    tables: dict[str, dict[str, dict[str, str]]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == PROPERTY:
                    table, row, column, text = value
                    tables.setdefault(table, {}).setdefault(row, {})[column] = text
    for table, rows in sorted(tables.items()):
        terminalreporter.section(table)
        for line in _lines(rows):
            terminalreporter.write_line(line)


def _lines(rows: dict[str, dict[str, str]]) -> Iterator[str]:
    columns = list(dict.fromkeys(column for cells in rows.values() for column in cells))
    table = [["", *columns]]
    table += [[row, *(cells.get(column, "") for column in columns)] for row, cells in rows.items()]
    widths = [max(len(line[at]) for line in table) for at in range(len(table[0]))]
    for line in table:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield "  ".join(cells).rstrip()
