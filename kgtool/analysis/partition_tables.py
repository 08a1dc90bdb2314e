"""All tables of one log partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis.decode.blobs import release
from kgtool.analysis.fold.arrays import summed
from kgtool.analysis.fold.buckets import Blobs, buckets
from kgtool.analysis.fold.folded_log import FoldedLog, FoldPlan
from kgtool.analysis.fold.removals import Removals, explain_removals
from kgtool.analysis.fold.whatif.offset_intervals import intervals_by_scenario
from kgtool.analysis.tables import (
    at_end,
    by_family,
    cleanup,
    groups,
    live,
    metrics,
    overdue,
    removals,
    totals,
    whatif,
)

Tables = Iterator[tuple[str, Any]]


_ADDED = {"partitions": ("live_keys", "groups"), "late": ("rows",)}
"""Tables of one row a partition: what its buckets add up; the rest is the same in all of them."""


def partition_tables(partition: int, blobs: Blobs, plan: FoldPlan) -> Tables:
    """(name, Arrow table) of all that one partition of the log says, a name maybe several times."""
    rows: defaultdict[str, list[Any]] = defaultdict(list)
    for kinds in buckets(blobs, plan):
        for name, table in _told(FoldedLog(partition, kinds, plan)):
            if name in _ADDED:
                rows[name].append(table)
            else:
                yield name, table
        release()
    for name, tables in rows.items():
        both = pa.concat_tables(tables)
        columns = both.column_names
        yield (
            name,
            summed(both, [each for each in columns if each not in _ADDED[name]]).select(columns),
        )


def _told(folded: FoldedLog) -> Tables:
    options = folded.plan.options
    gone = explain_removals(folded)
    found = live.live(folded)
    table = live.table(folded, found)
    yield from _of_live(folded, table, found)
    went = removals.table(folded, gone)
    yield "removals", went
    yield "gone", totals.gone(went)
    yield "early", removals.early(folded, gone)
    late = overdue.table(folded, table)
    yield "overdue", late
    yield "late", totals.late(folded.partition, late)
    everybody = groups.table(folded, found, gone)
    yield "groups", everybody
    yield "names", totals.names(everybody)
    yield "sizes", totals.sizes(everybody)
    changes = metrics.changes(folded)
    yield "curve", totals.curve(changes, folded.plan.end_ms)
    if options.bucket_ms is not None:
        yield "changes", changes
        written = by_family.writers(folded)
        yield "writers", written
        yield "counted", metrics.counted(folded, written, gone)
        yield "deleted", metrics.deleted(folded, gone)
    if options.gaps:
        yield "gaps", by_family.gaps(folded, gone)
    if options.scenarios:
        yield from _whatif(folded, gone)


def _of_live(folded: FoldedLog, table: Any, found: live.Live) -> Tables:
    yield "live", table
    yield from totals.of_live(folded, table, found.group)
    yield "partitions", at_end.partitions(folded, found)
    yield "transactions", at_end.transactions(folded)
    yield "orphans", at_end.orphans(folded, table, found)
    yield "upgrades", at_end.upgrades(folded, found)
    if folded.plan.options.plan:
        yield "cleanup", cleanup.items(folded, table, found.group)


def _whatif(folded: FoldedLog, gone: Removals) -> Tables:
    for number, found in enumerate(intervals_by_scenario(folded, gone)):
        scenario = folded.plan.options.scenarios[number]
        yield "losses", whatif.losses(folded, scenario, found)
        yield "totals", whatif.totals(folded, number, found)
        yield "days", whatif.days(folded, number, found)
        yield "whatif_families", whatif.families(folded, scenario, found)
