"""Values of options: names, topics, one of a few words, numbers, times and durations.

``kgtool.timespec`` has the grammar of times. Every refusal is one sentence.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import click

from kgtool import timespec
from kgtool.cli.app.nearest import did_you_mean
from kgtool.errors import UsageError
from kgtool.json_rows import LONGEST_NAME
from kgtool.model import TopicSpec

Param: TypeAlias = click.Parameter | None
Ctx: TypeAlias = click.Context | None
# Click's types are generic since 8.2 and 8.4, and not before.


class Name(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A group or topic name: any text that is valid UTF-8."""

    name = "name"

    def convert(self, value: Any, param: Param, ctx: Ctx) -> str:
        """Refuse bytes that are not UTF-8."""
        text = str(value)
        try:
            size = len(text.encode("utf-8"))
        except UnicodeEncodeError:
            self.fail("the name is not valid UTF-8 text.", param, ctx)
        if size > LONGEST_NAME:
            self.fail(f"the name is longer than {LONGEST_NAME:,} bytes.", param, ctx)
        return text


class Parsed(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A value parsed by a function of its text and the option's name without dashes."""

    def __init__(self, name: str, read: Callable[[str, str], Any]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, param: Param, ctx: Ctx) -> Any:
        """Parse the text; a default value of another type stays as it is."""
        if not isinstance(value, str):
            return value
        return self._read(value, max(param.opts, key=len).lstrip("-") if param else self.name)


def _pair(text: str, option: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--{option} takes KEY=VALUE, not '{text}'.")
    return key.strip(), value.strip()


PAIR = Parsed("key=value", _pair)
"""``KEY=VALUE``, as a pair."""
TOPIC = Parsed("topic[:partitions]", lambda text, _: TopicSpec.parse(text))
"""``topic`` or ``topic:0,1,2``, refused in the words of Kafka's tool."""


class OneOf(click.Choice):  # type: ignore[type-arg,unused-ignore]
    """Click's ``Choice`` that suggests the nearest word for a typo.

    :param shown_by: names the choices in a refusal, if there are too many to list.
    """

    def __init__(self, choices: Sequence[str], shown_by: str | None = None) -> None:
        super().__init__(choices)
        self._listed = shown_by or ", ".join(choices)

    def convert(self, value: Any, param: Param, ctx: Ctx) -> str:
        """Return the value; UsageError if it is not one of the choices."""
        if value in self.choices:
            return str(value)
        near = did_you_mean(str(value), map(str, self.choices), 0.4)
        option = param.opts[-1] if param is not None else "this"
        if option == "--output" and ("/" in str(value) or "." in str(value)):
            near = ": a file is --out FILE, or > FILE."
        raise UsageError(f"{option} takes {self._listed}, not '{value}'{near or '.'}")


class RuleNames(OneOf):
    """A name of rules, or several over time (``retention.phases``)."""

    def convert(self, value: Any, param: Param, ctx: Ctx) -> Any:
        """Return the name or the phases; UsageError for others."""
        from kgtool.retention.phases import is_over_time, rule_phases

        if isinstance(value, str) and is_over_time(value):
            return rule_phases(value, time.time_ns() // 1_000_000)
        return value if isinstance(value, tuple) else super().convert(value, param, ctx)


def number(least: int, most: int | None = None) -> Parsed:
    """Return the type of whole numbers of a range."""

    def read(text: str, option: str) -> int:
        try:
            found = int(text)
        except ValueError:
            found = least - 1
        if found < least or (most is not None and found > most):
            span = f"from {least}" + (f" to {most:,}" if most else " on")
            raise UsageError(f"--{option} takes a whole number {span}, not '{text}'.")
        return found

    return Parsed("integer", read)


LEAST_RATE = 0.0001
"""One in three hours."""


def _rate(text: str, option: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not LEAST_RATE <= found < math.inf:
        raise UsageError(f"--{option} takes a number from {LEAST_RATE} on, not '{text}'.")
    return found


RATE = Parsed("float", _rate)
"""A rate per second, without nan and inf."""


def duration(least_ms: int = 1, bare_ms: int | None = None) -> Parsed:
    """Return the type of durations in ms (``timespec.span_ms``)."""
    return Parsed("duration", partial(timespec.span_ms, least_ms=least_ms, bare_ms=bare_ms))


def _moment(text: str, option: str) -> int:
    try:
        return timespec.time_ms(text, time.time_ns() // 1_000_000)
    except UsageError as error:
        raise UsageError(
            f"--{option} takes a time such as 2026-11-21T15:00:00Z, now-2h or "
            f"milliseconds since the epoch, not '{text}'."
        ) from error


MOMENT = Parsed("time", _moment)
"""A time, in ms since the epoch."""


def _wrote(text: str, option: str) -> tuple[tuple[int, int], ...]:
    phases = []
    for part in text.split(","):
        span, at, since = part.partition("@")
        phases.append((_moment(since, option) if at else -(2**62), timespec.span_ms(span, option)))
    if [start for start, _ in phases] != sorted({start for start, _ in phases}):
        raise UsageError(
            f"--{option} takes a duration such as 7d, or several, each with the time from "
            f"which it applied, earliest first: 1d@2026-01-01,7d@2026-03-01; not '{text}'."
        )
    return tuple(phases)


WROTE = Parsed("wrote", _wrote)
"""The retention while a log was written, ``7d``, or ``1d@TIME,7d@TIME`` if it changed: pairs of
start (ms since the epoch) and retention (ms)."""
