"""``--watch``: how fast a partition is written and read, and when its reader has caught up."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Row = Mapping[str, Any]

WINDOW_S = 30.0
"""Rates are those of this long ago until now, so that one slow commit is no alarm."""


class _Look(NamedTuple):
    at: float
    rows: dict[tuple[Any, ...], Row]


class Rates:
    """Remembers some looks, and compares the newest with the oldest of them."""

    def __init__(self, identity: Sequence[str]) -> None:
        self._identity = identity
        self._looks: deque[_Look] = deque()

    def add(self, rows: Sequence[Row], at: float | None = None) -> list[dict[str, Any]]:
        """Take a look at time ``at`` (in s, by default now); return its rows with their rates.

        ``in_per_s`` and ``out_per_s`` are offsets, ``catch_up_ms`` is how long the reader takes to
        the end of the log at these rates; each is None where it is unknown, or would never be.
        """
        at = time.monotonic() if at is None else at
        known = {tuple(row[key] for key in self._identity): row for row in rows}
        while self._looks and at - self._looks[0].at > WINDOW_S and len(self._looks) > 1:
            self._looks.popleft()
        found = [{**row, **self._rates(name, row, at)} for name, row in known.items()]
        self._looks.append(_Look(at, known))
        return found

    def _rates(self, name: tuple[Any, ...], row: Row, at: float) -> dict[str, Any]:
        old = next((look for look in self._looks if name in look.rows), None)
        if old is None or at <= old.at:
            return {"in_per_s": None, "out_per_s": None, "catch_up_ms": None}
        seconds = at - old.at
        came = _per_s(old.rows[name], row, "log_end_offset", seconds)
        went = _per_s(old.rows[name], row, "current_offset", seconds)
        return {"in_per_s": came, "out_per_s": went, "catch_up_ms": _catch_up(row, came, went)}


def _per_s(old: Row, new: Row, key: str, seconds: float) -> float | None:
    was, now = old.get(key), new.get(key)
    return None if was is None or now is None else round((now - was) / seconds, 1)


def _catch_up(row: Row, came: float | None, went: float | None) -> int | None:
    lag = row.get("lag")
    if lag is None or came is None or went is None or (lag > 0 and went <= came):
        return None
    return int(lag / (went - came) * 1000) if lag > 0 else 0
