"""What a part of a log can't tell of the removals in it: ``analysis.fold.unknown`` for few groups.

A log that begins late lacks what its groups were before; a compacted one lacks records that were
replaced, so that something that is gone may have protected an offset longer than it seems, a static
member may have come back with other topics, and a group may have been converted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kgtool.records import Record
from kgtool.records.types import GROUP_METADATA, GROUP_TYPES, OFFSET_TYPES
from kgtool.retention.doubts import Seen
from kgtool.retention.history import Entry
from kgtool.retention.rules import RuleSet
from kgtool.retention.writes import Removal

AGAIN_MS = 1_000
"""The first record of a generation comes so soon after the state that it is in."""
_NEVER = 1 << 63


class Own(NamedTuple):
    """Of a group's own records, also of those that no removal needs."""

    last: int = -1
    """The log offset of the last one."""
    new_ms: int = -_NEVER
    """When the last one was written that is not GroupMetadata."""


class Part(NamedTuple):
    """What of a log partition there is; by default all of it."""

    is_headless: bool = False
    """Whether the log begins before it."""
    is_complete: bool = True
    """Whether no record is missing since offset 0."""
    seen: Seen = Seen.LOG
    lacks_others: bool = False
    """Whether other groups were left out, whose removals might show another retention."""
    elsewhere: Sequence[Removal] = ()
    """The removals in all other log partitions, each judged alone."""
    own: Mapping[str, Own] = {}
    older_until_ms: int | None = None
    """Until when brokers with other rules are known to have written it."""


WHOLE = Part()


class _Group:
    """A group's own records."""

    def __init__(self) -> None:
        self.told: int | None = None
        """The log offset of the first record that tells its whole state."""
        self.born: int | None = None
        """That of its first tombstone: later lives are here whole."""
        self.first_ms: int | None = None
        """When its first GroupMetadata was written, ..."""
        self.last_ms: int | None = None
        """... and its last."""
        self.again: list[tuple[int, bool]] = []
        """From which log offset on its topics may be others than the records say, or not."""
        self.is_again = False
        """Of the first record of the generation that is here."""
        self.generation: int | None = None
        self.has_members = False
        self.own = Own()


class Unknown:
    """What is unknown of a partition's removals."""

    def __init__(self, entries: Iterable[Entry], rules: RuleSet, part: Part) -> None:
        self._rules, self._part = rules, part
        self._groups: dict[str, _Group] = {}
        epoch: int | None = None
        if part.is_complete:
            return
        for entry in entries:
            epoch = entry.leader_epoch if epoch is None else epoch
            if entry.leader_epoch > epoch:
                epoch = entry.leader_epoch
                for group in self._groups.values():
                    group.again.append((entry.offset, False))
            if isinstance(entry.record, Record):
                group = self._groups.setdefault(entry.record.key.group, _Group())
                self._take(group, entry, entry.record)

    def _take(self, group: _Group, entry: Entry, record: Record) -> None:
        value, offset = record.value, entry.offset
        if record.type in OFFSET_TYPES:
            return
        ends = value is None and record.type in GROUP_TYPES
        if record.type == GROUP_METADATA or (ends and self._rules.new_coordinator):
            group.told = offset if group.told is None else group.told
        if ends:
            group.born = offset if group.born is None else group.born
        if record.type == GROUP_METADATA:
            self._metadata(group, entry, value)
        else:
            group.own = group.own._replace(new_ms=max(group.own.new_ms, entry.timestamp_ms))
        group.own = group.own._replace(last=offset)

    @staticmethod
    def _metadata(group: _Group, entry: Entry, value: object) -> None:
        at_ms = entry.timestamp_ms
        group.first_ms = at_ms if group.first_ms is None else min(group.first_ms, at_ms)
        group.last_ms = at_ms if group.last_ms is None else max(group.last_ms, at_ms)
        members = getattr(value, "members", ())
        generation = getattr(value, "generation", None)
        goes_on = generation == group.generation and group.has_members and bool(members)
        if not goes_on:
            since_ms = max(getattr(value, "current_state_timestamp", 0), 0)
            is_static = any(member.group_instance_id is not None for member in members)
            group.is_again = is_static and at_ms - since_ms > AGAIN_MS
        group.again.append((entry.offset, group.is_again))
        group.generation, group.has_members = generation, bool(members)

    def topics(self, name: str, offset: int) -> bool:
        """Whether the topics that a group subscribed to just before that place are unknown."""
        reads = self._rules.reads_subscriptions and not self._rules.fixed_at_commit
        found = [again for at, again in self._of(name).again if at < offset]
        return bool(found and found[-1] and reads)

    def before(self, name: str, offset: int) -> bool:
        """Whether the group's state just before that place is unknown."""
        told = self._of(name).told
        return told is None or offset <= told

    def contents(self, name: str, offset: int) -> bool:
        """Whether the group may have had more offsets before that place than are here."""
        born = self._of(name).born
        return born is None or offset <= born

    def date(self, name: str, at_ms: int | None) -> bool:
        """Whether a date may have been later: until a record, something else was protecting."""
        group = self._of(name)
        until = max(group.own.new_ms, self._part.own.get(name, group.own).new_ms)
        until = until if group.first_ms is None else max(until, group.first_ms)
        if group.last_ms is not None and any(again for _, again in group.again):
            until = max(until, group.last_ms)
        return at_ms is not None and at_ms <= until

    def goes_on(self, name: str, offset: int) -> bool:
        """Whether a later record of the group may hide that it was converted."""
        last = max(self._of(name).own.last, self._part.own.get(name, Own()).last)
        return self._rules.new_coordinator and last > offset

    def _of(self, name: str) -> _Group:
        return self._groups.get(name) or _Group()
