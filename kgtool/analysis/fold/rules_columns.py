"""The retention rules as array expressions: the same as ``kgtool.retention.rules``.

That is the specification and holds the sources; a test feeds both the same snapshots. Types,
states, protocols and rules are numbers here, times milliseconds since the epoch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kgtool.analysis.fold.arrays import MAX, NONE, Bools, Ints, plus
from kgtool.retention import rules as r
from kgtool.retention.rules import RuleSet

TYPES = (r.TYPE_CLASSIC, r.TYPE_CONSUMER, r.TYPE_SHARE, r.TYPE_STREAMS)
STATES = (
    r.STATE_EMPTY, r.STATE_STABLE, r.STATE_PREPARING_REBALANCE, r.STATE_COMPLETING_REBALANCE,
    r.STATE_DEAD,
)  # fmt: skip
TYPE = {name: code for code, name in enumerate(TYPES)}
STATE = {name: code for code, name in enumerate(STATES)}
RULE = {name: code for code, name in enumerate(r.RULES)}
SIMPLE, CONSUMER, OTHER = 0, 1, 2
"""Protocol types: none, ``consumer``, any other."""
NO, YES, UNKNOWN = 0, 1, 2
_CLASSIC, _SHARE = TYPE[r.TYPE_CLASSIC], TYPE[r.TYPE_SHARE]
_EMPTY, _DEAD = STATE[r.STATE_EMPTY], STATE[r.STATE_DEAD]


class Group(NamedTuple):
    """What decides of groups; one array entry each."""

    known: Bools
    """Whether the log shows that the coordinator has it."""
    type: Ints
    state: Ints
    protocol: Ints
    since_ms: Ints
    """currentStateTimestamp; NONE or -1: absent."""
    reads: Bools
    """Whether what it subscribes to is known."""

    def at(self, rows: NDArray[Any]) -> Group:
        """Those of these rows."""
        return Group(*(column[rows] for column in self))


class Offset(NamedTuple):
    """What decides of committed offsets; one array entry each."""

    commit_ms: Ints
    expire_ms: Ints
    """NONE: the value has no such field."""
    holds: Bools
    """Whether the topic is among those that the group is known to subscribe to."""
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
    told = np.where(group.reads, np.where(holds, YES, NO), UNKNOWN)
    return np.where(_has_members(group), told, NO)


def verdict(
    rules: RuleSet, group: Group, offset: Offset, retention_ms: int | Ints
) -> tuple[Ints, Ints]:
    """(when it may go, NONE for never; the number of the rule), as ``rules.verdict``."""
    if rules.fixed_at_commit:
        return _fixed_at_commit(offset, retention_ms)
    group = as_seen_by(rules, group)
    at_ms, rule = _by_time(rules, group, offset, retention_ms)
    moving = (group.state == STATE[r.STATE_PREPARING_REBALANCE]) | (
        group.state == STATE[r.STATE_COMPLETING_REBALANCE]
    )
    classic = (group.type == _CLASSIC) & ~_simple(group)
    never = {
        r.RULE_ORPHAN: ~group.known,
        r.RULE_SHARE: group.type == _SHARE,
        r.RULE_REBALANCING: classic & moving & (not rules.rebalancing_is_stable),
        r.RULE_LIVE_GROUP: _keeps_all(rules, group),
        r.RULE_SUBSCRIBED: subscribed(group, offset.holds) == YES,
        r.RULE_PENDING: offset.pending & rules.pending_protects_offset,
    }
    kept = np.select(list(never.values()), [RULE[name] for name in never], -1)
    return np.where(kept < 0, at_ms, NONE), np.where(kept < 0, rule, kept)


def may_go(rules: RuleSet, group: Group, *, left: Ints, pending: Bools, had: Bools) -> Bools:
    """Whether a check removes the group itself, as ``rules.group_may_go``."""
    seen = as_seen_by(rules, group)
    free = seen.known & (seen.state == _EMPTY) & (seen.type != _SHARE) & (left == 0)
    if rules.pending_keeps_group == r.PENDING_IGNORED:
        return free
    if rules.pending_keeps_group == r.PENDING_WITH_OFFSETS:
        return free & (~pending | ~had)
    return free & ~pending


def leaves_tombstone(rules: RuleSet, group: Group, generation: Ints) -> Bools:
    """Whether the group's removal is written to the log, as ``rules.group_leaves_tombstone``."""
    written = (group.type == _CLASSIC) & (generation > 0)
    return np.ones_like(written) if rules.new_coordinator else written


def _simple(group: Group) -> Bools:
    return (group.type == _CLASSIC) & (group.protocol == SIMPLE)


def _has_members(group: Group) -> Bools:
    return ~_simple(group) & (group.state != _EMPTY) & (group.state != _DEAD)


def _keeps_all(rules: RuleSet, group: Group) -> Bools:
    """A living group whose subscriptions this broker does not know or does not look at."""
    not_empty = ~_simple(group) & (group.state != _EMPTY)
    whole = group.type == _CLASSIC
    if rules.reads_subscriptions:
        whole &= group.protocol != CONSUMER
    return not_empty & (whole | ~group.reads)


def _by_time(
    rules: RuleSet, group: Group, offset: Offset, retention_ms: int | Ints
) -> tuple[Ints, Ints]:
    explicit = offset.expire_ms != NONE
    if not rules.minus_one_is_past:
        explicit &= offset.expire_ms != -1
    dated = (group.type == _CLASSIC) & ~_simple(group) & (group.state == _EMPTY)
    dated &= (group.since_ms != NONE) & (group.since_ms != -1)
    base = np.where(dated, group.since_ms, offset.commit_ms)
    rule = np.where(dated, RULE[r.RULE_EMPTY_SINCE], RULE[r.RULE_COMMIT])
    at_ms = np.where(explicit, offset.expire_ms, plus(base, retention_ms))
    return at_ms, np.where(explicit, RULE[r.RULE_EXPLICIT], rule)


def _fixed_at_commit(offset: Offset, retention_ms: int | Ints) -> tuple[Ints, Ints]:
    # Strict: the broker wants the timestamp before its now, so 1 ms later is the first chance.
    filled_in = (offset.expire_ms == NONE) | (offset.expire_ms == -1)
    at_ms = np.where(filled_in, plus(offset.commit_ms, retention_ms + 1), plus(offset.expire_ms, 1))
    return at_ms, np.where(filled_in, RULE[r.RULE_COMMIT], RULE[r.RULE_EXPLICIT])


class Wrote(NamedTuple):
    """The retention that the brokers had, which may have changed while the log was written."""

    phases: tuple[tuple[int, int], ...]
    """From when on which retention counted, in the order of time."""

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
