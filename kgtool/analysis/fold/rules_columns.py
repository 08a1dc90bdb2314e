"""The retention rules for arrays: ``kgtool.retention.rules`` decides once for each kind of row.

Types, states, protocols and rules are numbers here, times milliseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kgtool.analysis.fold.arrays import MAX, NONE, Bools, Ints, plus
from kgtool.retention import rules as r
from kgtool.retention.groups import TYPE_OF_RECORD as TYPE_OF
from kgtool.retention.rules import CommittedOffset, GroupSnapshot, RuleSet

TYPES = (r.TYPE_CLASSIC, r.TYPE_CONSUMER, r.TYPE_SHARE, r.TYPE_STREAMS)
STATES = (
    r.STATE_EMPTY,
    r.STATE_STABLE,
    r.STATE_PREPARING_REBALANCE,
    r.STATE_COMPLETING_REBALANCE,
    r.STATE_DEAD,
)
TYPE = {name: code for code, name in enumerate(TYPES)}
TYPE_OF_RECORD = np.array([TYPE.get(TYPE_OF.get(each, ""), -1) for each in range(max(TYPE_OF) + 1)])
"""The type of the groups that have own records of that type; -1: none."""
STATE = {name: code for code, name in enumerate(STATES)}
RULE = {name: code for code, name in enumerate(r.RULES)}
SIMPLE, CONSUMER, OTHER = 0, 1, 2
"""Protocol types: none, ``consumer``, any other."""
NO, YES, UNKNOWN = 0, 1, 2
_PROTOCOLS = ("", r.CONSUMER_PROTOCOL, "other")
_FLAGS = (False, True)
_TOPIC = "topic"
_TOPICS = frozenset((_TOPIC,))
_CLASSIC = TYPE[r.TYPE_CLASSIC]
_EMPTY, _DEAD = STATE[r.STATE_EMPTY], STATE[r.STATE_DEAD]


class Group(NamedTuple):
    """``GroupSnapshot`` as columns; one array entry each."""

    known: Bools
    """Whether the coordinator has the group, by the log."""
    type: Ints
    state: Ints
    protocol: Ints
    since_ms: Ints
    """currentStateTimestamp; NONE or -1: absent."""
    reads: Bools
    """Whether its subscriptions are known."""

    def at(self, rows: NDArray[Any]) -> Group:
        """Those of these rows."""
        return Group(*(column[rows] for column in self))


class Offset(NamedTuple):
    """``CommittedOffset`` as columns; one array entry each."""

    commit_ms: Ints
    expire_ms: Ints
    """NONE: the value has no such field."""
    holds: Bools
    """Whether the group is known to subscribe to the topic."""
    pending: Bools


def protocol(name: str | None) -> int:
    """The number of a protocol type."""
    return CONSUMER if name == r.CONSUMER_PROTOCOL else OTHER if name else SIMPLE


def as_seen_by(rules: RuleSet, group: Group) -> Group:
    """The group as this generation's coordinator has it."""
    here = group.known & ~((group.type == _CLASSIC) & (group.state == _DEAD))
    if rules.new_coordinator:
        return group._replace(known=here)
    # The Scala coordinator gives offsets whose group it does not know a simple group.
    here &= group.type == _CLASSIC
    return group._replace(
        known=np.ones_like(here),
        type=np.full_like(group.type, _CLASSIC),
        state=np.where(here, group.state, _EMPTY),
        protocol=np.where(here, group.protocol, SIMPLE),
    )


def subscribed(group: Group, holds: Bools) -> Ints:
    """NO, YES, or UNKNOWN: whether a current member holds the topic."""
    by_topic = np.where(group.reads, np.where(holds, YES, NO), UNKNOWN)
    simple = (group.type == _CLASSIC) & (group.protocol == SIMPLE)
    has_members = ~simple & (group.state != _EMPTY) & (group.state != _DEAD)
    return np.where(has_members, by_topic, NO)


