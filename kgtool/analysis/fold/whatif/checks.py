"""When a check of one scenario removes a committed offset: array expressions over all offsets.

The times in which a group's offsets are unprotected do not depend on the checks; an offset is
removed at the first check in such a time that is not before the offset's own. ``replay`` is the
same, event by event.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import NONE, Bools, Ints, as_of, codes, following, plus
from kgtool.analysis.fold.folded_log import FoldedLog
from kgtool.analysis.fold.group_states import is_subscribed
from kgtool.analysis.fold.whatif.client_events import FAR, OffsetEvents, tick_before, tick_from
from kgtool.analysis.fold.whatif.group_states import GroupTimeline
from kgtool.analysis.input.broker_settings import Scenario
from kgtool.retention import rules as r
from kgtool.retention.rules import RuleSet

_EMPTY_SINCE, _COMMIT, _EXPLICIT = (
    rc.RULE[name] for name in (r.RULE_EMPTY_SINCE, r.RULE_COMMIT, r.RULE_EXPLICIT)
)
NEVER = FAR
"""Time of a check that does not come."""


class Windows(NamedTuple):
    """Times in which a check may remove something, by key and time; one array entry each."""

    key: Ints
    first: Ints
    """The window's first check, and its last."""
    last: Ints

    def next(self, key: Ints, from_ms: Ints, interval_ms: int) -> Ints:
        """The first check in a key's windows from that time on, or NEVER."""
        if not len(self.first):
            return np.full(len(key), NEVER)
        place = following(self.key, self.last, key, from_ms - 1)
        tick = np.maximum(self.first[place], tick_from(from_ms, interval_ms))
        return np.where(place >= 0, tick, NEVER)

    def latest(self, key: Ints, from_ms: Ints, until_ms: Ints, interval_ms: int) -> Ints:
        """The last check in a key's windows between two times, or NEVER."""
        if not len(self.first):
            return np.full(len(key), NEVER)
        place = as_of(self.key, self.first, key, until_ms, before=True)
        tick = np.minimum(self.last[place], tick_before(until_ms, interval_ms))
        return np.where((place >= 0) & (tick >= from_ms), tick, NEVER)


class _Protection(NamedTuple):
    """Which states of their groups leave some offsets unprotected."""

    pair: Ints
    """A number of each offset's group and topic."""
    pair_of: Ints
    """Of each state of each pair's group: the pair, ..."""
    state: Ints
    """... the state, ..."""
    unsubscribed: Bools
    """... and whether no member subscribes to the topic then."""


