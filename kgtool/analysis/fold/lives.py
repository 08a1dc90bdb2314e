"""History under other retentions, check intervals and rules: what would have been there, and when.

``tests.retention.counterfactual`` is the specification: the broker's own removals are taken out
of the log, and another broker is played over the rest. Commits that no check of any scenario could
touch before the next commit of their key are dropped, but for the first and the last of each such
row of commits; the replay goes through what is left, one group after the other.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from kgtool.analysis import group_records, schema
from kgtool.analysis.due import Put, Scenario
from kgtool.analysis.fold.arrays import MAX, NONE, Bools, Ints, Runs, following
from kgtool.analysis.fold.log import ends_group
from kgtool.analysis.fold.offsets import transaction_ends
from kgtool.analysis.fold.scene import Scene
from kgtool.analysis.replay import GROUP, OFFSET, TOMBSTONE, GroupReplay, Life
from kgtool.analysis.tables.removals import CONVERTED, EXPLICIT, Removals
from kgtool.retention import rules as r

COMMIT, PEND, END, FORGET, OWN = range(5)
"""What can happen to a group; OWN: one of its own records."""
ROLES = (OFFSET, GROUP, TOMBSTONE)
FAR = 2**62
"""Times stop here, where sums of them still are int64."""


class Events(NamedTuple):
    """What clients did, one array entry each."""

    group: Ints
    position: Ints
    what: Ints
    row: Ints
    """Index into ``Log.offsets``; of OWN into ``Log.own``."""
    key: Ints
    at_ms: Ints
    expire_ms: Ints
    flag: Bools
    """COMMIT: nothing can come between it and the next one; END: a commit; OWN: by DeleteGroups,
    which leaves nothing."""


class Lives(NamedTuple):
    """``replay.Life`` of everything in every scenario; one array entry each."""

    scenario: Ints
    group: Ints
    role: Ints
    """Index into ROLES."""
    key: Ints
    from_ms: Ints
    until_ms: Ints
    expired: Bools
    rule: Ints
    offset: Ints
    commit_ms: Ints
    again_ms: Ints


def lives(scene: Scene, gone: Removals) -> Lives:
    """Everything that would have been there, until the plan's end and horizon."""
    scenarios = scene.plan.scenarios
    events = _thin(scene, _of_offsets(scene, gone))
    own = _of_groups(scene, gone)
    events = Events(*(np.concatenate(pair) for pair in zip(events, own, strict=True)))
    order = np.lexsort((events.key, events.position, events.group))
    events = Events(*(column[order] for column in events))
    player = _Player(scene, scenarios)
    with _rare_collections():
        player.play(events)
    return player.found()


# --- what happened -------------------------------------------------------------------------------


