"""The targets of a reset: records and pure functions.

A *strategy* finds new offsets; ``target`` applies it to one partition and clamps the result to the
log, as ``ConsumerGroupCommand.checkOffsetsRange`` does (and reports that). Unlike Kafka's tool,
``to-current`` leaves partitions alone that have no committed offset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from kgtool.errors import UsageError
from kgtool.model import CommittedOffset, GroupDescription, ItemError, TopicPartition, TopicSpec
from kgtool.queries.offsets.list_offsets import LogRange
from kgtool.timespec import time_ms

STRATEGIES = (
    "to-earliest",
    "to-latest",
    "to-current",
    "to-offset",
    "shift-by",
    "to-datetime",
    "from-file",
    "like",
)


class Strategy(NamedTuple):
    """How new offsets are found: one of ``STRATEGIES`` and its argument.

    ``number`` is the offset, the (signed) shift, or the time in ms since the epoch; ``offsets``
    are those of a file, by group; ``like`` is the group whose offsets are copied.
    """

    kind: str
    number: int = 0
    offsets: Mapping[str, Mapping[TopicPartition, int]] = {}
    like: str = ""

    @classmethod
    def parse(cls, text: str, now_ms: int) -> Strategy:
        """Read a target that a person types: ``earliest``, ``latest``, ``1200``, ``+10``, ``-10``
        or a time.

        :raises UsageError: it is none of these.
        """
        if text in ("earliest", "latest"):
            return cls(f"to-{text}")
        if re.fullmatch(r"[+-]\d{1,18}", text, re.ASCII):
            return cls("shift-by", int(text))
        if re.fullmatch(r"\d{1,12}", text, re.ASCII):
            return cls("to-offset", int(text))
        try:
            is_time = text[:3] == "now" or text[:1].isdigit()
            return cls("to-datetime", time_ms(text if is_time else "", now_ms))
        except UsageError:
            raise UsageError(
                f"{text or 'Nothing'} is no target: earliest, latest, an offset, +N, -N, "
                "2026-11-25T08:00 or now-2h."
            ) from None

    @property
    def timestamp_ms(self) -> int | None:
        """The time to look up in the logs; None where none is looked up.

        Nor is a time before 1970: negative timestamps have other meanings on the wire.
        """
        return self.number if self.kind == "to-datetime" and self.number >= 0 else None


class ResetRequest(NamedTuple):
    """The scope of a reset. ``topics`` None: every partition with a committed offset.

    :param can_create: missing groups may be created.
    :param force: partitions with a pending transaction too.
    """

    groups: tuple[str, ...]
    strategy: Strategy
    topics: tuple[TopicSpec, ...] | None = None
    can_create: bool = False
    force: bool = False


class ResetTarget(NamedTuple):
    """The new position of a partition.

    ``leader_epoch`` None: not searched yet where ``needs_epoch``, else unknown to the broker.
    ``clamp``: a target outside of the log was moved to its ``start`` or ``end``; ``late``: a time
    after the last record, which leads to the end.
    """

    offset: int
    leader_epoch: int | None = None
    needs_epoch: bool = False
    clamp: str | None = None


class ResetRow(NamedTuple):
    """One partition of one group: its current and its new offset.

    ``status``: ``would-reset``, ``reset``, ``no-commit`` (no offset to start from, so it is left
    alone, which counts as done), ``skipped`` (because others failed and all or nothing was asked
    for) or ``failed``. ``partition`` is None where a topic named without partitions does not exist.
    ``asked`` is the offset before it was clamped to the log.
    """

    group: str
    topic: str
    partition: int | None
    old: CommittedOffset | None = None
    new: CommittedOffset | None = None
    log: LogRange | None = None
    asked: int | None = None
    clamp: str | None = None
    status: str = "would-reset"
    error: ItemError | None = None
    needs_epoch: bool = False
    """The new leader epoch has yet to be searched."""

    @property
    def at(self) -> TopicPartition:
        """The partition; not for a row without one."""
        if self.partition is None:
            raise ValueError(f"{self.topic} has no partitions")
        return TopicPartition(self.topic, self.partition)

    @property
    def is_open(self) -> bool:
        """Whether it is still to be done."""
        return self.status == "would-reset"

    @property
    def old_offset(self) -> int | None:
        """The committed offset, None where there is none."""
        return self.old.offset if self.old else None

    @property
    def new_offset(self) -> int | None:
        """The offset that is to be committed, None where none is."""
        return self.new.offset if self.new else None

    @property
    def records_replayed(self) -> int | None:
        """How many offsets of the log are read again; None without an old or a new offset."""
        return self._between(self.new_offset, self.old_offset)

    @property
    def records_skipped(self) -> int | None:
        """How many offsets of the log are never read; None without an old or a new offset."""
        return self._between(self.old_offset, self.new_offset)

    def _between(self, low: int | None, high: int | None) -> int | None:
        if low is None or high is None or self.log is None:
            return None
        # Offsets outside of the log can't be read, neither before nor after the reset.
        return max(0, self.log.fit(high) - self.log.fit(low))


class GroupReset(NamedTuple):
    """One group: its rows by topic and partition, or the reason why nothing of it can be done."""

    group: str
    rows: list[ResetRow]
    error: ItemError | None = None
    description: GroupDescription | None = None


def target(
    strategy: Strategy, log: LogRange, committed: CommittedOffset | None, given: int | None = None
) -> tuple[ResetTarget, int | None] | None:
    """Return the target of a partition and the offset asked for; None: no offset to start from.

    :param given: the file's or the other group's offset.
    """
    kind = strategy.kind
    if kind == "to-earliest" or (kind == "to-datetime" and strategy.number < 0):
        return ResetTarget(*log.start), log.start.offset
    if kind == "to-latest":
        return ResetTarget(*log.end), log.end.offset
    if kind == "to-datetime":
        return _at_time(log), None
    current = committed.offset if committed else None
    if kind == "to-current":
        if committed is None or current is None:
            return None
        return ResetTarget(current, committed.leader_epoch), current
    asked = given
    if kind == "to-offset":
        asked = strategy.number
    elif kind == "shift-by":
        asked = None if current is None else current + strategy.number
    return None if asked is None else (clamped(asked, log), asked)


def _at_time(log: LogRange) -> ResetTarget:
    if log.at_time is None:
        return ResetTarget(*log.end, clamp="late")
    # The log may have lost its oldest records since the lookup.
    if log.at_time.offset < log.start.offset:
        return ResetTarget(*log.start, clamp="start")
    return ResetTarget(*log.at_time)


def clamped(offset: int, log: LogRange) -> ResetTarget:
    """Clamp an offset to the log; its leader epoch is known only at the log's ends."""
    if offset <= log.start.offset:
        return ResetTarget(*log.start, clamp="start" if offset < log.start.offset else None)
    if offset >= log.end.offset:
        return ResetTarget(*log.end, clamp="end" if offset > log.end.offset else None)
    first, last = log.start.leader_epoch, log.end.leader_epoch
    if last is None or first == last:
        return ResetTarget(offset, last)
    return ResetTarget(offset, needs_epoch=True)
