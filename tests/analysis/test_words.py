from __future__ import annotations

import pytest

from kgtool.analysis import words


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (604_800_000, "7d"),
        (5_400_000, "90m"),
        (60_000, "1m"),
        (1500, "1500ms"),
        (0, "0ms"),
        (None, "-"),
    ],
)
def test_durations_are_written_as_the_options_take_them(
    milliseconds: int | None, text: str
) -> None:
    assert words.duration(milliseconds) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0ms"),
        (999, "999ms"),
        (1000, "1s"),
        (3_599_999, "59m 59s"),
        (90_061_000, "1d 1h"),
        (-45_008, "-45s"),
        (86_400_000 * 400, "400d"),
        (None, "-"),
    ],
)
def test_spans_are_read_in_two_units(milliseconds: int | None, text: str) -> None:
    assert words.about(milliseconds) == text


def test_moments() -> None:
    assert words.when(0) == "1970-01-01T00:00:00Z"
    assert words.when(1_795_265_212_119) == "2026-11-21T12:46:52Z"
    assert words.when(2**63 - 1) == str(2**63 - 1)


def test_sizes() -> None:
    assert [words.size(n) for n in (0, 999, 1000, 48_500, 2_300_000_000)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "48.5 kB",
        "2.3 GB",
    ]
