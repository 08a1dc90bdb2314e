"""The committed offsets at the end of the log, and what becomes of each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import lacks, schema
from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import NONE, Bools, Ints, words
from kgtool.analysis.fold.scene import Judged, Scene
from kgtool.retention import rules as r

EXTRA: schema.Schema = (("log_partition", "int"), ("bytes", "bigint"))
_EMPTY = rc.STATE[r.STATE_EMPTY]


class Live(NamedTuple):
    """What is committed; one array entry each."""

    key: Ints
    group: Ints
    stored: Ints
    """Index into ``Log.offsets``."""
    state: Ints
    pending: Bools
    judged: Judged


def live(scene: Scene) -> Live:
    """What is committed at the end of the log, by key."""
    past = scene.history
    rows = np.flatnonzero(past.is_last & ~past.tombstone & (past.stored >= 0))
    group = scene.log.keys.group[past.key[rows]]
    state = scene.states.latest[group]
    return Live(
        past.key[rows], group, past.stored[rows], state, past.pending[rows],
        scene.judge(rows, state),
    )  # fmt: skip


def table(scene: Scene, found: Live) -> Any:
    """Rows of ``schema.LIVE`` and EXTRA; what the inputs can't tell is empty."""
    log, states, plan, missing = scene.log, scene.states, scene.plan, scene.log.lacks
    offsets, stored, state = log.offsets, found.stored, found.state
    seen = rc.as_seen_by(plan.rules, states.of.at(state))
    holds = states.topic(state, log.keys.topic[found.key]).holds
    subscribed = np.where(seen.known, rc.subscribed(seen, holds), rc.UNKNOWN)
    since = states.since_ms(state)
    if missing & lacks.TIMES:
        since = np.where(has_own(scene)[found.group], states.of.since_ms[state], NONE)
    unknown = unknown_group(scene, found.group)
    rule = _unknown_rule(scene, found, seen)
    if missing & lacks.SUBSCRIPTIONS:
        subscribed = np.where(seen.known & (seen.state == _EMPTY), subscribed, rc.UNKNOWN)
    subscribed = np.where(unknown, rc.UNKNOWN, subscribed)
    here = seen.known & ~unknown
    hidden = np.full(len(stored), bool(missing & lacks.COMMIT_TIMES))
    unmarked = np.full(len(stored), bool(missing & lacks.TRANSACTIONS))
    columns = {
        **scene.key_columns(found.key),
        "offset": pa.array(offsets.offset[stored]),
        # A time may be as odd as NONE itself.
        "commit_timestamp_ms": pa.array(offsets.commit_ms[stored], mask=hidden),
        "expire_timestamp_ms": np.where(hidden, NONE, offsets.expire_ms[stored]),
        "topic_id": words(offsets.topic_id[stored], log.topic_ids),
        "group_type": words(np.where(here, seen.type, -1), rc.TYPES),
        "group_state": words(np.where(here, seen.state, -1), rc.STATES),
        "state_since_ms": np.where(here & (not missing & lacks.STATE_TIMES), since, NONE),
        "subscribed": pa.array(subscribed == rc.YES, mask=subscribed == rc.UNKNOWN),
        "pending_transaction": pa.array(found.pending, mask=unmarked),
        "rule": words(np.where(rule, -1, found.judged.rule), r.RULES),
        "expires_at_ms": np.where(rule, NONE, found.judged.expires_ms),
        "log_partition": np.full(len(stored), scene.partition),
        "bytes": offsets.bytes[stored],
    }
    return scene.table("live", columns, EXTRA)


def topic_counts(scene: Scene, group: Ints, key: Ints) -> Ints:
    """How many topics each group has among these keys."""
    span = len(scene.log.topics) + 1
    pairs = np.unique(group * span + scene.log.keys.topic[key])
    return np.bincount(pairs // span, minlength=scene.log.size)


def has_own(scene: Scene) -> Bools:
    """Whether a group's last own record shows what it is; one entry a group."""
    states = scene.states
    generation = states.ints("generation")[states.latest]
    return np.asarray(states.of.known[states.latest] & (generation != NONE), dtype=np.bool_)


def unknown_group(scene: Scene, group: Ints) -> Bools:
    """Whether these groups may be some whose records are not there."""
    missing = scene.log.lacks
    all_of_them = bool(missing & lacks.GROUPS)
    unknown = np.full(len(group), all_of_them)
    if scene.plan.rules.new_coordinator and missing & lacks.NEW_GROUPS:
        unknown |= ~has_own(scene)[group]
    return unknown


def _unknown_rule(scene: Scene, found: Live, seen: rc.Group) -> Bools:
    """Whether it can't be told when the offset may go."""
    missing, rules = scene.log.lacks, scene.plan.rules
    unknown = np.full(len(found.key), bool(missing & lacks.COMMIT_TIMES))
    if rules.fixed_at_commit:
        return unknown
    is_empty = seen.known & (seen.state == _EMPTY)
    own = has_own(scene)[found.group]
    protocol = np.where(own, scene.states.of.protocol[found.state], rc.SIMPLE)
    unknown |= unknown_group(scene, found.group)
    if missing & lacks.SUBSCRIPTIONS:
        unknown |= ~is_empty & (protocol == rc.CONSUMER) & rules.reads_subscriptions
    if missing & lacks.STATE_TIMES:
        expire = scene.log.offsets.expire_ms[found.stored]
        own_time = (expire != NONE) & (expire != -1)
        unknown |= is_empty & (protocol != rc.SIMPLE) & ~own_time
    return unknown
