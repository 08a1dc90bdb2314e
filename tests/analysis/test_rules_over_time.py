"""``--rules 2.4@0,4.1@TIME``: each removal is explained by the rules of its time.

The kind: one set of rules for a log that brokers of two generations wrote. Siblings: three of them,
a moment before or after the whole log, both engines (``tests/spark/test_random_logs.py``).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis.arguments import check_rules
from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis
from kgtool.analysis.state import state_options
from kgtool.errors import UsageError
from kgtool.retention.phases import RulePhases, rule_phases
from tests.retention.lives import ALL_TYPES, Life
from tests.support.tables import dicts

Rules = Sequence[str | RulePhases]


def analyzed(folder: Path, rules: Rules) -> Analysis:
    basis, _ = broker_settings.choose_scenarios(None, rules, (60_000,), (5_000,))
    return Analysis(LocalEngine(1), find_inputs([str(folder)]).files, basis)


def removals(folder: Path, rules: Rules) -> list[dict[str, Any]]:
    rows = dicts(analyzed(folder, rules), "removals")
    return sorted(rows, key=lambda row: [str(each) for each in row.values()][:4])


def any_log(folder: Path, seed: str) -> None:
    from tests.analysis.test_lives import write

    for partition in range(2):
        rng = random.Random(f"{seed} {partition}")
        entries = Life(rng, types=ALL_TYPES, groups=3, static=True).run(150, 12_000).entries
        write(folder / f"__consumer_offsets-{partition}", entries, 0, rng)


@pytest.mark.parametrize("names", [("2.4", "4.1"), ("pre-2.1", "2.1"), ("2.1", "2.4", "3.8-new")])
@pytest.mark.parametrize("seed", range(2))
def test_a_list_is_each_generation_in_its_time(
    names: tuple[str, ...], seed: int, tmp_path: Path
) -> None:
    any_log(tmp_path, f"{names} {seed}")
    alone = [removals(tmp_path, [name]) for name in names]
    times = sorted(row["removed_at_ms"] for row in alone[0])
    moments = [0, *(times[len(times) * n // len(names)] for n in range(1, len(names)))]
    text = ",".join(f"{name}@{at}" for name, at in zip(names, moments, strict=True))
    found = removals(tmp_path, [rule_phases(text, 0)])
    expected = [
        rows[max(n for n, at in enumerate(moments) if at <= rows[0]["removed_at_ms"])]
        for rows in zip(*alone, strict=True)
    ]
    assert found == expected
    assert any(found != rows for rows in alone) and len({row["rule"] for row in found}) > 3
    # What is live is judged by the brokers of the log's end.
    last = dicts(analyzed(tmp_path, [names[-1]]), "live")
    assert dicts(analyzed(tmp_path, [rule_phases(text, 0)]), "live") == last


def test_a_moment_before_or_after_the_log_is_one_generation(tmp_path: Path) -> None:
    any_log(tmp_path, "ends")
    for at, name in ((1, "4.1"), (2**52, "2.4")):
        found = removals(tmp_path, [rule_phases(f"2.4@0,4.1@{at}", 0)])
        assert found == removals(tmp_path, [name])


def test_a_check_of_another_generation_does_not_tell_the_phase() -> None:
    """``doubts.Checks``: only removals of its own time show when a generation's checks were."""
    segments = Path(__file__).parents[1] / "data/truth-cases/date-lost-on-load/segments"
    at_ms = 1795627067076
    causes = [
        row["cause"]
        for text in ("2.4@0", f"4.1@0,2.4@{at_ms},4.1@{at_ms + 1}")
        for row in removals(segments, [rule_phases(text, 0)])
        if row["removed_at_ms"] == at_ms and row["topic"] == "t2"
    ]
    assert causes == ["expired", None]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2.4@5,4.1@9", "begin with VERSION@0"),
        ("2.4@0,4.1@0", "not in the order of time: 4.1@0"),
        ("2.4@0,4.1@9,4.1@8", "not in the order of time: 4.1@8"),
        ("2.4@0,4.1", "Write 4.1@TIME"),
        ("2.9@0,4.1@9", "'2.9' is not one of pre-2.1,"),
        ("auto@0,4.1@9", "'auto' is not one of"),
        ("2.4@0,", "'' is not one of"),
        ("@0", "'' is not one of"),
        ("2.4@0,4.1@", "since the epoch, not ''"),
        ("2.4@0,4.1@soon", "since the epoch, not 'soon'"),
    ],
)
def test_a_bad_list_is_refused_in_one_sentence(text: str, words: str) -> None:
    for read in (lambda: rule_phases(text, 0), lambda: check_rules(text)):
        with pytest.raises(UsageError) as refused:
            read()
        assert words in refused.value.message and "\n" not in refused.value.message


def test_names_beside_a_list_are_scenarios() -> None:
    was = rule_phases("2.4,4.1@2026-11-21T15:00:00Z", 0)
    assert [start for start, _ in was] == [0, 1795273200000]
    basis, played = broker_settings.choose_scenarios(None, [was], (), ())
    assert [each.rules.name for each in played] == ["4.1"] == [basis.rules.name]
    basis, played = broker_settings.choose_scenarios(None, ["2.1", was, "3.8-new"], (), ())
    assert [each.rules.name for each in played] == ["2.1", "3.8-new"]
    assert basis.rule_changes == was and basis.rules_given and not basis.rules_assumed
    with pytest.raises(UsageError, match="one list"):
        broker_settings.choose_scenarios(None, [was, was], (), ())
    only, _ = broker_settings.choose_scenarios(None, [was[:1]], (), ())
    assert (only.rules.name, only.rule_changes) == ("2.4", ())


def test_a_state_is_of_one_list() -> None:
    def told(rules: Rules) -> Any:
        return state_options(*broker_settings.choose_scenarios(None, rules, (), ()), 1)["rules"]

    assert told([rule_phases("2.4@0,4.1@9", 0)]) == [[0, "2.4"], [9, "4.1"]]
    assert told(["4.1"]) == told([rule_phases("4.1@0", 0)]) == "4.1"
