"""Logs of real brokers, 2.0.1, 3.9.1 (old coordinator) and 4.3.1: tests/data/retention-truth.

Each run: a broker with ``offsets.retention.minutes=1`` and a check interval of 5 s loaded
hand-made records (restart_ms), then served real clients for four minutes (until stop_ms).
``records.jsonl`` has every record with an independent decoder's reading of it, and
``tombstones.jsonl`` each tombstone of the broker with its cause and the moment it was due.
"""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).parents[1] / "data"
RETENTION_MS = 60_000
INTERVAL_MS = 5_000
RULES = {"2.0.1": "pre-2.1", "3.9.1-old": "2.4", "4.3.1": "4.1"}
"""The recorded runs, and the rule set that each broker follows."""


class Truth(NamedTuple):
    """One recorded run."""

    records: list[dict[str, Any]]
    tombstones: list[dict[str, Any]]
    restart_ms: int
    stop_ms: int


@cache
def truth(run: str) -> Truth:
    folder = DATA / "retention-truth" / run
    return Truth(
        _lines(folder / "records.jsonl"),
        _lines(folder / "tombstones.jsonl"),
        int((folder / "restart_ms").read_text()),
        int((folder / "stop_ms").read_text()),
    )


def raw(record: dict[str, Any], what: str) -> bytes | None:
    """The ``key`` or ``value`` of a line of records.jsonl as it was on disk."""
    text = record[what]
    return None if text is None else base64.b64decode(text)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
