"""When a check of one scenario removes a committed offset: as array expressions, for all at once.

Of each group the times in which offsets are not protected are known before; an offset goes at the
first check that lies in one of them, behind the offset's own date. ``replay`` is the same, event by
event.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import NONE, Bools, Ints, as_of, codes, following, plus
from kgtool.analysis.fold.folded_log import FoldedLog
from kgtool.analysis.fold.group_states import holds
from kgtool.analysis.fold.whatif.client_events import FAR, Puts, tick_before, tick_from
from kgtool.analysis.fold.whatif.group_states import Timeline
from kgtool.analysis.input.scenarios import Scenario
from kgtool.retention import rules as r
from kgtool.retention.rules import RuleSet

_EMPTY_SINCE, _COMMIT, _EXPLICIT = (
    rc.RULE[name] for name in (r.RULE_EMPTY_SINCE, r.RULE_COMMIT, r.RULE_EXPLICIT)
)
NEVER = FAR
"""The check that does not come."""


class Judged(NamedTuple):
    """What the rules say of each state of a timeline."""

    rule: Ints
    """Of an offset without a date of its own, in a topic that nobody holds."""
    due_ms: Ints
    """When those go that share the group's date."""
    by_topic: Bools
    """Whether members hold their topics."""


def judged(scenario: Scenario, states: Timeline) -> Judged:
    """The verdicts in that scenario."""
    size = len(states.group)
    zero, none, no = np.zeros(size, dtype=np.int64), np.full(size, NONE), np.zeros(size, np.bool_)
    free = rc.Offset(zero, none, no, no)
    due, rule = rc.verdict(scenario.rules, states.of, free, scenario.retention_ms)
    _, held = rc.verdict(scenario.rules, states.of, free._replace(holds=~no), scenario.retention_ms)
    return Judged(rule, due, held == rc.RULE[r.RULE_SUBSCRIBED])


class Windows(NamedTuple):
    """Times in which a check may remove something, by key and time; one array entry each."""

    key: Ints
    first: Ints
    """The first check in it, and the last."""
    last: Ints

    def next(self, key: Ints, from_ms: Ints, interval_ms: int) -> Ints:
        """The first check in a key's windows from some moment on; NEVER: there is none."""
        found = following(self.key, self.last, key, from_ms - 1)
        if not len(self.first):
            return np.full(len(key), NEVER)
        tick = np.maximum(self.first[found], tick_from(from_ms, interval_ms))
        return np.where(found >= 0, tick, NEVER)


def _windows(key: Ints, from_ms: Ints, until_ms: Ints, interval_ms: int) -> Windows:
    first, last = tick_from(from_ms, interval_ms), tick_before(until_ms, interval_ms)
    some = first <= last
    return Windows(key[some], first[some], last[some])


def shared(scenario: Scenario, states: Timeline, told: Judged) -> Windows:
    """When the checks come that remove all offsets of a group that has been Empty for so long."""
    some = np.flatnonzero(told.rule == _EMPTY_SINCE)
    from_ms = np.maximum(states.clock_ms[some], np.minimum(told.due_ms[some], FAR))
    return _windows(states.group[some], from_ms, states.until_ms[some], scenario.interval_ms)


def endangered(scenario: Scenario, states: Timeline, happened: Puts) -> Bools:
    """Which commits such a check removes, if nothing else does before."""
    found = np.zeros(happened.runs.size, dtype=np.bool_)
    windows, events = shared(scenario, states, judged(scenario, states)), happened.events
    rows = np.flatnonzero(np.isin(events.group, windows.key) & happened.is_commit)
    tick = windows.next(events.group[rows], events.clock_ms[rows], scenario.interval_ms)
    found[rows] = tick < happened.until_ms[rows]
    return found


def survives(
    folded: FoldedLog, scenario: Scenario, happened: Puts, rows: Ints, states: Timeline
) -> Ints:
    """The smallest retention with which each of these commits is there until the next one.

    0: any is long enough. A commit that has a date of its own knows no retention.
    """
    rules, events, interval = scenario.rules, happened.events, scenario.interval_ms
    commit_ms, own = happened.commit_ms[rows], events.expire_ms[rows]
    clock_ms, until_ms = events.clock_ms[rows], happened.until_ms[rows]
    need = age_at_last_check(rules, interval, commit_ms, clock_ms, until_ms)
    some = np.flatnonzero(states.has_own[events.group[rows]] & (not rules.fixed_at_commit))
    if some.size:
        told = judged(scenario, states)
        keys = _keys(folded, states, told, events.key[rows[some]])
        found = keys.last(told, interval, clock_ms[some], until_ms[some])
        timed = np.where(found == NEVER, 0, found - commit_ms[some] + 1)
        shared_by = (events.group[rows[some]], clock_ms[some], until_ms[some])
        need[some] = np.maximum(timed, _longest_empty(states, told, interval, *shared_by))
    return np.where(_has_date(rules, own), 0, np.maximum(need, 0))


def age_at_last_check(
    rules: RuleSet, interval_ms: int, commit_ms: Ints, from_ms: Ints, until_ms: Ints
) -> Ints:
    """The retention with which the last check between two moments just leaves each commit; or 0."""
    last = tick_before(until_ms, interval_ms)
    return np.where(last >= from_ms, last - commit_ms + (not rules.fixed_at_commit), 0)


def _has_date(rules: RuleSet, expire_ms: Ints) -> Bools:
    """Which commits have a date of their own."""
    dated = expire_ms != NONE
    if not rules.minus_one_is_past or rules.fixed_at_commit:
        dated &= expire_ms != -1
    return dated


