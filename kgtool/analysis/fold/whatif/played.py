"""The replay of what can't be told in arrays: groups whose checks depend on earlier ones."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from kgtool.analysis.fold.arrays import NONE, Bools, Ints
from kgtool.analysis.fold.whatif.due import Put
from kgtool.analysis.fold.whatif.replay import GroupReplay, Life
from kgtool.analysis.fold.whatif.story import COMMIT, END, FORGET, OWN, PEND, Events
from kgtool.analysis.fold.whatif.timeline import Story
from kgtool.analysis.input.scenarios import Scenario
from kgtool.retention import rules as r


class Lives(NamedTuple):
    """``replay.Life`` of everything in one scenario; one array entry each."""

    group: Ints
    role: Ints
    """As of ``Life``."""
    key: Ints
    from_ms: Ints
    until_ms: Ints
    expired: Bools
    rule: Ints
    offset: Ints
    commit_ms: Ints
    again_ms: Ints

    def only(self, which: Bools) -> Lives:
        """Those for which it is set."""
        return Lives(*(column[which] for column in self))


def play(known: Story, scenario: Scenario, groups: Bools) -> Lives:
    """The lives of these groups in one scenario, one group after the other."""
    player = _Player(known, scenario)
    with _rare_collections():
        player.play(groups)
    return player.found()


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
    def __init__(self, known: Story, scenario: Scenario) -> None:
        self.known, self.scenario = known, scenario
        keys, topics = known.past.scene.log.keys, known.past.scene.log.topics.to_pylist()
        self.topics, self.partition, self.topic = topics, keys.partition, keys.topic
        self.rows: list[tuple[Any, ...]] = []
        self.numbers: dict[tuple[str, int], int] = {}

    def play(self, groups: Bools) -> None:
        """Let it all happen to these groups."""
        events = _thinned(self.known)
        events = events.only(groups[events.group])
        offsets, own = self.known.past.scene.log.offsets, self.known.past.scene.log.own
        records = events.row[events.what == OWN]
        record = dict(zip(records.tolist(), own.events(records), strict=True))
        at = np.where(events.what == OWN, 0, events.row)
        columns = (offsets.commit_ms, offsets.offset, offsets.log_offset, offsets.producer_id)
        values = [column[at].tolist() if len(column) else [0] * len(at) for column in columns]
        group, replay = -1, GroupReplay(self.scenario, self._emit(-1))
        for event, *row in zip(
            zip(*(column.tolist() for column in events), strict=True), *values, strict=True
        ):
            number, _, what, place, key, at_ms, _, first_ms, expire_ms, flag, _ = event
            if number != group:
                replay.finish(self.end_ms)
                group, self.numbers = number, {}
                replay = GroupReplay(self.scenario, self._emit(number))
            if what == OWN:
                replay.group_record(record[place]._replace(timestamp_ms=at_ms), wipe=flag)
            else:
                self._apply(replay, what, key, at_ms, (first_ms, expire_ms), flag, row)
        replay.finish(self.end_ms)

    @property
    def end_ms(self) -> int:
        plan = self.known.past.scene.plan
        return plan.end_ms + plan.wanted.horizon_ms

    def _apply(
        self, replay: GroupReplay, what: int, key: int, at_ms: int, times: tuple[int, int],
        flag: bool, row: Sequence[int],
    ) -> None:  # fmt: skip
        """Let something happen to an offset."""
        name = (self.topics[self.topic[key]], int(self.partition[key]))
        self.numbers[name] = key
        if what == FORGET:
            replay.forget(at_ms, name)
            return
        commit_ms, offset, log_offset, producer_id = row
        if what == END:
            replay.end(at_ms, name, producer_id, committed=flag)
            return
        own = None if times[1] == NONE else times[1]
        put = Put(commit_ms, own, offset, log_offset, times[0], what == COMMIT and flag)
        if what == COMMIT:
            replay.commit(at_ms, name, put)
        else:
            replay.pend(at_ms, name, put, producer_id)

    def _emit(self, group: int) -> Callable[[Life], None]:
        rows = self.rows

        def emit(life: Life) -> None:
            key = -1 if life.topic is None else self.numbers[life.topic, life.partition or 0]
            rows.append((group, life.role, key, *life[3:]))

        return emit

    def found(self) -> Lives:
        """What was told."""
        names = {name: code for code, name in enumerate(r.RULES)}
        columns: list[Sequence[Any]] = list(zip(*self.rows, strict=True)) or [()] * 10
        columns[6] = [None if name is None else names[name] for name in columns[6]]
        arrays: list[Any] = [
            np.array([NONE if value is None else value for value in column], dtype=np.int64)
            for column in columns
        ]
        arrays[5] = arrays[5].astype(np.bool_)
        return Lives(*arrays)


def _thinned(known: Story) -> Events:
    """Without commits that nothing can come between: the first and last of such a row are enough.

    ``flag`` of a commit is whether nothing can come between it and the next one.
    """
    puts, events = known.puts, known.past.events
    runs, commit = puts.runs, puts.is_commit
    continued = commit & runs.lead(commit, False)
    continued[known.rows] = False
    in_transaction = np.zeros(len(known.past.scene.log.keys.group), dtype=np.bool_)
    in_transaction[events.key[(events.what == PEND) | (events.what == END)]] = True
    continued &= ~in_transaction[puts.events.key]
    dropped = continued & runs.lag(continued, False)
    creates = known.past.scene.log.offsets.creates
    of = np.full(len(creates), -1)
    of[puts.events.row[commit]] = np.flatnonzero(commit)
    rows, flag = np.flatnonzero(events.what == COMMIT), events.flag.copy()
    place = of[events.row[rows]]
    kept = np.ones(len(flag), dtype=np.bool_)
    kept[rows] = (place >= 0) & (~dropped[place] | creates[events.row[rows]])
    flag[rows] = continued[place]
    return events._replace(flag=flag).only(kept)
