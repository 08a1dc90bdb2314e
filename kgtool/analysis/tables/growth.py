"""How many offsets and groups there were over time, as the log shows it."""

from __future__ import annotations

from typing import Any

import numpy as np

from kgtool.analysis.fold.arrays import ints

POINTS = 160
"""Of a curve, at most."""
STEPS_MS = tuple(
    number * unit
    for unit, numbers in (
        (1000, (1, 5, 15, 30)),
        (60_000, (1, 5, 15, 30)),
        (3_600_000, (1, 2, 6, 12)),
        (86_400_000, (1, 2, 7, 14, 28, 91, 365, 3650)),
    )
    for number in numbers
)
DAY_MS = 86_400_000


def step_ms(span_ms: int) -> int:
    """The distance of a curve's points, in ms: a round one."""
    return next((step for step in STEPS_MS if span_ms <= step * POINTS), span_ms // POINTS + 1)


def fine_step_ms(span_ms: int) -> int:
    """One that every longer span's step is a multiple of: up to a day each divides the next."""
    return min(step_ms(span_ms), DAY_MS)


def curve(parts: Any, end_ms: int) -> list[dict[str, Any]]:
    """``at_ms, offsets, groups``: how many there were at each of up to POINTS moments.

    The first row is just before the first change, the last one is at ``end_ms``. ``parts`` are
    those of ``tables.totals.curve``.
    """
    if not len(parts):
        return []
    first = int(ints(parts["first_ms"]).min())
    step = step_ms(end_ms - first)
    start, code = np.unique(ints(parts["start_ms"]) // step * step, return_inverse=True)
    offsets, groups = (
        np.cumsum(np.bincount(code, ints(parts[name]))).astype(np.int64).tolist()
        for name in ("change", "groups")
    )
    rows = [{"at_ms": first - first % step, "offsets": 0, "groups": 0}]
    rows += [
        {"at_ms": min(at + step, end_ms), "offsets": some, "groups": others}
        for at, some, others in zip(start.tolist(), offsets, groups, strict=True)
    ]
    if rows[-1]["at_ms"] < end_ms:
        rows.append({**rows[-1], "at_ms": end_ms})
    return rows
