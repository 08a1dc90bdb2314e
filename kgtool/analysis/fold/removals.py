"""A cause for every tombstone in the log.

The reasoning is that of ``kgtool.retention.audit``: the cause follows from the state just before
the tombstone, the removals of one write from one group share one cause, and all records of one
write have the same timestamp.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import NONE, Bools, Ints, Runs, any_of, as_of, codes, extreme
from kgtool.analysis.fold.folded_log import FoldedLog
from kgtool.analysis.fold.log import ends_group
from kgtool.analysis.fold.removal_doubts import EARLY_RULES, Removed, causes, early, in_check, late
from kgtool.retention import rules as r
from kgtool.retention.doubts import RACE_MS, explained_until_ms

CAUSES = (r.CAUSE_EXPIRED, r.CAUSE_GROUP_EMPTY, r.CAUSE_CONVERTED, r.CAUSE_EXPLICIT)
EXPIRED, GROUP_EMPTY, CONVERTED, EXPLICIT = range(4)


class Removals(NamedTuple):
    """Every tombstone of an offset or a group; one array entry each."""

    row: Ints
    """Of an offset: index into the history; of a group: -1."""
    group: Ints
    key: Ints
    """-1: the group itself."""
    position: Ints
    at_ms: Ints
    cause: Ints
    expires_ms: Ints
    offsets_left: Ints
    """Offsets that the group had just before; of groups' own removals."""
    rule: Ints
    """Of an offset that was stored: index into ``rules.RULES``; else -1."""
    stored: Ints
    """Index into ``Log.offsets`` of an offset that was stored; else -1."""
    doubtful: Bools
    """Which the same log may explain, if another partition of it shows a check at that time."""

    @property
    def of_group(self) -> Bools:
        """Which are of groups."""
        return self.row < 0

    def only(self, which: Bools | Ints) -> Removals:
        """Those for which ``which`` is set, or at these indices."""
        return Removals(*(column[which] for column in self))


def explain_removals(folded: FoldedLog) -> Removals:
    """Every removal with its cause by the rules of its time, by group and log offset."""
    newest, *older = folded.phases()
    found = _explain_removals(newest)
    for phase in older:
        earlier, then = _explain_removals(phase), found.at_ms < phase.plan.hold_ms[1]
        if phase.unknown.blind():
            earlier = _hidden(earlier, then)
        both = zip(earlier, found, strict=True)
        found = Removals(*(np.where(then, one, other) for one, other in both))
    return found


def _explain_removals(folded: FoldedLog) -> Removals:
    log, past = folded.log, folded.history
    records = log.group_records
    lost, ended = np.flatnonzero(past.tombstone), np.flatnonzero(ends_group(records))
    no_key, size = np.full(len(ended), -1, dtype=np.int64), len(lost) + len(ended)
    found = Removals(
        row=np.concatenate([lost, no_key]),
        group=np.concatenate([log.keys.group[past.key[lost]], records.group[ended]]),
        key=np.concatenate([past.key[lost], no_key]),
        position=np.concatenate([past.position[lost], records.log_offset[ended]]),
        at_ms=np.concatenate([past.at_ms[lost], records.at_ms[ended]]),
        cause=np.full(size, -1),
        expires_ms=np.full(size, NONE),
        offsets_left=np.full(size, NONE),
        rule=np.full(size, -1),
        stored=np.concatenate([past.stored[lost], no_key]),
        doubtful=np.zeros(size, dtype=np.bool_),
    )
    found = found.only(np.lexsort((found.position, found.group)))
    if not size:
        return found
    found = _by_these_rules(folded, _as_far_as_known(folded, _with_causes(folded, found)))
    return _hidden(found, folded.misplaced[found.group]) if folded.misplaced.any() else found


def _by_these_rules(folded: FoldedLog, found: Removals) -> Removals:
    """Without causes and dates from times when other brokers with other rules made them."""
    older = found.at_ms <= folded.older_until_ms
    return _hidden(found, older)


def _hidden(found: Removals, which: Bools) -> Removals:
    """Without these causes, dates and rules."""
    return found._replace(
        cause=np.where(which, -1, found.cause),
        expires_ms=np.where(which, NONE, found.expires_ms),
        rule=np.where(which, -1, found.rule),
    )


