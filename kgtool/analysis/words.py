"""Numbers as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgtool.text import DAY_MS as DAY_MS
from kgtool.text import moment, span
from kgtool.text import size as size

_UNITS = (("d", DAY_MS), ("h", 3_600_000), ("m", 60_000), ("s", 1000))


def duration(milliseconds: int | None) -> str:
    """``7d``, ``90s``, ``1500ms``: the largest unit that leaves no rest, as options take it."""
    if milliseconds is None:
        return "-"
    for unit, length in _UNITS:
        if milliseconds and milliseconds % length == 0:
            return f"{milliseconds // length}{unit}"
    return f"{milliseconds}ms"


def about(milliseconds: int | None) -> str:
    """A time span in its two largest units.

    >>> about(250), about(61_000), about(90_000_000), about(-61_000)
    ('250ms', '1m 1s', '1d 1h', '-1m 1s')
    """
    if milliseconds is None:
        return "-"
    if milliseconds < 0:
        return f"-{about(-milliseconds)}"
    return span(milliseconds) if milliseconds >= 1000 else f"{milliseconds}ms"


def when(milliseconds: int | None) -> str:
    """A moment in UTC, to the second; the number itself where no calendar reaches."""
    return "-" if milliseconds is None else moment(milliseconds)


def rules_over_time(summary: Mapping[str, Any]) -> str:
    """The rules of a summary, and since when each held."""
    first, *others = summary["rules_were"] or [summary]
    later = [f", {each['rules']} from {when(each['from_ms'])}" for each in others]
    return str(first["rules"]) + "".join(later)


def count(number: int, what: str) -> str:
    """``1 group``, ``1,234 groups``."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")
