"""Hypothesis looks for a history that the event-driven replay and the simulation tell apart.

``test_replay`` does the same with fixed seeds; here a failure comes as the shortest history that
still shows it.
"""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgtool.analysis.input.broker_settings import Scenario
from kgtool.retention.history import Entry
from kgtool.retention.rules import RULE_SETS, RULES_2_1_X, RuleSet
from tests.analysis.replayed import in_order, play, removed
from tests.retention.counterfactual import without_expiry
from tests.retention.lives import ALL_TYPES, START_MS, Life
from tests.retention.simulation import simulate

SETS = [*RULE_SETS.values(), RULES_2_1_X]
WRITTEN_WITH_MS = 60_000


@st.composite
def histories(draw: st.DrawFn) -> tuple[RuleSet, list[Entry]]:
    """Who wrote it, and what."""
    author = draw(st.sampled_from(SETS))
    rng = draw(st.randoms(use_true_random=False))
    types = ALL_TYPES if author.new_coordinator else ("classic",)
    life = Life(rng, types=types, groups=draw(st.integers(1, 3)))
    events = draw(st.integers(1, 25))
    return author, life.run(events, draw(st.sampled_from((500, 8_000, 40_000)))).entries


@settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    history=histories(),
    rules=st.sampled_from(SETS),
    retention_ms=st.sampled_from((1_000, 20_000, 60_000, 150_000)),
    interval_ms=st.sampled_from((700, 5_000, 31_000)),
    rest_ms=st.sampled_from((0, 10_000, 400_000)),
)
def test_the_replay_removes_what_the_simulation_removes(
    history: tuple[RuleSet, list[Entry]],
    rules: RuleSet,
    retention_ms: int,
    interval_ms: int,
    rest_ms: int,
) -> None:
    author, entries = history
    if not entries:
        return
    events = without_expiry(entries, author, WRITTEN_WITH_MS)
    scenario = Scenario(rules, retention_ms, interval_ms)
    end = entries[-1].timestamp_ms + rest_ms
    start = START_MS // interval_ms * interval_ms
    expected = simulate(events, *scenario, end, start)
    assert removed(play(events, scenario, end)) == in_order(expected)