class Checks:
    """The checks of one scenario."""

    def __init__(self, folded: FoldedLog, scenario: Scenario, states: GroupTimeline) -> None:
        self.folded, self.scenario, self.states = folded, scenario, states
        size = len(states.group)
        no = np.zeros(size, dtype=np.bool_)
        offset = rc.Offset(np.zeros(size, dtype=np.int64), np.full(size, NONE), no, no)
        verdict = partial(rc.verdict, scenario.rules, states.of, retention_ms=scenario.retention_ms)
        self._due_ms, self._rule = verdict(offset=offset)
        """Of each state: for an offset without an expire timestamp, in a topic that no member
        subscribes to."""
        _, rule = verdict(offset=offset._replace(holds=~no))
        self._reads_topics = rule == rc.RULE[r.RULE_SUBSCRIBED]
        self.by_group = self._rule == _EMPTY_SINCE
        """Whether the offsets of the group share its date."""

    @cached_property
    def _group_windows(self) -> Windows:
        """When checks remove all offsets of a group that has been Empty for the retention."""
        states, some = self.states, np.flatnonzero(self.by_group)
        from_ms = np.maximum(states.clock_ms[some], np.minimum(self._due_ms[some], FAR))
        return self._windows(states.group[some], from_ms, states.until_ms[some])

    def _windows(self, key: Ints, from_ms: Ints, until_ms: Ints) -> Windows:
        interval = self.scenario.interval_ms
        first, last = tick_from(from_ms, interval), tick_before(until_ms, interval)
        some = first <= last
        return Windows(key[some], first[some], last[some])

    def remove_with_group(self, happened: OffsetEvents) -> Bools:
        """Which commits a check removes for its group's date, if nothing comes before."""
        found = np.zeros(happened.runs.size, dtype=np.bool_)
        windows, events = self._group_windows, happened.events
        rows = np.flatnonzero(np.isin(events.group, windows.key) & happened.is_commit)
        at_ms = events.clock_ms[rows]
        tick = windows.next(events.group[rows], at_ms, self.scenario.interval_ms)
        found[rows] = tick < happened.until_ms[rows]
        return found

    def removed_at(self, happened: OffsetEvents, rows: Ints) -> tuple[Ints, Ints]:
        """(the check that removes each of these commits if nothing comes before, the rule)."""
        scenario, events = self.scenario, happened.events
        commit_ms, expire_ms = happened.commit_ms[rows], events.expire_ms[rows]
        clock_ms, strict = events.clock_ms[rows], int(scenario.rules.fixed_at_commit)
        explicit = _is_explicit(scenario.rules, expire_ms)
        by_commit = plus(commit_ms, scenario.retention_ms + strict)
        due = np.where(explicit, plus(expire_ms, strict), by_commit)
        start = np.minimum(np.maximum(due, clock_ms), FAR)
        tick = tick_from(start, scenario.interval_ms)
        rule = np.where(explicit, _EXPLICIT, _COMMIT)
        some = np.flatnonzero(self.states.has_own[events.group[rows]] & (not strict))
        if some.size:
            of = rows[some]
            tick[some] = self._next(events.key[of], start[some], explicit[some])
            at_ms = clock_ms[some]
            by_group = self._group_windows.next(events.group[of], at_ms, scenario.interval_ms)
            first = ~explicit[some] & (by_group < tick[some])
            tick[some[first]], rule[some[first]] = by_group[first], _EMPTY_SINCE
        return tick, rule

    def safe_retention(self, happened: OffsetEvents, rows: Ints, until_ms: Ints) -> Ints:
        """The smallest retention with which each of these commits stays until a time.

        0: any retention, or the commit has an expire timestamp.
        """
        rules, events, interval = self.scenario.rules, happened.events, self.scenario.interval_ms
        commit_ms, expire_ms = happened.commit_ms[rows], events.expire_ms[rows]
        clock_ms = events.clock_ms[rows]
        need = age_at_last_check(rules, interval, commit_ms, clock_ms, until_ms)
        some = np.flatnonzero(self.states.has_own[events.group[rows]] & (not rules.fixed_at_commit))
        if some.size:
            between = clock_ms[some], until_ms[some]
            tick = self._latest(events.key[rows[some]], *between)
            by_commit = np.where(tick == NEVER, 0, tick - commit_ms[some] + 1)
            need[some] = np.maximum(
                by_commit, self._longest_empty(events.group[rows[some]], *between)
            )
        return np.where(_is_explicit(rules, expire_ms), 0, np.maximum(need, 0))

    def _longest_empty(self, group: Ints, from_ms: Ints, until_ms: Ints) -> Ints:
        """How long at most a check between two times finds each of the groups Empty; or 0."""
        states, interval, some = (
            self.states,
            self.scenario.interval_ms,
            np.flatnonzero(self.by_group),
        )
        first = tick_from(states.clock_ms[some], interval)
        last = tick_before(states.until_ms[some], interval)
        some, first, last = (each[first <= last] for each in (some, first, last))
        of, since = states.group[some], states.of.since_ms[some]
        low = following(of, last, group, from_ms - 1)
        high = as_of(of, first, group, until_ms, before=True)
        longest = np.zeros(len(group), dtype=np.int64)
        rows = np.flatnonzero((low >= 0) & (low <= high))
        if rows.size:
            low, high = low[rows], high[rows]
            clipped = np.minimum(last[high], tick_before(until_ms[rows], interval))
            ages = np.append(last - since + 1, 0)
            pairs = np.stack([low, high], axis=1).ravel()
            # Of an empty range reduceat gives its first entry.
            whole = np.where(low < high, np.maximum.reduceat(ages, pairs)[::2], 0)
            longest[rows] = np.maximum(np.maximum(clipped - since[high] + 1, 0), whole)
        return longest

    def _next(self, key: Ints, from_ms: Ints, explicit: Bools) -> Ints:
        """The first check from a time on that finds each offset unprotected, or NEVER."""
        protection, interval = self._protection(key), self.scenario.interval_ms
        tick = np.full(len(key), NEVER)
        by_commit = self._rule == _COMMIT
        for which, states in ((explicit, by_commit | self.by_group), (~explicit, by_commit)):
            rows = np.flatnonzero(which)
            windows = self._unprotected(protection, states)
            tick[rows] = windows.next(protection.pair[rows], from_ms[rows], interval)
        return tick

    def _latest(self, key: Ints, from_ms: Ints, until_ms: Ints) -> Ints:
        """The last check between two times that finds each offset unprotected, or NEVER."""
        protection = self._protection(key)
        windows = self._unprotected(protection, self._rule == _COMMIT)
        return windows.latest(protection.pair, from_ms, until_ms, self.scenario.interval_ms)

    def _unprotected(self, protection: _Protection, which: Bools) -> Windows:
        """When checks find the pairs unprotected in those states."""
        some = protection.unsubscribed & which[protection.state]
        state = protection.state[some]
        times = self.states.clock_ms[state], self.states.until_ms[state]
        return self._windows(protection.pair_of[some], *times)

    def _protection(self, key: Ints) -> _Protection:
        log, states = self.folded.log, self.states
        group, topic = log.keys.group[key], log.keys.topic[key]
        pair = codes(group, topic)
        _, first = np.unique(pair, return_index=True)
        # The states of the group of each pair, one after the other.
        start = np.searchsorted(states.group, group[first])
        count = np.searchsorted(states.group, group[first], side="right") - start
        behind = np.cumsum(count)
        pair_of = np.repeat(np.arange(len(first)), count)
        state = np.arange(len(pair_of)) - np.repeat(behind - count - start, count)
        subscribed = is_subscribed(log, states.rows, state, topic[first][pair_of])
        return _Protection(pair, pair_of, state, ~(self._reads_topics[state] & subscribed))


