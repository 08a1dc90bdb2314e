"""Tables of ``analyze`` on a terminal: they fit, and what is missing is named."""

from __future__ import annotations

import io
from typing import Any

import pytest

from kgtool.analysis import schema
from kgtool.cli.analyze.table import put_table, show_rows
from kgtool.cli.output import terminal
from kgtool.cli.output.output import Output

NOW_MS = 1_795_265_000_000
NEEDED = {
    "live": ("GROUP", "TOPIC", "PARTITION", "EXPIRES_AT"),
    "removals": ("GROUP", "TOPIC", "PARTITION", "REMOVED_AT", "CAUSE"),
    "overdue": ("GROUP", "TOPIC", "PARTITION", "OVERDUE"),
    "whatif": ("RULES", "RETENTION", "CHECK_INTERVAL", "REMOVED_OFFSETS", "LIVE_OFFSETS"),
    "groups": ("FAMILY", "GROUP", "LIVE_OFFSETS"),
}


class Tty(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def row(table: str, name: str) -> dict[str, Any]:
    values: dict[str, Any] = {
        "group": name,
        "topic": name,
        "family": name,
        "path": f"/data/{name}",
        "rule": "commit",
        "group_type": "consumer",
        "group_state": "Stable",
        "cause": "group-empty",
        "rules": "4.1",
        "topic_id": "qn3-qaUyTFi7B5H1zQhvbw",
        "protocol_type": "consumer",
    }
    for column, kind in schema.TABLES[table].columns:
        if kind == "boolean":
            values[column] = False
        elif kind in ("int", "bigint"):
            moment = column.endswith("_ms") and column not in ("retention_ms", "overdue_ms")
            values[column] = NOW_MS if moment else 86_400_000
    return {
        column: values[column]
        for column, kind in schema.TABLES[table].columns
        if kind[:5] != "array"
    }


def put(monkeypatch: pytest.MonkeyPatch, table: str, name: str, columns: int) -> tuple[str, str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "dumb")
    stdout, stderr = Tty(), io.StringIO()
    rows = [row(table, name), row(table, "b\x1b[31m")]
    show_rows(list(rows[0]), rows, (), Output(stdout=stdout, stderr=stderr))
    return stdout.getvalue(), stderr.getvalue()


@pytest.mark.parametrize("name", ["g" * 255, "日本" * 100])
@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("table", NEEDED)
def test_it_fits_and_keeps_what_is_needed(
    monkeypatch: pytest.MonkeyPatch, table: str, columns: int, name: str
) -> None:
    text, said = put(monkeypatch, table, name, columns)
    lines = text.splitlines()
    assert len(lines) == 3
    assert max(map(terminal.columns_of, lines)) <= columns
    assert set(NEEDED[table]) <= set(lines[0].split())
    assert "\x1b" not in text
    head = set(lines[0].split())
    left_out = [
        shown
        for shown in (column.removesuffix("_ms").upper() for column in row(table, name))
        if shown not in head
    ]
    assert all(shown in said for shown in left_out)
    assert bool(said) == bool(left_out)


def test_wide_enough_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    text, said = put(monkeypatch, "live", "orders", 400)
    assert said == ""
    assert text.splitlines()[1].split()[:3] == ["orders", "orders", "86400000"]
    assert "2026-11-21T12:43:20Z" in text


@pytest.mark.parametrize(
    ("table", "row", "shown"),
    [
        (
            "gaps",
            {
                "family": "f",
                "groups": 1,
                "keys": 2,
                "longest_gap_ms": 90_000,
                "safe_retention_ms": 60_001,
            },
            ["f", "1", "2", "1m 30s", "1m"],
        ),
        (
            "writers",
            {
                "bucket_ms": NOW_MS,
                "family": "f",
                "groups": 1,
                "commits": 2,
                "records": 3,
                "bytes": 4,
            },
            ["2026-11-21T12:43:20Z", "f", "1", "2", "3", "4"],
        ),
    ],
)
def test_lengths_of_time_and_moments(table: str, row: dict[str, Any], shown: list[str]) -> None:
    class Found:
        def rows(self, *_: object) -> Any:
            return iter([row])

    stdout = io.StringIO()
    put_table(Found(), table, Output(stdout=stdout, stderr=io.StringIO()))
    assert stdout.getvalue().splitlines()[1].split() == " ".join(shown).split()
