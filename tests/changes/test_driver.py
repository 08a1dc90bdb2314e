"""The driver where a change has more waves than one: canary, all or nothing, what goes at once.

Kind: a promise that holds in the first wave, and is forgotten behind it.
"""

from __future__ import annotations

from typing import Any

import pytest

from kgtool.changes.driver import Canary, Driver
from tests.changes.test_twelfth_kind import Door, Label


class Judge:
    """Goes on from a canary; keeps what it was told of it."""

    def __init__(self, *, goes_on: bool = True) -> None:
        self.told: list[tuple[int, int]] = []
        self.goes_on = goes_on

    def __call__(self, done: int, failed: int) -> bool:
        self.told.append((done, failed))
        return self.goes_on


def labels(names: str) -> dict[str, str]:
    return dict.fromkeys(names, "old")


@pytest.mark.parametrize("at_most", [1, 2, 10])
def test_a_canary_counts_what_was_to_be_changed(at_most: int) -> None:
    """What the plan has refused is none of it: it is not tried, and can't tell how it goes."""
    judge, kind = Judge(), Label(labels("abcd"), refused=["a"])
    statuses = Door(kind).make("abcd", Canary(2, 4, judge), at_most=at_most)
    assert statuses == ["failed", "labelled", "labelled", "labelled"]
    assert judge.told == [(2, 0)]


@pytest.mark.parametrize("at_most", [1, 2, 10])
def test_a_canary_that_fails_says_how_many(at_most: int) -> None:
    judge, kind = Judge(goes_on=False), Label(labels("abcd"))
    door = Door(kind, lambda: kind.there.update(a="theirs"))
    statuses = door.make("abcd", Canary(2, 4, judge), at_most=at_most)
    assert statuses == ["changed-meanwhile", "labelled", "not-reached", "not-reached"]
    assert (judge.told, kind.sent) == ([(2, 1)], ["b"])


@pytest.mark.parametrize("late", ["", "a", "c"])
def test_all_or_nothing_over_waves(late: str) -> None:
    """All waves are looked at again before the first is sent, and each row is told of."""
    kind = Label(labels("abc"))
    door = Door(kind, lambda: kind.there.update(dict.fromkeys(late, "theirs")))
    statuses = door.make("abc", all_or_nothing=True, at_most=1)
    if late:
        assert statuses == ["changed-meanwhile" if name == late else "skipped" for name in "abc"]
        assert kind.sent == []
    else:
        assert (statuses, kind.sent) == (["labelled"] * 3, ["a", "b", "c"])


@pytest.mark.parametrize("refused", ["", "c"])
def test_all_or_nothing_at_once(refused: str) -> None:
    """A door that asks nothing plans it all the same."""
    kind = Label(labels("abc"), refused=refused)
    door = Door(kind)
    at_once(door, all_or_nothing=True, at_most=1)
    assert kind.sent == ([] if refused else ["a", "b", "c"])
    expected = ["skipped", "skipped", "failed"] if refused else ["labelled"] * 3
    assert [row.status for row in door.rows] == expected


def test_a_canary_at_once() -> None:
    kind, judge = Label(labels("abcd")), Judge(goes_on=False)
    door = Door(kind)
    at_once(door, Canary(2, 4, judge))
    assert (judge.told, kind.sent) == ([(2, 0)], ["a", "b"])
    statuses = ["labelled", "labelled", "not-reached", "not-reached"]
    assert [row.status for row in door.rows] == statuses


def test_the_size_is_known_before_the_first_wave() -> None:
    """Policy's limits are for the whole change, though it is made in parts."""
    kind = Label(labels("abc"), refused=["b"])
    door = Door(kind)
    sizes: list[Any] = []
    door.foresee = lambda count: sizes.append((*count(), list(kind.sent)))  # type: ignore[method-assign]
    at_once(door, at_most=1)
    [(groups, offsets, sent)] = sizes
    assert (list(groups), offsets, sent) == (["a", "c"], 2, [])


def at_once(door: Door, *canary: Canary, **options: Any) -> None:
    driver = Driver(door.session, door.kind, **options)
    driver.at_once(door, list(door.kind.there), door.rows.extend, *canary)  # type: ignore[arg-type]
