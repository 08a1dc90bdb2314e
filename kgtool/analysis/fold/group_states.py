"""What each group was from which log offset on, and how an offset's topic looks to it then.

Only groups with records of their own take the fold record by record (``GroupLife``); whatever only
commits made is an empty simple group from its first commit on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import NONE, Bools, Ints, as_of
from kgtool.analysis.fold.group_life import Event, GroupLife, State
from kgtool.analysis.fold.log import Log
from kgtool.retention.rules import RuleSet


class Topic(NamedTuple):
    """How a topic looks to a state."""

    holds: Bools
    released_ms: Ints
    """Since when its offsets have been judged by their time alone; NONE: always."""


def ints_of(rows: Iterable[State], name: str) -> Ints:
    """A field of these states; NONE where it is None."""
    values = (getattr(row, name) for row in rows)
    return np.array([NONE if value is None else value for value in values], dtype=np.int64)


def groups_of(rows: Sequence[State]) -> rc.Group:
    """What decides of these states."""
    return rc.Group(
        np.array([row.known for row in rows], dtype=np.bool_),
        np.array([rc.TYPE[row.type] for row in rows], dtype=np.int64),
        np.array([rc.STATE[row.state] for row in rows], dtype=np.int64),
        np.array([rc.protocol(row.protocol_type) for row in rows], dtype=np.int64),
        ints_of(rows, "state_since_ms"),
        np.array([row.topics is not None for row in rows], dtype=np.bool_),
    )


def holds(log: Log, rows: Sequence[State], row: Ints, topic: Ints) -> Bools:
    """Whether a member subscribes to each topic in the state of that row, as far as it is known."""
    numbers = {name: number for number, name in enumerate(log.topics.to_pylist())}
    span = len(numbers) + 1
    held = [
        number * span + numbers[name]
        for number in np.unique(row).tolist()
        for name in rows[number].topics or ()
        if name in numbers
    ]
    found = np.isin(row * span + topic, np.array(held, dtype=np.int64))
    return np.asarray(found, dtype=np.bool_)


def applied(
    events: Iterable[tuple[int, Event]], rules: RuleSet
) -> Iterator[tuple[int, GroupLife, State | None]]:
    """Each event of each group in turn: the group's life after it, its state if that is new."""
    for group, some in groupby(events, itemgetter(0)):
        life = GroupLife(rules)
        for _, event in some:
            yield group, life, life.apply(event)


class GroupStates:
    """The states of all groups by group and log offset; one more at the end: of no group."""

    def __init__(self, log: Log, rules: RuleSet) -> None:
        has_own = np.zeros(log.size, dtype=np.bool_)
        has_own[log.own.group] = True
        creating = np.flatnonzero(log.offsets.creates & rules.new_coordinator)
        of_group = log.keys.group[log.offsets.key[creating]]
        rows = list(_fold(log, creating[has_own[of_group]], rules))
        simple, first = np.unique(of_group[~has_own[of_group]], return_index=True)
        places = creating[~has_own[of_group]][first]
        self._kinds = [*(row for _, row in rows), State(), State(known=False, topics=None)]
        kind = np.arange(len(self._kinds), dtype=np.int64)
        made = np.full(len(simple), len(rows), dtype=np.int64)
        group = np.array([group for group, _ in rows], dtype=np.int64)
        of_kind = ints_of(self._kinds, "log_offset")
        self.group = np.concatenate([group, simple])
        self.kind = np.concatenate([kind[: len(rows)], made])
        self.log_offset = np.concatenate([of_kind[: len(rows)], log.offsets.log_offset[places]])
        order = np.lexsort((self.log_offset, self.group))
        self.group, self.log_offset = self.group[order], self.log_offset[order]
        self.kind = np.append(self.kind[order], len(rows) + 1)
        self.of = groups_of(self._kinds).at(self.kind)
        self._log = log
        self.latest = np.full(log.size, -1, dtype=np.int64)
        """The last state of each group; -1 (of no group) if it has none."""
        self.latest[self.group] = np.arange(len(self.group))

    def ints(self, name: str) -> Ints:
        """A field of ``State`` of every state."""
        found: Ints = ints_of(self._kinds, name)[self.kind]
        return found

    def since_ms(self, state: Ints) -> Ints:
        """Since when a group has been in that state, as its records or else their times tell."""
        own = self.of.since_ms[state]
        return np.where(own == NONE, self.ints("entered_ms")[state], own)

    def protocol_types(self) -> Any:
        """The protocol type of every state, as an array of objects."""
        return np.array([row.protocol_type for row in self._kinds], dtype=object)[self.kind]

    def before(self, group: Ints, position: Ints) -> Ints:
        """The state of each group just before that log offset; -1 (of no group) if it had none."""
        return as_of(self.group, self.log_offset, group, position, before=True)

    def topic(self, state: Ints, topic: Ints) -> Topic:
        """How topics look to states."""
        kind = self.kind[state]
        released = ints_of(self._kinds, "judged_since_ms")[kind]
        numbers = {name: number for number, name in enumerate(self._log.topics.to_pylist())}
        freed = sorted(
            (number * (len(numbers) + 1) + numbers[name], at_ms)
            for number in np.unique(kind).tolist()
            for name, at_ms in self._kinds[number].released
            if name in numbers
        )
        if freed:
            places, freed_ms = np.array(freed, dtype=np.int64).T
            pair = kind * (len(numbers) + 1) + topic
            found = np.minimum(np.searchsorted(places, pair), len(places) - 1)
            released = np.where(places[found] == pair, freed_ms[found], released)
        return Topic(holds(self._log, self._kinds, kind, topic), released)


def _fold(log: Log, creating: Ints, rules: RuleSet) -> Iterator[tuple[int, State]]:
    """(group, state) for each change of the groups with own records."""
    own, offsets = log.own, log.offsets
    events = list(zip(own.group.tolist(), own.events(), strict=True))
    columns = (log.keys.group[offsets.key], offsets.at_ms, offsets.log_offset)
    commits = zip(*(column[creating].tolist() for column in columns), strict=True)
    events += [(group, Event(at_ms, place)) for group, at_ms, place in commits]
    events.sort(key=lambda each: (each[0], each[1].log_offset, each[1].key_type is not None))
    for group, _, state in applied(events, rules):
        if state is not None:
            yield group, state
