"""Rows that are laid out at once, as text and as JSON, against laying out one by one."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from kgtool.cli.output.kafka_tables import longest, pad, table, width
from kgtool.json_rows import RowTemplate
from kgtool.text import shown

# Few values, so that columns say the same in every row often enough; and what forms trip over.
NAMES = st.sampled_from(
    ["", "a", "orders", "100%", "%s", "%-5d", "日本", "\U0001f600", "\x1b[31m", None]
)
NUMBERS = st.sampled_from([0, 0, 1, 12_345_678_901_234_567, -1, None])
ROWS = st.lists(st.tuples(NAMES, NUMBERS, NAMES), min_size=1, max_size=6)


@given(rows=ROWS, least=st.integers(0, 20))
def test_text(rows: list[tuple[str | None, int | None, str | None]], least: int) -> None:
    names = [row[0] for row in rows]
    found = table(
        ("NAME", names, longest(names, least)),
        ("NUMBER", [row[1] for row in rows], least),
        ("LAST %", [row[2] for row in rows], 0),
    )
    size = max(least, *(width(shown(row[0])) for row in rows))
    lines = [("NAME", "NUMBER", "LAST %"), *(tuple(map(shown, row)) for row in rows)]
    assert found == "".join(
        f"{pad(first, size)} {pad(second, least)} {third}\n" for first, second, third in lines
    )


VALUES = st.sampled_from(
    [
        "",
        "100%",
        "%s",
        'a"b\\',
        "日本",
        "\ud800",
        0,
        1,
        -7,
        10**18,
        True,
        False,
        None,
        [1, "x"],
        1.5,
    ]
)


@given(rows=st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=6))
def test_json(rows: list[tuple[object, ...]]) -> None:
    keys = ("a", "100%", "%s")
    expected = [json.dumps(dict(zip(keys, row, strict=True))) for row in rows]
    assert RowTemplate(keys).lines(rows) == expected
    assert [RowTemplate(keys).line(row) for row in rows] == expected