def _as_far_as_known(folded: FoldedLog, found: Removals) -> Removals:
    """Without causes and dates that a log with missing records can't tell."""
    unknown, cause, write = folded.unknown, found.cause, codes(found.group, found.at_ms)
    if folded.log.is_complete:
        return found
    converted = found.of_group & (cause == EXPLICIT) & unknown.goes_on(found.group, found.position)
    reads = folded.plan.rules.reads_subscriptions and not folded.plan.rules.fixed_at_commit
    untold = unknown.topics(found.group, found.position) & reads & ~found.of_group
    if not unknown.is_headless:
        hidden = converted | (any_of(write, untold) & (cause != CONVERTED))
        return found._replace(
            cause=np.where(hidden, -1, cause), expires_ms=np.where(untold, NONE, found.expires_ms)
        )
    hidden = converted | untold | unknown.before(found.group, found.position) | (cause < 0)
    # A check removes a group without offsets: of those written before the inputs nothing is known.
    bare = found.of_group & ~any_of(write, ~hidden & ~found.of_group) & (found.offsets_left <= 0)
    hidden |= bare & unknown.contents(found.group, found.position)
    # One that was not due would tell that nothing of this write expired.
    hidden |= (cause != EXPLICIT) & any_of(write, hidden)
    undated = hidden | unknown.date(found.group, found.expires_ms)
    return found._replace(
        cause=np.where(hidden, -1, cause), expires_ms=np.where(undated, NONE, found.expires_ms)
    )


def _with_causes(folded: FoldedLog, found: Removals) -> Removals:
    rules, past, states = folded.plan.rules, folded.history, folded.states
    of_group, offsets = found.of_group, ~found.of_group
    state = states.before(found.group, found.position)
    left, pending, cleared = group_contents(folded, found.group, found.position, found.at_ms)
    write = codes(found.group, found.at_ms)
    cause, expires = np.full((2, len(state)), NONE)
    rule = np.full(len(state), -1)
    row = found.row[offsets]
    verdicts, stored = folded.verdicts(row, state[offsets]), found.stored[offsets]
    was_due = (verdicts.due_ms != NONE) & (verdicts.due_ms <= found.at_ms[offsets])
    held = past.pending[row] | _second(folded, found)[offsets]
    cause[offsets] = np.where(
        stored >= 0, np.where(was_due, EXPIRED, EXPLICIT), np.where(held, EXPLICIT, -1)
    )
    expires[offsets], rule[offsets] = verdicts.expires_ms, verdicts.rule
    group, had = states.groups.at(state), any_of(write, offsets)
    by_check = rc.may_go(rules, group, left=left, pending=pending > 0, had=had)
    of_known = np.where(by_check, GROUP_EMPTY, EXPLICIT)
    converted = _converted(folded, found)
    cause[of_group] = np.where(converted, CONVERTED, np.where(group.known, of_known, -1))[of_group]
    expires_before = expires
    removed = Removed(
        found.group,
        found.position,
        found.at_ms,
        state,
        found.stored,
        _of_offsets(found, verdicts.rule),
    )
    cause, expires, doubtful = _with_early(folded, removed, write, cause, expires)
    doubtful |= _of_shared_age(folded, removed, write, cause, expires)
    cause = np.where(doubtful, -1, cause)
    is_early = np.isin(rule, EARLY_RULES) & (cause == EXPIRED) & (expires_before != expires)
    rule = np.where(is_early, rc.RULE[r.RULE_COMMIT], rule)
    latest = extreme(int(write.max()) + 1, write, expires)[write]
    since = np.maximum(np.maximum(states.since_ms(state), cleared), latest)
    since = np.where(since > NONE, since, found.at_ms)
    expires = np.where(of_group, np.where(cause == GROUP_EMPTY, since, NONE), expires)
    by_check = (cause == EXPIRED) | (cause == GROUP_EMPTY)
    # Clocks of two coordinators may differ by more than the time between their records.
    expires = np.where(by_check, np.minimum(expires, found.at_ms), expires)
    too_late = late(folded, removed, expires) & ~in_check(folded, removed)
    unsure = (by_check & offsets & too_late) | doubtful
    # A check removes nothing that is not due, so all of one write has one cause.
    by_hand = by_check & any_of(write, cause == EXPLICIT)
    cause = np.where(by_check & any_of(write, unsure), -1, cause)
    cause = np.where(by_hand, EXPLICIT, cause)
    in_doubt = offsets & (cause == -1) & (found.stored >= 0)
    cause = np.where(_raced(folded, found, left) & (cause == EXPLICIT), -1, cause)
    gone = by_check & (cause != GROUP_EMPTY) & of_group
    return found._replace(
        cause=cause,
        expires_ms=np.where(gone, NONE, expires),
        offsets_left=left,
        rule=rule,
        doubtful=in_doubt,
    )


def _second(folded: FoldedLog, found: Removals) -> Bools:
    """Which are of an offset that the same write has removed already (``retention.writes``)."""
    bare = ~found.of_group & (found.stored < 0)
    if not (folded.plan.rules.pending_protects_offset and bare.any()):
        return np.zeros_like(bare)
    first = np.unique(codes(found.group, found.at_ms, found.key), return_index=True)[1]
    bare[first] = False
    return bare


def _raced(folded: FoldedLog, found: Removals, left: Ints) -> Bools:
    """Which groups' removals may have overtaken those of the offsets that were left."""
    ahead = np.append(found.group[1:] == found.group[:-1], False) & found.of_group & (left > 0)
    soon = np.append(np.diff(found.at_ms), 0) <= RACE_MS
    after = np.append(~found.of_group[1:], False)
    return np.asarray(ahead & soon & after & (not folded.plan.rules.new_coordinator))


