"""What clients did, without the broker's own removals: the input of a what-if.

``tests.retention.counterfactual`` is the specification. A transaction that no check of any scenario
finds open counts as its outcome: a commit where it ends, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kgtool.analysis.fold.arrays import (
    NONE,
    Bools,
    Ints,
    Runs,
    any_of,
    as_of,
    codes,
    following,
    highest_so_far,
    slabs,
    stacked,
)
from kgtool.analysis.fold.folded_log import FoldedLog
from kgtool.analysis.fold.log import ends_group
from kgtool.analysis.fold.offset_history import transaction_ends
from kgtool.analysis.fold.removals import CONVERTED, EXPLICIT, Removals
from kgtool.analysis.input.broker_settings import Scenario

COMMIT, TRANSACTIONAL_COMMIT, TRANSACTION_END, DELETE, GROUP_RECORD = range(5)
"""Kinds of events; DELETE is of an offset."""
FAR = 2**62
"""The latest time, so that sums of times still are int64."""


class ClientEvents(NamedTuple):
    """Commits, deletions and group records, by group and position; one array entry each."""

    group: Ints
    position: Ints
    kind: Ints
    row: Ints
    """Index into ``Log.offsets``; of GROUP_RECORD into ``FoldedLog.group_events``."""
    key: Ints
    at_ms: Ints
    clock_ms: Ints
    """``at_ms``, but not before any earlier event of the group."""
    first_ms: Ints
    """Time of the first of the commits that this one stands for."""
    expire_ms: Ints
    flag: Bools
    """TRANSACTION_END: COMMIT; GROUP_RECORD: by DeleteGroups, which leaves nothing."""
    seen_open: Bools
    """TRANSACTIONAL_COMMIT, TRANSACTION_END: a check may find the transaction open."""

    def only(self, which: Bools | Ints) -> ClientEvents:
        """Those for which it is set, or of these places."""
        return ClientEvents(*(column[which] for column in self))


def tick_from(at_ms: Ints, interval_ms: int) -> Ints:
    """The first check at or after these moments; there is none before 1970."""
    at_ms = np.clip(at_ms, 1, FAR)
    return np.asarray(at_ms + (interval_ms - 1) - (at_ms - 1) % interval_ms, dtype=np.int64)


def tick_before(at_ms: Ints, interval_ms: int) -> Ints:
    """The last check before these moments."""
    at_ms = np.clip(at_ms, 1, FAR) - 1
    return np.asarray(at_ms - at_ms % interval_ms, dtype=np.int64)


def build_client_events(
    folded: FoldedLog, removals: Removals, scenarios: Sequence[Scenario]
) -> ClientEvents:
    """Everything but the removals of the broker's checks."""
    parts = [*_of_offsets(folded, removals), _of_groups(folded, removals), _of_loads(folded)]
    columns: list[Any] = list(zip(*parts, strict=True))
    places = ClientEvents(*columns)
    order = np.lexsort([np.concatenate(c) for c in (places.key, places.position, places.group)])
    del parts, places
    # Column by column: two copies of all columns would be the peak of the fold's memory.
    events = ClientEvents(*(np.concatenate(columns.pop(0))[order] for _ in ClientEvents._fields))
    # Clocks of brokers differ: a later event is not taken for an earlier one.
    clock_ms = highest_so_far(events.group, np.maximum(events.at_ms, 0))
    intervals = {scenario.interval_ms for scenario in scenarios}
    return _replace_short_transactions(folded, events._replace(clock_ms=clock_ms), intervals)


