"""What a group costs in the report: its rows in the tables, compressed, by the real columns."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from kgtool.analysis import schema
from kgtool.analysis.report import blocks, facts, html_page
from tests.analysis import report_facts

GROUPS = 1_000


def table(name: str, rows: int) -> pa.Table:
    """Return a table with all columns that the report shows, each with values that differ."""
    draw = random.Random(36)
    wanted, found = schema.TABLES[name].arrow(), {}
    for column in facts._names(name):
        kind = wanted.field(column).type
        if column == "group":
            each = rows // GROUPS
            values = [f"team-{at % 40}.service-{at // each:05}" for at in range(rows)]
        elif pa.types.is_string(kind) or pa.types.is_dictionary(kind):
            values = [f"{column}-{draw.randrange(20)}" for _ in range(rows)]
        elif pa.types.is_boolean(kind):
            values = [draw.random() < 0.5 for _ in range(rows)]
        elif pa.types.is_nested(kind):
            values = [None] * rows
        else:  # times within a week, sizes
            most = 7 * 86_400_000 if column.endswith("_ms") else 1_000_000
            values = [1_700_000_000 + draw.randrange(most) for _ in range(rows)]
        found[column] = pa.array(values, kind) if values[0] is not None else pa.nulls(rows, kind)
    return pa.table(found)


@pytest.mark.parametrize(("name", "rows", "bytes_a_group"), [("groups", 1, 83), ("live", 10, 492)])
def test_a_group_costs_no_more_than_it_did_and_a_fifth(
    name: str, rows: int, bytes_a_group: int
) -> None:
    made = blocks.blocks(facts._names(name), [table(name, GROUPS * rows)])
    assert sum(map(len, made)) / GROUPS <= 1.2 * bytes_a_group


def test_the_page_without_rows_costs_no_more_than_it_did_and_a_fifth() -> None:
    written = html_page.page(report_facts.data(), lambda _: iter([b""]))
    assert sum(map(len, written)) <= 1.2 * 130_038
