"""``--totals``: sums per group and topic, per group, over all groups; ``--by``: one row each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kgtool import columns
from kgtool.client.ops import grouped
from kgtool.columns import Row, groups


def totals(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Sum up rows of offsets; ``topic`` is None in a group's sum, ``group`` too in the sum of all.

    A negative lag (a commit beyond the end) counts as 0. A partition whose lag is not known (no
    commit, no leader) counts as ``unknown``.

    >>> rows = [{"group": "g", "topic": "t", "lag": 5, "lag_ms": None},
    ...         {"group": "g", "topic": "t", "lag": None, "lag_ms": None}]
    >>> totals(rows)[0]["lag"], totals(rows)[0]["unknown"]
    (5, 1)
    """
    by_group: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        by_group.setdefault(row["group"], {}).setdefault(row["topic"], []).append(row)
    found = []
    for group, topics in by_group.items():
        found += [sum_of(topics[topic], group=group, topic=topic) for topic in sorted(topics)]
        if len(topics) > 1:
            every = [row for part in topics.values() for row in part]
            found.append(sum_of(every, group=group, topic=None))
    if len(by_group) > 1:
        found.append(sum_of(rows, group=None, topic=None))
    return [columns.pick(row, groups.TOTALS) for row in found]


def sum_by_topic(rows: Sequence[Row], sizes: Mapping[str, int]) -> list[Row]:
    """Sum up rows of offsets by topic, over all groups. A topic's partitions count once.

    :param sizes: how many partitions topics have; where that is unknown, those of the rows count.

    >>> rows = [{"group": "g", "topic": "t", "partition": 0, "lag": 5, "lag_ms": None},
    ...         {"group": "h", "topic": "t", "partition": 0, "lag": 2, "lag_ms": 9}]
    >>> sum_by_topic(rows, {})
    [{'topic': 't', 'partitions': 1, 'lag': 7, 'max_lag': 5, 'lag_ms': 9}]
    """
    found: list[Row] = []
    for topic, part in grouped((row["topic"], row) for row in rows).items():
        count = sizes.get(topic) or len({row["partition"] for row in part})
        sums = sum_of(part, topic=topic) | {"partitions": count}
        found.append(columns.pick(sums, groups.BY_TOPIC))
    return found


def sum_of(rows: Sequence[Row], **about: Any) -> dict[str, Any]:
    """Sum up the known lags, none below 0, and the known ages."""
    lags = [max(row["lag"], 0) for row in rows if row["lag"] is not None]
    ages = [row["lag_ms"] for row in rows if row["lag_ms"] is not None]
    lost = [row["lost_at_ms"] for row in rows if row.get("lost_at_ms") is not None]
    return {
        **about,
        "partitions": len(rows),
        "lagging": sum(lag > 0 for lag in lags),
        "unknown": len(rows) - len(lags),
        "lag": sum(lags),
        "max_lag": max(lags, default=None),
        "lag_ms": max(ages, default=None),
        "lost_at_ms": min(lost, default=None),
    }
