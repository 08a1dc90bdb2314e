"""``--rules 2.4@0,4.1@TIME`` on both engines: runs by one generation each, cut at the moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.pipeline import Analysis
from kgtool.analysis.report.summary import summary
from kgtool.retention.phases import RulePhases, rule_phases
from tests.spark.test_random_logs import write_log
from tests.support.tables import Make, rows_of

pytestmark = pytest.mark.spark


def analysis(folder: Path, rules: str | RulePhases, make: Make) -> Analysis:
    basis, _ = broker_settings.choose_scenarios(None, [rules], (60_000,), (5_000,))
    return Analysis(make(), find_inputs([str(folder)]).files, basis)


def causes(found: Analysis) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    rows = rows_of(found, "removals")
    return {row[:4]: row[4:] for row in rows}


def test_each_removal_is_explained_by_the_rules_of_its_time(tmp_path: Path, engine: Make) -> None:
    write_log(tmp_path, 31, kip_848=True, groups_in_all=60, plain=20)
    old, new = (causes(analysis(tmp_path, name, engine)) for name in ("2.4", "4.1"))
    moment = sorted(at for *_, at in old)[len(old) // 2]
    listed = analysis(tmp_path, rule_phases(f"2.4@0,4.1@{moment}", 0), engine)
    found = causes(listed)
    expected = {key: (old if key[3] < moment else new)[key] for key in old}
    other = {key for key in old if found[key] != expected[key]}
    # Checks of the other generation no longer tell what a removal in doubt was.
    assert all(found[key][0] is None and key[3] < moment for key in other)
    assert len(other) < len(old) / 50
    assert found.keys() == old.keys() and found not in (old, new)
    told = summary(listed)
    assert told["rules"] == "4.1"
    assert told["rules_were"] == [
        {"from_ms": 0, "rules": "2.4"},
        {"from_ms": moment, "rules": "4.1"},
    ]
