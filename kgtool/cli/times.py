"""Times and time spans as options take them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from kgtool.errors import UsageError

if TYPE_CHECKING:  # generic since Click 8.4
    _Number = click.ParamType[int]
else:
    _Number = click.ParamType

LONGEST_MS = 2**53
"""More than 280,000 years; a sum with any timestamp still is an int64."""
_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


def span_ms(text: str, option: str, least_ms: int = 1) -> int:
    """Read a whole number with its unit, ``7d``, ``12h``, ``10m``, ``60s``, ``500ms``.

    :raises UsageError: it is none, or shorter than ``least_ms``.
    """
    match = re.fullmatch(r"(\d{1,15})(d|h|m|s|ms)", text.strip())
    if match is None:
        raise UsageError(
            f"--{option} takes a number with a unit, such as 7d, 12h, 10m, 60s or 500ms, "
            f"not '{text}'."
        )
    span = min(int(match[1]) * _UNITS[match[2]], LONGEST_MS)
    if span < least_ms:
        raise UsageError(f"--{option} {text}: it must be longer than 0.")
    return span


class Duration(_Number):
    """A time span, in ms."""

    name = "duration"

    def __init__(self, least_ms: int = 1) -> None:
        self.least_ms = least_ms

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the number and the unit."""
        if isinstance(value, int):
            return value
        option = param.name.replace("_", "-") if param and param.name else "retention"
        return span_ms(str(value), option, self.least_ms)


class Moment(_Number):
    """A time: milliseconds since the epoch, or ISO 8601 (UTC unless it says otherwise)."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the time."""
        from datetime import datetime, timezone

        text = str(value).strip()
        if re.fullmatch(r"\d{1,18}", text):
            return int(text)
        try:
            moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
        except ValueError:
            raise UsageError(
                f"--as-of takes a time such as 2026-11-21T15:00:00Z, or milliseconds since the "
                f"epoch, not '{value}'."
            ) from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        return round(moment.timestamp() * 1000)
