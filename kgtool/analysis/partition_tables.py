"""All tables of one log partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis.decode.blobs import Kept, release
from kgtool.analysis.fold import homes
from kgtool.analysis.fold.arrays import sum_rows
from kgtool.analysis.fold.buckets import buckets
from kgtool.analysis.fold.folded_log import FoldedLog, FoldPlan
from kgtool.analysis.fold.removals import explain_removals
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

Tables = Iterator[tuple[str, pa.Table]]
_SUMS = {"partitions": ("live_keys", "groups"), "overdue_counts": ("rows",)}
"""Tables of one row a partition: the columns that its buckets add up; the others are equal."""


def partition_tables(partition: int, blobs: Kept, plan: FoldPlan) -> Tables:
    """(name, Arrow table) of one partition of the log; a name may come several times."""
    parts: defaultdict[str, list[pa.Table]] = defaultdict(list)
    for kinds in buckets(blobs, plan):
        for name, table in _tables(FoldedLog(partition, kinds, plan)):
            if name in _SUMS:
                parts[name].append(table)
            else:
                yield name, table
        release()
    for name, tables in parts.items():
        rows = pa.concat_tables(tables)
        equal = [column for column in rows.column_names if column not in _SUMS[name]]
        yield name, sum_rows(rows, equal).select(rows.column_names)


def _tables(folded: FoldedLog) -> Tables:
    """``schema.TABLES``, and the small tables that the driver adds up."""
    options, end_ms = folded.plan.options, folded.plan.end_ms
    explained = explain_removals(folded)
    release()
    found = live.find_live(folded)
    yield from totals.of_live(folded, found)
    yield "partitions", at_end.partitions(folded, found)
    yield "transactions", at_end.transactions(folded)
    yield "upgrades", at_end.upgrades(folded, found)
    place = folded.partition, folded.plan.log_partitions
    yield "homes", homes.table(folded.log.groups, *place, folded.misplaced)
    late = []
    for some in found.parts():
        live_table = live.table(folded, some)
        yield "live", live_table
        yield "orphans", at_end.orphans(folded, live_table, some)
        late.append(overdue.due(folded, live_table))
    if options.plan:
        yield "cleanup", cleanup.items(folded, live.table(folded, found), found.group)
    release()
    removals_table = removals.table(folded, explained)
    yield "removals", removals_table
    yield "removal_counts", totals.removal_counts(removals_table)
    yield "early_removals", removals.early_removals(folded, explained)
    yield "removal_moments", removals.moments(folded, explained)
    overdue_table = overdue.table(folded, pa.concat_tables(late))
    yield "overdue", overdue_table
    yield "overdue_counts", totals.overdue_counts(folded.partition, overdue_table)
    groups_table = groups.table(folded, found, explained)
    yield "groups", groups_table
    yield "family_names", totals.family_names(groups_table)
    yield "family_sizes", totals.family_sizes(groups_table)
    del live_table, some, removals_table, late, overdue_table, groups_table, found
    release()
    changes = metrics.offset_changes(folded)
    yield "growth", totals.growth_steps(changes, end_ms)
    if options.bucket_ms is not None:
        yield "offset_changes", changes
        writers = by_family.writers(folded)
        yield "writers", writers
        yield "metric_counts", metrics.counts_here(folded, writers, explained)
        yield "deleted_offsets", metrics.deleted_offsets(folded, explained)
    if options.gaps:
        yield "gaps", by_family.gaps(folded, explained)
    for number, intervals in enumerate(intervals_by_scenario(folded, explained)):
        scenario = options.scenarios[number]
        # What a check would have done to a group depends on its state.
        intervals = intervals.only(~folded.unknown.groups[intervals.group])
        yield "losses", whatif.losses(folded, scenario, intervals)
        yield "whatif_totals", whatif.totals(folded, number, intervals)
        yield "whatif_days", whatif.days(folded, number, intervals)
        yield "whatif_families", whatif.families(folded, scenario, intervals)
