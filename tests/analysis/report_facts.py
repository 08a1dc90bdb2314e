"""What a report may have to show, made by hand: sixty days, and names that nobody would choose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from kgtool.analysis import schema
from kgtool.analysis.report import blocks
from kgtool.analysis.report.facts import column, table

DAY_MS = 86_400_000
NOW_MS = 1_795_219_200_000
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"
LONG = "g" * 255
NAMES = [HOSTILE, LONG, "größe & co", "a\u202eb", "=1+1", "billing", "orders", "console-consumer-*"]

SHOWN = [name.replace("\u202e", "\\u202e") for name in NAMES]
"""What turns the text around it is spelled out."""


def groups() -> list[list[Any]]:
    """Names, and many that nobody will page through."""
    rows = [
        [
            name,
            name,
            "classic",
            "Empty" if at % 2 else "Stable",
            at,
            1000 * at,
            NOW_MS - at * DAY_MS,
            at * 7,
            None if at == 3 else NOW_MS + at * DAY_MS,
            123 * at,
        ]
        for at, name in enumerate(NAMES)
    ]
    rows += [
        [f"group-{at}", "group-*", "consumer", "Stable", 1, at, NOW_MS, 1, None, 100]
        for at in range(MANY)
    ]
    return rows


def live() -> list[list[Any]]:
    return [
        [name, "topic", at, 2**62 if at == 1 else 10**at, at % 2 == 0, "commit", NOW_MS + at]
        for at, name in enumerate(NAMES)
    ]


MANY = 12_000
COLUMNS = {
    "groups": [
        "group",
        "family",
        "group_type",
        "group_state",
        "members",
        "commits",
        "last_seen_ms",
        "live_offsets",
        "next_expiry_ms",
        "bytes",
    ],
    "live": ["group", "topic", "partition", "offset", "subscribed", "rule", "expires_at_ms"],
    "losses": ["group", "offset"],
}
ROWS = {"groups": groups(), "live": live(), "losses": []}
TOTALS = {"groups": 12_345, "live": len(NAMES), "losses": 0}


def rows(name: str) -> Iterator[bytes]:
    """As ``facts.rows`` returns them."""
    names = COLUMNS[name]
    kinds = pa.schema([schema.TABLES[name].arrow().field(each) for each in names])
    found = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in ROWS[name]], kinds)
    return blocks.blocks(names, [found])


def days(retention: int) -> list[dict[str, int]]:
    return [
        {"day_ms": NOW_MS + (day - 60) * DAY_MS, "live_offsets": min(day, retention) * 40 + 100}
        for day in range(60)
    ]


def data() -> dict[str, Any]:
    """As ``facts.collect`` returns it."""
    hours = [NOW_MS / 1000 - 3600 * (400 - hour) for hour in range(400)]
    whatif = [
        {
            "name": name,
            "is_basis": retention == 7,
            "days": days(retention),
            "cells": [
                "4.1",
                retention * DAY_MS,
                600_000,
                9000 // retention,
                70 // retention,
                12,
                400 * retention,
                40,
                33,
            ],
        }
        for name, retention in (("7d (as it was)", 7), ("3d", 3), ("30d", 30))
    ]
    names = (
        "rules",
        "retention_ms",
        "check_interval_ms",
        "removed_offsets",
        "missed_offsets",
        "removed_groups",
        "live_offsets",
        "live_groups",
        "next_offsets",
    )
    return {
        "cluster_id": "q40DS-_XRlyDdWH1nhdT2g<b>",
        "as_of_ms": NOW_MS,
        "bucket_ms": 3_600_000,
        "untold": [],
        "summary": {
            "rules": "4.1",
            "rules_were": [],
            "retention_ms": 7 * DAY_MS,
            "check_interval_ms": 600_000,
            "live_groups": 318,
            "live_offsets": 2_494,
            "due_now": 3,
            "next_24h": 40,
            "next_7d": 455,
            "never": 39,
            "untold": 0,
            "overdue": 5,
            "removals": [
                {
                    "cause": "expired",
                    "of_offset": True,
                    "removals": 8_400,
                    "max_latency_ms": 612_000,
                }
            ],
            "quality": {"files": 50, "bytes": 367_200_000, "records": 3_204_112, "skipped": 7},
        },
        "growth": [hours, [100 + at * 6 for at in range(400)], [40 + at // 2 for at in range(400)]],
        "days": [
            {"day": day, "offsets": (day * 37) % 90, "groups": day % 9} for day in range(1, 31)
        ],
        "families": [
            {
                "family": name,
                "groups": 1 + at * 20,
                "live_groups": 1,
                "commits": 9,
                "live_offsets": 2000 // (at + 1),
                "bytes": 5,
                "last_seen_ms": NOW_MS,
            }
            for at, name in enumerate(NAMES)
        ],
        "whatif": whatif,
        "scenario_columns": [column(name) for name in names],
        "metrics": [
            hours,
            [(at * 31) % 500 for at in range(400)],
            [at % 17 for at in range(400)],
            [0] * 400,
            [at % 3 for at in range(400)],
        ],
        "tables": [table(name, TOTALS[name], columns) for name, columns in COLUMNS.items()],
    }
