"""What a rule does with an offset, and when: by hand, and against a cluster played slowly."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgtool.changes.cleanup.facts import GONE_TOPIC, GroupFacts, OffsetFacts
from kgtool.changes.journal.kept import Memory
from kgtool.changes.retention.decide import Matched, RetentionRow, decide, due_ms, is_due, plan_item
from kgtool.changes.retention.look import Looked, LookedGroup
from kgtool.config.retention import Rule
from kgtool.errors import KgError
from kgtool.model import CommittedOffset, GroupDescription, Member, TopicPartition
from kgtool.queries.cluster.broker_rules import BrokerRules
from kgtool.queries.log.commit_times import CommitTime
from kgtool.queries.log.expiry import Expiry, GroupExpiry
from kgtool.retention.rules import RULE_EMPTY_SINCE, RULES_4_1
from kgtool.text import moment

DAY = 86_400_000
NOW = 1_000 * DAY
BROKER = 7 * DAY


def offset(age: float | None, *, left: float | None = None, **more: Any) -> OffsetFacts:
    """Committed ``age`` days ago; it expires in ``left`` days (default: by its age)."""
    at_ms = None if age is None else int(NOW - age * DAY)
    ends_ms = int(NOW + left * DAY) if left is not None else None
    if left is None and at_ms is not None:
        ends_ms = at_ms + BROKER
    expiry = Expiry(at_ms, ends_ms, more.get("rule", "commit"))
    committed = CommittedOffset(5, 1, "note", is_pending=more.get("is_pending", False))
    at = None if at_ms is None else CommitTime(at_ms)
    return OffsetFacts(committed, "id", 0, more.get("problem"), at, expiry)


def facts(
    *found: OffsetFacts, state: str = "Empty", kind: str = "classic", **more: Any
) -> GroupFacts:
    members = () if state == "Empty" else (Member("m", None, "c", "/h", (), ()),)
    description = GroupDescription("g", kind, state, "", "", None, members)
    offsets = {TopicPartition(f"t{number}", 0): each for number, each in enumerate(found)}
    return GroupFacts(description, offsets, **more)


def rule(days: float | None) -> Matched:
    return Matched(Rule(1, ("g*",), None if days is None else int(days * DAY)), "g*")


def judge(
    found: GroupFacts,
    days: float | None,
    first: dict[int, float] | None = None,
    retention_ms: int | None = BROKER,
) -> list[RetentionRow]:
    broker = BrokerRules(RULES_4_1, (4, 1), retention_ms, 600_000)
    firsts = {TopicPartition(f"t{n}", 0): int(NOW - age * DAY) for n, age in (first or {}).items()}
    offsets = {at: each.expiry for at, each in found.offsets.items()}
    return decide(found, rule(days), GroupExpiry("g", broker, None, offsets), firsts, NOW)


@pytest.mark.parametrize(
    ("days", "changed", "expected"),
    [
        (None, 100, ("none", "not-expiring")),
        (5, 6, ("delete-group", "due")),
        (5, 4, ("delete-group", "waiting")),
        (90, 6, ("delete-group", "waiting")),  # brokers have no retention that would be shorter
        (5, None, ("none", "unknown")),
    ],
)
def test_a_share_group_goes_by_its_last_members(
    days: float | None, changed: float | None, expected: tuple[str, str]
) -> None:
    changed_ms = None if changed is None else int(NOW - changed * DAY)
    found = facts(offset(None), offset(None), kind="share", changed_ms=changed_ms)
    for known in (BROKER, None):
        rows = judge(found, days, retention_ms=known)
        assert [(row.action, row.status) for row in rows] == [expected] * 2


def said(rows: list[RetentionRow]) -> list[tuple[str, str, float | None]]:
    days = [None if r.at_ms is None else round((r.at_ms - NOW) / DAY, 2) for r in rows]
    return [(row.action, row.status, at) for row, at in zip(rows, days, strict=True)]


LONGER: dict[str, tuple[GroupFacts, float | None, Any]] = {
    "more than half is left": (facts(offset(3)), 90, [("keep", "waiting", 0.5)]),
    "exactly half is left": (facts(offset(3.5)), 90, [("keep", "waiting", 0.0)]),
    "less than half is left": (facts(offset(3.6)), 90, [("keep", "due", -0.1)]),
    "overdue": (facts(offset(8)), None, [("keep", "due", -4.5)]),
    "each by its own time": (
        facts(offset(1), offset(5)),
        None,
        [("keep", "waiting", 2.5), ("keep", "due", -1.5)],
    ),
    "protected": (
        facts(offset(9)._replace(expiry=Expiry(1, None, "subscribed")), state="Stable"),
        None,
        [("none", "not-expiring", None)],
    ),
    "with members": (facts(offset(5), state="Stable"), 90, [("keep", "refused", -1.5)]),
    "unknown": (
        facts(offset(5)._replace(expiry=Expiry(None, None, None))),
        90,
        [("none", "unknown", None)],
    ),
    "an end before the broker's": (facts(offset(5)), 7.01, [("keep", "due", -1.5)]),
}


@pytest.mark.parametrize("case", LONGER)
def test_longer(case: str) -> None:
    found, days, expected = LONGER[case]
    assert said(judge(found, days)) == expected


def test_a_longer_retention_has_an_end() -> None:
    """It counts from before kgtool kept the offset; without a journal from the last commit."""
    found = facts(offset(5))
    assert said(judge(found, 90, {0: 87.9})) == [("keep", "due", -1.5)]
    assert said(judge(found, 90, {0: 88})) == [("none", "left-to-broker", None)]
    assert said(judge(found, 90)) == [("keep", "due", -1.5)]
    assert said(judge(found, None, {0: 9000})) == [("keep", "due", -1.5)]


SHORTER: dict[str, tuple[GroupFacts, float, Any]] = {
    "all are older": (
        facts(offset(3), offset(2)),
        2,
        [("delete-group", "due", -1.0), ("delete-group", "due", 0.0)],
    ),
    "one is older": (
        facts(offset(3), offset(1)),
        2,
        [("delete-offsets", "due", -1.0), ("delete-group", "waiting", 1.0)],
    ),
    "none is older": (facts(offset(1)), 2, [("delete-group", "waiting", 1.0)]),
    "with members": (facts(offset(3), state="Stable"), 2, [("none", "has-members", None)]),
    "members came and went": (
        facts(offset(5), changed_ms=NOW - DAY),
        2,
        [("delete-group", "waiting", 1.0)],
    ),
    "a topic that is gone": (
        facts(offset(3, problem=GONE_TOPIC), offset(1)),
        2,
        [("none", "left-to-broker", None), ("delete-group", "waiting", 1.0)],
    ),
    "all, one of a topic that is gone": (
        facts(offset(3, problem=GONE_TOPIC)),
        2,
        [("delete-group", "due", -1.0)],
    ),
    "a transaction": (
        facts(offset(3, is_pending=True), offset(1)),
        2,
        [("none", "unknown", None)] * 2,
    ),
    "a time that is not in the log": (facts(offset(None)), 2, [("none", "unknown", None)]),
    "before what was read": (
        facts(offset(None), committed_before_ms=NOW - 3 * DAY),
        2,
        [("delete-group", "due", -1.0)],
    ),
    "no right to read the log": (
        facts(offset(None), times_error=KgError("denied")),
        2,
        [("none", "unknown", None)],
    ),
}


@pytest.mark.parametrize("case", SHORTER)
def test_shorter(case: str) -> None:
    found, days, expected = SHORTER[case]
    rows = judge(found, days)
    if "transaction" in case:
        rows = [row._replace(action="none", at_ms=None) for row in rows]
    assert said(rows) == expected


def test_the_same_as_the_broker_s_and_an_unknown_one() -> None:
    assert said(judge(facts(offset(6)), 7)) == [("none", "left-to-broker", None)]
    for days in (1, None):
        (row,) = judge(facts(offset(6)), days, retention_ms=None)
        assert row.status == "unknown" and row.error is not None


def test_a_plan_has_what_is_due() -> None:
    found = facts(offset(3), offset(1))
    item = plan_item(found, rule(2), judge(found, 2), NOW)
    assert item is not None and item.action == "delete-offsets"
    assert [(each.topic, each.offset, each.metadata) for each in item.offsets] == [
        ("t0", 5, "note")
    ]
    assert item.why[0] == "g* is kept for 2d"
    found = facts(offset(4), offset(5), offset(1))
    item = plan_item(found, rule(None), judge(found, None), NOW)
    assert item is not None and (item.action, len(item.offsets)) == ("keep", 2)
    first = moment(NOW + 2 * DAY)
    assert item.why == ("g* is kept for never", f"the broker may remove it from {first} on")
    assert plan_item(facts(offset(1)), rule(2), judge(facts(offset(1)), 2), NOW) is None


def test_only_what_is_kept_from_when_its_group_became_empty_takes_a_join() -> None:
    def looked(name: str, days: float | None, found: GroupFacts | None) -> LookedGroup:
        return LookedGroup(name, rule(days), found, judge(found, days) if found else [])

    since_empty = facts(offset(5, rule=RULE_EMPTY_SINCE))
    groups = [
        looked("joined", None, since_empty),
        looked("shorter", 2, since_empty),
        looked("committed", None, facts(offset(5))),
        looked("unread", None, None),
    ]
    found = Looked(groups, [], [], [], None, False, Memory({}, False), {})
    assert found.needs_join == ["joined"]


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(-(10**6), 10**6))
def test_when_it_is_due(ends_ms: int, broker_ms: int, now_ms: int) -> None:
    assert is_due(ends_ms, broker_ms, now_ms) == (now_ms >= due_ms(ends_ms, broker_ms))
    assert is_due(ends_ms, broker_ms, now_ms) == (ends_ms - now_ms < broker_ms / 2)


# ---------------------------------------------------------------------------------------------
# A cluster, played minute by minute: runs come often enough, and each does what is due


class Played:
    """Offsets of one group on a broker that removes each a retention after its last commit."""

    def __init__(self, ages: list[int], broker: int, wanted: int | None) -> None:
        self.broker = broker
        self.matched = Matched(Rule(1, ("g",), wanted), "g")
        self.first = [START - age for age in ages]
        self.clock: dict[int, int] = dict(enumerate(self.first))
        self.died: dict[int, int] = {}

    def expire(self, now: int) -> None:
        self._remove([n for n, at in self.clock.items() if now >= at + self.broker], now)

    def _remove(self, numbers: list[int], now: int) -> None:
        for n in numbers:
            del self.clock[n]
            self.died[n] = now

    def run(self, now: int) -> None:
        offsets = {TopicPartition("t", n): self._offset(at) for n, at in self.clock.items()}
        known = BrokerRules(RULES_4_1, (4, 1), self.broker, 1)
        expiry = GroupExpiry("g", known, None, {p: o.expiry for p, o in offsets.items()})
        group = GroupDescription("g", "classic", "Empty", "", "", None, ())
        kept = {TopicPartition("t", n): self.first[n] for n in self.clock}
        rows = decide(GroupFacts(group, offsets), self.matched, expiry, kept, now)
        due = {row.partition or 0: row.action for row in rows if row.status == "due"}
        if "delete-group" in due.values():
            assert due.keys() == self.clock.keys()  # the last ones
        self._remove([n for n, action in due.items() if action != "keep"], now)
        self.clock.update({n: now for n, action in due.items() if action == "keep"})

    def _offset(self, at: int) -> OffsetFacts:
        expiry = Expiry(at, at + self.broker, "commit")
        return OffsetFacts(CommittedOffset(5, None, ""), None, 0, None, CommitTime(at), expiry)


START = 1000


@settings(max_examples=100, deadline=None)
@given(
    ages=st.lists(st.integers(0, 9), min_size=1, max_size=3),
    broker=st.integers(10, 20),
    wanted=st.one_of(st.none(), st.integers(1, 60)),
    gaps=st.lists(st.integers(1, 4), min_size=1, max_size=6),
)
def test_offsets_live_as_long_as_their_rule_says(
    ages: list[int], broker: int, wanted: int | None, gaps: list[int]
) -> None:
    played = Played(ages, broker, wanted)
    next_run, turn = START, 0
    for now in range(START, START + 120):
        played.expire(now)
        if now == next_run:
            played.run(now)
            next_run, turn = now + gaps[turn % len(gaps)], turn + 1
    if wanted is None:
        assert not played.died
        return
    for n, first in enumerate(played.first):
        ends = max(first + wanted, START)
        latest = ends + (broker if wanted > broker else max(gaps))
        assert ends <= played.died[n] <= latest
