"""The table ``groups``: state, activity and size of each group."""

from __future__ import annotations

from typing import Any

import numpy as np

from kgtool.analysis import missing_data
from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import MAX, NONE, Bools, Ints, Runs, decode_texts, extreme
from kgtool.analysis.fold.folded_log import FoldedLog
from kgtool.analysis.fold.log import ends_group
from kgtool.analysis.fold.removals import EXPIRED, Removals
from kgtool.analysis.tables.live import LiveOffsets, topic_counts
from kgtool.records.types import GROUP_METADATA
from kgtool.retention import rules as r

_DEAD = rc.STATE[r.STATE_DEAD]


def table(folded: FoldedLog, found: LiveOffsets, removals: Removals) -> Any:
    """Rows of ``schema.GROUPS``: every group with an own record or an offset.

    ``family`` is the name's family, even if no other name of any partition is in it.
    """
    log, missing = folded.log, folded.log.missing
    size = log.size
    unknown, every = folded.unknown, np.arange(size)
    kind, state, protocol, members = _states(folded)
    group_type, group_state = unknown.kinds(every, kind, state)
    expired = np.bincount(removals.group[removals.cause == EXPIRED], minlength=size)
    rebalances = np.bincount(log.group_records.group[completed_rebalances(folded)], minlength=size)
    first, last, commit, commits = _seen(folded)
    is_timeless, no_commit = (
        bool(missing & missing_data.TIMES),
        missing_data.TIMES | missing_data.COMMIT_TIMES,
    )
    due = np.where(found.expires_ms == NONE, MAX, found.expires_ms)
    next_ms = extreme(size, found.group, due, least=True)
    # One that can't be told may be the next.
    next_ms[found.group[found.rule == -1]] = NONE
    hidden = np.full(size, NONE)
    columns = {
        "group": log.groups,
        "family": folded.families,
        "group_type": group_type,
        "group_state": group_state,
        "protocol_type": unknown.protocols(protocol),
        "members": np.where(unknown.members, NONE, members),
        "commits": hidden if missing & missing_data.OFFSETS else commits,
        "rebalances": hidden if missing & missing_data.GROUPS else rebalances,
        "first_seen_ms": hidden if is_timeless else first,
        "last_seen_ms": hidden if is_timeless else last,
        "last_commit_ms": hidden if missing & no_commit else commit,
        "live_offsets": np.bincount(found.group, minlength=size),
        "live_topics": topic_counts(folded, found.group, found.key),
        "expired_offsets": hidden if missing & missing_data.BLIND else expired,
        "next_expiry_ms": np.where(next_ms == MAX, NONE, next_ms),
        "bytes": _bytes(folded, found),
        "log_partition": np.full(size, NONE if folded.partition < 0 else folded.partition),
    }
    return folded.table("groups", columns)


def completed_rebalances(folded: FoldedLog) -> Ints:
    """Indices of the records that complete classic rebalances.

    A completed one writes members under a new generation (``CompletingRebalance`` → ``Stable``,
    where the coordinators count it); the same generation again is a static member that came back.
    """
    own = folded.log.group_records
    rows = np.flatnonzero((own.key_type == GROUP_METADATA) & ~own.tombstone)
    rows = rows[np.argsort(own.group[rows], kind="stable")]
    before = Runs(own.group[rows]).lag(own.generation[rows], NONE)
    is_new = (before == NONE) | (before != own.generation[rows])
    return np.sort(rows[is_new & (own.members[rows] > 0)])


def _seen(folded: FoldedLog) -> tuple[Ints, Ints, Ints, Ints]:
    """First and last activity, last commit, commits; tombstones are no activity."""
    log = folded.log
    offsets, own, size = log.offsets, log.group_records, log.size
    of = log.keys.group[offsets.key]
    group = np.concatenate([of, own.group])
    at_ms = np.concatenate([offsets.at_ms, own.at_ms])
    first_ms = np.concatenate([np.minimum(offsets.first_ms, offsets.at_ms), own.at_ms])
    lives = ~np.concatenate([offsets.tombstone, own.tombstone])
    first = extreme(size, group[lives], first_ms[lives], least=True)
    last = extreme(size, group[lives], at_ms[lives])
    first = np.where(first == NONE, extreme(size, group, at_ms, least=True), first)
    last = np.where(last == NONE, extreme(size, group, at_ms), last)
    commit = ~offsets.tombstone
    commits = np.zeros(size, dtype=np.int64)
    np.add.at(commits, of[commit], offsets.commits[commit])
    return first, last, extreme(size, of[commit], offsets.at_ms[commit]), commits


def _states(folded: FoldedLog) -> tuple[Ints, Ints, Any, Ints]:
    """Type, state, protocol (numbers and their names) and members at the end of the log."""
    states, rules = folded.states, folded.plan.rules
    latest = states.latest
    group = states.groups.at(latest)
    seen = rc.as_seen_by(rules, group)
    here: Bools = group.known & (latest >= 0)
    if not rules.new_coordinator:
        here &= group.type == rc.TYPE[r.TYPE_CLASSIC]
    state = np.where(here, seen.state, _DEAD)
    was = np.full(folded.log.size, -1, dtype=np.int64)
    known = np.flatnonzero(states.groups.known[:-1])
    was[states.group[known]] = known
    # Of a removed group: its last type.
    kind = np.where(latest < 0, -1, states.groups.type[np.where(was >= 0, was, latest)])
    if folded.unknown.is_headless or not folded.log.is_complete:
        # Its last life may lack its records; the tombstone's own type is here, or nothing is.
        kind = np.where(here, kind, _type_of_tombstone(folded))
    names = states.protocol_types()[latest]
    distinct, number = np.unique(np.where(here, names, ""), return_inverse=True)
    members = np.where(state == _DEAD, 0, states.ints("members")[latest])
    return kind, state, decode_texts(np.where(here, number, -1), distinct), members


def _type_of_tombstone(folded: FoldedLog) -> Ints:
    """Each group's type by its last tombstone; -1: there is none that the coordinator reads."""
    own = folded.log.group_records
    ends = ends_group(own)
    if not folded.plan.rules.new_coordinator:
        ends &= own.key_type == GROUP_METADATA
    rows = np.flatnonzero(ends)
    rows = rows[np.argsort(own.log_offset[rows], kind="stable")]
    found = np.full(folded.log.size, -1, dtype=np.int64)
    found[own.group[rows]] = rc.TYPE_OF_RECORD[own.key_type[rows]]
    return found


def _bytes(folded: FoldedLog, found: LiveOffsets) -> Ints:
    """The size of a group's newest records, which the coordinator keeps."""
    log = folded.log
    total = np.zeros(log.size, dtype=np.int64)
    np.add.at(total, found.group, log.offsets.bytes[found.stored])
    own = log.group_records
    newest = np.full(int(own.key.max(initial=-1)) + 1, -1, dtype=np.int64)
    newest[own.key] = np.arange(len(own.key))
    kept = newest[~own.tombstone[newest]]
    np.add.at(total, own.group[kept], own.bytes[kept])
    return total
