"""What would have been there, and when, with other retentions, check intervals and rules.

All groups at once, in arrays. Only a group whose removal by a check changes how its next commits
are judged, or with a transaction that a check may find open, is replayed event by event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import MAX, NONE, Bools, Ints, Runs, stacked
from kgtool.analysis.fold.folded_log import FoldedLog
from kgtool.analysis.fold.removals import Removals
from kgtool.analysis.fold.whatif.checks import Checks, may_remove
from kgtool.analysis.fold.whatif.client_events import (
    TRANSACTIONAL_COMMIT,
    ClientEvents,
    OffsetEvents,
    build_client_events,
    offset_events,
    tick_before,
    tick_from,
)
from kgtool.analysis.fold.whatif.coupled_groups import (
    ClientHistory,
    OffsetIntervals,
    reading,
    replay_groups,
)
from kgtool.analysis.fold.whatif.group_states import timeline
from kgtool.analysis.fold.whatif.replay import GROUP, OFFSET, TOMBSTONE
from kgtool.analysis.input.broker_settings import Scenario


class _Touched(NamedTuple):
    """The offsets' events of all scenarios."""

    history: ClientHistory
    events: OffsetEvents
    """Without commits that no check can remove, except the first and last of several."""
    rows: Ints
    """Those of ``events`` that a check of some scenario may remove."""


def build_history(
    folded: FoldedLog, removals: Removals, scenarios: Sequence[Scenario]
) -> ClientHistory:
    """What clients did, as far as these scenarios need it."""
    events = build_client_events(folded, removals, scenarios)
    end_ms = np.full(folded.log.size, folded.plan.end_ms + folded.plan.options.horizon_ms + 1)
    np.maximum.at(end_ms, events.group, events.clock_ms)
    rule_sets = {reading(each.rules): each.rules for each in scenarios}
    states = {key: timeline(folded, events, rules, end_ms) for key, rules in rule_sets.items()}
    return ClientHistory(folded, events, end_ms, states)


def intervals_by_scenario(folded: FoldedLog, removals: Removals) -> Iterator[OffsetIntervals]:
    """What would have been there until the plan's end and horizon, in each of its scenarios."""
    scenarios = folded.plan.options.scenarios
    if not scenarios:
        return
    history = build_history(folded, removals, scenarios)
    touched = _find_touched(history, scenarios)
    has_open = np.zeros(folded.log.size, dtype=np.bool_)
    has_open[history.events.group[history.events.seen_open]] = True
    for scenario in scenarios:
        checks = history.checks(scenario)
        offsets = _offset_intervals(touched, checks)
        groups, coupled = _group_intervals(touched, checks, offsets)
        replayed = has_open | coupled
        parts = [each.only(~replayed[each.group]) for each in (offsets.intervals, groups)]
        if replayed.any():
            parts.append(replay_groups(history, scenario, replayed))
        yield OffsetIntervals(*stacked(parts))


def _find_touched(history: ClientHistory, scenarios: Sequence[Scenario]) -> _Touched:
    parts: list[list[Any]] = []
    for happened in offset_events(history.folded, history.events, history.end_ms):
        which = may_remove(scenarios, happened)
        for scenario in scenarios:
            which |= history.checks(scenario).remove_with_group(happened)
        runs, commit = happened.runs, happened.is_commit
        kept = which | ~commit | ~runs.lag(commit & ~which, False) | ~runs.lead(commit, False)
        parts.append([*happened.events.only(kept), happened.until_ms[kept], which[kept]])
    *columns, until_ms, which = stacked(parts)
    events = OffsetEvents(history.folded, ClientEvents(*columns), until_ms)
    return _Touched(history, events, np.flatnonzero(which))


class _Offsets(NamedTuple):
    """The intervals of offsets, and where in the offsets' events each begins and ends."""

    intervals: OffsetIntervals
    start: Ints
    end: Ints


def _offset_intervals(touched: _Touched, checks: Checks) -> _Offsets:
    happened, rows = touched.events, touched.rows
    events, runs, commit = happened.events, happened.runs, happened.is_commit
    tick, why = checks.removed_at(happened, rows)
    removed = tick < happened.until_ms[rows]
    rows, tick, why = rows[removed], tick[removed], why[removed]
    starts, ends = commit & ~runs.lag(commit, False), commit & ~runs.lead(commit, False)
    split = rows[~ends[rows]]
    starts[split + 1] = ends[rows] = True
    start, end = np.flatnonzero(starts), np.flatnonzero(ends)
    expired, rule, until = np.zeros(runs.size, np.bool_), *np.full((2, runs.size), NONE)
    expired[rows], rule[rows], until[rows] = True, why, tick
    deleted = ends & ~expired & ~runs.is_last
    until[deleted] = runs.lead(events.at_ms, NONE)[deleted]
    after = happened.again[end]
    missed = expired[end] & (after >= 0)
    intervals = OffsetIntervals(
        events.group[end],
        np.full(len(end), OFFSET),
        events.key[end],
        events.first_ms[start],
        until[end],
        expired[end],
        rule[end],
        happened.offset[end],
        happened.commit_ms[end],
        np.where(missed, events.first_ms[after], NONE),
    )
    return _Offsets(intervals, start, end)


class _Steps(NamedTuple):
    """Where a group gains or loses an offset, or changes its state; by group and time."""

    group: Ints
    time: Ints
    check: Ints
    """1: at a check, which sees every event of the same time."""
    position: Ints
    change: Ints
    """Of the number of its offsets."""
    at_ms: Ints
    state: Ints
    """Index into the timeline; -1: unchanged."""
    creates: Bools
    """Whether it creates the group again if a check had removed it."""
    is_record: Bools


