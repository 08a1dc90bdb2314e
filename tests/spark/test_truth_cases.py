"""The smallest logs of real brokers that were once explained wrongly (``data/truth-cases``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.pipeline import Analysis
from kgtool.retention import rules as r
from tests.support.tables import Make, rows_of

pytestmark = pytest.mark.spark
CASES = Path(__file__).parents[1] / "data" / "truth-cases"


def analysis(case: str, rules: r.RuleSet, make: Make) -> Analysis:
    found = find_inputs([str(CASES / case / "segments")])
    basis = broker_settings.settings_from(None, "auto", 60_000, 5_000)._replace(rules=rules)
    return Analysis(make(), found.files, basis)


def causes(case: str, rules: r.RuleSet, make: Make) -> dict[tuple[Any, ...], Any]:
    rows = rows_of(analysis(case, rules, make), "removals")
    return {(row.group, row.topic, row.partition, row.removed_at_ms): row.cause for row in rows}


@pytest.mark.parametrize("rules", [r.RULES_3_8_NEW, r.RULES_4_1, r.RULES_2_4, r.RULES_3_2])
def test_a_static_member_is_back_with_other_topics(rules: r.RuleSet, engine: Make) -> None:
    """T1: the same generation again leaves the topics as they were, until the next generation or a
    load. Siblings: a topic more, a topic for another; live, overdue; both coordinators."""
    case = "static-member-back-with-other-topics"
    assert set(causes(case, rules, engine).values()) == {r.CAUSE_EXPIRED}
    found = analysis(case, rules, engine)
    kept = {(row.group, row.topic): row.rule for row in rows_of(found, "live")}
    groups = ("adds-t3", "t3-for-t2")
    expected = {(g, t): r.RULE_SUBSCRIBED for g in groups for t in ("t1", "t2")}
    if not rules.shows_loads:  # with a restart that no log shows, t2 would no longer protect
        expected["t3-for-t2", "t2"] = None
    assert kept == expected
    assert not rows_of(found, "overdue")


@pytest.mark.parametrize("rules", [r.RULES_2_5, r.RULES_2_6, r.RULES_2_4])
def test_offsets_expire_in_a_rebalance_of_an_empty_group(rules: r.RuleSet, engine: Make) -> None:
    """T2, KAFKA-13636: by their commits, as nobody subscribes. Siblings: brokers known to have the
    bug, a generation of which some have it; with the mend it is a deletion."""
    removed = ("classic-51", "t2", 1, 1795627037572)
    assert causes("kafka-13636", rules, engine)[removed] == r.CAUSE_EXPIRED
    assert causes("kafka-13636", r.RULES_3_2, engine)[removed] == r.CAUSE_EXPLICIT


@pytest.mark.parametrize("rules", [r.RULES_2_5, r.RULES_2_4])
def test_a_load_loses_the_date_of_an_empty_group(rules: r.RuleSet, engine: Make) -> None:
    """T3, 2.3.0 to 2.6.0: by their commits from then on. The leader epoch does not show this
    restart, the phase of the checks does. Siblings: the group's own removal, other brokers."""
    found = causes("date-lost-on-load", rules, engine)
    at_ms = 1795627067076
    assert found["classic-31", "t2", 1, at_ms] == r.CAUSE_EXPIRED
    assert found["classic-31", None, None, at_ms] == r.CAUSE_GROUP_EMPTY
    assert r.CAUSE_EXPLICIT not in found.values()
    fixed = causes("date-lost-on-load", r.RULES_2_6, engine)
    assert fixed["classic-31", "t2", 1, at_ms] == r.CAUSE_EXPLICIT