def _of_offsets(folded: FoldedLog, removals: Removals) -> list[ClientEvents]:
    log = folded.log
    rows = log.offsets
    commit = ~rows.tombstone
    plain = np.flatnonzero(commit & (rows.producer_id == NONE))
    pending = np.flatnonzero(commit & (rows.producer_id != NONE))
    ends = transaction_ends(log, pending)
    over = ends.marker >= 0
    begun = _of_rows(folded, TRANSACTIONAL_COMMIT, pending)
    end_ms = np.minimum(ends.at_ms[over], FAR)
    ended = begun.only(over)._replace(
        kind=np.full(int(over.sum()), TRANSACTION_END),
        position=ends.position[over],
        at_ms=end_ms,
        first_ms=end_ms,
        flag=log.markers.committed[ends.marker[over]],
    )
    unexpired = (removals.cause == EXPLICIT) | (removals.cause < 0)
    by_hand = removals.only(~removals.of_group & unexpired)
    deleted = _events(DELETE, by_hand.group, by_hand.position, by_hand.key, by_hand.at_ms)
    return [_of_rows(folded, COMMIT, plain), begun, ended, deleted]


def _of_rows(folded: FoldedLog, kind: int, rows: Ints) -> ClientEvents:
    log, plan = folded.log, folded.plan
    offsets, key = log.offsets, log.offsets.key[rows]
    events = _events(kind, log.keys.group[key], offsets.log_offset[rows], key, offsets.at_ms[rows])
    expire_ms = offsets.expire_ms[rows]
    if plan.rules.fixed_at_commit:
        # The broker filled in the expire timestamp that no client had asked for.
        commit_ms = offsets.commit_ms[rows]
        expire_ms = np.where(expire_ms == commit_ms + plan.wrote.at(commit_ms), NONE, expire_ms)
    first_ms = np.minimum(offsets.first_ms[rows], events.at_ms)
    return events._replace(row=rows, expire_ms=expire_ms, first_ms=first_ms)


def _of_groups(folded: FoldedLog, removals: Removals) -> ClientEvents:
    records = folded.log.group_records
    by_hand = removals.only(
        removals.of_group & (np.isin(removals.cause, (EXPLICIT, CONVERTED)) | (removals.cause < 0))
    )
    ends = ends_group(records)
    kept = np.flatnonzero(~ends | np.isin(records.log_offset, by_hand.position))
    # DeleteGroups leaves nothing; a tombstone that leaves offsets only makes orphans of them.
    deleted = by_hand.position[(by_hand.cause == EXPLICIT) & (by_hand.offsets_left == 0)]
    place, no_key = records.log_offset[kept], np.full(len(kept), -1)
    events = _events(GROUP_RECORD, records.group[kept], place, no_key, records.at_ms[kept])
    return events._replace(row=kept, flag=np.isin(place, deleted) & ends[kept])


def _of_loads(folded: FoldedLog) -> ClientEvents:
    group, place, at_ms = folded.loads
    no_key = np.full(len(group), -1)
    events = _events(GROUP_RECORD, group, place, no_key, at_ms)
    return events._replace(row=len(folded.log.group_records.group) + np.arange(len(group)))


def _events(kind: int, group: Ints, position: Ints, key: Ints, at_ms: Ints) -> ClientEvents:
    """Events whose other fields have no value."""
    size, at_ms = len(group), np.minimum(at_ms, FAR)
    none, kinds, row = (np.broadcast_to(np.int64(each), size) for each in (NONE, kind, -1))
    no = np.broadcast_to(np.bool_(False), size)
    return ClientEvents(group, position, kinds, row, key, at_ms, at_ms, at_ms, none, no, no)