def _steps(touched: _Touched, checks: Checks, offsets: _Offsets) -> _Steps:
    history, states, found = touched.history, checks.states, offsets.intervals
    events, runs = touched.events.events, touched.events.runs
    new = checks.scenario.rules.new_coordinator
    ended = np.flatnonzero(found.until_ms != NONE)
    by_check, until_ms = found.expired[ended], found.until_ms[ended]
    behind = np.minimum(offsets.end[ended] + 1, runs.size - 1)
    pending = history.events.kind == TRANSACTIONAL_COMMIT
    begun = history.events.only(pending & ~history.events.seen_open)
    parts = (
        _step(
            found.group,
            events.clock_ms[offsets.start],
            events.position[offsets.start],
            change=1,
            at_ms=found.from_ms,
            creates=new,
        ),
        _step(
            found.group[ended],
            np.where(by_check, until_ms, events.clock_ms[behind]),
            np.where(by_check, MAX, events.position[behind]),
            change=-1,
            at_ms=until_ms,
            check=by_check,
        ),
        _step(begun.group, begun.clock_ms, begun.position, creates=new),
        _step(
            states.group,
            states.clock_ms,
            states.position,
            state=np.arange(len(states.group)),
            creates=states.recreates,
            is_record=states.recreates,
        ),
    )
    steps = _Steps(*stacked(parts))
    order = np.lexsort((steps.position, steps.check, steps.time, steps.group))
    return _Steps(*(column[order] for column in steps))


def _step(group: Ints, time: Ints, position: Ints, **given: Any) -> _Steps:
    rest = {
        "check": 0,
        "change": 0,
        "at_ms": NONE,
        "state": -1,
        "creates": False,
        "is_record": False,
    }
    columns = {name: np.full(len(group), given.get(name, value)) for name, value in rest.items()}
    return _Steps(group=group, time=time, position=position, **columns)


def _group_intervals(
    touched: _Touched, checks: Checks, offsets: _Offsets
) -> tuple[OffsetIntervals, Bools]:
    """The intervals in which groups have offsets, and their tombstones; which are coupled."""
    steps = _steps(touched, checks, offsets)
    runs = Runs(steps.group)
    before = runs.sum_before(steps.change)
    count = before + steps.change
    begun = np.flatnonzero((before == 0) & (steps.change > 0))
    ended = np.flatnonzero((count == 0) & (steps.change < 0))
    until = np.full(len(begun), NONE)
    until[np.searchsorted(begun, ended) - 1] = steps.at_ms[ended]
    end_ms = touched.history.end_ms
    removed, tick, coupled = _removed_groups(checks, steps, runs, count == 0, end_ms)
    parts = (
        _of_groups(GROUP, steps.group[begun], steps.at_ms[begun], until, expired=False),
        _of_groups(TOMBSTONE, steps.group[removed], tick, tick, expired=True),
    )
    return OffsetIntervals(*stacked(parts)), coupled


def _of_groups(
    role: int, group: Ints, from_ms: Ints, until_ms: Ints, *, expired: bool
) -> OffsetIntervals:
    size = len(group)
    none, key, roles = np.full(size, NONE), np.full(size, -1), np.full(size, role)
    expired_of = np.full(size, expired)
    return OffsetIntervals(group, roles, key, from_ms, until_ms, expired_of, none, none, none, none)


def _removed_groups(
    checks: Checks, steps: _Steps, runs: Runs, empty: Bools, end_ms: Ints
) -> tuple[Ints, Ints, Bools]:
    """(the step before each check that removes a group, the check, which groups are coupled)."""
    states, scenario = checks.states, checks.scenario
    last = runs.last_so_far(steps.state >= 0)
    state = np.where(last >= 0, steps.state[last], -1)
    end = runs.lead(steps.time, NONE)
    end = np.where(end == NONE, end_ms[steps.group], end)
    tick = tick_from(steps.time, scenario.interval_ms)
    goes = empty & _may_go(checks)[state] & (tick <= tick_before(end, scenario.interval_ms))
    goes &= (state >= 0) | ~states.has_own[steps.group]
    # A removed group is not removed again before it is created again.
    created, removed = runs.last_so_far(steps.creates), runs.last_before(goes)
    goes &= created > removed
    rows = np.flatnonzero(goes)
    coupled = np.zeros(len(end_ms), dtype=np.bool_)
    coupled[steps.group[rows[_is_coupled(checks, steps, runs, rows, state[rows])]]] = True
    return rows, tick[rows], coupled


def _may_go(checks: Checks) -> Bools:
    """Whether a check writes a tombstone for a group without offsets in each state.

    The last entry is of groups without own records: the Scala coordinator forgets those silently.
    """
    rules, states = checks.scenario.rules, checks.states
    no = np.zeros(len(states.group), dtype=np.bool_)
    may = rc.may_go(rules, states.of, left=no.astype(np.int64), pending=no, had=no)
    may &= states.of.known & rc.leaves_tombstone(rules, states.of, states.generation)
    return np.append(may, rules.new_coordinator)


def _is_coupled(checks: Checks, steps: _Steps, runs: Runs, rows: Ints, state: Ints) -> Bools:
    """Whether later checks depend on the group's removal here.

    Commits before its next own record share no date, and a group that is created again has only
    the subscriptions of that record.
    """
    shared = np.append(checks.by_group, False)[state]
    has_details = np.append(checks.states.has_details, False)[state]
    is_commit = (steps.change > 0) | ((steps.change == 0) & (steps.state < 0))
    record, commit = (runs.first_behind(which, MAX)[rows] for which in (steps.is_record, is_commit))
    return (shared & (commit < record)) | (has_details & (record < MAX))
