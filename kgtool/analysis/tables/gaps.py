"""How long clients pause between two commits, and which retention survives the longest pause.

One pass where a what-if guesses: of every pause the last check that finds the old commit free to go
(``fold.checks``) tells by how much a retention would have to be longer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kgtool.analysis.fold.arrays import NONE
from kgtool.analysis.fold.removals import Removals
from kgtool.analysis.fold.scene import Scene
from kgtool.analysis.fold.whatif import checks
from kgtool.analysis.fold.whatif.lives import told
from kgtool.analysis.input.scenarios import Scenario


def table(scene: Scene, gone: Removals) -> Any:
    """Rows of ``schema.GAPS`` by group, and what its name folds into."""
    plan, size = scene.plan, scene.log.size
    known = told(scene, gone, (Scenario(plan.rules, 0, plan.interval_ms),))
    happened, states = known.puts, known.timelines[plan.rules.new_coordinator]
    events = happened.events
    rows = np.flatnonzero(happened.is_commit & (happened.again >= 0))
    group = events.group[rows]
    longest, safe = np.full(size, NONE), np.zeros(size, dtype=np.int64)
    np.maximum.at(longest, group, events.first_ms[happened.again[rows]] - events.at_ms[rows])
    scenario = Scenario(plan.rules, 0, plan.interval_ms)
    np.maximum.at(safe, group, checks.survives(scene, scenario, happened, rows, states))
    some = np.unique(group)
    keys = np.unique(events.key[rows])
    columns = {
        "family": scene.families.take(some),
        "groups": np.ones(len(some), dtype=np.int64),
        "keys": np.bincount(scene.log.keys.group[keys], minlength=size)[some],
        "longest_gap_ms": longest[some],
        "safe_retention_ms": safe[some],
        "group": scene.log.groups.take(some),
    }
    return scene.table("gaps", columns, (("group", "string"),))
