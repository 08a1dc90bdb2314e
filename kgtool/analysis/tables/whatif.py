"""What each scenario removes and leaves: counted from the lives of the replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis.due import Scenario
from kgtool.analysis.fold.arrays import MAX, NONE, Bools, Ints, codes, ints, words
from kgtool.analysis.fold.lives import ROLES, Lives
from kgtool.analysis.fold.scene import Plan, Scene, choice
from kgtool.analysis.replay import GROUP, OFFSET, TOMBSTONE
from kgtool.retention import rules as r

DAY_MS = 86_400_000
MOST_DAYS = 3660
"""A day without any change has a row too, in logs of up to so many days."""
_OFFSET, _GROUP, _TOMBSTONE = (ROLES.index(role) for role in (OFFSET, GROUP, TOMBSTONE))
COUNTS = (
    "removed_offsets", "removed_groups", "live_offsets", "live_groups", "missed_offsets",
    "missed_groups", "next_offsets", "next_groups",
)  # fmt: skip
FAMILY_COUNTS = (
    "removed_offsets", "removed_groups", "missed_offsets", "live_offsets", "live_groups",
)  # fmt: skip
_CHANGES = ("removed_offsets", "removed_groups", "offset_change", "group_change")


def losses(scene: Scene, found: Lives) -> Any:
    """Rows of ``schema.LOSSES``."""
    plan, log = scene.plan, scene.log
    rows = np.flatnonzero((found.role == _OFFSET) & found.expired)
    key, offset, until = found.key[rows], found.offset[rows], found.until_ms[rows]
    ahead = until > plan.end_ms
    start, end = _ends(scene, key)
    known = ahead & (end != NONE)
    lag = np.where(known, np.maximum(end - offset, 0), NONE)
    again = np.maximum(np.minimum(offset, end) - start, 0)
    columns = {
        **_scenario(plan.scenarios, found.scenario[rows]),
        **scene.key_columns(key),
        "group": words(found.group[rows], log.groups),
        "offset": pa.array(offset),
        "commit_timestamp_ms": pa.array(found.commit_ms[rows]),
        "lost_at_ms": until,
        "rule": choice(r.RULES, found.rule[rows]),
        "ahead": ahead,
        "committed_again_ms": found.again_ms[rows],
        "lag": lag,
        "replayed_records": np.where(known & (start != NONE), again, NONE),
        "skipped_records": lag,
    }
    return scene.table("losses", columns)


def _ends(scene: Scene, key: Ints) -> tuple[Ints, Ints]:
    """Log start and end of the topic-partitions of these keys; NONE where not known."""
    keys, names = scene.log.keys, scene.log.topics.to_pylist()
    known = scene.plan.ends or {}
    found = np.full((2, len(keys.topic)), NONE)
    for at in np.unique(key).tolist() if known else ():
        ends = known.get((names[keys.topic[at]], int(keys.partition[at])), (None, None))
        found[:, at] = [NONE if end is None else end for end in ends]
    return found[0][key], found[1][key]


def _scenario(scenarios: Sequence[Scenario], number: Ints) -> dict[str, Any]:
    retention = np.array([each.retention_ms for each in scenarios], dtype=np.int64)
    interval = np.array([each.interval_ms for each in scenarios], dtype=np.int64)
    return {
        "rules": words(number, [each.rules.name for each in scenarios]),
        "retention_ms": retention[number],
        "check_interval_ms": interval[number],
    }


def _conditions(found: Lives, end_ms: int) -> dict[str, Bools]:
    open_end = found.until_ms == NONE
    gone = ~open_end & (found.until_ms <= end_ms)
    there = (found.from_ms <= end_ms) & ~gone
    offset = found.role == _OFFSET
    expired = offset & found.expired
    return {
        "removed_offsets": expired & gone,
        "removed_groups": (found.role == _TOMBSTONE) & gone,
        "live_offsets": offset & there,
        "live_groups": (found.role == _GROUP) & there,
        "missed_offsets": expired & gone & (found.again_ms != NONE),
        "next_offsets": expired & ~gone,
    }


def totals(scene: Scene, found: Lives) -> Any:
    """One row a scenario: COUNTS, and the first and last removal."""
    plan = scene.plan
    size = len(plan.scenarios)
    some = _conditions(found, plan.end_ms)
    columns = {
        name: np.bincount(found.scenario[which], minlength=size) for name, which in some.items()
    }
    pair = found.scenario * (scene.log.size + 1) + found.group
    for name, of in (("missed_groups", "missed_offsets"), ("next_groups", "next_offsets")):
        distinct = np.unique(pair[some[of]]) // (scene.log.size + 1)
        columns[name] = np.bincount(distinct, minlength=size)
    gone = some["removed_offsets"]
    first, last = np.full(size, MAX), np.full(size, NONE)
    np.minimum.at(first, found.scenario[gone], found.until_ms[gone])
    np.maximum.at(last, found.scenario[gone], found.until_ms[gone])
    return pa.table({"scenario": np.arange(size), **columns, "first": first, "last": last})


def days(scene: Scene, found: Lives) -> Any:
    """Changes of each day: scenario, day_ms and _CHANGES."""
    end_ms = scene.plan.end_ms
    at_ms = np.concatenate([found.from_ms, found.until_ms])
    went = np.arange(len(at_ms)) >= len(found.role)
    rows = np.flatnonzero((at_ms != NONE) & (at_ms <= end_ms))
    scenario, role, expired = (
        np.concatenate([column, column])[rows]
        for column in (found.scenario, found.role, found.expired)
    )
    went, day = went[rows], at_ms[rows] // DAY_MS * DAY_MS
    change = np.where(went, -1, 1)
    code = codes(scenario, day)
    _, first = np.unique(code, return_index=True)
    sums = {
        "removed_offsets": (role == _OFFSET) & expired.astype(np.bool_) & went,
        "removed_groups": (role == _TOMBSTONE) & went,
        "offset_change": np.where(role == _OFFSET, change, 0),
        "group_change": np.where(role == _GROUP, change, 0),
    }
    return pa.table(
        {
            "scenario": scenario[first],
            "day_ms": day[first],
            **{name: np.bincount(code, each)[: len(first)].astype(np.int64)
               for name, each in sums.items()},
        }
    )  # fmt: skip


def families(scene: Scene, found: Lives) -> Any:
    """Rows of ``schema.WHATIF_FAMILIES`` by group, and what its name folds into."""
    plan = scene.plan
    pair, code = np.unique(found.scenario * (scene.log.size + 1) + found.group, return_inverse=True)
    scenario, group = pair // (scene.log.size + 1), pair % (scene.log.size + 1)
    some = _conditions(found, plan.end_ms)
    columns = {
        **_scenario(plan.scenarios, scenario),
        "family": scene.families.take(pa.array(group)),
        **{name: np.bincount(code[some[name]], minlength=len(pair)) for name in FAMILY_COUNTS},
        "group": words(group, scene.log.groups),
    }
    return scene.table("whatif_families", columns, (("group", "string"),))


def whatif(plan: Plan, sums: Any, by_day: Any) -> list[dict[str, Any]]:
    """Rows of ``schema.WHATIF`` of all partitions together, one for each scenario."""
    rows = []
    for number, scenario in enumerate(plan.scenarios):
        mine = ints(sums["scenario"]) == number
        first, last = ints(sums["first"])[mine], ints(sums["last"])[mine]
        least, most = int(first.min(initial=MAX)), int(last.max(initial=NONE))
        rows.append(
            {
                "rules": scenario.rules.name,
                "retention_ms": scenario.retention_ms,
                "check_interval_ms": scenario.interval_ms,
                **{name: int(ints(sums[name])[mine].sum()) for name in COUNTS},
                "first_removal_ms": None if least == MAX else least,
                "last_removal_ms": None if most == NONE else most,
                "days": _days(by_day, number, plan.end_ms),
            }
        )
    return rows


def _days(by_day: Any, scenario: int, end_ms: int) -> list[dict[str, int]]:
    """What went on each day, and what was there at its end; days without a change too."""
    mine = ints(by_day["scenario"]) == scenario
    if not mine.any():
        return []
    day, code = np.unique(ints(by_day["day_ms"])[mine], return_inverse=True)
    sums = {name: np.bincount(code, ints(by_day[name])[mine]).astype(np.int64) for name in _CHANGES}
    last = end_ms - end_ms % DAY_MS
    start = int(day[0]) if day[0] >= last - MOST_DAYS * DAY_MS else last
    every = np.union1d(day, np.arange(start, last + 1, DAY_MS))
    place = np.searchsorted(every, day)
    columns = {}
    for name, values in sums.items():
        columns[name] = np.zeros(len(every), dtype=np.int64)
        columns[name][place] = values
    live = [np.cumsum(columns[name]).tolist() for name in _CHANGES[2:]]
    return [
        dict(zip(("day_ms", *_CHANGES[:2], "live_offsets", "live_groups"), row, strict=True))
        for row in zip(
            every.tolist(), *(columns[name].tolist() for name in _CHANGES[:2]), *live, strict=True
        )
    ]
