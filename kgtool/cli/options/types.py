"""Values of options: names, topics, one of a few words, numbers, times and durations.

``kgtool.timespec`` has the grammar of times. Every refusal is one sentence.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, TypeAlias

import click

from kgtool import timespec
from kgtool.cli.app.suggest import did_you_mean
from kgtool.errors import UsageError
from kgtool.model import TopicSpec

Param: TypeAlias = click.Parameter | None
Ctx: TypeAlias = click.Context | None
# Click's types are generic since 8.2 and 8.4, and not before.


class Name(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A group or topic name: any text that can be sent, which is UTF-8."""

    name = "name"

    def convert(self, value: Any, param: Param, ctx: Ctx) -> str:
        """Refuse bytes that are no UTF-8: no broker knows such a name."""
        text = str(value)
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            self.fail("the name is not valid UTF-8 text.", param, ctx)
        return text


class Pair(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """``KEY=VALUE``, as a pair."""

    name = "key=value"

    def convert(self, value: Any, param: Param, ctx: Ctx) -> tuple[str, str]:
        """Split it. Raises UsageError where there is no key."""
        key, equals, text = str(value).partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--{_option(param)} takes KEY=VALUE, not '{value}'.")
        return key.strip(), text.strip()


class TopicSpecType(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """``topic`` or ``topic:0,1,2``, refused in the words of Kafka's tool."""

    name = "topic[:partitions]"

    def convert(self, value: Any, param: Param, ctx: Ctx) -> TopicSpec:
        """Read the topic and the partitions."""
        return value if isinstance(value, TopicSpec) else parse_topic(str(value))


def parse_topic(text: str) -> TopicSpec:
    """Read ``t`` or ``t:0,1`` as ``ConsumerGroupCommand.parseTopicsWithPartitions`` does.

    >>> parse_topic("orders:1,0,1")
    TopicSpec(topic='orders', partitions=(1, 0))
    """
    topic, colon, rest = text.partition(":")
    if not topic or ":" in rest or (colon and not rest):
        raise UsageError(f"Invalid topic arg '{text}', expected topic name and partitions")
    if not colon:
        return TopicSpec(topic)
    numbers = [_partition(word.strip(), text) for word in (rest.rstrip(",") or rest).split(",")]
    return TopicSpec(topic, tuple(dict.fromkeys(numbers)))


def _partition(word: str, text: str) -> int:
    if not (word.isascii() and word.isdigit() and int(word) < 2**31):
        raise UsageError(f"Invalid partition '{word}' specified in topic arg '{text}''")
    return int(word)


class Named(click.Choice):  # type: ignore[type-arg,unused-ignore]
    """As Click's choice, but a slip of the finger gets the name that was meant.

    :param shown_by: what the names are, where they are too many to be listed in a sentence.
    """

    def __init__(self, choices: Sequence[str], shown_by: str | None = None) -> None:
        super().__init__(choices)
        self._listed = shown_by or ", ".join(choices)

    def convert(self, value: Any, param: Param, ctx: Ctx) -> str:
        """The name. Raises UsageError where it is none of them."""
        if value in self.choices:
            return str(value)
        near = did_you_mean(str(value), map(str, self.choices), 0.4)
        option = param.opts[-1] if param is not None else "this"
        raise UsageError(f"{option} takes {self._listed}, not '{value}'{near or '.'}")


class Number(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A whole number, as Click's range, refused in one sentence."""

    name = "integer"

    def __init__(self, least: int, most: int | None = None) -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: Param, ctx: Ctx) -> int:
        """The number. Raises UsageError where it is none, or out of the range."""
        try:
            number = int(value)
        except ValueError:
            number = self._least - 1
        if number < self._least or (self._most is not None and number > self._most):
            span = f"from {self._least}" + (f" to {self._most:,}" if self._most else " on")
            option = param.opts[-1] if param is not None else "this"
            raise UsageError(f"{option} takes a whole number {span}, not '{value}'.")
        return number


class Rate(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """How many a second: a number, which nan and inf are not; at least one in three hours."""

    name = "float"
    least = 0.0001

    def convert(self, value: Any, param: Param, ctx: Ctx) -> float:
        """The number. Raises UsageError where it is none, or can't be a rate."""
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not self.least <= number < math.inf:
            least = f"a number from {self.least} on"
            raise UsageError(f"--{_option(param)} takes {least}, not '{value}'.")
        return number


def _option(param: click.Parameter | None) -> str:
    """Return the option's long name without dashes."""
    return max(param.opts, key=len).lstrip("-") if param is not None else "time"


class Duration(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A duration, in ms.

    :param bare_ms: what a bare number counts (1000: seconds); None: it is refused.
    """

    name = "duration"

    def __init__(self, least_ms: int = 1, bare_ms: int | None = None) -> None:
        self.least_ms = least_ms
        self.bare_ms = bare_ms

    def convert(self, value: Any, param: Param, ctx: Ctx) -> int:
        """Read it as ``timespec.span_ms`` does."""
        if isinstance(value, int):
            return value
        return timespec.span_ms(
            str(value), _option(param), bare_ms=self.bare_ms, least_ms=self.least_ms
        )


class Moment(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A time, in ms since the epoch."""

    name = "time"

    def convert(self, value: Any, param: Param, ctx: Ctx) -> int:
        """Read it as ``timespec.time_ms`` does."""
        try:
            return timespec.time_ms(str(value), time.time_ns() // 1_000_000)
        except UsageError as error:
            raise UsageError(
                f"--{_option(param)} takes a time such as 2026-11-21T15:00:00Z, now-2h or "
                f"milliseconds since the epoch, not '{value}'."
            ) from error


class Wrote(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """The retention while a log was written: ``7d``, or ``1d@TIME,7d@TIME`` where it changed."""

    name = "wrote"

    def convert(self, value: Any, param: Param, ctx: Ctx) -> tuple[tuple[int, int], ...]:
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
