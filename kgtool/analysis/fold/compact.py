"""Drops commits that no table needs from a large bucket before it is folded.

Commits of a busy group follow each other so soon that no check of any scenario can remove one
before the next. Of a run of those the first, the last and the longest pauses are kept. The decoder
sees only a chunk, so it drops only what comes between two checks; here the whole partition and the
groups' own records are at hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kgtool.analysis.fold.arrays import (
    NONE,
    Bools,
    Ints,
    Runs,
    any_of,
    bools,
    codes,
    encode_texts,
    extreme,
    highest_so_far,
    ints,
)
from kgtool.analysis.fold.folded_log import FoldPlan
from kgtool.analysis.fold.log import SUCCESSOR_DROPPED, first_times
from kgtool.analysis.fold.whatif.checks import age_at_last_check
from kgtool.analysis.fold.whatif.client_events import FAR
from kgtool.records.types import GROUP_METADATA

STEP = 1 << 19
"""Rows that are compacted together, plus those kept from earlier ones."""


class GroupRecordTimes(NamedTuple):
    """The groups' own records, by group and log offset."""

    names: Any
    """The groups' names, an Arrow array."""
    group: Ints
    log_offset: Ints
    at_ms: Ints
    tombstone: Bools
    may_be_empty: Bools
    """Whether the group's offsets may share a date from here on, as those of an Empty one do."""


def group_record_times(rows: Any) -> GroupRecordTimes:
    """The columns of a table of ``schema.KIND_GROUP``."""
    group, names = encode_texts(rows["group"])
    log_offset, tombstone = ints(rows["log_offset"]), bools(rows["tombstone"])
    order = np.lexsort((log_offset, group))
    shown = (ints(rows["key_type"]) == GROUP_METADATA) & ~tombstone
    last = Runs(group[order]).last_so_far(shown[order])
    members = ints(rows["detail"].combine_chunks().field("members"))[order]
    at_ms = ints(rows["timestamp_ms"])
    return GroupRecordTimes(
        names,
        group[order],
        log_offset[order],
        at_ms[order],
        tombstone[order],
        (last >= 0) & (members[last] < 1),
    )


def drop_unneeded(tables: Iterable[Any], times: GroupRecordTimes, plan: FoldPlan) -> Any:
    """Tables of ``schema.KIND_OFFSET``, in log order, as one; a row that stays stands for what was
    left out before it."""
    kept: list[Any] = []
    size = 0
    for table in tables:
        no = pa.array(np.zeros(len(table), dtype=np.bool_))
        kept.append(table.append_column(SUCCESSOR_DROPPED, no))
        size += len(table)
        if size >= STEP:
            kept, size = [_drop_unneeded(pa.concat_tables(kept), times, plan)], 0
    return _drop_unneeded(pa.concat_tables(kept), times, plan)


def _drop_unneeded(table: Any, times: GroupRecordTimes, plan: FoldPlan) -> Any:
    table = table.unify_dictionaries().combine_chunks()
    rows = _Rows(table, times)
    # Neither the commit nor the pause before it matters if the next one comes soon enough.
    droppable = rows.in_run & (rows.successor_dropped | rows.soon(plan))
    look = ~droppable
    if plan.options.gaps:
        look[rows.longest(np.flatnonzero(droppable & ~rows.successor_dropped), plan)] = True
    kept = look | np.append(True, look[:-1])
    dropped = rows.successor_dropped | ~_next(kept, True)
    # A kept row counts for the dropped ones before it.
    behind = np.append(0, np.flatnonzero(kept)[:-1] + 1)
    place = rows.order[kept]
    order = np.argsort(place)
    found = table.take(pa.array(place[order]))
    for name, values in (
        ("commits", np.add.reduceat(rows.commits, behind)),
        (SUCCESSOR_DROPPED, dropped[kept]),
    ):
        at = found.schema.get_field_index(name)
        found = found.set_column(at, name, pa.array(values[order]))
    return found


def _next(values: Any, last: Any) -> Any:
    """The value of the next row."""
    return np.append(values[1:], last)


