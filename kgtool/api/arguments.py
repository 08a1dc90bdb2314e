"""Conversion of ``GroupAdmin`` 's arguments for the operations of ``queries`` and ``changes``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from kgtool.changes.reset.targets import GroupReset, ResetRow, Strategy
from kgtool.errors import UsageError
from kgtool.model import CommittedOffset, ItemError, Target, TopicPartition, TopicSpec

Topics: TypeAlias = "Iterable[str | TopicPartition | TopicSpec]"
"""Topics by name, single partitions, or topics with some of their partitions."""
Goal: TypeAlias = "str | int | datetime"
"""``"earliest"``, ``"latest"``, ``"current"``, an offset, or a time (with a time zone)."""


def names(given: Iterable[str], argument: str = "groups") -> list[str]:
    """Return the names that an argument takes, of groups for instance, each once.

    :raises UsageError: it is one name, whose letters would be taken for names, or holds others.
    """
    if isinstance(given, str):
        kind = argument.replace("_", " ")
        raise UsageError(f"{argument} takes several {kind}: ['{given}'], not '{given}'.")
    found = list(dict.fromkeys(given))
    for name in found:
        if not isinstance(name, str):
            raise UsageError(f"{argument} takes strings, not {name!r}.")
    return found


def specs(topics: Topics) -> list[TopicSpec]:
    """Return topics and partitions as operations take them."""
    if isinstance(topics, str):
        raise UsageError(f"topics takes several topics: ['{topics}'], not '{topics}'.")
    return [_spec(topic) for topic in topics]


def _spec(topic: str | TopicPartition | TopicSpec) -> TopicSpec:
    if isinstance(topic, TopicSpec):
        return topic
    if isinstance(topic, TopicPartition):
        return TopicSpec(topic.topic, (topic.partition,))
    if isinstance(topic, str):
        return TopicSpec(topic)
    raise UsageError(f"A topic is a name, a TopicPartition or a TopicSpec, not {topic!r}.")


def number(at: TopicPartition, value: int | CommittedOffset) -> int:
    """Return the offset to commit at a partition.

    :raises UsageError: there is none, or it is negative; ``at`` is something else.
    """
    if not isinstance(at, TopicPartition):
        raise UsageError(f"Offsets are given by TopicPartition, not by {at!r}.")
    offset = value.offset if isinstance(value, CommittedOffset) else value
    return whole("An offset", offset)


def whole(name: str, value: Any, *, may_be_negative: bool = False) -> int:
    """Return a whole number (UsageError)."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if is_whole and (may_be_negative or value >= 0):
        return int(value)
    least = "" if may_be_negative else " from 0 on"
    raise UsageError(f"{name} is a whole number{least}, not {value!r}.")


_WORDS = ("earliest", "latest", "current")


def strategy(to: Goal | None, shift_by: int | None, like: str | None) -> Strategy:
    """Return how new offsets are found.

    :raises UsageError: not exactly one of the three was given, or ``to`` is something else.
    """
    if sum(value is not None for value in (to, shift_by, like)) != 1:
        raise UsageError("Give one of to, shift_by and like.")
    if shift_by is not None:
        return Strategy("shift-by", whole("shift_by", shift_by, may_be_negative=True))
    if like is not None:
        return Strategy("like", like=like)
    if isinstance(to, str) and to in _WORDS:
        return Strategy(f"to-{to}")
    if isinstance(to, datetime):
        if to.tzinfo is None:
            raise UsageError("A time needs a time zone: datetime(…, tzinfo=timezone.utc).")
        return Strategy("to-datetime", int(to.timestamp() * 1000))
    if isinstance(to, int) and not isinstance(to, bool):
        return Strategy("to-offset", to)
    raise UsageError(f"to takes {', '.join(_WORDS)}, an offset or a datetime, not {to!r}.")


def exact(
    plan: Sequence[GroupReset], offsets: Mapping[TopicPartition, int | CommittedOffset]
) -> list[GroupReset]:
    """Fail what had to be clamped to the log; commits keep their own epoch and metadata."""
    return [
        group._replace(rows=[_exact(row, offsets.get(row.at)) for row in group.rows])
        for group in plan
    ]


def _exact(row: ResetRow, asked: int | CommittedOffset | None) -> ResetRow:
    if row.status != "would-reset" or row.partition is None:
        return row
    if row.clamp is not None and row.log is not None:
        said = (
            f"The offset {row.asked} is outside of the log of {row.at}, which has "
            f"{row.log.start.offset} to {row.log.end.offset}."
        )
        error = ItemError(Target(row.group, *row.at), None, "OUT_OF_RANGE", said)
        return row._replace(status="failed", error=error, new=None)
    return row._replace(new=asked) if isinstance(asked, CommittedOffset) else row
