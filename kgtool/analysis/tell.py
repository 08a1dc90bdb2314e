"""All tables of one log partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis.decode.blobs import release
from kgtool.analysis.fold.arrays import summed
from kgtool.analysis.fold.buckets import Blobs, buckets
from kgtool.analysis.fold.removals import Removals
from kgtool.analysis.fold.removals import removals as explained
from kgtool.analysis.fold.scene import Plan, Scene
from kgtool.analysis.fold.whatif.lives import lives
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


def tell(partition: int, blobs: Blobs, plan: Plan) -> Tables:
    """(name, Arrow table) of all that one partition of the log says, a name maybe several times."""
    rows: defaultdict[str, list[Any]] = defaultdict(list)
    for kinds in buckets(blobs, plan):
        for name, table in _told(Scene(partition, kinds, plan)):
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


def _told(scene: Scene) -> Tables:
    wanted = scene.plan.wanted
    gone = explained(scene)
    found = live.live(scene)
    table = live.table(scene, found)
    yield from _of_live(scene, table, found)
    went = removals.table(scene, gone)
    yield "removals", went
    yield "gone", totals.gone(went)
    yield "early", removals.early(scene, gone)
    late = overdue.table(scene, table)
    yield "overdue", late
    yield "late", totals.late(scene.partition, late)
    everybody = groups.table(scene, found, gone)
    yield "groups", everybody
    yield "names", totals.names(everybody)
    yield "sizes", totals.sizes(everybody)
    changes = metrics.changes(scene)
    yield "curve", totals.curve(changes, scene.plan.end_ms)
    if wanted.bucket_ms is not None:
        yield "changes", changes
        written = by_family.writers(scene)
        yield "writers", written
        yield "counted", metrics.counted(scene, written, gone)
        yield "deleted", metrics.deleted(scene, gone)
    if wanted.gaps:
        yield "gaps", by_family.gaps(scene, gone)
    if wanted.scenarios:
        yield from _whatif(scene, gone)


def _of_live(scene: Scene, table: Any, found: live.Live) -> Tables:
    yield "live", table
    yield from totals.of_live(scene, table, found.group)
    yield "partitions", at_end.partitions(scene, found)
    yield "transactions", at_end.transactions(scene)
    yield "orphans", at_end.orphans(scene, table, found)
    yield "upgrades", at_end.upgrades(scene, found)
    if scene.plan.wanted.plan:
        yield "cleanup", cleanup.items(scene, table, found.group)


def _whatif(scene: Scene, gone: Removals) -> Tables:
    for number, found in enumerate(lives(scene, gone)):
        scenario = scene.plan.wanted.scenarios[number]
        yield "losses", whatif.losses(scene, scenario, found)
        yield "totals", whatif.totals(scene, number, found)
        yield "days", whatif.days(scene, number, found)
        yield "whatif_families", whatif.families(scene, scenario, found)