def _replace_short_transactions(
    folded: FoldedLog, events: ClientEvents, intervals: set[int]
) -> ClientEvents:
    """Events in which a transaction that no check finds open counts as its outcome."""
    begun = np.flatnonzero(events.kind == TRANSACTIONAL_COMMIT)
    if not begun.size:
        return events
    ended = np.flatnonzero(events.kind == TRANSACTION_END)
    end_of = np.full(len(folded.log.offsets.key), -1)
    end_of[events.row[ended]] = ended
    end = end_of[events.row[begun]]
    is_over = end >= 0
    seen = ~is_over | ~_follows(events, begun, end)
    for interval in intervals:
        seen |= tick_from(events.clock_ms[begun], interval) < events.clock_ms[end]
    # Between the two the group must stay as it is.
    records = events.only(events.kind == GROUP_RECORD)
    before, after = (
        as_of(
            records.group,
            records.position,
            events.group[begun],
            events.position[place],
            before=True,
        )
        for place in (begun, end)
    )
    seen |= before != after
    transaction = codes(events.group[begun], np.where(is_over, events.position[end], -1 - begun))
    seen = any_of(transaction, seen)
    committed = ~seen & events.flag[end]
    kind, flag, seen_open = events.kind.copy(), events.flag.copy(), events.seen_open.copy()
    seen_open[begun[seen]] = seen_open[end[seen & is_over]] = True
    kind[end[committed]], flag[end[committed]] = COMMIT, False
    kept = np.ones(len(kind), dtype=np.bool_)
    kept[begun[committed]] = False
    return events._replace(kind=kind, seen_open=seen_open, flag=flag).only(kept)


def _follows(events: ClientEvents, begun: Ints, end: Ints) -> Bools:
    """Whether nothing happens to the key between a commit and the end of its transaction."""
    order = np.lexsort((events.position, events.key))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return np.asarray(place[end] == place[begun] + 1, dtype=np.bool_)


class OffsetEvents:
    """Commits and deletions of offsets by key and position; one array entry each.

    ``until_ms``: when the key's next event comes, whether or not that is here. ``commit_ms`` and
    ``offset`` are those of commits. ``again``: the index of the next commit here; -1: none.
    """

    def __init__(self, folded: FoldedLog, events: ClientEvents, until_ms: Ints) -> None:
        self.events, self.until_ms = events, until_ms
        self.runs, self.is_commit = Runs(events.key), events.kind == COMMIT
        # ``row`` of a deletion by DeleteGroups is that of the group's record.
        row, offsets = np.where(self.is_commit, events.row, 0), folded.log.offsets
        self.commit_ms, self.offset = offsets.commit_ms[row], offsets.offset[row]
        self.again = self.runs.first_behind(self.is_commit)


def offset_events(folded: FoldedLog, events: ClientEvents, end_ms: Ints) -> Iterator[OffsetEvents]:
    """The events of some keys at a time; ``end_ms``: where each group's checks end."""
    rows = np.flatnonzero((events.kind == COMMIT) | (events.kind == DELETE))
    for places in slabs(events.key[rows]):
        yield _offset_events(folded, events, rows[places], end_ms)


def _offset_events(
    folded: FoldedLog, events: ClientEvents, rows: Ints, end_ms: Ints
) -> OffsetEvents:
    # Rows are in position order within a group, and a key belongs to one group.
    some = events.only(rows[np.argsort(events.key[rows], kind="stable")])
    deletes = events.only((events.kind == GROUP_RECORD) & events.flag)
    if len(deletes.row):
        commit = some.only(some.kind == COMMIT)
        place = following(deletes.group, deletes.position, commit.group, commit.position)
        key, place = np.unique(np.stack([commit.key, place])[:, place >= 0], axis=1)
        deleted = deletes.only(place)._replace(key=key, kind=np.full(len(key), DELETE))
        some = ClientEvents(*stacked((some, deleted)))
        some = some.only(np.lexsort((some.position, some.key)))
    until = Runs(some.key).lead(some.clock_ms, NONE)
    until = np.where(until == NONE, end_ms[some.group], until)
    # The dropped successor came before any check could remove this one.
    until = np.where(successor_dropped(folded, some), some.clock_ms, until)
    return OffsetEvents(folded, some, until)


def successor_dropped(folded: FoldedLog, events: ClientEvents) -> Bools:
    """Which events are commits whose next commit ``fold.compact`` has dropped."""
    is_commit = events.kind == COMMIT
    return is_commit & folded.log.offsets.successor_dropped[np.where(is_commit, events.row, 0)]
