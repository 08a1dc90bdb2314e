"""The replay of what can't be told in arrays: groups whose checks depend on earlier ones."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from kgtool.analysis.fold.arrays import NONE, Bools, Ints
from kgtool.analysis.fold.rules_columns import RULE
from kgtool.analysis.fold.whatif.due import Key, Put
from kgtool.analysis.fold.whatif.replay import GroupReplay, Life
from kgtool.analysis.fold.whatif.story import COMMIT, END, FORGET, OWN, PEND, Events
from kgtool.analysis.fold.whatif.timeline import Story
from kgtool.analysis.input.scenarios import Scenario


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
    with _rare_collections():
        rows = _played(known, scenario, groups)
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(Lives._fields)
    arrays: list[Any] = [
        np.array([NONE if value is None else value for value in column], dtype=np.int64)
        for column in columns
    ]
    found = Lives(*arrays)
    return found._replace(expired=found.expired.astype(np.bool_))


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


def _played(known: Story, scenario: Scenario, groups: Bools) -> list[tuple[Any, ...]]:
    """Let it all happen to these groups; rows of ``Lives``."""
    log, plan = known.past.scene.log, known.past.scene.plan
    end_ms, topics = plan.end_ms + plan.wanted.horizon_ms, log.topics.to_pylist()
    events = _thinned(known)
    events = events.only(groups[events.group])
    records = events.row[events.what == OWN]
    record = dict(zip(records.tolist(), log.own.events(records), strict=True))
    at, offsets = np.where(events.what == OWN, 0, events.row), log.offsets
    columns = (offsets.commit_ms, offsets.offset, offsets.log_offset, offsets.producer_id)
    values = [column[at].tolist() if len(column) else [0] * len(at) for column in columns]
    rows: list[tuple[Any, ...]] = []
    numbers: dict[tuple[str | None, int | None], int] = {}

    def emit(life: Life) -> None:
        key = numbers.get((life.topic, life.partition), -1)
        rule = None if life.rule is None else RULE[life.rule]
        rows.append((group, life.role, key, *life[3:6], rule, *life[7:]))

    group, replay = -1, GroupReplay(scenario, emit)
    for event, *row in zip(
        zip(*(column.tolist() for column in events), strict=True), *values, strict=True
    ):
        number, _, what, place, key, at_ms, _, first_ms, expire_ms, flag, _ = event
        if number != group:
            replay.finish(end_ms)
            numbers.clear()
            group, replay = number, GroupReplay(scenario, emit)
        if what == OWN:
            replay.group_record(record[place]._replace(timestamp_ms=at_ms), wipe=flag)
        else:
            name = (topics[log.keys.topic[key]], int(log.keys.partition[key]))
            numbers[name] = key
            _happen(replay, what, at_ms, name, (first_ms, expire_ms), flag, row)
    replay.finish(end_ms)
    return rows


def _happen(
    replay: GroupReplay, what: int, at_ms: int, name: Key, times: tuple[int, int], flag: bool,
    row: Sequence[int],
) -> None:  # fmt: skip
    """Let something happen to an offset."""
    commit_ms, offset, log_offset, producer_id = row
    own = None if times[1] == NONE else times[1]
    put = Put(commit_ms, own, offset, log_offset, times[0], what == COMMIT and flag)
    if what == FORGET:
        replay.forget(at_ms, name)
    elif what == END:
        replay.end(at_ms, name, producer_id, committed=flag)
    elif what == COMMIT:
        replay.commit(at_ms, name, put)
    else:
        replay.pend(at_ms, name, put, producer_id)


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