class _Rows:
    """Rows by key and log offset; one array entry each."""

    def __init__(self, table: Any, times: GroupRecordTimes) -> None:
        group, names = encode_texts(table["group"])
        topic, _ = encode_texts(table["topic"])
        of_group = _in_groups(table, group, names, times)
        key = codes(group, topic, ints(table["topic_partition"]))
        order = np.argsort(key, kind="stable")
        at_ms, tombstone = ints(table["timestamp_ms"]), bools(table["tombstone"])
        pending = any_of(group, ints(table["producer_id"]) != NONE)
        plain = ~tombstone & ~pending & ~of_group.may_be_empty & ~bools(table["creates_group"])
        plain &= ints(table["expire_timestamp_ms"]) == NONE
        self.order, self.at_ms, self.clock_ms = order, at_ms[order], of_group.clock_ms[order]
        self.first_ms = first_times(ints(table["first_ms"]), at_ms)[order]
        self.commit_ms = ints(table["commit_timestamp_ms"])[order]
        self.commits, self.successor_dropped = (
            ints(table["commits"])[order],
            bools(table[SUCCESSOR_DROPPED])[order],
        )
        self.scope = codes(group, topic, of_group.last_own)[order]
        """Group, topic and last group record: its rows are protected at the same times."""
        key, plain, sure = key[order], plain[order], of_group.sure[order]
        self.in_run = plain & of_group.steady[order] & sure
        """Whether the next row continues a run of ordinary commits of the key whose ends have
        the earliest and latest times."""
        for each in (key, self.scope):
            self.in_run[:-1] &= each[1:] == each[:-1]
        self.in_run &= _next(plain & sure, False)
        self.in_run[:-1] &= self.first_ms[1:] >= self.at_ms[:-1]

    def soon(self, plan: FoldPlan) -> Bools:
        """Whether the next commit comes before this one is too old in any scenario."""
        shortest = min((each.retention_ms for each in plan.options.scenarios), default=FAR)
        due = np.minimum(self.commit_ms, FAR) + shortest
        return np.asarray(_next(self.clock_ms, FAR) <= due, dtype=np.bool_)

    def longest(self, some: Ints, plan: FoldPlan) -> Ints:
        """Those of these rows before the longest pauses of each scope."""
        scope, found = codes(self.scope[some]), []
        ages = age_at_last_check(
            plan.rules,
            plan.interval_ms,
            self.commit_ms[some],
            self.clock_ms[some],
            self.clock_ms[some + 1],
        )
        for pause in (self.first_ms[some + 1] - self.at_ms[some], ages):
            most = extreme(int(scope.max(initial=0)) + 1, scope, pause)
            top = np.flatnonzero(pause == most[scope])
            found.append(top[np.unique(scope[top], return_index=True)[1]])
        return some[np.concatenate(found)]


class _InGroups(NamedTuple):
    """Rows among all records of their group; one array entry each, in log order."""

    clock_ms: Ints
    """``client_events.ClientEvents.clock_ms``."""
    sure: Bools
    """Whether it is the same without tombstones, which may be a check's."""
    steady: Bools
    """Whether every ``clock_ms`` is the same without the row."""
    last_own: Ints
    """Index of the group's last own record before the row; -1: none."""
    may_be_empty: Bools


def _in_groups(table: Any, group: Ints, names: Any, times: GroupRecordTimes) -> _InGroups:
    size, place = len(group), ints(table["log_offset"])
    number = ints(pc.index_in(times.names, value_set=names).fill_null(-1))[times.group]
    some = (number >= 0) & (times.log_offset <= place[-1])
    groups = np.concatenate([group, number[some]])
    order = np.lexsort((np.concatenate([place, times.log_offset[some]]), groups))
    groups = groups[order]
    at_ms = np.concatenate([ints(table["timestamp_ms"]), times.at_ms[some]])[order].clip(0)
    dead = np.concatenate([bools(table["tombstone"]), times.tombstone[some]])[order]
    clock = highest_so_far(groups, at_ms)
    alive = highest_so_far(groups, np.where(dead, -1, at_ms))
    lowest = -highest_so_far((groups.max() - groups)[::-1], -at_ms[::-1])[::-1]
    runs = Runs(groups)
    # Not the latest time so far, or one that everything behind has reached too.
    steady = (at_ms <= runs.lag(alive, -1)) | (at_ms <= lowest)
    last_own = runs.last_so_far(order >= size)
    empty = np.append(np.zeros(size, dtype=np.bool_), times.may_be_empty[some])[order]
    back = np.argsort(order, kind="stable")[:size]
    return _InGroups(
        clock[back],
        (clock == alive)[back],
        steady[back],
        last_own[back],
        ((last_own >= 0) & empty[last_own])[back],
    )
