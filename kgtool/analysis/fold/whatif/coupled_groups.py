"""The replay of what can't be told in arrays: groups whose checks depend on earlier ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from kgtool.analysis.fold.arrays import NONE, Bools, Ints
from kgtool.analysis.fold.rules_columns import RULE
from kgtool.analysis.fold.whatif.client_events import COMMIT, END, FAR, FORGET, OWN
from kgtool.analysis.fold.whatif.group_states import Past
from kgtool.analysis.fold.whatif.replay import GroupReplay, Put
from kgtool.analysis.input.scenarios import Scenario
from kgtool.retention.rules import CommittedOffset


class OffsetIntervals(NamedTuple):
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

    def only(self, which: Bools) -> OffsetIntervals:
        """Those for which it is set."""
        return OffsetIntervals(*(column[which] for column in self))


def play(past: Past, scenario: Scenario, groups: Bools) -> OffsetIntervals:
    """The lives of these groups in one scenario, one group after the other."""
    rows = _played(past, scenario, groups)
    size = len(OffsetIntervals._fields)
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * size
    arrays: list[Any] = [
        np.array([NONE if value is None else value for value in column], dtype=np.int64)
        for column in columns
    ]
    found = OffsetIntervals(*arrays)
    return found._replace(expired=found.expired.astype(np.bool_))


def _played(past: Past, scenario: Scenario, groups: Bools) -> list[tuple[Any, ...]]:
    """Let it all happen to these groups; rows of ``OffsetIntervals``."""
    log, plan = past.folded.log, past.folded.plan
    end_ms, topics = plan.end_ms + plan.options.horizon_ms, [*log.topics.to_pylist(), ""]
    events = past.events.only(groups[past.events.group])
    records = events.row[events.what == OWN]
    record = dict(zip(records.tolist(), log.own.events(records), strict=True))
    at, offsets = np.where(events.what == OWN, 0, events.row), log.offsets
    # What is followed by others that were left out never becomes too old.
    commit_ms = np.where(offsets.followed, FAR, offsets.commit_ms)
    stored = (commit_ms, offsets.offset, offsets.log_offset, offsets.producer_id)
    columns = (
        events.group, events.what, events.row, events.key, events.at_ms, events.flag,
        events.first_ms, events.expire_ms,
        *(column[at] if len(column) else np.zeros_like(at) for column in stored),
    )  # fmt: skip
    every = zip(*(column.tolist() for column in columns), strict=True)
    rows: list[tuple[Any, ...]] = []
    for group, some in groupby(every, itemgetter(0)):
        replay = GroupReplay(scenario)
        for _, what, row, key, at_ms, flag, *rest in some:
            name = (topics[log.keys.topic[key]], key)
            if what == OWN:
                replay.group_record(record[row]._replace(timestamp_ms=at_ms), wipe=flag)
            elif what == FORGET:
                replay.forget(at_ms, name)
            elif what == END:
                replay.end(at_ms, name, rest[-1], committed=flag)
            elif what == COMMIT:
                replay.commit(at_ms, name, _put(*rest))
            else:
                replay.pend(at_ms, name, _put(*rest), rest[-1])
        for life in replay.finish(end_ms):
            number = -1 if life.key is None else life.key[1]
            rule = None if life.rule is None else RULE[life.rule]
            rows.append((group, life.role, number, *life[2:5], rule, *life[6:]))
    return rows


def _put(
    first_ms: int, expire_ms: int, commit_ms: int, offset: int, log_offset: int, _producer_id: int
) -> Put:
    committed = CommittedOffset(commit_ms, None if expire_ms == NONE else expire_ms)
    return Put(committed, offset, log_offset, first_ms)
