"""The history of each offset: what was stored just before each tombstone and at the log's end.

Positions are log offsets of the ``__consumer_offsets`` partition; a transactional commit counts
from its own record as pending, and from its COMMIT marker as stored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kgtool.analysis.fold.arrays import (
    MAX,
    NONE,
    Bools,
    Ints,
    Runs,
    codes,
    following,
    greatest_so_far,
    lean,
    slabs,
    stacked,
)
from kgtool.analysis.fold.log import Log
from kgtool.retention.rules import RuleSet

NEVER = MAX
"""Position of the end of a transaction that is still open."""


class TransactionEnds(NamedTuple):
    """Where the transactions of some commits end."""

    marker: Ints
    """Index into ``Log.markers``; -1: still open."""
    position: Ints
    """NEVER: still open."""
    at_ms: Ints


class OffsetHistory(NamedTuple):
    """Events by key and position: tombstones, commits, ends of transactions."""

    key: Ints
    position: Ints
    at_ms: Ints
    tombstone: Bools
    is_last: Bools
    first: Bools
    """The offset is stored here for the first time, at ``first_ms``."""
    first_ms: Ints
    producer_id: Ints
    pending_change: Ints
    """1, -1: a transaction begins, ceases to have a pending commit for the key."""
    mark: Ints
    """1, 0: the transaction marks the group, removes its mark; -1: neither. See
    RuleSet.marks_outlive_offsets."""
    pending: Bools
    pending_ended_ms: Ints
    stored: Ints
    """Index into ``Log.offsets`` of the commit in force: of a tombstone just before it, else just
    after the row; -1: none."""
    stored_ms: Ints
    """Since when it is in force."""


def transaction_ends(log: Log, rows: Ints) -> TransactionEnds:
    """The ends of the transactions of these pending commits."""
    markers, offsets = log.markers, log.offsets
    if not len(markers.log_offset):
        nothing = np.full(len(rows), -1, dtype=np.int64)
        return TransactionEnds(nothing, np.full(len(rows), NEVER), np.full(len(rows), NONE))
    order = np.lexsort((markers.log_offset, markers.producer_id))
    both = np.concatenate([markers.producer_id[order], offsets.producer_id[rows]])
    producer = codes(both)
    found = following(
        producer[: len(order)],
        markers.log_offset[order],
        producer[len(order) :],
        offsets.log_offset[rows],
    )
    ended = found >= 0
    marker = np.where(ended, order[found], -1)
    return TransactionEnds(
        marker,
        np.where(ended, markers.log_offset[marker], NEVER),
        np.where(ended, markers.at_ms[marker], NONE),
    )


class _OffsetEvents(NamedTuple):
    row: Ints
    """Index into ``Log.offsets``."""
    key: Ints
    position: Ints
    at_ms: Ints
    visible: Bools
    first_ms: Ints
    until: Ints
    """Position at which the transaction that begins here ends; NONE: none begins."""
    until_ms: Ints


def build_history(log: Log, rules: RuleSet) -> OffsetHistory:
    """The events of every key, by key and position."""
    parts = (_history(log, rules, places) for places in slabs(log.offsets.key))
    return OffsetHistory(*map(lean, stacked(parts)))


def _history(log: Log, rules: RuleSet, places: Ints) -> OffsetHistory:
    events = _events(log, places)
    rows = log.offsets
    tombstone = rows.tombstone[events.row]
    log_offset = rows.log_offset[events.row]
    runs = Runs(events.key)
    life = runs.sum_before(tombstone.astype(np.int64))
    at_end = events.position > log_offset
    visible = events.visible
    dropped = np.zeros_like(tombstone)
    if rules.tombstone_drops_pending:
        deleted = runs.last_before(tombstone)
        dropped = at_end & (deleted >= 0) & (events.position[deleted] > log_offset)
        visible = visible & ~dropped
    commits = visible & ~tombstone
    earlier = runs.last_before(commits)
    first = commits & ~((earlier >= 0) & (life[earlier] == life))
    order = events.position if rules.commit_always_replaces else log_offset
    best = greatest_so_far(commits, runs.start, life, order)
    has_stored = (best >= 0) & (life[best] == life)
    epoch = life if rules.tombstone_drops_pending else np.zeros_like(life)
    begins = events.until != NONE
    held = greatest_so_far(begins, runs.start, epoch, events.until, events.until_ms)
    is_held = (held >= 0) & (epoch[held] == epoch)
    pending = is_held & (events.until[held] > events.position)
    holds = (pending & ~(tombstone & rules.tombstone_drops_pending)).astype(np.int64)
    mark = np.full(len(life), -1, dtype=np.int64)
    if rules.marks_outlive_offsets:
        mark = np.where(begins, 1, np.where(at_end & ~dropped, 0, -1))
    found = OffsetHistory(
        events.key,
        events.position,
        events.at_ms,
        tombstone,
        runs.is_last,
        first,
        events.first_ms,
        rows.producer_id[events.row],
        holds - runs.lag(holds, 0),
        mark,
        pending,
        np.where(is_held & ~pending, events.until_ms[held], NONE),
        np.where(has_stored, events.row[best], -1),
        np.where(has_stored, events.at_ms[best], NONE),
    )
    matters = tombstone | runs.is_last | first | (found.pending_change != 0) | (mark >= 0)
    return OffsetHistory(*(column[matters] for column in found))


def _events(log: Log, places: Ints) -> _OffsetEvents:
    """Every change of every key: plain commits, tombstones, pending commits, their ends."""
    rows = log.offsets
    transactional = (rows.producer_id[places] != NONE) & ~rows.tombstone[places]
    begun = places[transactional]
    ends = transaction_ends(log, begun)
    until, until_ms = np.full((2, len(places)), NONE)
    until[transactional], until_ms[transactional] = ends.position, ends.at_ms
    events = _OffsetEvents(
        places,
        rows.key[places],
        rows.log_offset[places],
        rows.at_ms[places],
        ~transactional,
        rows.first_ms[places],
        until,
        until_ms,
    )
    closed = ends.marker >= 0
    if closed.any():
        over, marker = begun[closed], ends.marker[closed]
        at_ms = log.markers.at_ms[marker]
        stored = _OffsetEvents(
            over,
            rows.key[over],
            ends.position[closed],
            at_ms,
            log.markers.committed[marker],
            at_ms,
            *np.full((2, len(over)), NONE),
        )
        events = _OffsetEvents(*stacked((events, stored)))
    order = np.lexsort((rows.log_offset[events.row], events.position, events.key))
    return _OffsetEvents(*(column[order] for column in events))