def _longest_empty(
    states: Timeline, told: Judged, interval_ms: int, group: Ints, from_ms: Ints, until_ms: Ints
) -> Ints:
    """For how long, at most, a check between two moments finds each of the groups Empty; or 0."""
    some = np.flatnonzero(told.rule == _EMPTY_SINCE)
    first = tick_from(states.clock_ms[some], interval_ms)
    last = tick_before(states.until_ms[some], interval_ms)
    some, first, last = (each[first <= last] for each in (some, first, last))
    of, since = states.group[some], states.of.since_ms[some]
    low = following(of, last, group, from_ms - 1)
    high = as_of(of, first, group, until_ms, before=True)
    found = np.zeros(len(group), dtype=np.int64)
    rows = np.flatnonzero((low >= 0) & (low <= high))
    if rows.size:
        low, high = low[rows], high[rows]
        clipped = np.minimum(last[high], tick_before(until_ms[rows], interval_ms))
        found[rows] = np.maximum(clipped - since[high] + 1, 0)
        ages = np.append(last - since + 1, 0)
        pairs = np.stack([low, high], axis=1).ravel()
        # Of an empty range reduceat gives its first entry.
        whole = np.where(low < high, np.maximum.reduceat(ages, pairs)[::2], 0)
        found[rows] = np.maximum(found[rows], whole)
    return found


def removed_at(
    folded: FoldedLog, scenario: Scenario, puts: Puts, rows: Ints, states: Timeline
) -> tuple[Ints, Ints]:
    """(the check that removes each of these commits if nothing comes before; the rule)."""
    rules, events = scenario.rules, puts.events
    commit_ms, expire_ms = puts.commit_ms[rows], events.expire_ms[rows]
    clock_ms = events.clock_ms[rows]
    own = _has_date(rules, expire_ms)
    strict = int(rules.fixed_at_commit)
    due = np.where(own, plus(expire_ms, strict), plus(commit_ms, scenario.retention_ms + strict))
    start = np.minimum(np.maximum(due, clock_ms), FAR)
    found = tick_from(start, scenario.interval_ms)
    rule = np.where(own, _EXPLICIT, _COMMIT)
    if rules.fixed_at_commit:
        return found, rule
    some = np.flatnonzero(states.has_own[events.group[rows]])
    if some.size:
        told = judged(scenario, states)
        keys = _keys(folded, states, told, events.key[rows[some]])
        found[some], by_date = keys.next(scenario, told, start[some], clock_ms[some], own[some])
        rule[some[by_date]] = _EMPTY_SINCE
    return found, rule


class _Keys(NamedTuple):
    """Offsets of groups with records of their own, and what protects them when."""

    states: Timeline
    pair: Ints
    """Number of its group and topic."""
    group: Ints
    state: Ints
    """Each state of the group of each pair, ..."""
    of: Ints
    """... of that pair, ..."""
    free: Bools
    """... and whether offsets of the topic are free then."""

    def _windows(self, which: Bools, interval_ms: int) -> Windows:
        """When checks come in those states, by pair."""
        states, some = self.states, self.state[which]
        return _windows(self.of[which], states.clock_ms[some], states.until_ms[some], interval_ms)

    def last(self, told: Judged, interval_ms: int, from_ms: Ints, until_ms: Ints) -> Ints:
        """The last check between two moments that finds each without protection; or NEVER."""
        which = self.free & (told.rule[self.state] == _COMMIT)
        windows = self._windows(which, interval_ms)
        found = as_of(windows.key, windows.first, self.pair, until_ms, before=True)
        if not len(windows.key):
            return np.full(len(found), NEVER)
        tick = np.minimum(windows.last[found], tick_before(until_ms, interval_ms))
        return np.where((found >= 0) & (tick >= from_ms), tick, NEVER)

    def next(
        self, scenario: Scenario, told: Judged, start: Ints, clock_ms: Ints, own: Bools
    ) -> tuple[Ints, Bools]:
        """(the check that removes each, whether by the date that its group's offsets share)."""
        states, interval, rule = self.states, scenario.interval_ms, told.rule[self.state]
        found = np.full(len(start), NEVER)
        dated = self.free & (rule == _EMPTY_SINCE)
        timed = self.free & (rule == _COMMIT)
        for rows, which in ((np.flatnonzero(own), dated | timed), (np.flatnonzero(~own), timed)):
            windows = self._windows(which, interval)
            found[rows] = windows.next(self.pair[rows], start[rows], interval)
        dates = shared(scenario, states, told).next(self.group, clock_ms, interval)
        by_date = ~own & (dates < found)
        return np.where(by_date, dates, found), by_date


def _keys(folded: FoldedLog, states: Timeline, told: Judged, key: Ints) -> _Keys:
    """What protects these keys when."""
    group, topic = folded.log.keys.group[key], folded.log.keys.topic[key]
    pair = codes(group, topic)
    _, first = np.unique(pair, return_index=True)
    # The states of the group of each pair, one after the other.
    start = np.searchsorted(states.group, group[first])
    count = np.searchsorted(states.group, group[first], side="right") - start
    behind = np.cumsum(count)
    of = np.repeat(np.arange(len(first)), count)
    state = np.arange(len(of)) - np.repeat(behind - count - start, count)
    free = ~told.by_topic[state] | ~holds(folded.log, states.rows, state, topic[first][of])
    return _Keys(states, pair, group, state, of, free)
