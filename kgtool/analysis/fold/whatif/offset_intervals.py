"""History under other retentions, check intervals and rules: what would have been there, and when.

All groups at once, in arrays. Only where a check that removes a group changes how its next commits
are judged, or may find a transaction open, the group is replayed event by event (``played``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import MAX, NONE, Bools, Ints, Runs, stacked
from kgtool.analysis.fold.folded_log import FoldedLog
from kgtool.analysis.fold.removals import Removals
from kgtool.analysis.fold.whatif import checks
from kgtool.analysis.fold.whatif.checks import judged, removed_at
from kgtool.analysis.fold.whatif.client_events import (
    PEND,
    Events,
    Puts,
    endangered,
    puts,
    story,
    tick_before,
    tick_from,
)
from kgtool.analysis.fold.whatif.coupled_groups import OffsetIntervals, play
from kgtool.analysis.fold.whatif.group_states import Past, Story, Timeline, timeline
from kgtool.analysis.fold.whatif.replay import GROUP, OFFSET, TOMBSTONE
from kgtool.analysis.input.scenarios import Scenario
from kgtool.retention import rules as r

_EMPTY_SINCE = rc.RULE[r.RULE_EMPTY_SINCE]


def told(folded: FoldedLog, gone: Removals, scenarios: Sequence[Scenario]) -> Past:
    """What happened, as far as it counts in these scenarios."""
    events = story(folded, gone, scenarios)
    end_ms = np.full(folded.log.size, folded.plan.end_ms + folded.plan.options.horizon_ms + 1)
    np.maximum.at(end_ms, events.group, events.clock_ms)
    rule_sets = {each.rules.new_coordinator: each.rules for each in scenarios}
    states = {new: timeline(folded, events, rules, end_ms) for new, rules in rule_sets.items()}
    return Past(folded, events, end_ms, states)


def touched(past: Past, scenarios: Sequence[Scenario]) -> Story:
    """What checks may remove."""
    parts: list[list[Any]] = []
    for happened in puts(past.folded, past.events, past.end_ms):
        which = endangered(scenarios, happened)
        for scenario in scenarios:
            states = past.timelines[scenario.rules.new_coordinator]
            which |= checks.endangered(scenario, states, happened)
        runs, commit = happened.runs, happened.is_commit
        kept = which | ~commit | ~runs.lag(commit & ~which, False) | ~runs.lead(commit, False)
        parts.append([*happened.events.only(kept), happened.until_ms[kept], which[kept]])
    *columns, until_ms, which = stacked(parts)
    some = Puts(past.folded, Events(*columns), until_ms)
    return Story(past, some, np.flatnonzero(which))


def lives(folded: FoldedLog, gone: Removals) -> Iterator[OffsetIntervals]:
    """Everything that would have been there until the plan's end and horizon, by scenario."""
    scenarios = folded.plan.options.scenarios
    known = touched(told(folded, gone, scenarios), scenarios)
    open_ones = np.zeros(folded.log.size, dtype=np.bool_)
    open_ones[known.past.events.group[known.past.events.held]] = True
    for scenario in scenarios:
        states = known.past.timelines[scenario.rules.new_coordinator]
        offsets = _offsets(known, scenario, states)
        groups, coupled = _groups(known, scenario, states, offsets)
        again = open_ones | coupled
        found = [each.only(~again[each.group]) for each in (offsets.lives, groups)]
        if again.any():
            found.append(play(known.past, scenario, again))
        yield OffsetIntervals(*stacked(found))


class _Offsets(NamedTuple):
    """The lives of offsets, and where in ``Puts`` each began and ended."""

    lives: OffsetIntervals
    start: Ints
    end: Ints


def _offsets(known: Story, scenario: Scenario, states: Timeline) -> _Offsets:
    happened, rows = known.puts, known.rows
    events, runs, commit = happened.events, happened.runs, happened.is_commit
    tick, why = removed_at(known.past.folded, scenario, happened, rows, states)
    dead = tick < happened.until_ms[rows]
    rows, tick, why = rows[dead], tick[dead], why[dead]
    starts, ends = commit & ~runs.lag(commit, False), commit & ~runs.lead(commit, False)
    split = rows[~ends[rows]]
    starts[split + 1] = ends[rows] = True
    start, end = np.flatnonzero(starts), np.flatnonzero(ends)
    expired, rule, until = np.zeros(runs.size, np.bool_), *np.full((2, runs.size), NONE)
    expired[rows], rule[rows], until[rows] = True, why, tick
    forgotten = ends & ~expired & ~runs.is_last
    until[forgotten] = runs.lead(events.at_ms, NONE)[forgotten]
    after = happened.again[end]
    missed = expired[end] & (after >= 0)
    found = OffsetIntervals(
        events.group[end], np.full(len(end), OFFSET), events.key[end], events.first_ms[start],
        until[end], expired[end], rule[end], happened.offset[end], happened.commit_ms[end],
        np.where(missed, events.first_ms[after], NONE),
    )  # fmt: skip
    return _Offsets(found, start, end)


class _Steps(NamedTuple):
    """Where a group gains or loses an offset, or becomes something else; by group and time."""

    group: Ints
    time: Ints
    check: Ints
    """1: at a check, which sees all that is of the same time."""
    position: Ints
    change: Ints
    """Of the number of its offsets."""
    at_ms: Ints
    state: Ints
    """Index into the timeline; -1: as before."""
    wakes: Bools
    """Whether there is a group again if a check had removed it."""
    own: Bools
    """Whether by a record of its own."""


