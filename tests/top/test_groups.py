"""What the screen of ``kgtool top`` makes of its looks: rates, trends, filters, orders, columns."""

from __future__ import annotations

import math

import pytest

from kgtool.errors import UsageError
from kgtool.model import GroupDescription, GroupListing, GroupOffsets, OffsetRow
from kgtool.queries.doctor.finding import Finding
from kgtool.queries.offsets.past import Sums
from kgtool.top.groups import ORDERS, Group, Look, cells, fitting, look_of, parse_filter


def group(name: str, *looks: Look, state: str = "Empty", kind: str = "classic") -> Group:
    made = Group(GroupListing(name, kind, state, "consumer", 1), math.inf)
    for one in looks:
        made.see(one)
    return made


def look(at_s: float, committed: int, ends: int, *, partitions: int = 2, members: int = 1) -> Look:
    sums = Sums(ends - committed, committed, ends, partitions, {"orders": ends - committed})
    return Look(at_s, sums, members)


def _row(topic: str, partition: int, offset: int | None, end: int | None) -> OffsetRow:
    left = None if offset is None or end is None else end - offset
    return OffsetRow(
        "g", topic, partition, offset, 0, end, left, None, "", None, None, None, None, "ok"
    )


def test_a_look_sums_up_what_is_known() -> None:
    description = GroupDescription("g", "classic", "Empty", "", "", None, ())
    rows = [_row("a", 0, 3, 10), _row("a", 1, 5, 5), _row("b", 0, None, 7), _row("b", 1, 9, 4)]
    found = look_of(GroupOffsets(description, rows, []), 1.0)
    assert (found.sums.lag, found.sums.partitions, found.members) == (7, 3, 0)
    assert found.sums.topics == {"a": 7, "b": 0}, "beyond the end is no negative lag of others"


def test_rates_and_the_time_until_the_lag_is_gone() -> None:
    steady = group("g", look(0, 0, 100), look(10, 150, 200))
    assert steady.rates() == (10.0, 15.0)
    assert cells(steady, 10.0, 0)["eta"] == "10s"
    assert group("g", look(0, 0, 100)).rates() == (None, None), "one look tells no rate"
    behind = group("g", look(0, 0, 100), look(10, 50, 200))
    assert cells(behind, 10.0, 0)["eta"] == "-", "never at these rates"
    changed = group("g", look(0, 0, 100, partitions=1), look(10, 150, 200))
    assert changed.rates() == (None, None), "other partitions: sums that can't be compared"


def test_the_trend_shows_which_way_it_goes() -> None:
    assert group("g", *(look(n, 0, n) for n in range(8))).trend() == "▁▂▃▄▅▆▇█"
    assert group("g", *(look(n, n, 7) for n in range(3))).trend() == "█▄▁"
    assert group("g", look(0, 0, 5)).trend() == ""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", {"billing-1", "payments", "audit"}),
        ("bill", {"billing-1"}),
        ("*i*t*", {"audit"}),
        ("/g-\\d$/", {"billing-1"}),
        ("state:st", {"payments"}),
        ("type:share", {"audit"}),
        ("topic:order*", {"payments"}),
        ("finding:beyond", {"billing-1"}),
        ("state:empty bill", {"billing-1"}),
        ("nothing:x", set()),
    ],
)
def test_filters(text: str, names: set[str]) -> None:
    billing = group("billing-1")
    billing.findings = [Finding("beyond-end", "problem", "", {})]
    groups = [
        billing,
        group("payments", look(0, 0, 1), state="Stable"),
        group("audit", kind="share"),
    ]
    assert {one.name for one in groups if parse_filter(text)(one)} == names


def test_a_wrong_regular_expression_is_said() -> None:
    with pytest.raises(UsageError, match="is not a regular expression"):
        parse_filter("/(/")


def test_the_worst_comes_first() -> None:
    broken, lagging, dead, calm = group("z"), group("y", look(0, 0, 5)), group("x"), group("w")
    broken.findings = [Finding("beyond-end", "problem", "", {})]
    dead.see(look(0, 0, 500, members=0))
    calm.see(look(0, 5, 5))
    order = sorted([calm, dead, lagging, broken], key=ORDERS["hurts"])
    assert [one.name for one in order] == ["z", "y", "w", "x"]


@pytest.mark.parametrize("width", [60, 78, 98, 138, 250])
def test_lines_fit_and_what_decides_stays(width: int) -> None:
    columns = fitting(width)
    keys = {column.key for column in columns}
    assert {"group", "state", "lag", "out_per_s", "seen"} <= keys
    if width >= 60:
        assert 1 + sum(1 + size for size in columns.values()) <= max(width, 66)
    assert ("findings" in keys) is (width >= 138)


def test_every_cell_tells_its_age() -> None:
    shown = cells(group("g", look(100.0, 3, 10)), 145.0, 0)
    assert (shown["lag"], shown["seen"]) == ("7", "45s")
    assert cells(group("g"), 145.0, 0)["seen"] == "-"


def test_looks_that_nobody_needs_go() -> None:
    """Ten thousand groups were looked at for hours, and each kept sixty looks."""
    seen = group("g")
    for at_s in range(0, 3000, 100):
        seen.see(look(at_s, 0, at_s))
    assert [one.at_s for one in seen.looks] == [2200.0 + 100 * n for n in range(8)], "the trend's"
    for at_s in range(3000, 3200):
        seen.see(look(at_s, 0, at_s))
    assert (len(seen.looks), seen.looks[0].at_s) == (60, 3140.0), "the rates'"
    assert seen.rates()[0] == 1.0
    assert seen.topics == {"orders": 3199}
    assert not any(one.sums.topics for one in seen.looks)
    seen.see(look(9000, 0, 1, partitions=1))
    assert len(seen.looks) == 8
