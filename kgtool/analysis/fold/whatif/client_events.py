"""What clients did, without what the broker removed by itself: the input of a what-if.

``tests.retention.counterfactual`` is the specification. Transactions that no check of any scenario
can find open are taken for what they come to: a commit where they end, or nothing.
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
from kgtool.analysis.input.scenarios import Scenario

COMMIT, PEND, END, FORGET, OWN = range(5)
"""What can happen to a group; OWN: one of its own records."""
FAR = 2**62
"""Times stop here, where sums of them still are int64."""


class Events(NamedTuple):
    """What happened, by group and position; one array entry each."""

    group: Ints
    position: Ints
    what: Ints
    row: Ints
    """Index into ``Log.offsets``; of OWN into ``Log.own``."""
    key: Ints
    at_ms: Ints
    clock_ms: Ints
    """The same, but no earlier than what its group had before."""
    first_ms: Ints
    """When the first of the commits that this one stands for was made."""
    expire_ms: Ints
    flag: Bools
    """END: a commit; OWN: by DeleteGroups, which leaves nothing."""
    held: Bools
    """PEND, END: a check may find the transaction open."""

    def only(self, which: Bools | Ints) -> Events:
        """Those for which it is set, or of these places."""
        return Events(*(column[which] for column in self))


def tick_from(at_ms: Ints, interval_ms: int) -> Ints:
    """The first check at or after these moments; there is none before 1970."""
    at_ms = np.clip(at_ms, 1, FAR)
    return np.asarray(at_ms + (interval_ms - 1) - (at_ms - 1) % interval_ms, dtype=np.int64)


def tick_before(at_ms: Ints, interval_ms: int) -> Ints:
    """The last check before these moments."""
    at_ms = np.clip(at_ms, 1, FAR) - 1
    return np.asarray(at_ms - at_ms % interval_ms, dtype=np.int64)


def story(folded: FoldedLog, gone: Removals, scenarios: Sequence[Scenario]) -> Events:
    """Everything that somebody other than the broker's checks did."""
    parts = [*_of_offsets(folded, gone), _of_groups(folded, gone)]
    columns: list[Any] = list(zip(*parts, strict=True))
    places = Events(*columns)
    order = np.lexsort([np.concatenate(c) for c in (places.key, places.position, places.group)])
    del parts, places
    # One column after the other: all of them twice would be the most that the fold ever holds.
    events = Events(*(np.concatenate(columns.pop(0))[order] for _ in Events._fields))
    intervals = {scenario.interval_ms for scenario in scenarios}
    return _settled(folded, events._replace(clock_ms=_clock(events)), intervals)


def _of_offsets(folded: FoldedLog, gone: Removals) -> list[Events]:
    """Commits, transactions' commits and ends, and deletions by hand."""
    log = folded.log
    rows = log.offsets
    commit = ~rows.tombstone
    plain = np.flatnonzero(commit & (rows.producer_id == NONE))
    pending = np.flatnonzero(commit & (rows.producer_id != NONE))
    ends = transaction_ends(log, pending)
    over = ends.marker >= 0
    begun = _of_rows(folded, PEND, pending)
    ended = begun.only(over)._replace(
        what=np.full(int(over.sum()), END), position=ends.position[over],
        at_ms=np.minimum(ends.at_ms[over], FAR), flag=log.markers.committed[ends.marker[over]],
    )  # fmt: skip
    by_hand = gone.only(~gone.own & ((gone.cause == EXPLICIT) | (gone.cause < 0)))
    return [
        _of_rows(folded, COMMIT, plain), begun, ended._replace(first_ms=ended.at_ms),
        _bare(FORGET, by_hand.group, by_hand.position, by_hand.key, by_hand.at_ms),
    ]  # fmt: skip


def _of_rows(folded: FoldedLog, what: int, rows: Ints) -> Events:
    log, plan = folded.log, folded.plan
    offsets, key = log.offsets, log.offsets.key[rows]
    found = _bare(what, log.keys.group[key], offsets.log_offset[rows], key, offsets.at_ms[rows])
    own = offsets.expire_ms[rows]
    if plan.rules.fixed_at_commit:
        # The broker filled in what no client had asked for.
        commit_ms = offsets.commit_ms[rows]
        own = np.where(own == commit_ms + plan.wrote.at(commit_ms), NONE, own)
    first_ms = np.minimum(offsets.first_ms[rows], found.at_ms)
    return found._replace(row=rows, expire_ms=own, first_ms=first_ms)


def _of_groups(folded: FoldedLog, gone: Removals) -> Events:
    """The groups' own records, without the tombstones that the broker wrote by itself."""
    own = folded.log.own
    by_hand = gone.only(gone.own & (np.isin(gone.cause, (EXPLICIT, CONVERTED)) | (gone.cause < 0)))
    kept = np.flatnonzero(~ends_group(own) | np.isin(own.log_offset, by_hand.position))
    # DeleteGroups leaves nothing; what leaves offsets behind only makes orphans of them.
    wiped = by_hand.position[(by_hand.cause == EXPLICIT) & (by_hand.offsets_left == 0)]
    place = own.log_offset[kept]
    found = _bare(OWN, own.group[kept], place, np.full(len(kept), -1), own.at_ms[kept])
    return found._replace(row=kept, flag=np.isin(place, wiped) & ends_group(own)[kept])


