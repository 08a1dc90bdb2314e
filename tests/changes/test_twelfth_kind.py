"""A kind of change that is new: one small class, and it has all that changes promise.

Kind: a promise that each change keeps by itself, and the next one does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from kgtool.changes.driver import Before, Canary, Driver
from kgtool.changes.plan import ChangePlan, failed
from kgtool.changes.snapshot import GroupChange, GroupImage
from kgtool.errors import ChangedMeanwhile, KgError
from kgtool.model import ItemError
from tests.support.script import Script


class Row(NamedTuple):
    """A group and the label it had; the change gives it another one."""

    group: str
    label: str
    status: str = "would-label"
    error: ItemError | None = None

    @property
    def is_open(self) -> bool:
        return self.status == "would-label"


class Label:
    """The twelfth kind. ``there`` stands for the cluster: the label of each group."""

    def __init__(self, there: dict[str, str], refused: Sequence[str] = ()) -> None:
        self.there, self.refused = there, refused
        self.sent: list[str] = []

    def weigh(self, row: Row) -> int:
        return 1

    def look(self, cluster: Any, groups: Sequence[str]) -> Any:
        yield from ()
        rows = [Row(group, self.there[group]) for group in groups]
        return [failed(r, KgError("no")) if r.group in self.refused else r for r in rows]

    def look_again(self, cluster: Any, plan: Sequence[Row]) -> Any:
        now = yield from self.look(cluster, [row.group for row in plan])
        pairs = zip(plan, now, strict=True)
        return [r if not p.is_open or p == r else failed(p, ChangedMeanwhile("")) for p, r in pairs]

    def before(self, cluster: Any, going: Sequence[Row]) -> Any:
        yield from ()
        images = [GroupImage(r.group, "classic", "Empty", "consumer", True, {}) for r in going]
        return Before([GroupChange(image, {}) for image in images])

    def send(self, cluster: Any, going: Sequence[Row]) -> Any:
        yield from ()
        self.sent += [row.group for row in going]
        self.there.update(dict.fromkeys(self.sent, "new"))
        return [row._replace(status="labelled") for row in going]


class Door:
    """What a door gives the driver: a session, and a change that writes down what it is told."""

    def __init__(self, kind: Label, locked: Callable[[], object] = lambda: None) -> None:
        self.kind, self.locked = kind, locked
        self.said: list[tuple[Any, ...]] = []
        self.rows: list[Row] = []
        self.session: Any = SimpleNamespace(cluster=None, run=Script(lambda *_: None).run)

    def lock(self, groups: Sequence[str]) -> None:
        self.said.append(("lock", *groups))
        self.locked()

    def admit(self, groups: Sequence[str], offsets: int) -> None:
        self.said.append(("admit", *groups, offsets))

    def foresee(self, _count: Any) -> None:
        pass

    def before(self, changes: Sequence[GroupChange], *_: Any) -> None:
        self.said.append(("journal", *(change.image.group for change in changes)))
        assert not {change.image.group for change in changes} & set(self.kind.sent), "sent before"

    def results(self, rows: Sequence[Row]) -> None:
        self.said.append(("results", *(f"{row.group} {row.status}" for row in rows)))

    def make(self, groups: Sequence[str], canary: Canary | None = None, **more: Any) -> list[str]:
        """Plan and apply; the status of each group."""
        driver, change, given = (
            Driver(self.session, self.kind, **more),
            self,
            [canary] if canary else [],
        )
        with ChangePlan[Any](all_or_nothing=more.get("all_or_nothing", False)) as plan:
            driver.look(plan, groups)
            if plan.is_off:
                plan.report(self.rows.extend)
            else:
                driver.apply(change, plan, self.rows.extend, *given)  # type: ignore[arg-type]
        return [row.status for row in self.rows]


def test_it_is_locked_admitted_and_journaled_before_it_is_sent() -> None:
    door = Door(Label({"a": "old", "b": "old"}, refused=["b"]))
    assert door.make(["a", "b"]) == ["labelled", "failed"]
    assert door.said == [
        ("lock", "a"),
        ("admit", "a", 1),
        ("journal", "a"),
        ("results", "a labelled"),
    ]


def test_what_has_changed_since_the_question_is_left_alone() -> None:
    kind = Label({"a": "old", "b": "old"})
    door = Door(kind, lambda: kind.there.update(a="theirs"))
    assert door.make(["a", "b"]) == ["changed-meanwhile", "labelled"]
    assert (kind.sent, kind.there["a"]) == (["b"], "theirs")


@pytest.mark.parametrize("is_late", [False, True])
def test_all_or_nothing(is_late: bool) -> None:
    """What is refused, in the plan or at the second look, stops all of it."""
    kind = Label({"a": "old", "b": "old"}, refused=[] if is_late else ["b"])
    door = Door(kind, lambda: kind.there.update(b="theirs"))
    statuses = door.make(["a", "b"], all_or_nothing=True)
    assert statuses == ["skipped", "changed-meanwhile" if is_late else "failed"]
    assert (kind.sent, [said for said in door.said if said[0] == "journal"]) == ([], [])


def test_a_canary_that_nobody_goes_on_from() -> None:
    kind = Label(dict.fromkeys("abc", "old"))
    door = Door(kind)
    assert door.make("abc", Canary(1, 3, lambda done, bad: (done, bad) != (1, 0))) == [
        "labelled",
        "not-reached",
        "not-reached",
    ]
    assert kind.sent == ["a"]


def test_a_wave_has_no_more_groups_than_it_may() -> None:
    kind = Label(dict.fromkeys("abc", "old"))
    door = Door(kind)
    Driver(door.session, kind, at_most=2).at_once(door, "abc", door.rows.extend)  # type: ignore[arg-type]
    assert [said[1:] for said in door.said if said[0] == "journal"] == [("a", "b"), ("c",)]
    assert [row.status for row in door.rows] == ["labelled"] * 3
