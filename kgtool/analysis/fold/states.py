"""What each group was from which log offset on, and how an offset's topic looks to it then.

Only groups with records of their own take the fold record by record (``GroupLife``); whatever only
commits made is an empty simple group from its first commit on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kgtool.analysis import schema
from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import NONE, Bools, Ints, as_of
from kgtool.analysis.fold.group_life import GroupLife
from kgtool.analysis.fold.log import Log
from kgtool.retention import rules as r
from kgtool.retention.rules import RuleSet

_SIMPLE: dict[str, Any] = {
    "log_offset": -1, "timestamp_ms": NONE, "known": True, "group_type": r.TYPE_CLASSIC,
    "group_state": r.STATE_EMPTY, "protocol_type": "", "generation": None,
    "state_since_ms": None, "entered_ms": None, "topics": [], "judged_since_ms": None,
    "released": [], "dated_before_ms": None, "dated_until_ms": None, "converted_from": None,
    "converted_at_once": None, "members": 0,
}  # fmt: skip
_UNKNOWN = {**_SIMPLE, "known": False, "topics": None}


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
        self._kinds = [*(row for _, row in rows), _SIMPLE, _UNKNOWN]
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
        self.of = rc.Group(
            self._of(np.array([row["known"] for row in self._kinds], dtype=np.bool_)),
            self._of(np.array([rc.TYPE[row["group_type"]] for row in self._kinds])),
            self._of(np.array([rc.STATE[row["group_state"]] for row in self._kinds])),
            self._of(np.array([rc.protocol(row["protocol_type"]) for row in self._kinds])),
            self.ints("state_since_ms"),
            self._of(np.array([row["topics"] is not None for row in self._kinds])),
        )
        self._topics: dict[str, int] = {name: i for i, name in enumerate(log.topics.to_pylist())}
        self.latest = self._latest(log.size)

    def _ints(self, name: str) -> Ints:
        values = [NONE if row[name] is None else row[name] for row in self._kinds]
        return np.array(values, dtype=np.int64)

    def _of(self, values: Any) -> Any:
        return values[self.kind]

    def ints(self, name: str) -> Ints:
        """A field of ``schema.TIMELINE`` of every state."""
        found: Ints = self._of(self._ints(name))
        return found

    def texts(self, name: str) -> Any:
        """The same of a text, as an array of objects."""
        return self._of(np.array([row[name] for row in self._kinds], dtype=object))

    def _latest(self, size: int) -> Ints:
        latest = np.full(size, -1, dtype=np.int64)
        latest[self.group] = np.arange(len(self.group))
        return latest

    def before(self, group: Ints, position: Ints) -> Ints:
        """The state of each group just before that log offset; -1 (of no group) if it had none."""
        return as_of(self.group, self.log_offset, group, position, before=True)

    def topic(self, state: Ints, topic: Ints) -> Topic:
        """How topics look to states."""
        kind = self.kind[state]
        judged = self._ints("judged_since_ms")
        holds = np.zeros(len(kind), dtype=np.bool_)
        released = judged[kind]
        wanted = set(np.unique(kind).tolist())
        span = len(self._topics) + 1
        pair = kind * span + topic
        held, freed, freed_ms = [], [], []
        for number in wanted:
            row = self._kinds[number]
            held += [number * span + self._topics[n] for n in row["topics"] or () if self._has(n)]
            for name, at_ms in row["released"]:
                if self._has(name):
                    freed.append(number * span + self._topics[name])
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

    def _has(self, name: str) -> bool:
        return name in self._topics


def _fold(log: Log, creating: Ints, rules: RuleSet) -> Iterator[tuple[int, dict[str, Any]]]:
    """(group, row of ``schema.TIMELINE``) for each change of the groups with own records."""
    own, offsets = log.own, log.offsets
    details = own.detail.to_pylist()
    events = [
        (group, at, True, place)
        for place, (group, at) in enumerate(
            zip(own.group.tolist(), own.log_offset.tolist(), strict=True)
        )
    ]
    of_group = log.keys.group[offsets.key[creating]].tolist()
    at = offsets.log_offset[creating].tolist()
    events += [(g, o, False, p) for g, o, p in zip(of_group, at, creating.tolist(), strict=True)]
    events.sort()
    group, life = -1, GroupLife(rules)
    for number, log_offset, is_own, place in events:
        if number != group:
            group, life = number, GroupLife(rules)
        event = {
            "log_offset": log_offset,
            "timestamp_ms": int((own.at_ms if is_own else offsets.at_ms)[place]),
            "kind": schema.KIND_GROUP if is_own else schema.KIND_OFFSET,
            "key_type": int(own.key_type[place]) if is_own else 1,
            "tombstone": bool(own.tombstone[place]) if is_own else False,
            "detail": details[place] if is_own else None,
        }
        row = life.apply(event)
        if row is not None:
            yield number, row
