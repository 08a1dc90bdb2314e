"""What each group was from which log offset on, and how an offset's topic looks to it then.

Only groups with records of their own take the fold record by record (``GroupLife``); whatever only
commits made is an empty simple group from its first commit on.
"""

from __future__ import annotations

from collections.abc import Iterator
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


class States:
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
        of_kind = self._ints("log_offset")
        self.group = np.concatenate([group, simple])
        self.kind = np.concatenate([kind[: len(rows)], made])
        self.log_offset = np.concatenate([of_kind[: len(rows)], log.offsets.log_offset[places]])
        order = np.lexsort((self.log_offset, self.group))
        self.group, self.log_offset = self.group[order], self.log_offset[order]
        self.kind = np.append(self.kind[order], len(rows) + 1)
        kinds = self._kinds
        self.of = rc.Group(
            self._of(np.array([row.known for row in kinds], dtype=np.bool_)),
            self._of(np.array([rc.TYPE[row.type] for row in kinds])),
            self._of(np.array([rc.STATE[row.state] for row in kinds])),
            self._of(np.array([rc.protocol(row.protocol_type) for row in kinds])),
            self.ints("state_since_ms"),
            self._of(np.array([row.topics is not None for row in kinds])),
        )
        self._topics: dict[str, int] = {name: i for i, name in enumerate(log.topics.to_pylist())}
        self.latest = np.full(log.size, -1, dtype=np.int64)
        """The last state of each group; -1 (of no group) if it has none."""
        self.latest[self.group] = np.arange(len(self.group))

    def _ints(self, name: str) -> Ints:
        values = (getattr(row, name) for row in self._kinds)
        return np.array([NONE if value is None else value for value in values], dtype=np.int64)

    def _of(self, values: Any) -> Any:
        return values[self.kind]

    def ints(self, name: str) -> Ints:
        """A field of ``State`` of every state."""
        found: Ints = self._of(self._ints(name))
        return found

    def since_ms(self, state: Ints) -> Ints:
        """Since when a group has been in that state, as its records or else their times tell."""
        own = self.of.since_ms[state]
        return np.where(own == NONE, self.ints("entered_ms")[state], own)

    def protocol_types(self) -> Any:
        """The protocol type of every state, as an array of objects."""
        return self._of(np.array([row.protocol_type for row in self._kinds], dtype=object))

    def before(self, group: Ints, position: Ints) -> Ints:
        """The state of each group just before that log offset; -1 (of no group) if it had none."""
        return as_of(self.group, self.log_offset, group, position, before=True)

    def topic(self, state: Ints, topic: Ints) -> Topic:
        """How topics look to states."""
        kind = self.kind[state]
        judged = self._ints("judged_since_ms")
        holds = np.zeros(len(kind), dtype=np.bool_)
        released = judged[kind]
        numbers, span = self._topics, len(self._topics) + 1
        pair = kind * span + topic
        held, freed, freed_ms = [], [], []
        for number in np.unique(kind).tolist():
            row = self._kinds[number]
            held += [number * span + numbers[n] for n in row.topics or () if n in numbers]
            for name, at_ms in row.released:
                if name in numbers:
                    freed.append(number * span + numbers[name])
                    freed_ms.append(at_ms)
        if held:
            holds = np.isin(pair, np.array(held))
        if freed:
            order = np.argsort(freed)
            places = np.array(freed)[order]
            found = np.minimum(np.searchsorted(places, pair), len(places) - 1)
            hit = places[found] == pair
            released = np.where(hit, np.array(freed_ms)[order][found], released)
        return Topic(holds, released)


def _fold(log: Log, creating: Ints, rules: RuleSet) -> Iterator[tuple[int, State]]:
    """(group, state) for each change of the groups with own records."""
    own, offsets = log.own, log.offsets
    events = list(zip(own.group.tolist(), own.events(), strict=True))
    columns = (log.keys.group[offsets.key], offsets.at_ms, offsets.log_offset)
    commits = zip(*(column[creating].tolist() for column in columns), strict=True)
    events += [(group, Event(at_ms, place)) for group, at_ms, place in commits]
    events.sort(key=lambda each: (each[0], each[1].log_offset, each[1].key_type is not None))
    for group, some in groupby(events, itemgetter(0)):
        life = GroupLife(rules)
        for _, event in some:
            state = life.apply(event)
            if state is not None:
                yield group, state
