"""``retention.doubts`` for arrays: removals that came before their time by a bug, or long after."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import MAX, NONE, Bools, Ints, as_of, following, ints, plus
from kgtool.analysis.fold.folded_log import FoldedLog
from kgtool.analysis.fold.log import GroupRecords
from kgtool.records.types import GROUP_METADATA
from kgtool.retention import rules as r
from kgtool.retention.doubts import Checks, Early, explained_until_ms

EARLY_RULES = tuple(rc.RULE[name] for name in (r.RULE_EMPTY_SINCE, r.RULE_SUBSCRIBED))
"""The rules of offsets that a bug may remove nevertheless."""


class Removed(NamedTuple):
    """Removals; one array entry each."""

    group: Ints
    position: Ints
    at_ms: Ints
    state: Ints
    """Of the group just before."""
    stored: Ints
    """Index into ``Log.offsets`` of an offset that went; -1: none."""
    rule: Ints


def early(folded: FoldedLog, removed: Removed) -> Ints:
    """When those older than the retention became so; NONE: they were not, or it decides."""
    plan, rules = folded.plan, folded.plan.rules
    dated = _until_load(folded, removed)
    if (rules.forgets_date_on_load, rules.rebalancing_is_stable) != (False, False):
        dated |= (removed.stored >= 0) & np.isin(removed.rule, EARLY_RULES)
    if not dated.any():
        return np.full(len(removed.group), NONE)
    commit_ms = folded.log.offsets.commit_ms[removed.stored]
    old_ms = plus(commit_ms, plan.wrote.at(removed.at_ms))
    dated &= old_ms <= removed.at_ms
    return np.where(dated, np.maximum(old_ms, removed.at_ms - plan.interval_ms), NONE)


def _until_load(folded: FoldedLog, removed: Removed) -> Bools:
    """Which were protected only until a load that the log need not show."""
    found = (removed.stored >= 0) & (removed.rule == rc.RULE[r.RULE_SUBSCRIBED])
    some, log = np.flatnonzero(found), folded.log
    topic = log.keys.topic[log.offsets.key[removed.stored[some]]]
    found[some] = folded.states.by_load(removed.state[some], topic)
    return found


def causes(folded: FoldedLog, removed: Removed, certain_ms: Ints, places: Ints) -> list[str | None]:
    """The causes of these of the removals, which came early."""
    plan, states = folded.plan, folded.states
    checks = Checks(plan.rules, plan.interval_ms, certain_ms.tolist(), plan.checks_ms)
    records, order, columns = _rebalances(folded)
    group, at_ms, state = (each[places] for each in (removed.group, removed.at_ms, removed.state))
    found = following(*columns, group, removed.position[places])
    onward = np.append(order, 0)[found]
    comes = found >= 0
    comes[comes] = records.members[onward[comes]] > 0
    comes[comes] = records.generation[onward[comes]] > states.ints("generation")[state[comes]]
    after = np.zeros_like(at_ms)
    after[comes] = records.at_ms[onward[comes]] - at_ms[comes]
    # Topics change when a generation begins, which is some time before its record.
    dated = removed.rule[places] == rc.RULE[r.RULE_EMPTY_SINCE]
    since_ms = np.append(ints(records.detail.field("state_since_ms")), MAX)
    comes &= dated | (since_ms[np.where(comes, onward, -1)] <= at_ms)
    consumer, held = states.groups.protocol[state] == rc.CONSUMER, _until_load(folded, removed)
    cases = (at_ms, comes, after, consumer, dated, held[places])
    return [
        checks.cause(Early(at, behind if soon else None, *more))
        for at, soon, behind, *more in zip(*(each.tolist() for each in cases), strict=True)
    ]


def _rebalances(folded: FoldedLog) -> tuple[GroupRecords, Ints, tuple[Ints, Ints]]:
    """The groups' own records, the order of those of rebalances, their groups and places."""
    records = folded.log.group_records
    some = np.flatnonzero(records.key_type == GROUP_METADATA)
    order = some[np.lexsort((records.log_offset[some], records.group[some]))]
    return records, order, (records.group[order], records.log_offset[order])


def in_check(folded: FoldedLog, removed: Removed) -> Bools:
    """Which came while a check was certainly at work."""
    spans = np.array([(NONE, NONE), *folded.plan.checks_ms], dtype=np.int64)
    place = np.searchsorted(spans[:, 0], removed.at_ms, side="right") - 1
    return np.asarray(removed.at_ms <= spans[np.maximum(place, 0), 1], dtype=np.bool_)


def late(folded: FoldedLog, removed: Removed, expires_ms: Ints) -> Bools:
    """Which came so long after they were due that something else may have removed them."""
    allowed = explained_until_ms(folded.plan.interval_ms)
    due = np.where(expires_ms == NONE, MAX, expires_ms)
    found = np.flatnonzero((due < removed.at_ms) & (due < removed.at_ms - allowed))
    result = np.zeros(len(due), dtype=np.bool_)
    if found.size:
        explained = np.maximum(_moved(folded, removed, found), _rebalanced(folded, removed, found))
        result[found] = explained < removed.at_ms[found] - allowed
    return result


def _moved(folded: FoldedLog, removed: Removed, places: Ints) -> Ints:
    """When the coordinator last moved before each."""
    place, at_ms = folded.log.moves
    found = np.searchsorted(place, removed.position[places], side="right") - 1
    return np.where(found >= 0, np.append(at_ms, NONE)[found], NONE)


def _rebalanced(folded: FoldedLog, removed: Removed, places: Ints) -> Ints:
    """When the last rebalance of the group before each ended."""
    records, order, columns = _rebalances(folded)
    found = as_of(*columns, removed.group[places], removed.position[places], before=True)
    return np.where(found >= 0, np.append(records.at_ms[order], NONE)[found], NONE)
