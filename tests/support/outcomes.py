"""Tables at the end of a test run: what was tried against what, and how it went.

A test fills a cell with ``outcome``; pytest's terminal summary shows the tables, also where the
tests ran in xdist's workers, since user properties travel with the reports.

Some tables are pages of docs/: a cell that differs from the page fails its test, and
``KGTOOL_WRITE_TABLES=1`` writes the page anew from a run of all tests of the table.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

PROPERTY = "kgtool-outcome"
FAILED = "FAILED"
WRITE = "KGTOOL_WRITE_TABLES"
PAGES = {
    "A commit in doubt": "commits-in-doubt.rst",
    "A deletion in doubt": "deletions-in-doubt.rst",
}
"""The tables that are pages."""
FOLDER = Path(__file__).parents[2] / "docs" / "include"

Table = dict[str, dict[str, str]]
"""Rows of cells, by the names of row and column."""


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
        if table in PAGES and WRITE not in os.environ:
            assert read_page(table)[row][column] == cell.text, "docs/include says something else"

    return fill


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Show the tables."""
    tables: dict[str, Table] = {}
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
        if table in PAGES and WRITE in os.environ:
            (FOLDER / PAGES[table]).write_text(_page(table, rows), encoding="utf-8")


def read_page(table: str) -> Table:
    """Return a table as its page has it."""
    lines = (FOLDER / PAGES[table]).read_text(encoding="utf-8").splitlines()
    header, *rows = csv.reader(
        line.strip().removeprefix(":header: ") for line in lines if '"' in line
    )
    return {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in rows}


def _page(table: str, rows: Table) -> str:
    columns = sorted({column for cells in rows.values() for column in cells})
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(["fault", *columns])
    for row, cells in sorted(rows.items()):
        writer.writerow([row, *(cells.get(column, "") for column in columns)])
    header, *lines = out.getvalue().splitlines()
    body = "".join(f"   {line}\n" for line in lines)
    return f".. csv-table:: {table}\n   :header: {header}\n\n{body}"


def _lines(rows: Table) -> Iterator[str]:
    columns = list(dict.fromkeys(column for cells in rows.values() for column in cells))
    table = [["", *columns]]
    table += [[row, *(cells.get(column, "") for column in columns)] for row, cells in rows.items()]
    widths = [max(len(line[at]) for line in table) for at in range(len(table[0]))]
    for line in table:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield "  ".join(cells).rstrip()
