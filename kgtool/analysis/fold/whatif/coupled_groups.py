"""The replay of groups that arrays can't express: their checks depend on earlier ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from kgtool.analysis.fold.arrays import NONE, Bools, Ints
from kgtool.analysis.fold.folded_log import FoldedLog
from kgtool.analysis.fold.rules_columns import RULE
from kgtool.analysis.fold.whatif.checks import Checks
from kgtool.analysis.fold.whatif.client_events import (
    COMMIT,
    DELETE,
    FAR,
    GROUP_RECORD,
    TRANSACTION_END,
    ClientEvents,
)
from kgtool.analysis.fold.whatif.group_states import GroupTimeline
from kgtool.analysis.fold.whatif.replay import Commit, GroupReplay
from kgtool.analysis.input.broker_settings import Scenario
from kgtool.retention.rules import CommittedOffset, RuleSet


def reading(rules: RuleSet) -> tuple[bool, bool]:
    """What of the rules decides how a group's own records are read."""
    return rules.new_coordinator, rules.forgets_date_on_load is True


class ClientHistory(NamedTuple):
    """What clients did, and the states of their groups."""

    folded: FoldedLog
    events: ClientEvents
    end_ms: Ints
    """Where each group's checks end."""
    timelines: dict[tuple[bool, bool], GroupTimeline]
    """By ``reading`` of the rules."""

    def checks(self, scenario: Scenario) -> Checks:
        """The checks of that scenario."""
        return Checks(self.folded, scenario, self.timelines[reading(scenario.rules)])


class OffsetIntervals(NamedTuple):
    """``replay.Interval`` of everything in one scenario; one array entry each."""

    group: Ints
    role: Ints
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


def replay_groups(history: ClientHistory, scenario: Scenario, groups: Bools) -> OffsetIntervals:
    """The intervals of these groups in one scenario."""
    rows = list(_replayed(history, scenario, groups))
    empty: list[Sequence[Any]] = [()] * len(OffsetIntervals._fields)
    columns: list[Any] = [
        np.array([NONE if value is None else value for value in column], dtype=np.int64)
        for column in list(zip(*rows, strict=True)) or empty
    ]
    found = OffsetIntervals(*columns)
    return found._replace(expired=found.expired.astype(np.bool_))


def _replayed(
    history: ClientHistory, scenario: Scenario, groups: Bools
) -> Iterator[tuple[Any, ...]]:
    """Rows of ``OffsetIntervals``."""
    log, plan = history.folded.log, history.folded.plan
    topics = [*log.topics.to_pylist(), ""]
    events = history.events.only(groups[history.events.group])
    is_record = events.kind == GROUP_RECORD
    rows = events.row[is_record]
    records = dict(zip(rows.tolist(), history.folded.group_events(rows), strict=True))
    at, offsets = np.where(is_record, 0, events.row), log.offsets
    # A commit whose successor was dropped never becomes too old.
    commit_ms = np.where(offsets.successor_dropped, FAR, offsets.commit_ms)
    stored = (commit_ms, offsets.offset, offsets.log_offset, offsets.producer_id)
    columns = (
        events.group,
        events.kind,
        events.row,
        events.key,
        events.at_ms,
        events.flag,
        events.first_ms,
        events.expire_ms,
        *(column[at] if len(column) else np.zeros_like(at) for column in stored),
    )
    every = zip(*(column.tolist() for column in columns), strict=True)
    for group, some in groupby(every, itemgetter(0)):
        replay = GroupReplay(scenario)
        for _, kind, row, key, at_ms, flag, *fields, producer_id in some:
            name = (topics[log.keys.topic[key]], key)
            if kind == GROUP_RECORD:
                replay.group_record(records[row]._replace(timestamp_ms=at_ms), deletes_group=flag)
            elif kind == DELETE:
                replay.delete(at_ms, name)
            elif kind == TRANSACTION_END:
                replay.end_transaction(at_ms, name, producer_id, committed=flag)
            elif kind == COMMIT:
                replay.commit(at_ms, name, _commit(*fields))
            else:
                replay.transactional_commit(at_ms, name, _commit(*fields), producer_id)
        for found in replay.finish(plan.end_ms + plan.options.horizon_ms):
            key = -1 if found.key is None else found.key[1]
            rule = None if found.rule is None else RULE[found.rule]
            yield (group, found.role, key, *found[2:5], rule, *found[6:])


def _commit(first_ms: int, expire_ms: int, commit_ms: int, offset: int, log_offset: int) -> Commit:
    committed = CommittedOffset(commit_ms, None if expire_ms == NONE else expire_ms)
    return Commit(committed, offset, log_offset, first_ms)
