"""What each scenario removes and leaves, counted from its intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis.fold.arrays import MAX, NONE, Bools, Ints, decode_texts, sum_rows
from kgtool.analysis.fold.folded_log import FoldedLog, FoldPlan
from kgtool.analysis.fold.whatif.coupled_groups import OffsetIntervals
from kgtool.analysis.fold.whatif.replay import GROUP, OFFSET, TOMBSTONE
from kgtool.analysis.input.broker_settings import Scenario
from kgtool.analysis.schema import DAY
from kgtool.retention import rules as r

DAY_MS = 86_400_000
MOST_DAYS = 3660
"""Days without changes get rows too, in logs of up to this many days."""
COUNTS = (
    "removed_offsets",
    "removed_groups",
    "live_offsets",
    "live_groups",
    "missed_offsets",
    "missed_groups",
    "next_offsets",
    "next_groups",
)
FAMILY_COUNTS = (
    "removed_offsets",
    "removed_groups",
    "missed_offsets",
    "live_offsets",
    "live_groups",
)
_CHANGES = ("removed_offsets", "removed_groups", "offset_change", "group_change")


def losses(folded: FoldedLog, scenario: Scenario, found: OffsetIntervals) -> pa.Table:
    """Rows of ``schema.LOSSES`` in one scenario."""
    plan = folded.plan
    rows = np.flatnonzero((found.role == OFFSET) & found.expired)
    key, offset, until = found.key[rows], found.offset[rows], found.until_ms[rows]
    ahead = until > plan.end_ms
    start, end = _ends(folded, key)
    known = ahead & (end != NONE)
    lag = np.where(known, np.maximum(end - offset, 0), NONE)
    again = np.maximum(np.minimum(offset, end) - start, 0)
    columns = {
        **_scenario(scenario, len(rows)),
        **folded.key_columns(key),
        "offset": pa.array(offset),
        "commit_timestamp_ms": pa.array(found.commit_ms[rows]),
        "lost_at_ms": until,
        "rule": decode_texts(found.rule[rows], r.RULES),
        "ahead": ahead,
        "committed_again_ms": found.again_ms[rows],
        "lag": lag,
        "replayed_records": np.where(known & (start != NONE), again, NONE),
        "skipped_records": lag,
    }
    return folded.table("losses", columns)


def _ends(folded: FoldedLog, key: Ints) -> tuple[Ints, Ints]:
    """Log start and end of the topic-partitions of these keys, or NONE."""
    keys, names = folded.log.keys, folded.log.topics.to_pylist()
    known = folded.plan.ends
    found = np.full((2, len(keys.topic)), NONE)
    for at in np.unique(key).tolist() if known else ():
        ends = known.get((names[keys.topic[at]], int(keys.partition[at])), (None, None))
        found[:, at] = [NONE if end is None else end for end in ends]
    return found[0][key], found[1][key]


def _scenario(scenario: Scenario, size: int) -> dict[str, Any]:
    return {
        "rules": pa.repeat(scenario.rules.name, size),
        "retention_ms": np.full(size, scenario.retention_ms),
        "check_interval_ms": np.full(size, scenario.interval_ms),
    }


def _conditions(found: OffsetIntervals, end_ms: int) -> dict[str, Bools]:
    open_end = found.until_ms == NONE
    ended = ~open_end & (found.until_ms <= end_ms)
    live = (found.from_ms <= end_ms) & ~ended
    offset = found.role == OFFSET
    expired = offset & found.expired
    return {
        "removed_offsets": expired & ended,
        "removed_groups": (found.role == TOMBSTONE) & ended,
        "live_offsets": offset & live,
        "live_groups": (found.role == GROUP) & live,
        "missed_offsets": expired & ended & (found.again_ms != NONE),
        "next_offsets": expired & ~ended,
    }


def totals(folded: FoldedLog, number: int, found: OffsetIntervals) -> pa.Table:
    """One row: COUNTS, and the first and last removal."""
    some = _conditions(found, folded.plan.end_ms)
    columns = {name: [int(which.sum())] for name, which in some.items()}
    for name, of in (("missed_groups", "missed_offsets"), ("next_groups", "next_offsets")):
        columns[name] = [len(np.unique(found.group[some[of]]))]
    removed_ms = found.until_ms[some["removed_offsets"]]
    first, last = [removed_ms.min(initial=MAX)], [removed_ms.max(initial=NONE)]
    return pa.table({"scenario": [number], **columns, "first": first, "last": last})


def days(folded: FoldedLog, number: int, found: OffsetIntervals) -> pa.Table:
    """Changes of each day: scenario, day_ms and _CHANGES."""
    end_ms = folded.plan.end_ms
    at_ms = np.concatenate([found.from_ms, found.until_ms])
    ends = np.arange(len(at_ms)) >= len(found.role)
    rows = np.flatnonzero((at_ms != NONE) & (at_ms <= end_ms))
    role, expired = (np.concatenate([each, each])[rows] for each in (found.role, found.expired))
    ends, change = ends[rows], np.where(ends[rows], -1, 1)
    offset, group = (np.where(role == each, change, 0) for each in (OFFSET, GROUP))
    sums = ((role == OFFSET) & expired & ends, (role == TOMBSTONE) & ends, offset, group)
    columns = {name: each.astype(np.int64) for name, each in zip(_CHANGES, sums, strict=True)}
    columns |= {"scenario": np.full(len(rows), number), "day_ms": at_ms[rows] // DAY_MS * DAY_MS}
    return sum_rows(pa.table(columns), ["scenario", "day_ms"])


def families(folded: FoldedLog, scenario: Scenario, found: OffsetIntervals) -> pa.Table:
    """Rows of ``schema.WHATIF_FAMILIES`` by group, and its name's family."""
    group, code = np.unique(found.group, return_inverse=True)
    some = _conditions(found, folded.plan.end_ms)
    columns = {
        **_scenario(scenario, len(group)),
        "family": folded.families.take(pa.array(group)),
        **{name: np.bincount(code[some[name]], minlength=len(group)) for name in FAMILY_COUNTS},
        "group": decode_texts(group, folded.log.groups),
    }
    return folded.table("whatif_families", columns, (("group", "string"),))