def _of_offsets(scene: Scene, gone: Removals) -> Events:
    """Commits, transactions' commits and ends, and deletions by hand."""
    log = scene.log
    rows = log.offsets
    commit = ~rows.tombstone
    pending = np.flatnonzero(commit & (rows.producer_id != NONE))
    ends = transaction_ends(log, pending)
    over = ends.marker >= 0
    by_hand = gone.only(~gone.own & ((gone.cause == EXPLICIT) | (gone.cause < 0)))
    plain = np.flatnonzero(commit & (rows.producer_id == NONE))
    parts = [
        _events(scene, COMMIT, plain, rows.log_offset[plain], rows.at_ms[plain]),
        _events(scene, PEND, pending, rows.log_offset[pending], rows.at_ms[pending]),
        _events(scene, END, pending[over], ends.position[over], ends.at_ms[over])._replace(
            flag=log.markers.committed[ends.marker[over]]
        ),
        Events(
            by_hand.group, by_hand.position, np.full(len(by_hand.row), FORGET),
            np.full(len(by_hand.row), -1), by_hand.key, by_hand.at_ms,
            np.full(len(by_hand.row), NONE), np.zeros(len(by_hand.row), dtype=np.bool_),
        ),
    ]  # fmt: skip
    return Events(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _events(scene: Scene, what: int, rows: Ints, position: Ints, at_ms: Ints) -> Events:
    log, plan = scene.log, scene.plan
    key, own = log.offsets.key[rows], log.offsets.expire_ms[rows]
    if plan.rules.fixed_at_commit:
        # The broker filled in what no client had asked for.
        commit_ms = log.offsets.commit_ms[rows]
        filled_in = own == commit_ms + plan.wrote.at(commit_ms)
        own = np.where(filled_in, NONE, own)
    return Events(
        log.keys.group[key], position, np.full(len(rows), what), rows, key,
        np.minimum(at_ms, FAR), own, np.zeros(len(rows), dtype=np.bool_),
    )  # fmt: skip


def _of_groups(scene: Scene, gone: Removals) -> Events:
    """The groups' own records, without the tombstones that the broker wrote by itself."""
    own = scene.log.own
    by_hand = gone.only(gone.own & (np.isin(gone.cause, (EXPLICIT, CONVERTED)) | (gone.cause < 0)))
    kept = np.flatnonzero(~ends_group(own) | np.isin(own.log_offset, by_hand.position))
    # DeleteGroups leaves nothing; what leaves offsets behind only makes orphans of them.
    wiped = by_hand.position[(by_hand.cause == EXPLICIT) & (by_hand.offsets_left == 0)]
    place = own.log_offset[kept]
    nothing = np.full(len(kept), -1)
    wipes = np.isin(place, wiped) & ends_group(own)[kept]
    return Events(
        own.group[kept], place, np.full(len(kept), OWN), kept, nothing,
        np.minimum(own.at_ms[kept], FAR), np.full(len(kept), NONE), wipes,
    )  # fmt: skip


# --- commits that no check could touch -----------------------------------------------------------


def _thin(scene: Scene, events: Events) -> Events:
    """Drop commits that nothing can come between.

    A commit is continued by the next one of its key if no check of any scenario could remove it
    before; one that is continued and continues is dropped.
    """
    order = np.lexsort((events.position, events.key))
    events = Events(*(column[order] for column in events))
    runs = Runs(events.key)
    is_commit = events.what == COMMIT
    both = is_commit & runs.lead(is_commit, False)
    next_ms = runs.lead(events.at_ms, MAX)
    danger = _in_danger(scene, events, next_ms, runs.lead(events.position, MAX))
    continued = both & ~danger
    dropped = continued & runs.lag(continued, False)
    dropped &= ~(is_commit & scene.log.offsets.creates[events.row])
    flag = np.where(is_commit, continued, events.flag)
    return Events(*(column[~dropped] for column in events._replace(flag=flag)))


def _in_danger(scene: Scene, events: Events, next_ms: Ints, next_position: Ints) -> Bools:
    """Whether some check could remove the commit before the next one of its key comes."""
    scenarios = scene.plan.scenarios
    shortest = min(scenario.retention_ms for scenario in scenarios)
    intervals = sorted({scenario.interval_ms for scenario in scenarios})
    due = np.minimum(scene.log.offsets.commit_ms[events.row], FAR) + shortest
    due = np.where(events.expire_ms == NONE, due, np.minimum(due, events.expire_ms))
    dated = _dated(scene, events, next_position)
    due = np.where(dated == NONE, due, np.minimum(due, np.minimum(dated, FAR) + shortest))
    start = np.minimum(np.maximum(due, events.at_ms), FAR)
    found = np.zeros(len(due), dtype=np.bool_)
    for interval in intervals:
        found |= start + (interval - 1) - (start - 1) % interval < next_ms
    return found


def _dated(scene: Scene, events: Events, next_position: Ints) -> Ints:
    """The earliest date that a group's offsets shared at any time between two commits; or NONE.

    Longer than it was rather than shorter: this only tells which commits need a closer look.
    """
    own = scene.log.own
    rows = np.flatnonzero((own.key_type == group_records.GROUP_METADATA) & ~own.tombstone)
    rows = rows[np.argsort(own.group[rows], kind="stable")]
    empty = (own.members[rows] == 0) & (own.since_ms[rows] != NONE)
    found = np.full(len(events.key), NONE)
    if not empty.any():
        return found
    since = np.where(empty, own.since_ms[rows], MAX)
    group, place = own.group[rows], own.log_offset[rows]
    # The state in force at the commit is the one before the first behind it.
    low = following(group, place, events.group, events.position)
    size = np.bincount(group, minlength=scene.log.size)
    stop = np.cumsum(size)
    low = np.where(low < 0, stop[events.group], low)
    low = np.maximum(low - 1, stop[events.group] - size[events.group])
    high = following(group, place, events.group, next_position)
    high = np.where(high < 0, stop[events.group], high)
    some = np.flatnonzero(low < high)
    pairs = np.stack([low[some], high[some]], axis=1).ravel()
    least = np.minimum.reduceat(np.append(since, MAX), pairs)[::2] if some.size else since[:0]
    found[some] = np.where(least == MAX, NONE, least)
    return found


# --- the replay ----------------------------------------------------------------------------------


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Look for reference cycles rarely: a group's offsets are many objects and have none.

    Looking as often as Python does by itself takes a third of the time (measured).
    """
    before = gc.get_threshold()
    gc.set_threshold(200_000, 50, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _Player:
    """Plays one group after the other, in all scenarios at once."""

    def __init__(self, scene: Scene, scenarios: Sequence[Scenario]) -> None:
        self.scene, self.scenarios = scene, scenarios
        log = scene.log
        self.end_ms = scene.plan.end_ms + scene.plan.horizon_ms
        topics = log.topics.to_pylist()
        self.keys = [
            (topics[topic], partition)
            for topic, partition in zip(
                log.keys.topic.tolist(), log.keys.partition.tolist(), strict=True
            )
        ]
        self.rows: list[tuple[Any, ...]] = []
        self.numbers: dict[tuple[str, int], int] = {}

    def play(self, events: Events) -> None:
        """Let it all happen."""
        details = self.scene.log.own.detail
        rows = self.scene.log.offsets
        at = np.maximum(events.row, 0)
        at[events.what == OWN] = 0
        some = rows if len(rows.key) else None
        columns = [
            [0] * len(at) if some is None else column[at].tolist()
            for column in (rows.commit_ms, rows.offset, rows.log_offset, rows.first_ms,
                           rows.producer_id)
        ]  # fmt: skip
        group, groups = -1, list[GroupReplay]()
        for (number, _, what, row, key, at_ms, expire_ms, flag), values in zip(
            zip(*(column.tolist() for column in events), strict=True),
            zip(*columns, strict=True), strict=True,
        ):  # fmt: skip
            if number != group:
                self._close(groups)
                group, groups = number, self._begin(number)
            if what == OWN:
                event = self._own(row, at_ms, details)
                for each in groups:
                    each.group_record(at_ms, event, wipe=flag)
                continue
            self._apply(groups, what, key, at_ms, expire_ms, flag, values)
        self._close(groups)

    def _apply(
        self, groups: list[GroupReplay], what: int, key: int, at_ms: int, expire_ms: int,
        flag: bool, values: Sequence[int],
    ) -> None:  # fmt: skip
        """Let something happen to an offset in every scenario."""
        name = self.keys[key]
        self.numbers[name] = key
        if what == FORGET:
            for each in groups:
                each.forget(at_ms, name)
            return
        commit_ms, offset, log_offset, first_ms, producer_id = values
        if what == END:
            for each in groups:
                each.end(at_ms, name, producer_id, committed=flag)
            return
        first_ms = min(first_ms, at_ms) if what == COMMIT else at_ms
        own = None if expire_ms == NONE else expire_ms
        put = Put(commit_ms, own, offset, log_offset, first_ms, what == COMMIT and flag)
        for each in groups:
            if what == COMMIT:
                each.commit(at_ms, name, put)
            else:
                each.pend(at_ms, name, put, producer_id)

    def _begin(self, group: int) -> list[GroupReplay]:
        self.numbers = {}
        return [
            GroupReplay(scenario, self._emit(number, group))
            for number, scenario in enumerate(self.scenarios)
        ]

    def _close(self, groups: list[GroupReplay]) -> None:
        for group in groups:
            group.finish(self.end_ms)

    def _own(self, row: int, at_ms: int, details: Any) -> dict[str, Any]:
        own = self.scene.log.own
        return {
            "kind": schema.KIND_GROUP,
            "timestamp_ms": at_ms,
            "log_offset": int(own.log_offset[row]),
            "key_type": int(own.key_type[row]),
            "tombstone": bool(own.tombstone[row]),
            "detail": details[row].as_py(),
        }

    def _emit(self, scenario: int, group: int) -> Callable[[Life], None]:
        rows = self.rows

        def emit(life: Life) -> None:
            key = -1 if life.topic is None else self.numbers[life.topic, life.partition or 0]
            rows.append((scenario, group, ROLES.index(life.role), key, *life[3:]))

        return emit

    def found(self) -> Lives:
        """What was told."""
        names = {name: code for code, name in enumerate(r.RULES)}
        columns: list[Sequence[Any]] = list(zip(*self.rows, strict=True)) or [()] * 11
        columns[7] = [-1 if name is None else names[name] for name in columns[7]]
        arrays = [
            np.array([NONE if value is None else value for value in column], dtype=np.int64)
            for column in columns
        ]
        arrays[6] = arrays[6].astype(np.bool_)
        return Lives(*arrays)
