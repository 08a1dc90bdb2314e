"""The state of a group from its own records, one at a time, in log order.

As coordinators load them: GroupMetadataManager.replay (new coordinator) and
GroupMetadataManager.loadGroupsAndOffsets (Scala).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kgtool.retention import rules as retention
from kgtool.retention.groups import Group, GroupDetail
from kgtool.retention.rules import RuleSet

LOAD = -1
"""The key type of a load, which is no record."""


class GroupEvent(NamedTuple):
    """A commit, which may create the group, one of the group's own records, or a load."""

    timestamp_ms: int
    log_offset: int
    key_type: int | None = None
    """None: a commit."""
    tombstone: bool = False
    detail: GroupDetail = GroupDetail()


class GroupState(NamedTuple):
    """A group from a log offset on; by default one that has only commits."""

    log_offset: int = -1
    entered_ms: int | None = None
    """Since when it exists with this type and state; None: from the start."""
    released: Sequence[tuple[str, int]] = ()
    """(topic, since when only time protects its offsets)."""
    known: bool = True
    type: str = retention.TYPE_CLASSIC
    state: str = retention.STATE_EMPTY
    protocol_type: str = ""
    generation: int | None = None
    state_since_ms: int | None = None
    topics: frozenset[str] | None = frozenset()
    judged_since_ms: int | None = None
    """Since when only time protects the offsets of all other topics."""
    dated_before_ms: int | None = None
    """The date that all offsets shared, ..."""
    dated_until_ms: int | None = None
    """... and until when."""
    members: int = 0
    by_load: frozenset[str] | None = frozenset()
    """As ``Group.by_load``."""


class GroupLife(Group):
    """Applies the events of one group in log order."""

    def __init__(self, rules: RuleSet) -> None:
        super().__init__(rules)
        self.entered_ms: int | None = None
        self.judged_since_ms: int | None = None
        self.released: dict[str, int] = {}
        self.dated: tuple[int | None, int | None] = (None, None)
        self.last: tuple[Any, ...] | None = None

    def apply(self, event: GroupEvent) -> GroupState | None:
        """Apply an event; return the new state, or None if nothing that decides has changed."""
        before = (self.known, self.type, self.state)
        kept_whole, empty_since = self._keeps_whole(), self._empty_since()
        subscribed = self._subscribed()
        if event.key_type is None:
            self.commit()
        elif event.key_type == LOAD:
            self.load()
        else:
            self.apply_record(event.key_type, event.detail, tombstone=event.tombstone)
        now = event.timestamp_ms
        if before != (self.known, self.type, self.state):
            # A group that a commit created has been empty from the start.
            self.entered_ms = None if event.key_type is None else now
        self._release(kept_whole, subscribed, now)
        self._redate(empty_since, now)
        return self._row(event)

    def _keeps_whole(self) -> bool:
        return retention.keeps_whole(self.rules, self.snapshot())

    def _subscribed(self) -> frozenset[str]:
        """The topics that members subscribe to."""
        return (self.topics or frozenset()) if self.known and self.member_count else frozenset()

    def _release(self, kept_whole: bool, subscribed: frozenset[str], now: int) -> None:
        """Update since when only time protects offsets."""
        if self._keeps_whole():
            return
        if kept_whole:
            self.released = {}
            # A new group had no offsets to protect before.
            self.judged_since_ms = None if self.last is None else now
            return
        now_subscribed = self._subscribed()
        for topic in subscribed - now_subscribed:
            self.released[topic] = now
        for topic in now_subscribed & self.released.keys():
            del self.released[topic]

    def _empty_since(self) -> int | None:
        """The date that all offsets of an Empty classic group share."""
        shares = self.known and self.type == retention.TYPE_CLASSIC and self.protocol_type
        return self.state_since_ms if shares and not self.member_count else None

    def _redate(self, before: int | None, now: int) -> None:
        """Update when offsets lost a shared date that was later than the one now."""
        after = self._empty_since()
        if before is not None and after is None:
            self.dated = (before, now)
        elif before is not None and after is not None and after < before:
            self.dated = (retention.MAX_TIMESTAMP_MS, now)

    def _row(self, event: GroupEvent) -> GroupState | None:
        last = (
            self.known,
            self.type,
            self.state,
            self.protocol_type,
            self.generation,
            self.state_since_ms,
            self.topics,
            self.judged_since_ms,
            *self.dated,
            self.member_count,
            self.by_load,
        )
        if last == self.last and not event.tombstone:
            return None
        self.last = last
        return GroupState(event.log_offset, self.entered_ms, list(self.released.items()), *last)
