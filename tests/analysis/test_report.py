from __future__ import annotations

import pytest

from kgtool.analysis import report


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(604_800_000, "7d"), (5_400_000, "90m"), (60_000, "1m"), (1500, "1500ms"), (0, "0ms"),
     (None, "-")],
)  # fmt: skip
def test_durations_are_written_as_the_options_take_them(
    milliseconds: int | None, text: str
) -> None:
    assert report.duration(milliseconds) == text


def test_moments() -> None:
    assert report.when(0) == "1970-01-01 00:00:00Z"
    assert report.when(1_795_265_212_119) == "2026-11-21 12:46:52Z"
    assert report.when(2**63 - 1) == str(2**63 - 1)


def test_a_long_group_name_leaves_the_numbers_on_the_screen() -> None:
    rows = [("g" * 200 + "-end", 12), ("short", 3)]
    lines = report._table("Largest groups", ("GROUP", "OFFSETS"), rows)
    assert max(map(len, lines)) < 80
    assert "…" in lines[3] and "-end" in lines[3] and lines[3].endswith("12")
    assert lines[4].split() == ["short", "3"]