def _steps(known: Story, scenario: Scenario, states: Timeline, found: _Offsets) -> _Steps:
    events, runs, lived = known.puts.events, known.puts.runs, found.lives
    new = scenario.rules.new_coordinator
    gone = np.flatnonzero(lived.until_ms != NONE)
    by_check, behind = lived.expired[gone], np.minimum(found.end[gone] + 1, runs.size - 1)
    begun = known.past.events.only((known.past.events.what == PEND) & ~known.past.events.held)
    size = len(states.group)
    parts = (
        _step(lived.group, events.clock_ms[found.start], events.position[found.start],
              change=1, at_ms=lived.from_ms, wakes=new),
        _step(lived.group[gone], np.where(by_check, lived.until_ms[gone], events.clock_ms[behind]),
              np.where(by_check, MAX, events.position[behind]),
              change=-1, at_ms=lived.until_ms[gone], check=by_check),
        _step(begun.group, begun.clock_ms, begun.position, wakes=new),
        _step(states.group, states.clock_ms, states.position, state=np.arange(size),
              wakes=states.armed, own=states.armed),
    )  # fmt: skip
    steps = _Steps(*stacked(parts))
    order = np.lexsort((steps.position, steps.check, steps.time, steps.group))
    return _Steps(*(column[order] for column in steps))


def _step(group: Ints, time: Ints, position: Ints, **given: Any) -> _Steps:
    rest = {"check": 0, "change": 0, "at_ms": NONE, "state": -1, "wakes": False, "own": False}
    columns = {name: np.full(len(group), given.get(name, value)) for name, value in rest.items()}
    return _Steps(group=group, time=time, position=position, **columns)


def _groups(
    known: Story, scenario: Scenario, states: Timeline, found: _Offsets
) -> tuple[OffsetIntervals, Bools]:
    """The lives of groups with offsets, their tombstones; which groups depend on these."""
    steps = _steps(known, scenario, states, found)
    runs = Runs(steps.group)
    before = runs.sum_before(steps.change)
    count = before + steps.change
    begun = np.flatnonzero((before == 0) & (steps.change > 0))
    ended = np.flatnonzero((count == 0) & (steps.change < 0))
    until = np.full(len(begun), NONE)
    until[np.searchsorted(begun, ended) - 1] = steps.at_ms[ended]
    removed, tick, coupled = _tombstones(known, scenario, states, steps, count == 0)
    lived = _bare(GROUP, steps.group[begun], steps.at_ms[begun], until)
    went = _bare(TOMBSTONE, steps.group[removed], tick, tick)._replace(
        expired=np.ones(len(removed), dtype=np.bool_)
    )
    return OffsetIntervals(*stacked((lived, went))), coupled


def _bare(role: int, group: Ints, from_ms: Ints, until_ms: Ints) -> OffsetIntervals:
    size = len(group)
    none, no = np.full(size, NONE), np.zeros(size, dtype=np.bool_)
    role_of, key = np.full(size, role), np.full(size, -1)
    return OffsetIntervals(group, role_of, key, from_ms, until_ms, no, none, none, none, none)


def _tombstones(
    known: Story, scenario: Scenario, states: Timeline, steps: _Steps, empty: Bools
) -> tuple[Ints, Ints, Bools]:
    """(the step before each check that removes a group, the check; groups that are coupled)."""
    runs = Runs(steps.group)
    state = runs.last_so_far(steps.state >= 0)
    state = np.where(state >= 0, steps.state[state], -1)
    end = runs.lead(steps.time, NONE)
    end = np.where(end == NONE, known.past.end_ms[steps.group], end)
    first = tick_from(steps.time, scenario.interval_ms)
    goes = empty & _may_go(scenario, states, state) & ~(
        (state < 0) & states.has_own[steps.group]
    ) & (first <= tick_before(end, scenario.interval_ms))  # fmt: skip
    # Of a group that a check has removed nothing more can go before there is one again.
    woken, gone = runs.last_so_far(steps.wakes), runs.last_before(goes)
    goes &= woken > gone
    removed = np.flatnonzero(goes)
    coupled = np.zeros(known.past.folded.log.size, dtype=np.bool_)
    coupled[steps.group[removed[_coupled(scenario, states, steps, runs, removed, state)]]] = True
    return removed, first[removed], coupled


def _may_go(scenario: Scenario, states: Timeline, state: Ints) -> Bools:
    """Whether a check removes a group without offsets that is in this state, and tells."""
    rules, size = scenario.rules, len(states.group)
    no = np.zeros(size, dtype=np.bool_)
    may = rc.may_go(rules, states.of, left=no.astype(np.int64), pending=no, had=no)
    may &= states.of.known & rc.leaves_tombstone(rules, states.of, states.generation)
    # What only commits made is an empty simple group, of which the Scala coordinator tells nothing.
    return np.append(may, rules.new_coordinator)[state]


def _coupled(
    scenario: Scenario, states: Timeline, steps: _Steps, runs: Runs, removed: Ints, state: Ints
) -> Bools:
    """Whether it matters later that the group was removed here.

    Its next commits have no date in common, if they come before its next own record; and a group
    that begins again has no more than that record tells.
    """
    of = state[removed]
    dated = np.append(judged(scenario, states).rule == _EMPTY_SINCE, False)[of]
    leftover = np.append(states.leftover, False)[of]
    is_commit = (steps.change > 0) | ((steps.change == 0) & (steps.state < 0))
    own, commit = (runs.first_behind(which, MAX) for which in (steps.own, is_commit))
    return (dated & (commit[removed] < own[removed])) | (leftover & (own[removed] < MAX))
