"""Which of the broker's removals were expiry: a cause for every tombstone in the log.

The reasoning is that of ``kgtool.retention.audit``, which explains it: a cause follows from the
state just before the tombstone, what one write does to one group has one cause, and all records
of one write have the same timestamp.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import lacks
from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import (
    MAX,
    NONE,
    Bools,
    Ints,
    Runs,
    any_of,
    as_of,
    codes,
    ints,
    max_of,
    words,
)
from kgtool.analysis.fold.log import ends_group
from kgtool.analysis.fold.scene import Scene, choice
from kgtool.retention import rules as r

CAUSES = (r.CAUSE_EXPIRED, r.CAUSE_GROUP_EMPTY, r.CAUSE_CONVERTED, r.CAUSE_EXPLICIT)
EXPIRED, GROUP_EMPTY, CONVERTED, EXPLICIT = range(4)


FEWEST, MOMENTS = 10, 3
"""Early removals of one age, and times at which they came, that are no accident."""
SHORTEST_MS = 60_000
"""No broker's retention is shorter: offsets.retention.minutes is at least 1."""


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

    def only(self, which: Bools) -> Removals:
        """Those for which it is set."""
        return Removals(*(column[which] for column in self))


def removals(scene: Scene) -> Removals:
    """All of them, explained, in log order."""
    log, past = scene.log, scene.history
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
    found = Removals(*(column[order] for column in found))
    return _explained(scene, found) if len(order) else found


def _explained(scene: Scene, found: Removals) -> Removals:
    rules, past = scene.plan.rules, scene.history
    own, row = found.own, found.row
    state = scene.states.before(found.group, found.position)
    left, held, cleared = _circumstances(scene, found)
    judged = scene.judge(row[~own], state[~own])
    due, expires = np.full((2, len(row)), NONE)
    due[~own], expires[~own] = judged.due_ms, judged.expires_ms
    has, pending = np.zeros((2, len(row)), dtype=np.bool_)
    has[~own], pending[~own] = past.stored[row[~own]] >= 0, past.pending[row[~own]]
    write = codes(found.group, found.at_ms)
    had = any_of(write, ~own)
    group = scene.states.of.at(state)
    free = rc.may_go(rules, group, left=left, pending=held > 0, had=had)
    by_itself = np.where(free, GROUP_EMPTY, EXPLICIT)
    converted = own & _converted(scene, found, left)
    of_group = np.where(converted, CONVERTED, np.where(group.known, by_itself, -1))
    was_due = (due != NONE) & (due <= found.at_ms)
    of_offset = np.where(has, np.where(was_due, EXPIRED, EXPLICIT), np.where(pending, EXPLICIT, -1))
    cause = np.where(own, of_group, of_offset)
    gone = (cause == EXPIRED) | (cause == GROUP_EMPTY)
    moments = np.maximum(np.maximum(_empty_since(scene, state), cleared), max_of(write, expires))
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


def _circumstances(scene: Scene, found: Removals) -> tuple[Ints, Ints, Ints]:
    """What its group had just before each: offsets, holds of transactions; last loss before."""
    log, past, rules = scene.log, scene.history, scene.plan.rules
    group = log.keys.group[past.key]
    stored = np.where(past.tombstone, -(past.stored >= 0).astype(np.int64), past.first)
    holds = past.pending_change
    if rules.marks_outlive_offsets:
        holds = _mark_changes(group, scene)
    order = np.lexsort((past.position, group))
    runs = Runs(group[order])
    place = as_of(group[order], past.position[order], found.group, found.position, before=True)
    sums = [runs.sum_before(values[order]) + values[order] for values in (stored, holds)]
    left, held = (np.where(place >= 0, each[place], 0) if len(order) else np.zeros_like(place)
                  for each in sums)  # fmt: skip
    lost = past.tombstone | (past.pending_change == -1)
    at_ms, of = past.at_ms[lost], group[lost]
    order = np.lexsort((at_ms, of))
    before = as_of(of[order], at_ms[order], found.group, found.at_ms, before=True)
    cleared = np.where(before >= 0, at_ms[order][before] if len(order) else NONE, NONE)
    return left, held, cleared


def _mark_changes(group: Ints, scene: Scene) -> Ints:
    """Where a group gains (1) or loses (-1) the mark of a producer's transaction."""
    past = scene.history
    changes = np.zeros(len(group), dtype=np.int64)
    marks = np.flatnonzero((past.mark >= 0) & ~past.tombstone)
    order = marks[np.lexsort((past.position[marks], past.producer_id[marks], group[marks]))]
    runs = Runs(codes(group[order], past.producer_id[order]) if len(order) else order)
    changes[order] = past.mark[order] - runs.lag(past.mark[order], 0)
    return changes


