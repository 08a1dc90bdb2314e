"""Drops commits that no table needs from a large bucket before it is folded.

Commits of a busy group follow each other so soon that no check of any scenario can remove one
before the next. Of a run of those the first, the last and the longest pauses are kept. The decoder
sees only a chunk, so it drops only what comes between two checks; here the whole partition and the
groups' own records are at hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kgtool.analysis.decode.blobs import Kept, as_bytes, release
from kgtool.analysis.fold.arrays import (
    NONE,
    Bools,
    Ints,
    Runs,
    as_of,
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
"""Rows that are looked at together: as they come, and later those of a range of keys."""
_TEXTS = ("group", "topic", "topic_id")
_CLOCK, _ORDINARY, _STEADY, _LAST_OWN = "clock_ms", "ordinary", "steady", "last_own"
_MARKS = (_CLOCK, _ORDINARY, _STEADY, _LAST_OWN)
"""Columns that say how a row lies among all those of its group."""


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


def group_record_times(rows: pa.Table) -> GroupRecordTimes:
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


def drop_unneeded(
    tables: Iterable[pa.Table], times: GroupRecordTimes, plan: FoldPlan, rows: int
) -> pa.Table:
    """Tables of ``schema.KIND_OFFSET``, in log order, as one; a row that stays stands for what was
    left out before it.

    Every row is looked at twice, however many stay: among those of its group as they come, and
    with those of a range of keys, which fit into memory.

    :param rows: how many there are.
    """
    marks, count, kept = _Marks(times), -(-rows // STEP), Kept()
    for table in _together(tables):
        marked = marks.mark(table)
        for number, some in _by_key(marked, count):
            for data in as_bytes(some):
                kept.add(number, data)
        release()
    calm = marks.calm() if not (plan.options.scenarios or plan.options.gaps) else None
    found = []
    for number in kept:
        found.append(_drop_of_range(kept.tables(number), plan, calm))
        release()
    whole = pa.concat_tables(found)
    order = pa.array(np.argsort(ints(whole["log_offset"]), kind="stable"))
    names, columns = whole.column_names, whole.columns
    del found, whole
    sorted_columns = []
    while columns:  # never all of them twice
        sorted_columns.append(columns.pop(0).take(order))
        release()
    return marks.with_texts(pa.table(sorted_columns, names))


def _together(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Consecutive tables as one, of STEP rows and more."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(map(len, waiting)) >= STEP:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _by_key(rows: pa.Table, count: int) -> Iterator[tuple[int, pa.Table]]:
    """(range, its rows in order); rows of the same key share one."""
    mixed = ints(rows["topic_partition"]).astype(np.uint64)
    for name in ("topic", "group"):
        mixed = (mixed * np.uint64(0x9E3779B97F4A7C15)) ^ ints(rows[name]).astype(np.uint64)
    mixed = (mixed * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    number = (mixed % np.uint64(count)).astype(np.min_scalar_type(count))
    order = np.argsort(number, kind="stable")
    ends = np.searchsorted(number[order], np.arange(count + 1))
    rows = rows.take(pa.array(order))
    for each in np.flatnonzero(np.diff(ends)).tolist():
        yield each, rows.slice(ends[each], ends[each + 1] - ends[each])


def _drop_of_range(tables: Iterable[pa.Table], plan: FoldPlan, calm: Bools | None) -> pa.Table:
    kept: list[pa.Table] = []
    size = 0
    for table in tables:
        kept.append(table)
        size += len(table)
        if size >= 2 * STEP:  # few keys, of many rows
            kept, size = [_drop_unneeded(pa.concat_tables(kept), plan, calm)], 0
    return _drop_unneeded(pa.concat_tables(kept), plan, calm).drop_columns(list(_MARKS))


def _drop_unneeded(table: pa.Table, plan: FoldPlan, calm: Bools | None) -> pa.Table:
    """:param calm: groups of whose runs one row says all, as nothing happens between the ends."""
    rows = _Rows(table.combine_chunks())
    # Neither the commit nor the pause before it matters if the next one comes soon enough.
    droppable = rows.in_run & (rows.successor_dropped | rows.soon(plan))
    look = ~droppable
    if plan.options.gaps:
        look[rows.longest(np.flatnonzero(droppable & ~rows.successor_dropped), plan)] = True
    alone = np.zeros_like(look) if calm is None else calm[rows.group]
    kept = look | (np.append(True, look[:-1]) & ~alone)
    dropped = rows.successor_dropped | ~_next(kept, True)
    # A kept row counts for the dropped ones before it.
    behind = np.append(0, np.flatnonzero(kept)[:-1] + 1)
    place = rows.order[kept]
    order = np.argsort(place)
    found = table.take(pa.array(place[order]))
    for name, values in (
        ("commits", np.add.reduceat(rows.commits, behind)),
        ("first_ms", np.where(alone[kept], rows.first_ms[behind], rows.first_ms[kept])),
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

    def __init__(self, table: pa.Table) -> None:
        group, topic = ints(table["group"]), ints(table["topic"])
        key = codes(group, topic, ints(table["topic_partition"]))
        order = np.argsort(key, kind="stable")
        at_ms = ints(table["timestamp_ms"])
        self.group = group[order]
        self.order, self.at_ms, self.clock_ms = order, at_ms[order], ints(table[_CLOCK])[order]
        self.first_ms = first_times(ints(table["first_ms"]), at_ms)[order]
        self.commit_ms = ints(table["commit_timestamp_ms"])[order]
        self.commits, self.successor_dropped = (
            ints(table["commits"])[order],
            bools(table[SUCCESSOR_DROPPED])[order],
        )
        self.scope = codes(group, topic, ints(table[_LAST_OWN]))[order]
        """Group, topic and last group record: its rows are protected at the same times."""
        key = key[order]
        ordinary = bools(table[_ORDINARY])[order] & (self.first_ms <= self.at_ms)
        self.in_run = ordinary & bools(table[_STEADY])[order] & _next(ordinary, False)
        """Whether the next row continues a run of ordinary commits of the key whose ends have
        the earliest and latest times."""
        for each in (key, self.scope):
            self.in_run[:-1] &= each[1:] == each[:-1]
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


class _Marks:
    """Tells of rows, as they come in log order, how they lie among all records of their groups."""

    def __init__(self, times: GroupRecordTimes) -> None:
        self._times = times
        self._numbers: dict[str, dict[str | None, int]] = {name: {} for name in _TEXTS}
        self._numbers["group"] = {name: at for at, name in enumerate(times.names.to_pylist())}
        self._behind = -1
        """The log offset up to which records were seen; by group:"""
        self._clock, self._alive = np.full((2, len(times.names)), -1)
        self._pending, self._dead = np.zeros((2, len(times.names)), dtype=np.bool_)

    def mark(self, table: pa.Table) -> pa.Table:
        """These rows with _MARKS, and numbers for names."""
        for name in _TEXTS:
            number = pa.array(self._encode(name, table[name]).astype(np.int32))
            table = table.set_column(table.schema.get_field_index(name), name, number)
        group = ints(table["group"])
        new = len(self._numbers["group"]) - len(self._clock)
        self._clock, self._alive = (
            np.append(c, np.full(new, -1)) for c in (self._clock, self._alive)
        )
        no = np.zeros(new, dtype=np.bool_)
        self._pending, self._dead = np.append(self._pending, no), np.append(self._dead, no)
        self._dead[group[bools(table["tombstone"])]] = True
        self._pending[group[ints(table["producer_id"]) != NONE]] = True
        place, times = ints(table["log_offset"]), self._times
        last_own = as_of(times.group, times.log_offset, group, place, before=True)
        may_be_empty = np.append(times.may_be_empty, False)[last_own]
        plain = ~bools(table["tombstone"]) & ~self._pending[group]
        plain &= ~may_be_empty & ~bools(table["creates_group"])
        plain &= ints(table["expire_timestamp_ms"]) == NONE
        clock_ms, sure, steady = self._clocks(table, group, place)
        marks = (clock_ms, plain & sure, steady, last_own, np.zeros(len(group), dtype=np.bool_))
        for name, values in zip((*_MARKS, SUCCESSOR_DROPPED), marks, strict=True):
            table = table.append_column(name, pa.array(values))
        return table

    def calm(self) -> Bools:
        """Groups that have neither lost anything nor had transactions, in all rows that came."""
        dead = self._dead | self._pending
        dead[self._times.group[self._times.tombstone]] = True
        return ~dead

    def _encode(self, name: str, column: Any) -> Ints:
        """A number for each text, the same in every table; -1 for null."""
        code, texts = encode_texts(column)
        numbers = self._numbers[name]
        found = [numbers.setdefault(text, len(numbers)) for text in texts.to_pylist()]
        return np.array([*found, -1], dtype=np.int64)[code]

    def with_texts(self, rows: pa.Table) -> pa.Table:
        """The rows with names for their numbers."""
        for name in _TEXTS:
            number = rows[name].combine_chunks()
            number = pc.if_else(pc.less(number, 0), None, number)
            texts = pa.array(list(self._numbers[name]), pa.string())
            column = pa.DictionaryArray.from_arrays(number, texts)
            rows = rows.set_column(rows.schema.get_field_index(name), name, column)
        return rows

    def _clocks(self, table: pa.Table, group: Ints, place: Ints) -> tuple[Ints, Bools, Bools]:
        """``client_events.ClientEvents.clock_ms``; whether it is the same without tombstones, which
        may be a check's; and whether every one is the same without the row."""
        size, times = len(group), self._times
        some = (times.log_offset > self._behind) & (times.log_offset <= place[-1])
        self._behind = int(place[-1])
        groups = np.concatenate([group, times.group[some]])
        order = np.lexsort((np.concatenate([place, times.log_offset[some]]), groups))
        groups = groups[order]
        at_ms = np.concatenate([ints(table["timestamp_ms"]), times.at_ms[some]])[order].clip(0)
        dead = np.concatenate([bools(table["tombstone"]), times.tombstone[some]])[order]
        runs = Runs(groups)
        first, last = np.flatnonzero(runs.is_first), np.flatnonzero(runs.is_last)
        clock, alive = at_ms.copy(), np.where(dead, -1, at_ms)
        for values, known in ((clock, self._clock), (alive, self._alive)):
            values[first] = np.maximum(values[first], known[groups[first]])
        clock, alive = highest_so_far(groups, clock), highest_so_far(groups, alive)
        before = runs.lag(alive, -1)
        before[first] = self._alive[groups[first]]
        self._clock[groups[last]], self._alive[groups[last]] = clock[last], alive[last]
        lowest = -highest_so_far((groups.max() - groups)[::-1], -at_ms[::-1])[::-1]
        # Not the latest time so far, or one that everything behind has reached too: up to the last
        # row, as nothing is known of what is behind that.
        steady = ((at_ms <= before) | (at_ms <= lowest)) & (runs.first_behind(~dead) >= 0)
        back = np.argsort(order, kind="stable")[:size]
        return clock[back], (clock == alive)[back], steady[back]