def _bare(what: int, group: Ints, position: Ints, key: Ints, at_ms: Ints) -> Events:
    size = len(group)
    at_ms, (none, kind, row) = (
        np.minimum(at_ms, FAR),
        (np.broadcast_to(np.int64(number), size) for number in (NONE, what, -1)),
    )
    no = np.broadcast_to(np.bool_(False), size)
    return Events(group, position, kind, row, key, at_ms, at_ms, at_ms, none, no, no)


def _clock(events: Events) -> Ints:
    """Clocks of brokers differ: what comes later in the log is not taken for earlier."""
    return highest_so_far(events.group, np.maximum(events.at_ms, 0))


def _settled(folded: FoldedLog, events: Events, intervals: set[int]) -> Events:
    """Let transactions that no check finds open be what they come to."""
    begun = np.flatnonzero(events.what == PEND)
    if not begun.size:
        return events
    ended = np.flatnonzero(events.what == END)
    end_of = np.full(len(folded.log.offsets.key), -1)
    end_of[events.row[ended]] = ended
    end = end_of[events.row[begun]]
    is_over = end >= 0
    apart = ~is_over | ~_follows(events, begun, end)
    for interval in intervals:
        apart |= tick_from(events.clock_ms[begun], interval) < events.clock_ms[end]
    # Between the two the group must stay what it is.
    own = events.only(events.what == OWN)
    between = following(own.group, own.position, events.group[begun], events.position[begun])
    apart |= (between >= 0) & (own.position[between] < events.position[end] if len(own.row) else
                               between >= 0)  # fmt: skip
    whole = codes(events.group[begun], np.where(is_over, events.position[end], -1 - begun))
    apart = np.isin(whole, whole[apart])
    held = events.held.copy()
    held[begun[apart]] = held[end[apart & is_over]] = True
    what, made = events.what.copy(), end[~apart & events.flag[end]]
    what[made] = COMMIT
    kept = np.ones(len(what), dtype=np.bool_)
    kept[begun[~apart & events.flag[end]]] = False
    flag = events.flag.copy()
    flag[made] = False
    return events._replace(what=what, held=held, flag=flag).only(kept)


def _follows(events: Events, begun: Ints, end: Ints) -> Bools:
    """Whether nothing happens to the key between a commit and the end of its transaction."""
    order = np.lexsort((events.position, events.key))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return np.asarray(place[end] == place[begun] + 1, dtype=np.bool_)


class Puts:
    """Commits and deletions by key and position; one array entry each.

    ``until_ms``: from then on the key's next one counts, whether or not that is here. ``commit_ms``
    and ``offset`` are those of commits. ``again``: the index of the next commit here; -1: none.
    """

    def __init__(self, folded: FoldedLog, events: Events, until_ms: Ints) -> None:
        self.events, self.until_ms = events, until_ms
        self.runs, self.is_commit = Runs(events.key), events.what == COMMIT
        # Of what a record of the group itself deletes, ``row`` is that record's.
        at = np.where(self.is_commit, events.row, 0)
        self.commit_ms, self.offset = (
            column[at] for column in (folded.log.offsets.commit_ms, folded.log.offsets.offset)
        )
        self.again = self.runs.first_behind(self.is_commit)


def puts(folded: FoldedLog, events: Events, end_ms: Ints) -> Iterator[Puts]:
    """What happens to each key, some keys at a time; ``end_ms``: where each group's checks end."""
    rows = np.flatnonzero((events.what == COMMIT) | (events.what == FORGET))
    for places in slabs(events.key[rows]):
        yield _puts(folded, events, rows[places], end_ms)


def _puts(folded: FoldedLog, events: Events, rows: Ints, end_ms: Ints) -> Puts:
    # Rows are in position order within a group, and a key belongs to one group.
    some = events.only(rows[np.argsort(events.key[rows], kind="stable")])
    wipes = events.only((events.what == OWN) & events.flag)
    if len(wipes.row):
        commit = some.only(some.what == COMMIT)
        found = following(wipes.group, wipes.position, commit.group, commit.position)
        pairs = np.unique(np.stack([commit.key[found >= 0], found[found >= 0]]), axis=1)
        swept = wipes.only(pairs[1])._replace(key=pairs[0], what=np.full(pairs.shape[1], FORGET))
        some = Events(*stacked((some, swept)))
        some = some.only(np.lexsort((some.position, some.key)))
    until = Runs(some.key).lead(some.clock_ms, NONE)
    until = np.where(until == NONE, end_ms[some.group], until)
    # What was left out behind one came before any check could mind.
    return Puts(folded, some, np.where(followed(folded, some), some.clock_ms, until))


def followed(folded: FoldedLog, events: Events) -> Bools:
    """Which events are commits behind which others were left out (``fold.thin``)."""
    rows = np.where(events.what == COMMIT, events.row, 0)
    return folded.log.offsets.followed[rows] & (events.what == COMMIT)


def endangered(scenarios: Sequence[Scenario], happened: Puts) -> Bools:
    """Which commits a check of some scenario may find older than it allows, before the next one.

    More rather than fewer: this only tells which need a closer look.
    """
    shortest = min(scenario.retention_ms for scenario in scenarios)
    due = np.minimum(happened.commit_ms, FAR) + shortest
    own = happened.events.expire_ms
    due = np.where(own == NONE, due, np.minimum(due, own))
    start = np.maximum(due, happened.events.clock_ms)
    found = np.zeros(len(due), dtype=np.bool_)
    for interval in {scenario.interval_ms for scenario in scenarios}:
        found |= tick_from(start, interval) < happened.until_ms
    return found & happened.is_commit
