"""The curve of live offsets over time: one point a step, in time and not in changes."""

from __future__ import annotations

import pyarrow as pa

from kgtool.analysis.tables.totals import POINTS, growth, growth_steps
from kgtool.cli.analyze.summary import Page

MINUTE_MS = 60_000
NOW_MS = 1_700_000_000_000 // MINUTE_MS * MINUTE_MS


def curve(changes: list[tuple[int, int]], end_ms: int) -> list[tuple[int, int, int]]:
    """Return the curve of ``(ms after NOW_MS, change)``, of groups as of offsets."""
    table = pa.table(
        {
            "at_ms": [NOW_MS + at for at, _ in changes],
            "change": [change for _, change in changes],
            "groups": [change for _, change in changes],
        }
    )
    end_ms += NOW_MS
    rows = growth(growth_steps(table, end_ms), end_ms)
    return [(row["at_ms"] - NOW_MS, row["offsets"], row["groups"]) for row in rows]


def test_nothing_happens_between_two_changes() -> None:
    """Kind: a deletion and its undo after quiet minutes made the minutes before look empty.

    Siblings: the report's chart and the summary's line are drawn from the same rows.
    """
    hours = 10 * 60 * MINUTE_MS
    points = curve([(0, 100), (hours, -90), (hours + 6 * MINUTE_MS, 90)], hours + 9 * MINUTE_MS)
    assert points[0][1:] == (0, 0)
    quiet = [offsets for at, offsets, _ in points[1:] if at <= hours]
    assert len(quiet) > 100
    assert set(quiet) == {100}
    assert [offsets for at, offsets, _ in points if at > hours] == [10, 100, 100]
    line = Page().sparkline([offsets for _, offsets, _ in points[1:]], 40)
    assert line[:30] == "█" * 30


def test_points_are_few_and_in_order() -> None:
    for span in (1, 999, MINUTE_MS * POINTS, 400 * 86_400_000, 40_000 * 86_400_000):
        for end in (span, span + 1, span - span % MINUTE_MS + MINUTE_MS):
            points = curve([(0, 3), (span // 2, 1), (span, -2)], end)
            times = [at for at, _, _ in points]
            assert times == sorted(set(times)), (span, end)
            assert len(points) <= POINTS + 2
            assert points[-1] == (end, 2, 2)


def test_all_at_the_end_is_one_point() -> None:
    assert curve([(0, 3)], 0)[-1] == (0, 3, 3)
    assert growth(pa.table({"start_ms": []}), NOW_MS) == []
