"""The text of ``kgtool analyze``, from facts as Spark counts them."""

from __future__ import annotations

from typing import Any

import pytest

from kgtool.cli.analyze.summary import Page, render
from kgtool.cli.output import terminal

DAY_MS = 86_400_000
NOW_MS = 1_795_265_000_000


def facts(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "rules": "4.1",
        "retention_ms": 7 * DAY_MS,
        "check_interval_ms": 600_000,
        "as_of_ms": NOW_MS,
        "live_groups": 3,
        "live_offsets": 12,
        "due_now": 1,
        "next_24h": 5,
        "next_7d": 9,
        "never": 3,
        "untold": 0,
        "overdue": 0,
        "overdue_partitions": [],
        "groups_by_state": [],
        "next_days": [],
        "expiring_next": [],
        "largest_families": [],
        "growth": [],
        "whatif": [],
        "removals": [],
        "rules_were": [],
        "wrote": [],
        "quality": {
            "files": 2,
            "bytes": 1_500,
            "records": 30,
            "decoded": 30,
            "skipped": 0,
            "damaged_files": 0,
            "problem_files": [],
        },
    }
    return found | changes


def expiring(name: str, groups: int = 1) -> dict[str, Any]:
    return {
        "family": name,
        "groups": groups,
        "offsets": 1_234_567,
        "due_now": 0,
        "next_24h": 1,
        "next_7d": 2,
        "never": 0,
        "next_expiry_ms": NOW_MS + 1,
    }


def test_the_first_lines_say_it_all() -> None:
    lines = render(facts(), Page()).splitlines()
    assert lines[:4] == [
        "Log      2 files, 1.5 kB, 30 records, until 2026-11-21T12:43:20Z",
        "Rules    4.1: retention 7d, checked every 10m",
        "Live     12 offsets of 3 groups",
        "Expires  5 within 24 h, 9 within 7 d, 3 never; 1 overdue",
    ]
    assert lines[-1] == "Unreadable  none"


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("name", ["g" * 255, "日本" * 120, "e\u0301" * 250])
def test_a_long_name_leaves_the_numbers_on_the_screen(name: str, width: int) -> None:
    rows = [expiring(name), expiring("short", 200)]
    text = render(facts(expiring_next=rows, largest_families=rows), Page(width))
    lines = text.splitlines()
    assert max(map(terminal.columns_of, lines)) <= width
    at = lines.index("Expiring next")
    cut = lines[at + 2].split()
    head, tail = cut[0].split("…")
    assert len(head) > len(tail) > 3 and name.startswith(head) and name.endswith(tail)
    assert cut[1:] == ["1", "1,234,567", "1", "2", "2026-11-21T12:43:20Z"]
    assert lines[at + 3].split()[:3] == ["short", "200", "1,234,567"]


def test_control_characters_stay_harmless() -> None:
    text = render(facts(expiring_next=[expiring("a\x1b[31mb\nc")]), Page(120))
    assert "\x1b" not in text and "\\x1b[31m" in text.lower()


def test_growth_is_a_curve_in_one_line() -> None:
    curve = [{"at_ms": NOW_MS + n * DAY_MS, "offsets": n * 10, "groups": n} for n in range(9)]
    lines = render(facts(growth=curve), Page()).splitlines()
    assert "Growth   ▂▃▄▅▆▇██ in 8d, most 80 offsets" in lines
    plain = render(facts(growth=curve), Page(mark="~")).splitlines()
    assert next(line for line in plain if line.startswith("Growth")).isascii()


@pytest.mark.parametrize(
    ("values", "columns", "line"),
    [
        ([0, 0, 0], 10, "▁▁▁"),
        ([-70, 7], 10, "▁█"),
        ([5], 10, "█"),
        (list(range(1000)), 4, "▂▄▆█"),
        ([], 5, ""),
    ],
)
def test_sparklines_fit(values: list[int], columns: int, line: str) -> None:
    assert Page().sparkline(values, columns) == line


def test_scenarios_stand_side_by_side() -> None:
    row = {
        "rules": "4.1",
        "retention_ms": 3 * DAY_MS,
        "check_interval_ms": 600_000,
        "removed_offsets": 70,
        "missed_offsets": 6,
        "removed_groups": 5,
        "live_offsets": 40,
        "next_offsets": 4,
    }
    lines = render(facts(whatif=[row]), Page()).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("What if"))
    assert lines[at + 1].split()[-5:] == ["REMOVED", "MISSED", "GROUPS", "LIVE", "NEXT"]
    assert lines[at + 2].split() == ["4.1,", "3d,", "10m", "70", "6", "5", "40", "4"]


def test_overdue_is_said_where_it_is_seen() -> None:
    text = render(facts(overdue=5, overdue_partitions=[3, 17]), Page())
    assert "Overdue  5 should be gone: see --table overdue (__consumer_offsets 3, 17)" in text


def test_what_nobody_told_is_not_guessed() -> None:
    kind = {
        "group_type": None,
        "group_state": None,
        "groups": 2,
        "offsets": 5,
        "due_now": 0,
        "next_24h": 0,
        "next_7d": 0,
        "never": 0,
        "untold": 5,
    }
    orphans = kind | {"groups": 1, "offsets": 3, "untold": 0}
    gone = {"cause": None, "of_offset": True, "removals": 7, "max_latency_ms": None}
    text = render(
        facts(groups_by_state=[kind, orphans], removals=[gone], overdue=None, untold=5), Page()
    )
    rows = [line.split() for line in text.splitlines()]
    assert ["not", "told", "2", "5", "0", "0", "0"] in rows
    assert ["no", "group", "(orphaned", "offsets)", "1", "3", "0", "0", "0"] in rows
    assert ["unknown", "offsets", "7", "-"] in rows
    assert "Overdue" not in text and "unknown 5" in text
