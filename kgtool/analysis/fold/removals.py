"""Which of the broker's removals were expiry: a cause for every tombstone in the log.

The reasoning is that of ``kgtool.retention.audit``, which explains it: a cause follows from the
state just before the tombstone, what one write does to one group has one cause, and all records
of one write have the same timestamp.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import NONE, Bools, Ints, Runs, any_of, as_of, codes, extreme
from kgtool.analysis.fold.folded_log import FoldedLog
from kgtool.analysis.fold.log import ends_group
from kgtool.retention import rules as r

CAUSES = (r.CAUSE_EXPIRED, r.CAUSE_GROUP_EMPTY, r.CAUSE_CONVERTED, r.CAUSE_EXPLICIT)
EXPIRED, GROUP_EMPTY, CONVERTED, EXPLICIT = range(4)


class Removals(NamedTuple):
    """Every tombstone of an offset or a group; one array entry each."""

    row: Ints
    """Of an offset: index into the history; else -1."""
    group: Ints
    key: Ints
    """-1: the group itself."""
    position: Ints
    at_ms: Ints
    cause: Ints
    expires_ms: Ints
    offsets_left: Ints
    """What the group had just before; told of groups' own removals."""

    @property
    def own(self) -> Bools:
        """Which are of groups."""
        return self.row < 0

    def only(self, which: Bools | Ints) -> Removals:
        """Those for which it is set, or of these places."""
        return Removals(*(column[which] for column in self))


def removals(folded: FoldedLog) -> Removals:
    """All of them, explained, in log order."""
    log, past = folded.log, folded.history
    lost = np.flatnonzero(past.tombstone)
    ended = np.flatnonzero(ends_group(log.own))
    nothing = np.full(len(ended), -1, dtype=np.int64)
    found = Removals(
        np.concatenate([lost, nothing]),
        np.concatenate([log.keys.group[past.key[lost]], log.own.group[ended]]),
        np.concatenate([past.key[lost], nothing]),
        np.concatenate([past.position[lost], log.own.log_offset[ended]]),
        np.concatenate([past.at_ms[lost], log.own.at_ms[ended]]),
        *np.full((3, len(lost) + len(ended)), NONE),
    )
    found = found._replace(cause=np.full(len(found.row), -1))
    order = np.lexsort((found.position, found.group))
    found = found.only(order)
    return _explained(folded, found) if len(order) else found


def _explained(folded: FoldedLog, found: Removals) -> Removals:
    rules, past = folded.plan.rules, folded.history
    own, row = found.own, found.row
    state = folded.states.before(found.group, found.position)
    left, held, cleared = circumstances(folded, found.group, found.position, found.at_ms)
    judged = folded.judge(row[~own], state[~own])
    due, expires = np.full((2, len(row)), NONE)
    due[~own], expires[~own] = judged.due_ms, judged.expires_ms
    has, pending = np.zeros((2, len(row)), dtype=np.bool_)
    has[~own], pending[~own] = past.stored[row[~own]] >= 0, past.pending[row[~own]]
    write = codes(found.group, found.at_ms)
    had = any_of(write, ~own)
    group = folded.states.of.at(state)
    free = rc.may_go(rules, group, left=left, pending=held > 0, had=had)
    by_itself = np.where(free, GROUP_EMPTY, EXPLICIT)
    converted = own & _converted(folded, found, left)
    of_group = np.where(converted, CONVERTED, np.where(group.known, by_itself, -1))
    was_due = (due != NONE) & (due <= found.at_ms)
    of_offset = np.where(has, np.where(was_due, EXPIRED, EXPLICIT), np.where(pending, EXPLICIT, -1))
    cause = np.where(own, of_group, of_offset)
    gone = (cause == EXPIRED) | (cause == GROUP_EMPTY)
    latest = extreme(int(write.max()) + 1, write, expires)[write]
    moments = np.maximum(np.maximum(folded.states.since_ms(state), cleared), latest)
    of_own = np.where(moments > NONE, moments, found.at_ms)
    expires = np.where(own, np.where(cause == GROUP_EMPTY, of_own, NONE), expires)
    # Clocks of two coordinators may differ by more than the time between their records.
    expires = np.where(gone, np.minimum(expires, found.at_ms), expires)
    spoilt = gone & any_of(write, cause == EXPLICIT)
    return found._replace(
        cause=np.where(spoilt, EXPLICIT, cause),
        expires_ms=np.where(spoilt & own, NONE, expires),
        offsets_left=left,
    )


def circumstances(
    folded: FoldedLog, asked: Ints, position: Ints, at_ms: Ints
) -> tuple[Ints, Ints, Ints]:
    """What a group had just before: offsets, holds of transactions; when it last lost some."""
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
    left, held = (np.where(place >= 0, each[place], 0) if len(order) else np.zeros_like(place)
                  for each in sums)  # fmt: skip
    lost = past.tombstone | (past.pending_change == -1)
    lost_ms, of = past.at_ms[lost], group[lost]
    order = np.lexsort((lost_ms, of))
    before = as_of(of[order], lost_ms[order], asked, at_ms, before=True)
    cleared = np.where(before >= 0, lost_ms[order][before] if len(order) else NONE, NONE)
    return left, held, cleared


def _mark_changes(group: Ints, folded: FoldedLog) -> Ints:
    """Where a group gains (1) or loses (-1) the mark of a producer's transaction."""
    past = folded.history
    changes = np.zeros(len(group), dtype=np.int64)
    marks = np.flatnonzero((past.mark >= 0) & ~past.tombstone)
    order = marks[np.lexsort((past.position[marks], past.producer_id[marks], group[marks]))]
    runs = Runs(codes(group[order], past.producer_id[order]) if len(order) else order)
    changes[order] = past.mark[order] - runs.lag(past.mark[order], 0)
    return changes


def _converted(folded: FoldedLog, found: Removals, left: Ints) -> Bools:
    """Whether the group went on as one of another type."""
    states = folded.states
    onward, at_once = states.ints("converted_from")[:-1], states.ints("converted_at_once")[:-1]
    rows = np.flatnonzero(onward != NONE)
    if not rows.size:
        return np.zeros(len(found.group), dtype=np.bool_)
    order = rows[np.lexsort((onward[rows], states.group[rows]))]
    place = as_of(states.group[order], onward[order], found.group, found.position, before=False)
    hit = (place >= 0) & (onward[order][place] == found.position)
    # In a compacted log the rest of that write may be gone, because it was superseded; a group
    # that leaves offsets behind did not go by itself.
    later = (left > 0) & (not folded.log.is_complete)
    return hit & ((at_once[order][place] == 1) | later)
