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
from kgtool.analysis.fold.whatif.story import puts
from kgtool.analysis.input.scenarios import Scenario


def table(scene: Scene, gone: Removals) -> Any:
    """Rows of ``schema.GAPS`` by group, and what its name folds into."""
    plan, size = scene.plan, scene.log.size
    scenario = Scenario(plan.rules, 0, plan.interval_ms)
    past = told(scene, gone, (scenario,))
    states = past.timelines[plan.rules.new_coordinator]
    longest, safe, keys = np.full(size, NONE), *np.zeros((2, size), dtype=np.int64)
    for happened in puts(scene, past.events, past.end_ms):
        events, again = happened.events, happened.again
        rows = np.flatnonzero(happened.is_commit & (again >= 0))
        group = events.group[rows]
        np.maximum.at(longest, group, events.first_ms[again[rows]] - events.at_ms[rows])
        np.maximum.at(safe, group, checks.survives(scene, scenario, happened, rows, states))
        of = scene.log.keys.group[np.unique(events.key[rows])]
        keys += np.bincount(of, minlength=size)
    some = np.flatnonzero(keys)
    columns = {
        "family": scene.families.take(some),
        "groups": np.ones(len(some), dtype=np.int64),
        "keys": keys[some],
        "longest_gap_ms": longest[some],
        "safe_retention_ms": safe[some],
        "group": scene.log.groups.take(some),
    }
    return scene.table("gaps", columns, (("group", "string"),))
