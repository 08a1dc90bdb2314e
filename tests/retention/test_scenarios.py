"""The worked examples: 37 histories, six generations, every tombstone to the second."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kgtool.records.consumer_group import (
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
)
from kgtool.retention.rules import RULE_SETS, RuleSet
from tests.retention.logs import GROUP, Log
from tests.retention.simulation import TopicDeleted, simulate
from tests.retention.truth import DATA

SCENARIOS = json.loads((DATA / "retention-scenarios.json").read_text(encoding="utf-8"))
ALIAS = dict(zip(RULE_SETS, ("a", "b21", "b24", "c37", "c38", "c41"), strict=True))
"""What the scenarios call the generations."""
CASES = [
    pytest.param(scenario, rules, id=f"{scenario['id']}-{rules.name}")
    for scenario in SCENARIOS
    for rules in RULE_SETS.values()
    if scenario["expected"][ALIAS[rules.name]] is not None
]


class Script:
    """A scenario as the log that a broker of this generation would have written."""

    def __init__(self, scenario: dict[str, Any], rules: RuleSet) -> None:
        self.scenario = scenario
        self.rules = rules
        self.log = Log()
        self.is_classic = False
        self.members = 0
        self.deletions: list[TopicDeleted] = []
        for event in scenario["events"]:
            getattr(self, event["e"])(event, event["t"] * 1000)

    def off(self, event: dict[str, Any], at_ms: int) -> None:
        cts = event.get("cts", event["t"]) * 1000
        ets = event["rawEts"] * 1000 if "rawEts" in event else None
        if "retention" in event:
            ets = cts + event["retention"] * 1000
        if ets is None and self.rules.fixed_at_commit:
            ets = cts + self.scenario["retention_s"] * 1000
        self.log.commit(
            at_ms, event["topic"], event["p"], cts=cts, ets=ets, pid=event.get("pid", -1)
        )

    def end(self, event: dict[str, Any], at_ms: int) -> None:
        self.log.end_transaction(at_ms, event["pid"], commit=event["commit"])

    def gm(self, event: dict[str, Any], at_ms: int) -> None:
        self.is_classic = True
        self.log.classic(
            at_ms,
            [b"\x00" if member == "bad" else member for member in event["members"]],
            protocol_type=event["pt"],
            cst=None if "cst" not in event else event["cst"] * 1000,
            generation=event.get("gen", 1),
        )

    def gmtomb(self, event: dict[str, Any], at_ms: int) -> None:
        self.log.end_group(at_ms)

    def cg(self, event: dict[str, Any], at_ms: int) -> None:
        if self.is_classic:
            self.log.end_group(at_ms)
            self.is_classic = False
        is_regex = "regex" in self.scenario["name"]
        if is_regex:
            resolved = ConsumerGroupRegularExpressionValue(topics=event["topics"])
            self.log.append(at_ms, 16, 0, resolved, regular_expression="rx-.*")
        for number in range(max(event["members"], self.members)):
            topics = [] if is_regex else event["topics"]
            here = topics if number < event["members"] else None
            self.log.member(at_ms, f"m{number}", here, regex="rx-.*" if is_regex else "")
        self.members = event["members"]
        self.log.append(at_ms, 3, 0, ConsumerGroupMetadataValue(epoch=at_ms))

    def topicdel(self, event: dict[str, Any], at_ms: int) -> None:
        self.deletions.append(TopicDeleted(at_ms, event["topic"]))


@pytest.mark.parametrize(("scenario", "rules"), CASES)
def test_the_broker_removes_exactly_this(scenario: dict[str, Any], rules: RuleSet) -> None:
    script = Script(scenario, rules)
    removed = simulate(
        [*script.log.entries, *script.deletions],
        rules,
        scenario["retention_s"] * 1000,
        scenario["tick_s"] * 1000,
        scenario["end_s"] * 1000,
    )
    assert {row.group for row in removed} <= {GROUP}
    names = [
        [row.at_ms / 1000, "GROUP" if row.topic is None else f"{row.topic}-{row.partition}"]
        for row in removed
    ]
    assert names == scenario["expected"][ALIAS[rules.name]]


def test_all_of_them_are_here() -> None:
    assert len(SCENARIOS) == 37
    assert len(CASES) == 37 * 6 - 6 * 3