def whatif(plan: FoldPlan, sums: pa.Table, by_day: pa.Table) -> list[dict[str, Any]]:
    """Rows of ``schema.WHATIF`` of all partitions, one a scenario."""
    nothing = {**dict.fromkeys(COUNTS, 0), "first": MAX, "last": NONE}
    added = sum_rows(sums, ["scenario"], min_of=("first",), max_of=("last",)).to_pylist()
    found = {row["scenario"]: row for row in added}
    days = sum_rows(by_day, ["scenario", "day_ms"]).to_pylist()
    rows = []
    for number, scenario in enumerate(plan.options.scenarios):
        total = found.get(number, nothing)
        rows.append(
            {
                "rules": scenario.rules.name,
                "retention_ms": scenario.retention_ms,
                "check_interval_ms": scenario.interval_ms,
                **{name: total[name] for name in COUNTS},
                "first_removal_ms": None if total["first"] == MAX else total["first"],
                "last_removal_ms": None if total["last"] == NONE else total["last"],
                "days": _days([row for row in days if row["scenario"] == number], plan.end_ms),
            }
        )
    return rows


def _days(changes: list[dict[str, int]], end_ms: int) -> list[dict[str, int]]:
    """Removals of each day, and the numbers at its end."""
    if not changes:
        return []
    known = {row["day_ms"]: row for row in changes}
    last = end_ms - end_ms % DAY_MS
    start = min(known) if min(known) >= last - MOST_DAYS * DAY_MS else last
    rows, live, nothing = [], [0, 0], dict.fromkeys(_CHANGES, 0)
    for day in sorted(known.keys() | set(range(start, last + 1, DAY_MS))):
        removed_offsets, removed_groups, *change = (known.get(day, nothing)[n] for n in _CHANGES)
        live = [there + more for there, more in zip(live, change, strict=True)]
        found = (day, removed_offsets, removed_groups, *live)
        rows.append(dict(zip(DAY, found, strict=True)))
    return rows
