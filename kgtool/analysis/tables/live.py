"""The committed offsets at the end of the log, and when each expires."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import missing_data, schema
from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import NONE, Bools, Ints, decode_texts, lean, pieces, stacked
from kgtool.analysis.fold.folded_log import FoldedLog, Verdicts
from kgtool.retention import rules as r
from kgtool.retention.doubts import slack_ms

EXTRA: schema.Schema = (("log_partition", "int"), ("bytes", "bigint"))


class LiveOffsets(NamedTuple):
    """Committed offsets; one array entry each."""

    key: Ints
    group: Ints
    stored: Ints
    """Index into ``Log.offsets``."""
    state: Ints
    pending: Bools
    held: Bools
    """Whether a member is known to subscribe to the topic."""
    rule: Ints
    """As in ``Verdicts``; -1 where it can't be told."""
    expires_ms: Ints
    """As in ``Verdicts``; NONE where it can't be told."""

    def only(self, which: Ints | slice) -> LiveOffsets:
        """Those at these places."""
        return LiveOffsets(*(column[which] for column in self))

    def parts(self) -> Iterator[LiveOffsets]:
        """The same, some at a time: a group of millions has tables of hundreds of MB."""
        return map(self.only, pieces(len(self.key)))


def find_live(folded: FoldedLog) -> LiveOffsets:
    """The committed offsets at the end of the log, by key."""
    past = folded.history
    rows = np.flatnonzero(past.is_last & ~past.tombstone & (past.stored >= 0))
    parts = (_live_at(folded, rows[some]) for some in pieces(len(rows)))
    return LiveOffsets(*map(lean, stacked(parts)))


def _live_at(folded: FoldedLog, rows: Ints) -> LiveOffsets:
    """Those at these rows of the history."""
    past = folded.history
    key, stored = past.key[rows], past.stored[rows]
    group = folded.log.keys.group[key]
    state = folded.states.latest[group]
    held = folded.states.topic_protection(state, folded.log.keys.topic[key]).subscribed
    told, by_load = _told(folded, rows, state)
    rule, _, expires = told
    offsets = folded.log.offsets
    times = {"commit_ms": offsets.commit_ms[stored], "expire_ms": offsets.expire_ms[stored]}
    hidden = by_load | folded.unknown.rule(group, state, expires, held, **times)
    shown = np.where(hidden, -1, rule), np.where(hidden, NONE, expires)
    return LiveOffsets(key, group, stored, state, past.pending[rows], held, *shown)


def _told(folded: FoldedLog, rows: Ints, state: Ints) -> tuple[Verdicts, Bools]:
    """The verdicts, and where none can be told, as a load that no log shows decides.

    As ``unseen_loads.one_date`` has it.
    """
    found = folded.verdicts(rows, state)
    topic = folded.log.keys.topic[folded.history.key[rows]]
    if not (folded.plan.rules.may_forget_date or folded.by_load(state, topic).any()):
        return found, np.zeros(len(rows), dtype=np.bool_)
    other = folded.verdicts(rows, state, loaded=True)
    a, b = found.expires_ms, other.expires_ms
    never, past = (a == NONE) | (b == NONE), np.maximum(a, b) <= folded.plan.end_ms
    apart = np.abs(a.astype(np.float64) - b) > slack_ms(folded.plan.interval_ms)
    second = ~never & np.where(past, b > a, b < a)
    columns = zip(found, other, strict=True)
    told = Verdicts(*(np.where(second, theirs, ours) for ours, theirs in columns))
    return told, np.where(never, a != b, apart & ~past)


def table(folded: FoldedLog, found: LiveOffsets) -> pa.Table:
    """Rows of ``schema.LIVE`` and EXTRA; unknown values are null."""
    log, states, unknown, missing = folded.log, folded.states, folded.unknown, folded.log.missing
    offsets, stored, state = log.offsets, found.stored, found.state
    seen = rc.as_seen_by(folded.plan.rules, states.groups.at(state))
    is_told = seen.known & ~folded.by_load(state, log.keys.topic[found.key])
    subscribed = np.where(is_told, rc.subscribed(seen, found.held), rc.UNKNOWN)
    subscribed = unknown.subscribed(found.group, seen, subscribed)
    kinds = (np.where(seen.known, code, -1) for code in (seen.type, seen.state))
    group_type, group_state = unknown.kinds(found.group, *kinds)
    since = np.where(seen.known, unknown.since_ms(found.group, state), NONE)
    hidden = np.full(len(stored), bool(missing & missing_data.COMMIT_TIMES))
    columns = {
        **folded.key_columns(found.key),
        "offset": pa.array(offsets.offset[stored]),
        # A commit timestamp may have the value of NONE.
        "commit_timestamp_ms": pa.array(offsets.commit_ms[stored], mask=hidden),
        "expire_timestamp_ms": np.where(hidden, NONE, offsets.expire_ms[stored]),
        "topic_id": decode_texts(offsets.topic_id[stored], log.topic_ids),
        "group_type": group_type,
        "group_state": group_state,
        "state_since_ms": since,
        "subscribed": pa.array(subscribed == rc.YES, mask=subscribed == rc.UNKNOWN),
        "pending_transaction": pa.array(found.pending, mask=unknown.pending(found.pending)),
        "rule": decode_texts(found.rule, r.RULES),
        "expires_at_ms": found.expires_ms,
        "log_partition": np.full(len(stored), folded.partition),
        "bytes": offsets.bytes[stored],
    }
    return folded.table("live", columns, EXTRA)


def topic_counts(folded: FoldedLog, group: Ints, key: Ints) -> Ints:
    """Number of topics of each group among these keys."""
    span = len(folded.log.topics) + 1
    pairs = np.unique(group * span + folded.log.keys.topic[key])
    return np.bincount(pairs // span, minlength=folded.log.size)
