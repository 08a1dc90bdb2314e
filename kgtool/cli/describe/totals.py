"""``--totals``: sums per group and topic, per group, over all groups; ``--by``: one row each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kgtool.columns import Row


def totals(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Sum up rows of offsets; ``topic`` is None in a group's sum, ``group`` too in that of all.

    A commit beyond the end has a negative lag, which takes nothing away from the others'. Where
    the lag is not known (no commit, no leader) a partition counts as ``unknown``.

    >>> rows = [{"group": "g", "topic": "t", "lag": 5, "lag_ms": None},
    ...         {"group": "g", "topic": "t", "lag": None, "lag_ms": None}]
    >>> totals(rows)[0]["lag"], totals(rows)[0]["unknown"]
    (5, 1)
    """
    groups: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        groups.setdefault(row["group"], {}).setdefault(row["topic"], []).append(row)
    found = []
    for group, topics in groups.items():
        found += [_sum(group, topic, topics[topic]) for topic in sorted(topics)]
        if len(topics) > 1:
            found.append(_sum(group, None, [row for part in topics.values() for row in part]))
    if len(groups) > 1:
        found.append(_sum(None, None, rows))
    return found


def summed(rows: Sequence[Row], key: str) -> list[dict[str, Any]]:
    """Sum up rows of offsets by ``group`` or ``topic``; the lags as in ``totals``.

    >>> rows = [{"group": "g", "topic": "t", "lag": 5, "lag_ms": None},
    ...         {"group": "g", "topic": "u", "lag": 2, "lag_ms": 9}]
    >>> summed(rows, "group")
    [{'group': 'g', 'partitions': 2, 'lag': 7, 'max_lag': 5, 'lag_ms': 9}]
    """
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(row[key], []).append(row)
    found = []
    for name, some in parts.items():
        lags, ages = _lags(some)
        found.append(
            {
                key: name,
                "partitions": len(some),
                "lag": sum(lags),
                "max_lag": max(lags, default=None),
                "lag_ms": max(ages, default=None),
            }
        )
    return found


def _lags(rows: Sequence[Row]) -> tuple[list[int], list[int]]:
    """Return the known lags, none below 0, and the known ages."""
    lags = [max(row["lag"], 0) for row in rows if row["lag"] is not None]
    return lags, [row["lag_ms"] for row in rows if row["lag_ms"] is not None]


def _sum(group: str | None, topic: str | None, rows: Sequence[Row]) -> dict[str, Any]:
    lags, ages = _lags(rows)
    return {
        "group": group,
        "topic": topic,
        "partitions": len(rows),
        "lagging": sum(lag > 0 for lag in lags),
        "unknown": len(rows) - len(lags),
        "lag": sum(lags),
        "lag_ms": max(ages, default=None),
    }