def _converted(scene: Scene, found: Removals, left: Ints) -> Bools:
    """Whether the group went on as one of another type."""
    states = scene.states
    onward, at_once = states.ints("converted_from")[:-1], states.ints("converted_at_once")[:-1]
    rows = np.flatnonzero(onward != NONE)
    if not rows.size:
        return np.zeros(len(found.group), dtype=np.bool_)
    order = rows[np.lexsort((onward[rows], states.group[rows]))]
    place = as_of(states.group[order], onward[order], found.group, found.position, before=False)
    hit = (place >= 0) & (onward[order][place] == found.position)
    # In a compacted log the rest of that write may be gone, because it was superseded; a group
    # that leaves offsets behind did not go by itself.
    later = (left > 0) & (not scene.log.is_complete)
    return hit & ((at_once[order][place] == 1) | later)


def _empty_since(scene: Scene, state: Ints) -> Ints:
    since = scene.states.of.since_ms[state]
    return np.where(since == NONE, scene.states.ints("entered_ms")[state], since)


def latency(found: Removals) -> Ints:
    """How long after it was due; NONE where the difference does not fit into an int64."""
    known = found.expires_ms != NONE
    difference = np.where(known, found.at_ms - np.where(known, found.expires_ms, 0), NONE)
    # at_ms is within 2^61, so only a time far below can overflow.
    fits = ~known | (found.expires_ms > -(2**62))
    return np.where(fits, difference, NONE)


def early(scene: Scene, found: Removals) -> Any:
    """How old offsets were that went before their time, in steps of the check interval.

    ``moments``: at how many different times; ``least``: the youngest of the step.
    """
    plan = scene.plan
    known = ~found.own & (found.cause == EXPLICIT) & (found.expires_ms > found.at_ms)
    if len(plan.wrote.phases) > 1 or scene.log.lacks & lacks.BLIND:
        known[:] = False
    at_ms, due = found.at_ms[known], np.minimum(found.expires_ms[known], 2**62)
    age = np.maximum(at_ms - due + plan.wrote.phases[0][1], 0)
    step, code = np.unique(age // plan.interval_ms, return_inverse=True)
    times = np.unique(np.stack([code, at_ms]), axis=1)[0]
    least = np.full(len(step), MAX)
    np.minimum.at(least, code, age)
    return pa.table(
        {
            "step": step,
            "count": np.bincount(code, minlength=len(step)),
            "moments": np.bincount(times, minlength=len(step)),
            "least": least,
        }
    )


def shared_age(parts: Any) -> tuple[int, int, int] | None:
    """(how many, of how many early removals share an age, that age in ms), if most of them do.

    Whoever deletes by hand does it now and then, whatever the age; a broker with a shorter
    retention than was assumed removes all at that age, or within one interval after it.
    """
    step, code = np.unique(ints(parts["step"]), return_inverse=True)
    count, moments = (
        np.bincount(code, ints(parts[name]), minlength=len(step)) for name in ("count", "moments")
    )
    least = np.full(len(step), MAX)
    np.minimum.at(least, code, ints(parts["least"]))
    next_to = np.append(step[1:] == step[:-1] + 1, False)[: len(step)]
    both = [each + np.where(next_to, np.append(each[1:], 0), 0) for each in (count, moments)]
    if not len(step):
        return None
    best = int(np.argmax(both[0]))
    total, age_ms = int(count.sum()), int(least[best])
    is_shared = both[0][best] >= FEWEST and both[1][best] >= MOMENTS
    if not is_shared or both[0][best] * 3 < total * 2 or age_ms < SHORTEST_MS:
        return None
    return int(both[0][best]), total, age_ms


def table(scene: Scene, found: Removals) -> Any:
    """Rows of ``schema.REMOVALS``; what the inputs can't tell is empty."""
    log, missing = scene.log, scene.log.lacks
    blind = np.full(len(found.key), bool(missing & lacks.BLIND))
    if missing & lacks.TRANSACTIONS and not log.is_complete:
        # An aborted commit looks like one that was not due yet when the offset was removed.
        blind |= _doubtful(scene)[found.group] & (found.cause == EXPLICIT)
    hidden = np.full(len(found.key), bool(missing & lacks.TIMES))
    topic = np.where(found.own, -1, log.keys.topic[found.key] if len(log.keys.topic) else -1)
    partition = log.keys.partition[found.key] if len(log.keys.topic) else found.key
    return scene.table(
        "removals",
        {
            "group": words(found.group, log.groups),
            "topic": words(topic, log.topics),
            "partition": np.where(found.own, NONE, partition),
            "removed_at_ms": np.where(hidden, NONE, found.at_ms),
            "cause": choice(CAUSES, np.where(blind, -1, found.cause)),
            "expires_at_ms": np.where(blind, NONE, found.expires_ms),
            "latency_ms": np.where(blind, NONE, latency(found)),
        },
    )


def _doubtful(scene: Scene) -> Bools:
    """Groups with commits that may be transactional.

    Those never carry a topic id, all others do since 4.1.
    """
    log = scene.log
    maybe = ~log.offsets.tombstone & (log.offsets.topic_id < 0)
    result = np.zeros(log.size, dtype=np.bool_)
    result[log.keys.group[log.offsets.key[maybe]]] = True
    return result
