"""What summary and report count, of one log partition: small tables that the driver adds up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kgtool.analysis.fold.arrays import MAX, NONE, Bools, Ints, arrow_ints, ints
from kgtool.analysis.fold.scene import Scene
from kgtool.analysis.tables.growth import fine_step_ms

DAY_MS = 86_400_000
TOP = 10
FAMILIES = 14
COUNTS = ("offsets", "due_now", "next_24h", "next_7d", "never", "untold")
SIZES = ("live_groups", "live_offsets", "commits", "bytes")


def names(groups: Any) -> Any:
    """Generated names: what they fold into, how many there are, one of them."""
    some = groups.filter(pc.match_substring(groups["family"], "*")).select(["family", "group"])
    found = some.group_by("family").aggregate([("group", "count"), ("group", "min")])
    return found.rename_columns(["family", "count", "name"])


def of_live(scene: Scene, live: Any, group: Ints) -> Iterator[tuple[str, Any]]:
    """``kinds``, ``live_families`` and ``ahead`` of the rows of ``schema.LIVE`` of these groups."""
    as_of_ms, days = scene.plan.end_ms, scene.plan.days
    due = ints(live["expires_at_ms"])
    ruled = ~np.asarray(live["rule"].is_null().to_numpy(), dtype=np.bool_)
    dated = due != NONE
    number, code = np.unique(group, return_inverse=True)
    soon = dated & (due <= as_of_ms + 7 * DAY_MS)
    conditions: Mapping[str, Bools] = {
        "offsets": np.ones_like(dated),
        "due_now": dated & (due <= as_of_ms),
        "next_24h": dated & (due <= as_of_ms + DAY_MS),
        "next_7d": soon,
        "never": ~dated & ruled,
        "untold": ~ruled,
    }
    counts = {
        name: np.bincount(code[which], minlength=len(number)) for name, which in conditions.items()
    }
    first = np.zeros(len(number), dtype=np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    next_ms = np.full(len(number), MAX)
    np.minimum.at(next_ms, code[soon], due[soon])
    of_group = pa.table(
        {
            "name": live["group"].take(pa.array(first)),
            "group_type": live["group_type"].take(pa.array(first)),
            "group_state": live["group_state"].take(pa.array(first)),
            "groups": np.ones(len(number), dtype=np.int64),
            **counts,
            "next_expiry_ms": arrow_ints(np.where(next_ms == MAX, NONE, next_ms)),
        }
    )
    sums = [("groups", "sum"), *((name, "sum") for name in COUNTS)]
    yield "kinds", _summed(of_group, ["group_type", "group_state"], sums)
    family = scene.families.take(pa.array(number))
    yield "live_families", _families(
        of_group.append_column("family", family), [*sums, ("next_expiry_ms", "min")],
        [[("offsets", "descending"), ("name", "ascending")],
         [("next_expiry_ms", "ascending"), ("name", "ascending")]], TOP,
    )  # fmt: skip
    ahead = np.flatnonzero(dated & (due > as_of_ms) & (due <= as_of_ms + days * DAY_MS))
    # ceil: an offset due exactly 24 h ahead belongs to the first day, as in next_24h.
    day = -(-(due[ahead] - as_of_ms) // DAY_MS)
    once = np.unique(day * (scene.log.size + 1) + group[ahead]) // (scene.log.size + 1)
    yield (
        "ahead",
        pa.table(
            {
                "day": np.arange(1, days + 1),
                "offsets": np.bincount(day, minlength=days + 1)[1:],
                "groups": np.bincount(once, minlength=days + 1)[1:],
            }
        ),
    )


def _summed(rows: Any, by: list[str], sums: list[tuple[str, str]]) -> Any:
    found = rows.group_by(by).aggregate(sums)
    return found.select([*by, *(f"{name}_{how}" for name, how in sums)]).rename_columns(
        [*by, *(name for name, _ in sums)]
    )


def _families(
    rows: Any, sums: list[tuple[str, str]], orders: list[list[tuple[str, str]]], top: int
) -> Any:
    """Generated names by what they fold into, and the first ``top`` of the others by each order.

    ``name`` is one of the names.
    """
    generated = pc.match_substring(rows["family"], "*")
    plain = rows.filter(pc.invert(generated))
    parts = [_summed(rows.filter(generated), ["family"], [("name", "min"), *sums])]
    kept: set[int] = set()
    for order in orders:
        kept.update(pc.sort_indices(plain, sort_keys=order)[:top].to_pylist())
    some = plain.take(pa.array(sorted(kept), pa.int64()))
    parts.append(_summed(some, ["family"], [("name", "min"), *sums]))
    return pa.concat_tables(parts, promote_options="permissive")


def merged_families(rows: Any, sums: list[tuple[str, str]], alone: str) -> list[dict[str, Any]]:
    """The families of all partitions; a name that is alone (by the count ``alone``) is its own."""
    found = _summed(rows, ["family"], [("name", "min"), *sums]).to_pylist()
    return [{**row, "family": row["name"] if row[alone] == 1 else row["family"]} for row in found]


def gone(removals: Any) -> Any:
    """Removals by cause."""
    rows = removals.append_column("of_offset", pc.is_valid(removals["topic"]))
    found = rows.group_by(["cause", "of_offset"]).aggregate(
        [([], "count_all"), ("latency_ms", "max")]
    )
    return found.rename_columns(["cause", "of_offset", "removals", "max_latency_ms"])


def late(partition: int, overdue: Any) -> Any:
    """How much is overdue here."""
    return pa.table({"log_partition": [partition], "rows": [len(overdue)]})


def sizes(groups: Any) -> Any:
    """Families by what they have: SIZES and when they were seen last."""
    live = pc.greater(groups["live_offsets"], 0).cast(pa.int64())
    rows = groups.append_column("live_groups", live).append_column("name", groups["group"])
    rows = rows.append_column("groups", pa.array(np.ones(len(rows), dtype=np.int64)))
    sums = [("groups", "sum"), *((name, "sum") for name in SIZES), ("last_seen_ms", "max")]
    return _families(
        rows, sums, [[("live_offsets", "descending"), ("name", "ascending")]], FAMILIES
    )


def curve(changes: Any, end_ms: int) -> Any:
    """How many offsets and groups came and went, in steps that every curve's are made of."""
    at_ms = ints(changes["at_ms"])
    rows = np.flatnonzero(at_ms <= end_ms)
    at_ms = at_ms[rows]
    first = int(at_ms.min(initial=MAX))
    step = fine_step_ms(end_ms - first) if len(rows) else 1
    start, code = np.unique(at_ms // step * step, return_inverse=True)
    sums = {
        name: np.bincount(code, ints(changes[name])[rows], minlength=len(start)).astype(np.int64)
        for name in ("change", "groups")
    }
    return pa.table({"start_ms": start, **sums, "first_ms": np.full(len(start), first)})
