"""The small tables of one log partition that summary and report add up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kgtool.analysis.fold.arrays import MAX, NONE, Bools, arrow_ints, extreme, ints, sum_rows
from kgtool.analysis.fold.folded_log import FoldedLog
from kgtool.analysis.tables.live import LiveOffsets, table

DAY_MS = 86_400_000
TOP = 10
FAMILIES = 14
COUNTS = ("offsets", "due_now", "next_24h", "next_7d", "never", "untold")
SIZES = ("live_groups", "live_offsets", "commits", "bytes")
POINTS = 160
"""Of the curve of growth, at most."""
STEPS_MS = tuple(
    number * unit
    for unit, numbers in (
        (1000, (1, 5, 15, 30)),
        (60_000, (1, 5, 15, 30)),
        (3_600_000, (1, 2, 6, 12)),
        (DAY_MS, (1, 2, 7, 14, 28, 91, 365, 3650)),
    )
    for number in numbers
)


def family_names(groups: pa.Table) -> pa.Table:
    """Families of generated names: the number of names, and one of them."""
    some = groups.filter(pc.match_substring(groups["family"], "*")).select(["family", "group"])
    found = some.group_by("family").aggregate([("group", "count"), ("group", "min")])
    return found.rename_columns(["family", "count", "name"])


def of_live(folded: FoldedLog, found: LiveOffsets) -> Iterator[tuple[str, pa.Table]]:
    """The small tables of the committed offsets at the end of the log."""
    as_of_ms, days = folded.plan.end_ms, folded.plan.options.days
    group, due = found.group, found.expires_ms
    ruled, dated = found.rule >= 0, due != NONE
    number, first, code = np.unique(group, return_index=True, return_inverse=True)
    soon = dated & (due <= as_of_ms + 7 * DAY_MS)
    conditions: dict[str, Bools] = {
        "offsets": np.ones_like(dated),
        "due_now": dated & (due <= as_of_ms),
        "next_24h": dated & (due <= as_of_ms + DAY_MS),
        "next_7d": soon,
        "never": ~dated & ruled,
        "untold": ~ruled,
    }
    counts = {"groups": np.ones_like(number)}
    for name, which in conditions.items():
        counts[name] = np.bincount(code[which], minlength=len(number))
    firsts = table(folded, found.only(first))
    kind = {name: firsts[name] for name in ("group_type", "group_state")}
    yield "group_kinds", sum_rows(pa.table({**kind, **counts}), list(kind))
    next_ms = extreme(len(number), code[soon], due[soon], least=True)
    of_group = {
        "family": folded.families.take(pa.array(number)),
        "name": firsts["group"],
        **counts,
        "next_expiry_ms": arrow_ints(next_ms),
    }
    yield "live_families", _families(pa.table(of_group), ["-offsets", "next_expiry_ms"], TOP)
    ahead = np.flatnonzero(dated & (due > as_of_ms) & (due <= as_of_ms + days * DAY_MS))
    # ceil: an offset due exactly 24 h ahead belongs to the first day, as in next_24h.
    day = -(-(due[ahead] - as_of_ms) // DAY_MS)
    once = np.unique(day * (folded.log.size + 1) + group[ahead]) // (folded.log.size + 1)
    yield (
        "expiring_by_day",
        pa.table(
            {
                "day": np.arange(1, days + 1),
                "offsets": np.bincount(day, minlength=days + 1)[1:],
                "groups": np.bincount(once, minlength=days + 1)[1:],
            }
        ),
    )


def _families(rows: pa.Table, orders: Iterable[str], top: int) -> pa.Table:
    """Families of generated names, and the first ``top`` other names by each order.

    ``name`` is one of the names. An order is a column; a minus sorts descending.
    """
    generated = pc.match_substring(rows["family"], "*")
    plain = rows.filter(pc.invert(generated))
    kept: set[int] = set()
    for order in orders:
        way = "descending" if order[0] == "-" else "ascending"
        keys = [(order.removeprefix("-"), way), ("name", "ascending")]
        kept.update(pc.sort_indices(plain, sort_keys=keys)[:top].to_pylist())
    parts = rows.filter(generated), plain.take(pa.array(sorted(kept), pa.int64()))
    return pa.concat_tables(map(_by_family, parts), promote_options="permissive")


def _by_family(rows: pa.Table) -> pa.Table:
    return sum_rows(rows, ["family"], max_of=("last_seen_ms",), min_of=("name", "next_expiry_ms"))


def merge_families(rows: pa.Table) -> list[dict[str, Any]]:
    """The families of all partitions; of a single name the name itself."""
    found: list[dict[str, Any]] = _by_family(rows).to_pylist()
    for row in found:
        name = row.pop("name")
        row["family"] = name if row["groups"] == 1 else row["family"]
    return found


def removal_counts(removals: pa.Table) -> pa.Table:
    """Removals by cause."""
    rows = removals.append_column("of_offset", pc.is_valid(removals["topic"]))
    found = rows.group_by(["cause", "of_offset"]).aggregate(
        [([], "count_all"), ("latency_ms", "max")]
    )
    return found.rename_columns(["cause", "of_offset", "removals", "max_latency_ms"])


def overdue_counts(partition: int, overdue: pa.Table) -> pa.Table:
    """Number of overdue rows of this partition."""
    return pa.table({"log_partition": [partition], "rows": [len(overdue)]})


def family_sizes(groups: pa.Table) -> pa.Table:
    """Families: SIZES and last activity."""
    live = pc.greater(groups["live_offsets"], 0).cast(pa.int64())
    rows = groups.append_column("live_groups", live).append_column("name", groups["group"])
    rows = rows.append_column("groups", pa.array(np.ones(len(rows), dtype=np.int64)))
    rows = rows.select(["family", "name", "groups", *SIZES, "last_seen_ms"])
    return _families(rows, ["-live_offsets"], FAMILIES)


def growth_steps(changes: pa.Table, end_ms: int) -> pa.Table:
    """Changes of the numbers of offsets and groups, in steps that divide every curve's."""
    at_ms = ints(changes["at_ms"])
    rows = np.flatnonzero(at_ms <= end_ms)
    at_ms = at_ms[rows]
    first = int(at_ms.min(initial=MAX))
    # At most a day: up to that, each step divides the next one.
    step = min(step_ms(end_ms - first), DAY_MS) if len(rows) else 1
    steps = {"start_ms": at_ms // step * step}
    steps |= {name: ints(changes[name])[rows] for name in ("change", "groups")}
    found = sum_rows(pa.table(steps), ["start_ms"])
    return found.append_column("first_ms", pa.array(np.full(len(found), first)))


def step_ms(span_ms: int) -> int:
    """The distance of a curve's points, a round number of ms."""
    return next((step for step in STEPS_MS if span_ms <= step * POINTS), span_ms // POINTS + 1)


def growth(parts: pa.Table, end_ms: int) -> list[dict[str, Any]]:
    """``at_ms, offsets, groups``: the numbers at up to POINTS times, as far from each other.

    The first row is just before the first change, the last one is at ``end_ms``. ``parts`` are
    those of ``growth_steps``.
    """
    if not len(parts):
        return []
    step = step_ms(end_ms - int(ints(parts["first_ms"]).min()))
    start = ints(parts["start_ms"]) // step
    first, last = int(start.min()), end_ms // step
    # A step without changes has its row too: a value holds until its row, not since the last one.
    offsets, groups = (
        np.cumsum(np.bincount(start - first, ints(parts[name]), last - first + 1)).tolist()
        for name in ("change", "groups")
    )
    rows = {first * step: {"at_ms": first * step, "offsets": 0, "groups": 0}}
    for number, (some, others) in enumerate(zip(offsets, groups, strict=True), first + 1):
        at_ms = min(number * step, end_ms)
        rows[at_ms] = {"at_ms": at_ms, "offsets": int(some), "groups": int(others)}
    return list(rows.values())
