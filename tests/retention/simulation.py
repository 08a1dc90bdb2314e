"""Plays a broker: which tombstones would follow these records, and when.

Idealised in one point: a check takes no time and comes at every multiple of the interval. A real
broker is up to one interval behind that (the new coordinator drifts by milliseconds a check).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kgtool.records import Record, record_types
from kgtool.retention import rules as r
from kgtool.retention.history import Entry, History, Key
from kgtool.retention.rules import RuleSet, group_leaves_tombstone, group_may_go

_GROUP_RECORD = {r.TYPE_CLASSIC: 2, r.TYPE_CONSUMER: 3, r.TYPE_SHARE: 11, r.TYPE_STREAMS: 17}


class TopicDeleted(NamedTuple):
    """The one cause of removals that is not in ``__consumer_offsets``."""

    timestamp_ms: int
    topic: str


class GroupDeleted(NamedTuple):
    """DeleteGroups on a group that may hold more here than it did when the log was written."""

    timestamp_ms: int
    group: str


class Removed(NamedTuple):
    """One tombstone by the broker; topic and partition are ``None`` for a group's own."""

    at_ms: int
    group: str
    topic: str | None = None
    partition: int | None = None


def simulate(
    events: Iterable[Entry | TopicDeleted | GroupDeleted],
    rules: RuleSet,
    retention_ms: int,
    interval_ms: int,
    end_ms: int,
    start_ms: int = 0,
) -> list[Removed]:
    """Replay ``events`` (in order of time) and add what the broker does until ``end_ms``.

    Checks come one interval after ``start_ms``, then every interval, up to and including
    ``end_ms``; a check sees what has the same timestamp. A KIP-848 group's several tombstones
    count as one. What a GroupDeleted takes along is not among the result: no broker did that.
    """
    broker = _Broker(rules, retention_ms)
    waiting = sorted(events, key=lambda event: event.timestamp_ms)
    for now_ms in range(start_ms + interval_ms, end_ms + 1, interval_ms):
        while waiting and waiting[0].timestamp_ms <= now_ms:
            broker.see(waiting.pop(0))
        broker.check(now_ms)
    return broker.removed


class _Broker:
    def __init__(self, rules: RuleSet, retention_ms: int) -> None:
        self.rules = rules
        self.history = History(rules, retention_ms)
        self.removed: list[Removed] = []

    def see(self, event: Entry | TopicDeleted | GroupDeleted) -> None:
        if isinstance(event, Entry):
            self.history.feed(event)
        elif isinstance(event, GroupDeleted):
            self._delete_group(event)
        else:
            self._delete_topic(event)

    def check(self, now_ms: int) -> None:
        """One run of the expiration task."""
        for group in self.history.group_names():
            keys = sorted(self.history.offsets(group))
            for key in keys:
                live = self.history.live_offset(key)
                at = None if live is None else live.verdict.expires_at_ms
                if at is not None and at <= now_ms:
                    self._remove(now_ms, key)
            self._maybe_remove_group(now_ms, group, offsets_before=bool(keys))

    def _delete_topic(self, event: TopicDeleted) -> None:
        history = self.history
        for group in sorted({live.key.group for live in history.live()} | set(self._pending())):
            keys = set(history.offsets(group))
            if self.rules.tombstone_drops_pending:
                keys.update(history.pending_keys(group))
            for key in sorted(keys):
                if key.topic == event.topic:
                    self._remove(event.timestamp_ms, key)
        # The Scala coordinator's pass over all groups takes every Empty one along, off-tick.
        if not self.rules.new_coordinator:
            for group in history.group_names():
                self._maybe_remove_group(event.timestamp_ms, group, offsets_before=False)

    def _delete_group(self, event: GroupDeleted) -> None:
        keys = set(self.history.offsets(event.group))
        if self.rules.tombstone_drops_pending:
            keys.update(self.history.pending_keys(event.group))
        for key in sorted(keys):
            self._tombstone(event.timestamp_ms, 1, **key._asdict())

    def _pending(self) -> list[str]:
        return [name for name in self.history.group_names() if self.history.is_pending(name)]

    def _remove(self, now_ms: int, key: Key) -> None:
        self.removed.append(Removed(now_ms, *key))
        self._tombstone(now_ms, 1, group=key.group, topic=key.topic, partition=key.partition)

    def _maybe_remove_group(self, now_ms: int, group: str, *, offsets_before: bool) -> None:
        known = self.history.snapshot(group)
        snapshot = known or r.GroupSnapshot()
        goes = group_may_go(
            self.rules,
            snapshot,
            offsets_before=offsets_before,
            offsets_left=bool(self.history.offsets(group)),
            pending=self.history.is_pending(group),
        )
        if goes and group_leaves_tombstone(self.rules, snapshot):
            self.removed.append(Removed(now_ms, group))
            self._tombstone(now_ms, _GROUP_RECORD[snapshot.type], group=group)

    def _tombstone(self, now_ms: int, number: int, **fields: str | int) -> None:
        kind = record_types()[number]
        record = Record(number, kind.name, kind.key(**fields), None, None)
        self.history.feed(Entry(0, -1, now_ms, record))
