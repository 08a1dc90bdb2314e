"""The committed offsets at the end of the log, and when each expires."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import missing_data, schema
from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import NONE, Bools, Ints, decode_texts
from kgtool.analysis.fold.folded_log import FoldedLog, Verdicts
from kgtool.retention import rules as r

EXTRA: schema.Schema = (("log_partition", "int"), ("bytes", "bigint"))
_EMPTY = rc.STATE[r.STATE_EMPTY]


class LiveOffsets(NamedTuple):
    """Committed offsets; one array entry each."""

    key: Ints
    group: Ints
    stored: Ints
    """Index into ``Log.offsets``."""
    state: Ints
    pending: Bools
    verdicts: Verdicts


def find_live(folded: FoldedLog) -> LiveOffsets:
    """The committed offsets at the end of the log, by key."""
    past = folded.history
    rows = np.flatnonzero(past.is_last & ~past.tombstone & (past.stored >= 0))
    group = folded.log.keys.group[past.key[rows]]
    state = folded.states.latest[group]
    return LiveOffsets(
        past.key[rows],
        group,
        past.stored[rows],
        state,
        past.pending[rows],
        folded.verdicts(rows, state),
    )


def table(folded: FoldedLog, found: LiveOffsets) -> Any:
    """Rows of ``schema.LIVE`` and EXTRA; unknown values are null."""
    log, states, plan, missing = folded.log, folded.states, folded.plan, folded.log.missing
    offsets, stored, state = log.offsets, found.stored, found.state
    seen = rc.as_seen_by(plan.rules, states.groups.at(state))
    holds = states.topic_protection(state, log.keys.topic[found.key]).subscribed
    subscribed = np.where(seen.known, rc.subscribed(seen, holds), rc.UNKNOWN)
    since = states.since_ms(state)
    if missing & missing_data.TIMES:
        since = np.where(has_own(folded)[found.group], states.groups.since_ms[state], NONE)
    unknown = unknown_group(folded, found.group)
    rule = _unknown_rule(folded, found, seen)
    if missing & missing_data.SUBSCRIPTIONS:
        subscribed = np.where(seen.known & (seen.state == _EMPTY), subscribed, rc.UNKNOWN)
    subscribed = np.where(unknown, rc.UNKNOWN, subscribed)
    here = seen.known & ~unknown
    hidden = np.full(len(stored), bool(missing & missing_data.COMMIT_TIMES))
    unmarked = np.full(len(stored), bool(missing & missing_data.TRANSACTIONS))
    columns = {
        **folded.key_columns(found.key),
        "offset": pa.array(offsets.offset[stored]),
        # A commit timestamp may have the value of NONE.
        "commit_timestamp_ms": pa.array(offsets.commit_ms[stored], mask=hidden),
        "expire_timestamp_ms": np.where(hidden, NONE, offsets.expire_ms[stored]),
        "topic_id": decode_texts(offsets.topic_id[stored], log.topic_ids),
        "group_type": decode_texts(np.where(here, seen.type, -1), rc.TYPES),
        "group_state": decode_texts(np.where(here, seen.state, -1), rc.STATES),
        "state_since_ms": np.where(here & (not missing & missing_data.STATE_TIMES), since, NONE),
        "subscribed": pa.array(subscribed == rc.YES, mask=subscribed == rc.UNKNOWN),
        "pending_transaction": pa.array(found.pending, mask=unmarked),
        "rule": decode_texts(np.where(rule, -1, found.verdicts.rule), r.RULES),
        "expires_at_ms": np.where(rule, NONE, found.verdicts.expires_ms),
        "log_partition": np.full(len(stored), folded.partition),
        "bytes": offsets.bytes[stored],
    }
    return folded.table("live", columns, EXTRA)


def topic_counts(folded: FoldedLog, group: Ints, key: Ints) -> Ints:
    """Number of topics of each group among these keys."""
    span = len(folded.log.topics) + 1
    pairs = np.unique(group * span + folded.log.keys.topic[key])
    return np.bincount(pairs // span, minlength=folded.log.size)


def has_own(folded: FoldedLog) -> Bools:
    """Whether the last own record of each group shows its state."""
    states = folded.states
    generation = states.ints("generation")[states.latest]
    return np.asarray(states.groups.known[states.latest] & (generation != NONE), dtype=np.bool_)


def unknown_group(folded: FoldedLog, group: Ints) -> Bools:
    """Whether records of these groups may be missing from the inputs."""
    missing = folded.log.missing
    all_of_them = bool(missing & missing_data.GROUPS)
    unknown = np.full(len(group), all_of_them)
    if folded.plan.rules.new_coordinator and missing & missing_data.NEW_GROUPS:
        unknown |= ~has_own(folded)[group]
    return unknown


def _unknown_rule(folded: FoldedLog, found: LiveOffsets, seen: rc.Group) -> Bools:
    """Whether the inputs lack something that the verdict needs."""
    missing, rules = folded.log.missing, folded.plan.rules
    unknown = np.full(len(found.key), bool(missing & missing_data.COMMIT_TIMES))
    if rules.fixed_at_commit:
        return unknown
    is_empty = seen.known & (seen.state == _EMPTY)
    own = has_own(folded)[found.group]
    protocol = np.where(own, folded.states.groups.protocol[found.state], rc.SIMPLE)
    unknown |= unknown_group(folded, found.group)
    if missing & missing_data.SUBSCRIPTIONS:
        unknown |= ~is_empty & (protocol == rc.CONSUMER) & rules.reads_subscriptions
    if missing & missing_data.STATE_TIMES:
        expire = folded.log.offsets.expire_ms[found.stored]
        own_time = (expire != NONE) & (expire != -1)
        unknown |= is_empty & (protocol != rc.SIMPLE) & ~own_time
    return unknown