def _of_offsets(found: Removals, values: Ints) -> Ints:
    """Values of the offsets' removals, -1 for those of groups."""
    result = np.full(len(found.row), -1, dtype=np.int64)
    result[~found.of_group] = values
    return result


def _with_early(
    folded: FoldedLog, removed: Removed, write: Ints, cause: Ints, expires: Ints
) -> tuple[Ints, Ints, Bools]:
    """Cause and time, where a bug of the brokers' may have removed offsets before their time; and
    where that can't be known."""
    old_ms = early(folded, removed)
    doubtful = (cause == EXPLICIT) & (old_ms != NONE)
    # A check removes nothing else of that write that is not due.
    doubtful &= ~any_of(write, (cause == EXPLICIT) & ~doubtful)
    places = np.flatnonzero(doubtful)
    if not places.size:
        return cause, expires, doubtful
    certain = (cause == EXPIRED) & ~any_of(write, cause == EXPLICIT)
    start, end = folded.plan.hold_ms
    certain &= (removed.at_ms >= start) & (removed.at_ms < end)
    certain_ms = removed.at_ms[certain & ~late(folded, removed, expires)]
    cause, expires = cause.copy(), expires.copy()
    found = causes(folded, removed, certain_ms, places)
    cause[places] = [-1 if each is None else CAUSES.index(each) for each in found]
    expired = places[cause[places] == EXPIRED]
    expires[expired] = old_ms[expired]
    return cause, expires, doubtful & (cause == -1)


def _of_shared_age(
    folded: FoldedLog, removed: Removed, write: Ints, cause: Ints, expires: Ints
) -> Bools:
    """Which came before their time, but at an age that may have been the brokers' retention."""
    plan, found = folded.plan, np.zeros(len(cause), dtype=np.bool_)
    early = (removed.stored >= 0) & (cause == EXPLICIT) & (expires > removed.at_ms)
    age_ms = removed.at_ms - np.where(early, expires, 0) + plan.wrote.phases[0][1]
    for age in plan.doubtful_ages_ms:
        found |= early & (age_ms >= age) & (age_ms < age + explained_until_ms(plan.interval_ms))
    return found & ~any_of(write, (cause == EXPLICIT) & ~found)


def group_contents(
    folded: FoldedLog, asked: Ints, position: Ints, at_ms: Ints
) -> tuple[Ints, Ints, Ints]:
    """Of groups before positions: offsets, pending transactions; when they last lost one."""
    log, past, rules = folded.log, folded.history, folded.plan.rules
    group = log.keys.group[past.key]
    stored = np.where(past.tombstone, -(past.stored >= 0).astype(np.int64), past.first)
    holds = past.pending_change
    if rules.marks_outlive_offsets:
        holds = _mark_changes(group, folded)
    order = np.lexsort((past.position, group))
    runs = Runs(group[order])
    place = as_of(group[order], past.position[order], asked, position, before=True)
    sums = [runs.sum_before(values[order]) + values[order] for values in (stored, holds)]
    left, pending = (np.append(each, 0)[place] for each in sums)
    lost = past.tombstone | (past.pending_change == -1)
    lost_ms, of = past.at_ms[lost], group[lost]
    order = np.lexsort((lost_ms, of))
    before = as_of(of[order], lost_ms[order], asked, at_ms, before=True)
    return left, pending, np.append(lost_ms[order], NONE)[before]


def _mark_changes(group: Ints, folded: FoldedLog) -> Ints:
    """Where groups gain (1) or lose (-1) the mark of a producer's transaction."""
    past = folded.history
    changes = np.zeros(len(group), dtype=np.int64)
    marks = np.flatnonzero((past.mark >= 0) & ~past.tombstone)
    order = marks[np.lexsort((past.position[marks], past.producer_id[marks], group[marks]))]
    runs = Runs(codes(group[order], past.producer_id[order]) if len(order) else order)
    changes[order] = past.mark[order] - runs.lag(past.mark[order], 0)
    return changes


def _converted(folded: FoldedLog, found: Removals) -> Bools:
    """Which groups the same write makes ones of another type (``retention.writes``)."""
    own = folded.log.group_records
    ends, hit = ends_group(own), np.zeros(len(own.group), dtype=np.bool_)
    if ends.any() and folded.plan.rules.new_coordinator:
        kinds, write = rc.TYPE_OF_RECORD[own.key_type], codes(own.group, own.at_ms)
        for kind in np.unique(kinds[~own.tombstone]):
            some = (kinds == kind) & ~own.tombstone
            last = extreme(int(write.max()) + 1, write[some], own.log_offset[some])[write]
            hit |= ends & (kinds != kind) & (last > own.log_offset)
    return found.of_group & np.isin(found.position, own.log_offset[hit])
