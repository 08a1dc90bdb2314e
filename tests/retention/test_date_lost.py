"""Brokers 2.3.0 to 2.6.0 forget on loading a partition since when its groups are Empty (T3).

Independent of how removals are explained: what a coordinator has after a new leader epoch.
Siblings: a group with members, one that is Empty again later, a load before it became Empty.
"""

from __future__ import annotations

import pytest

from kgtool.retention import rules as r
from kgtool.retention.history import History, Key
from tests.retention.logs import GROUP, Log

RETENTION_MS = 60_000
FORGETS = [(r.RULES_2_3, True), (r.RULES_2_5, True), (r.RULES_2_2, False), (r.RULES_2_6, False)]
FORGETS += [(r.RULES_3_2, False), (r.RULES_4_1, False)]


def verdict(log: Log, rules: r.RuleSet) -> tuple[int | None, str]:
    history = History(rules, RETENTION_MS)
    for entry in log.entries:
        history.feed(entry)
    live = history.live_offset(Key(GROUP, "t1", 0))
    assert live is not None
    return tuple(live.verdict)


def emptied(*, loaded_at: int) -> Log:
    """Commit at 1 s, Empty at 30 s; a coordinator loads the partition before step ``loaded_at``."""
    log = Log()
    steps = [
        lambda: log.classic(0, [["t1"]], cst=0),
        lambda: log.commit(1_000),
        lambda: log.classic(30_000, [], cst=30_000, generation=2),
        lambda: log.commit(40_000, group="other"),
    ]
    for number, step in enumerate(steps):
        log.epoch = int(number >= loaded_at)
        step()
    return log


@pytest.mark.parametrize(("rules", "forgets"), FORGETS)
def test_the_date_of_an_empty_group_is_lost_on_load(rules: r.RuleSet, forgets: bool) -> None:
    by_date, by_commit = (90_000, r.RULE_EMPTY_SINCE), (61_000, r.RULE_COMMIT)
    assert verdict(emptied(loaded_at=9), rules) == by_date
    assert verdict(emptied(loaded_at=2), rules) == by_date
    assert verdict(emptied(loaded_at=3), rules) == (by_commit if forgets else by_date)


def test_it_has_a_date_again_once_it_is_empty_again() -> None:
    log = emptied(loaded_at=3)
    log.classic(50_000, [["t1"]], cst=50_000, generation=3)
    assert verdict(log, r.RULES_2_5)[1] == r.RULE_SUBSCRIBED
    log.classic(55_000, [], cst=55_000, generation=4)
    assert verdict(log, r.RULES_2_5) == (115_000, r.RULE_EMPTY_SINCE)