def may_remove(scenarios: Sequence[Scenario], happened: OffsetEvents) -> Bools:
    """Which commits a check of some scenario may find older than its retention.

    Some of them are protected: this only tells which need a closer look.
    """
    shortest = min(scenario.retention_ms for scenario in scenarios)
    due = np.minimum(happened.commit_ms, FAR) + shortest
    expire_ms = happened.events.expire_ms
    due = np.where(expire_ms == NONE, due, np.minimum(due, expire_ms))
    start = np.maximum(due, happened.events.clock_ms)
    found = np.zeros(len(due), dtype=np.bool_)
    for interval in {scenario.interval_ms for scenario in scenarios}:
        found |= tick_from(start, interval) < happened.until_ms
    return found & happened.is_commit


def age_at_last_check(
    rules: RuleSet, interval_ms: int, commit_ms: Ints, from_ms: Ints, until_ms: Ints
) -> Ints:
    """The retention with which the last check between two times just leaves each commit; or 0."""
    last = tick_before(until_ms, interval_ms)
    return np.where(last >= from_ms, last - commit_ms + (not rules.fixed_at_commit), 0)


def _is_explicit(rules: RuleSet, expire_ms: Ints) -> Bools:
    """Which commits have an expire timestamp."""
    explicit = expire_ms != NONE
    if not rules.minus_one_is_past or rules.fixed_at_commit:
        explicit &= expire_ms != -1
    return explicit