def verdict(
    rules: RuleSet, group: Group, offset: Offset, retention_ms: int | Ints
) -> tuple[Ints, Ints]:
    """(when it may go, NONE for never; the number of the rule), as ``rules.verdict``."""

    def ask(seen: GroupSnapshot | None, holds: bool, pending: bool, own: int | None) -> int:
        topic = _TOPIC if holds else ""
        found = r.verdict(rules, seen, CommittedOffset(0, own), topic, 0, pending)
        return RULE[found.rule] + len(RULE) * (found.expires_at_ms is None)

    own = np.where(offset.expire_ms == NONE, 0, np.where(offset.expire_ms == -1, 1, 2))
    columns = (offset.holds, _FLAGS), (offset.pending, _FLAGS), (own, (None, -1, 0))
    code = _asked(ask, group, *columns)
    rule, strict = code % len(RULE), int(rules.fixed_at_commit)
    base = np.where(rule == RULE[r.RULE_EMPTY_SINCE], group.since_ms, offset.commit_ms)
    at_ms = plus(base, retention_ms + strict)
    at_ms = np.where(rule == RULE[r.RULE_EXPLICIT], plus(offset.expire_ms, strict), at_ms)
    return np.where(code < len(RULE), at_ms, NONE), rule


def may_go(rules: RuleSet, group: Group, *, left: Ints, pending: Bools, had: Bools) -> Bools:
    """Whether a check removes the group itself, as ``rules.group_may_go``."""

    def ask(seen: GroupSnapshot | None, left: bool, pending: bool, had: bool) -> int:
        return seen is not None and r.group_may_go(
            rules, seen, offsets_before=had, offsets_left=left, pending=pending
        )

    columns = (left != 0, _FLAGS), (pending, _FLAGS), (had, _FLAGS)
    return _asked(ask, group, *columns) > 0


def _asked(ask: Callable[..., int], group: Group, *columns: tuple[Any, Sequence[Any]]) -> Ints:
    """The answer of a rule for each row; ``ask`` is called once for each kind of row.

    A column is codes and their meanings. Of a group's date only its presence matters.
    """
    dated = (group.since_ms != NONE) & (group.since_ms != -1)
    every = (
        (group.known, _FLAGS),
        (group.type, TYPES),
        (group.state, STATES),
        (group.protocol, _PROTOCOLS),
        (dated, (None, 0)),
        (group.reads, (None, _TOPICS)),
        *columns,
    )
    sizes = [len(meanings) for _, meanings in every]
    kind = np.ravel_multi_index([codes for codes, _ in every], sizes)
    answers = np.zeros(prod(sizes), dtype=np.int64)
    for number in np.flatnonzero(np.bincount(kind)).tolist():
        places = np.unravel_index(number, sizes)
        known, *traits = (of[at] for at, (_, of) in zip(places, every, strict=True))
        seen = GroupSnapshot(*traits[:5]) if known else None
        answers[number] = ask(seen, *traits[5:])
    return np.asarray(answers[kind], dtype=np.int64)


def leaves_tombstone(rules: RuleSet, group: Group, generation: Ints) -> Bools:
    """Whether the group's removal is written to the log, as ``rules.group_leaves_tombstone``."""
    written = (group.type == _CLASSIC) & (generation > 0)
    return np.ones_like(written) if rules.new_coordinator else written


class Wrote(NamedTuple):
    """The brokers' retention, which may have changed while the log was written."""

    phases: tuple[tuple[int, int], ...]
    """(from when, retention), in the order of time."""

    def at(self, at_ms: Ints) -> Ints:
        """The retention at each of these times."""
        starts, retentions = np.array(self.phases, dtype=np.int64).T
        found = np.searchsorted(starts, at_ms, side="right") - 1
        return np.asarray(retentions[np.maximum(found, 0)], dtype=np.int64)

    def verdict(self, rules: RuleSet, group: Group, offset: Offset) -> tuple[Ints, Ints]:
        """``verdict``: when a broker may first remove each offset.

        A changed retention applies to the offsets that are stored. Brokers up to 2.0 are an
        exception: they fix an offset's time when it is committed.
        """
        if rules.fixed_at_commit or len(self.phases) == 1:
            return verdict(rules, group, offset, self.at(offset.commit_ms))
        due = np.full(len(offset.commit_ms), NONE)
        ends = [start for start, _ in self.phases[1:]] + [MAX]
        for (start, retention), end in zip(self.phases, ends, strict=True):
            at_ms, rule = verdict(rules, group, offset, retention)
            first = np.maximum(at_ms, start)
            counts = (due == NONE) & (at_ms != NONE) & ((first < end) | (end == MAX))
            due = np.where(counts, np.where(start == self.phases[0][0], at_ms, first), due)
        return due, rule
