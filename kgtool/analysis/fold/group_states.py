"""The states of each group by log offset, and how they protect the offsets of a topic.

Only groups with own records are folded record by record (``GroupLife``); a group that has only
commits is an empty simple group from its first commit on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import NONE, Bools, Ints, as_of
from kgtool.analysis.fold.group_life import GroupEvent, GroupLife, GroupState
from kgtool.analysis.fold.log import Log
from kgtool.retention.rules import RuleSet


class TopicProtection(NamedTuple):
    """How a state protects the offsets of a topic."""

    subscribed: Bools
    released_ms: Ints
    """Since when only their times protect them; NONE: always."""


def ints_of(rows: Iterable[GroupState], name: str) -> Ints:
    """A field of these states; NONE where it is None."""
    values = (getattr(row, name) for row in rows)
    return np.array([NONE if value is None else value for value in values], dtype=np.int64)


def groups_of(rows: Sequence[GroupState]) -> rc.Group:
    """The columns of these states that decide."""
    return rc.Group(
        np.array([row.known for row in rows], dtype=np.bool_),
        np.array([rc.TYPE[row.type] for row in rows], dtype=np.int64),
        np.array([rc.STATE[row.state] for row in rows], dtype=np.int64),
        np.array([rc.protocol(row.protocol_type) for row in rows], dtype=np.int64),
        ints_of(rows, "state_since_ms"),
        np.array([row.topics is not None for row in rows], dtype=np.bool_),
    )


def is_subscribed(
    log: Log, rows: Sequence[GroupState], row: Ints, topic: Ints, name: str = "topics"
) -> Bools:
    """Whether a member is known to subscribe to each topic in the state of each row.

    :param name: the field of the states that has these topics.
    """
    numbers = {text: number for number, text in enumerate(log.topics.to_pylist())}
    span = len(numbers) + 1
    held = [
        number * span + numbers[text]
        for number in np.unique(row).tolist()
        for text in getattr(rows[number], name) or ()
        if text in numbers
    ]
    found = np.isin(row * span + topic, np.array(held, dtype=np.int64))
    return np.asarray(found, dtype=np.bool_)


def apply_events(
    events: Iterable[tuple[int, GroupEvent]], rules: RuleSet
) -> Iterator[tuple[int, GroupLife, GroupState | None]]:
    """Each event of each group in turn: the group's life after it, its state if that is new."""
    for group, some in groupby(events, itemgetter(0)):
        life = GroupLife(rules)
        for _, event in some:
            yield group, life, life.apply(event)


class GroupStates:
    """The states of all groups by group and log offset; the last entry is of no group."""

    def __init__(self, log: Log, rules: RuleSet) -> None:
        has_own = np.zeros(log.size, dtype=np.bool_)
        has_own[log.group_records.group] = True
        creating = np.flatnonzero(log.offsets.creates & rules.new_coordinator)
        of_group = log.keys.group[log.offsets.key[creating]]
        folded = list(_fold(log, creating[has_own[of_group]], rules))
        simple, first = np.unique(of_group[~has_own[of_group]], return_index=True)
        count, created = len(folded), creating[~has_own[of_group]][first]
        # All simple groups share one row, the groups that are unknown the last one.
        self._rows = [state for _, state in folded]
        self._rows += [GroupState(), GroupState(known=False, topics=None)]
        group = np.array([group for group, _ in folded], dtype=np.int64)
        log_offset = ints_of(self._rows[:count], "log_offset")
        group = np.concatenate([group, simple])
        log_offset = np.concatenate([log_offset, log.offsets.log_offset[created]])
        row = np.minimum(np.arange(len(group)), count)
        order = np.lexsort((log_offset, group))
        self.group, self.log_offset = group[order], log_offset[order]
        self.row = np.append(row[order], count + 1)
        self.groups = groups_of(self._rows).at(self.row)
        self._log = log
        decided = [each.by_load for each in self._rows]
        self._all_by_load = np.array([n for n, some in enumerate(decided) if some is None], int)
        self._some_by_load = np.array([n for n, some in enumerate(decided) if some], int)
        self.latest = np.full(log.size, -1, dtype=np.int64)
        """The last state of each group; -1 (of no group) if it has none."""
        self.latest[self.group] = np.arange(len(self.group))

    def ints(self, name: str) -> Ints:
        """A field of ``GroupState`` of every state."""
        return np.asarray(ints_of(self._rows, name)[self.row], dtype=np.int64)

    def since_ms(self, state: Ints) -> Ints:
        """Since when groups are in these states: by the records' content, else by their times."""
        since_ms = self.groups.since_ms[state]
        return np.where(since_ms == NONE, self.ints("entered_ms")[state], since_ms)

    def protocol_types(self) -> Any:
        """The protocol type of every state, as an array of objects."""
        return np.array([row.protocol_type for row in self._rows], dtype=object)[self.row]

    def before(self, group: Ints, position: Ints) -> Ints:
        """The state of each group just before that log offset; -1 (of no group) if it had none."""
        return as_of(self.group, self.log_offset, group, position, before=True)

    def topic_protection(self, state: Ints, topic: Ints) -> TopicProtection:
        """How states protect the offsets of topics."""
        row = self.row[state]
        released = ints_of(self._rows, "judged_since_ms")[row]
        numbers = {name: number for number, name in enumerate(self._log.topics.to_pylist())}
        freed = sorted(
            (number * (len(numbers) + 1) + numbers[name], at_ms)
            for number in np.unique(row).tolist()
            for name, at_ms in self._rows[number].released
            if name in numbers
        )
        if freed:
            places, freed_ms = np.array(freed, dtype=np.int64).T
            pair = row * (len(numbers) + 1) + topic
            found = np.minimum(np.searchsorted(places, pair), len(places) - 1)
            released = np.where(places[found] == pair, freed_ms[found], released)
        return TopicProtection(is_subscribed(self._log, self._rows, row, topic), released)

    def by_load(self, state: Ints, topic: Ints) -> Bools:
        """Whether a load that the log need not show decides what protects each topic."""
        row = self.row[state]
        found = np.isin(row, self._all_by_load)
        some = np.flatnonzero(np.isin(row, self._some_by_load))
        found[some] = is_subscribed(self._log, self._rows, row[some], topic[some], "by_load")
        return np.asarray(found, dtype=np.bool_)


def _fold(log: Log, creating: Ints, rules: RuleSet) -> Iterator[tuple[int, GroupState]]:
    """(group, state) for each change of the groups with own records."""
    records, offsets = log.group_records, log.offsets
    events = list(zip(records.group.tolist(), records.events(), strict=True))
    loads = log.loads(of_empty=rules.forgets_date_on_load is True)
    events += zip(loads.group.tolist(), loads.events(), strict=True)
    columns = (log.keys.group[offsets.key], offsets.at_ms, offsets.log_offset)
    commits = zip(*(column[creating].tolist() for column in columns), strict=True)
    events += [(group, GroupEvent(at_ms, place)) for group, at_ms, place in commits]
    events.sort(key=lambda each: (each[0], each[1].log_offset, each[1].key_type is not None))
    for group, _, state in apply_events(events, rules):
        if state is not None:
            yield group, state
