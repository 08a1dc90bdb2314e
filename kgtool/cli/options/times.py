"""Times and durations as types of options; ``offsetspec`` has the grammar."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from kgtool import timespec
from kgtool.errors import UsageError

if TYPE_CHECKING:  # generic since Click 8.4
    _Number = click.ParamType[int]
    _Phases = click.ParamType[tuple[tuple[int, int], ...]]
else:
    _Number = _Phases = click.ParamType


def _option(param: click.Parameter | None) -> str:
    """Return the option's long name without dashes."""
    return max(param.opts, key=len).lstrip("-") if param is not None else "time"


class Duration(_Number):
    """A duration, in ms.

    :param bare_ms: what a bare number counts (1000: seconds); None: it is refused.
    """

    name = "duration"

    def __init__(self, least_ms: int = 1, bare_ms: int | None = None) -> None:
        self.least_ms = least_ms
        self.bare_ms = bare_ms

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it as ``offsetspec.span_ms`` does."""
        if isinstance(value, int):
            return value
        return timespec.span_ms(
            str(value), _option(param), bare_ms=self.bare_ms, least_ms=self.least_ms
        )


class Moment(_Number):
    """A time, in ms since the epoch."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it as ``offsetspec.time_ms`` does."""
        try:
            return timespec.time_ms(str(value), time.time_ns() // 1_000_000)
        except UsageError as error:
            raise UsageError(
                f"--{_option(param)} takes a time such as 2026-11-21T15:00:00Z, now-2h or "
                f"milliseconds since the epoch, not '{value}'."
            ) from error


class Wrote(_Phases):
    """The retention while a log was written: ``7d``, or ``1d@TIME,7d@TIME`` where it changed."""

    name = "wrote"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[int, int], ...]:
        """Read it: from when on (ms since the epoch) which retention (ms), in that order."""
        if isinstance(value, tuple):
            return value
        option, phases = _option(param), []
        for part in str(value).split(","):
            span, at, since = part.partition("@")
            start = Moment().convert(since, param, ctx) if at else -(2**62)
            phases.append((start, timespec.span_ms(span, option)))
        if [start for start, _ in phases] != sorted({start for start, _ in phases}):
            raise UsageError(
                f"--{option} takes a duration such as 7d, or several, each with the time from "
                f"which it applied, earliest first: 1d@2026-01-01,7d@2026-03-01; not '{value}'."
            )
        return tuple(phases)
