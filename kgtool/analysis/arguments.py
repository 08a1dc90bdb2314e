"""What programs pass as options: durations, times, rule sets."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from kgtool import timespec
from kgtool.analysis.input.broker_settings import BEGINNING
from kgtool.errors import UsageError
from kgtool.retention.phases import RulePhases, is_over_time, rule_phases
from kgtool.retention.rules import RULE_SETS

Span = str | int | timedelta
"""A duration: ``3d``, ms, or a timedelta."""
Moment = str | int | datetime


def several(value: Any) -> Sequence[Any]:
    """One value as a list of one."""
    return [value] if isinstance(value, str | int | timedelta) else value


def check_rules(rules: str | Sequence[str]) -> list[str | RulePhases]:
    """Names of rule sets, and generations over time (UsageError)."""
    found: list[str | RulePhases] = []
    for name in several(rules):
        if is_over_time(name):
            found.append(rule_phases(name, time.time_ns() // 1_000_000))
        elif name in ("auto", *RULE_SETS):
            found.append(name)
        else:
            raise UsageError(f"rules={name!r}: there are auto, {', '.join(RULE_SETS)}.")
    return found


def as_span(name: str, value: Span) -> int:
    """A duration in ms (UsageError)."""
    ms = value // timedelta(milliseconds=1) if isinstance(value, timedelta) else value
    text = f"{ms}ms" if isinstance(ms, int) else str(ms)
    try:
        return timespec.span_ms(text, name)
    except UsageError:
        raise UsageError(
            f"{name}={value!r}: a duration is 30s, 1d12h, ms, or a timedelta, and longer than 0."
        ) from None


def as_moment(name: str, value: Moment) -> int:
    """A time in ms since the epoch (UsageError)."""
    if isinstance(value, datetime):
        value = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return int(value.timestamp() * 1000)
    try:
        return timespec.time_ms(str(value), time.time_ns() // 1_000_000)
    except UsageError:
        raise UsageError(
            f"{name}={value!r}: a time is 2026-11-21T15:00:00Z, now-2h, ms since the epoch, or a "
            "datetime."
        ) from None


def as_wrote(wrote: Span | Mapping[Moment, Span] | None) -> tuple[tuple[int, int], ...]:
    """The retentions that brokers had, as ``broker_settings.RetentionPhases`` (UsageError)."""
    if wrote is None:
        return ()
    if not isinstance(wrote, Mapping):
        return ((BEGINNING, as_span("wrote", wrote)),)
    phases = [(as_moment("wrote", at), as_span("wrote", span)) for at, span in wrote.items()]
    return tuple(sorted(phases))
