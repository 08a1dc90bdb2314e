"""What a played broker does beyond the worked examples: deleted topics, the first check."""

from __future__ import annotations

import pytest

from kgtool.retention.rules import RULE_SETS
from tests.retention.logs import GROUP, Log
from tests.retention.simulation import Removed, TopicDeleted, simulate

R, INTERVAL = 60_000, 5_000


def play(
    log: Log, name: str, *deleted: TopicDeleted, end_ms: int = 100_000, start_ms: int = 0
) -> list[Removed]:
    events = [*log.entries, *deleted]
    return simulate(events, RULE_SETS[name], R, INTERVAL, end_ms, start_ms)


@pytest.mark.parametrize(
    ("name", "dropped"), [("2.4", False), ("3.7-new", False), ("3.8-new", True), ("4.1", True)]
)
def test_a_deleted_topic_takes_pending_offsets_along_since_3_8(name: str, dropped: bool) -> None:
    log = Log()
    log.classic(0, [["t1"]], cst=0)
    log.commit(0, "gone", pid=7)
    log.end_transaction(30_000, 7, commit=True)
    removed = play(log, name, TopicDeleted(12_000, "gone"), end_ms=40_000)
    assert removed == ([Removed(12_000, GROUP, "gone", 0)] if dropped else [])


def test_a_deleted_topic_takes_subscribed_offsets_too_and_no_others() -> None:
    log = Log()
    log.classic(0, [["gone"]], cst=0)
    for topic in ("gone", "other"):
        log.commit(0, topic)
    for name in RULE_SETS:
        removed = play(log, name, TopicDeleted(12_000, "gone"), end_ms=40_000)
        assert removed == [Removed(12_000, GROUP, "gone", 0)]


def test_the_scala_coordinator_then_takes_every_empty_group_off_tick() -> None:
    log = Log()
    log.commit(0, "gone", group="other")
    log.classic(0, [["t1"]], cst=0)
    log.classic(11_000, [], cst=11_000, generation=2)
    group_gone = {
        name: next(
            row.at_ms for row in play(log, name, TopicDeleted(12_000, "gone")) if row.group == GROUP
        )
        for name in RULE_SETS
    }
    assert group_gone == {
        name: 15_000 if rules.new_coordinator else 12_000 for name, rules in RULE_SETS.items()
    }


def test_checks_start_one_interval_after_the_start() -> None:
    log = Log()
    log.commit(0)
    start = R + 123
    assert play(log, "2.4", start_ms=start) == [Removed(start + INTERVAL, GROUP, "t1", 0)]
    assert play(log, "2.4", start_ms=start, end_ms=start + INTERVAL - 1) == []
