"""What a check ought to have removed before the log ends, and has not.

A broker looks once per check interval. What was due for longer than that at the end of the log
points at a coordinator that does not clean up (one that could not load its partition, say), or
at other settings than those that were assumed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import NONE, Ints, words
from kgtool.analysis.fold.scene import Scene
from kgtool.analysis.tables.live import Live
from kgtool.retention import rules as r

_RULES = (*r.RULES, r.CAUSE_GROUP_EMPTY)


def grace_ms(interval_ms: int) -> int:
    """How long after it was due something is gone at the latest.

    One interval, and the little by which checks drift: the new coordinator starts the next one an
    interval after the last one *ended*.
    """
    return interval_ms + max(1000, interval_ms // 100)


def table(scene: Scene, found: Live) -> Any:
    """Rows of ``schema.OVERDUE`` at the end of the log."""
    plan, log, states = scene.plan, scene.log, scene.states
    limit = plan.end_ms - grace_ms(plan.interval_ms)
    if log.moved_ms > limit:
        # A coordinator looks for the first time an interval after it has loaded the partition.
        limit -= grace_ms(plan.interval_ms)
    seen = rc.as_seen_by(plan.rules, states.of.at(found.state))
    expires = found.judged.expires_ms
    late = np.flatnonzero((expires != NONE) & (expires < limit))
    groups, since = _groups(scene, found)
    gone = (since != NONE) & (since < limit)
    groups, since = groups[gone], since[gone]
    none = np.full(len(groups), NONE)
    of_group = states.of.at(states.latest[groups])
    due = _both(expires[late], since)
    stored = found.stored[late]
    here = seen.known[late]
    columns = {
        **scene.key_columns(np.append(found.key[late], np.full(len(groups), -1))),
        "group": words(_both(found.group[late], groups), log.groups),
        "offset": _both(log.offsets.offset[stored], none),
        "commit_timestamp_ms": _both(log.offsets.commit_ms[stored], none),
        "group_type": words(_both(np.where(here, seen.type[late], -1), of_group.type), rc.TYPES),
        "group_state": words(
            _both(np.where(here, seen.state[late], -1), of_group.state), rc.STATES
        ),
        "rule": words(_both(found.judged.rule[late], np.full_like(groups, len(r.RULES))), _RULES),
        "expires_at_ms": due,
        # null where a commit timestamp is so absurd that the difference does not fit
        "overdue_ms": np.where(due > -(2**62), plan.end_ms - plan.interval_ms - due, NONE),
        "log_partition": np.full(len(due), scene.partition),
    }
    return scene.table("overdue", columns)


def _both(of_offsets: Ints, of_groups: Ints) -> Ints:
    """What offsets have, then what groups have."""
    return np.concatenate([of_offsets, of_groups])


def _groups(scene: Scene, found: Live) -> tuple[Ints, Ints]:
    """Groups that the next check removes, and since when that is so."""
    log, past, rules, states = scene.log, scene.history, scene.plan.rules, scene.states
    latest = states.latest
    group = states.of.at(latest)
    has_live = np.zeros(log.size, dtype=np.bool_)
    has_live[found.group] = True
    of = log.keys.group[past.key]
    cleared = np.full(log.size, NONE)
    lost = past.tombstone | (past.pending_change == -1)
    np.maximum.at(cleared, of[lost], past.at_ms[lost])
    held = np.zeros(log.size, dtype=np.bool_)
    if rules.pending_keeps_group == r.PENDING_ALWAYS:
        held[of[past.is_last & past.pending]] = True
    left = np.zeros(log.size, dtype=np.int64)
    goes = rc.may_go(rules, group, left=left, pending=held, had=~held)
    goes &= group.known & ~has_live
    # Only then the log could show that it went.
    goes &= rc.leaves_tombstone(rules, group, states.ints("generation")[latest])
    rows = np.flatnonzero(goes)
    return rows, np.maximum(states.since_ms(latest), cleared)[rows]
