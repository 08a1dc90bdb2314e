"""The state of a group from its own records, one at a time, in log order.

As coordinators load them: GroupMetadataManager.replay (new coordinator) and
GroupMetadataManager.loadGroupsAndOffsets (Scala).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from kgtool.records import types
from kgtool.retention import rules as retention
from kgtool.retention.groups import TYPE_OF_RECORD
from kgtool.retention.rules import GroupSnapshot, RuleSet


class GroupEvent(NamedTuple):
    """A commit, which may create the group, or one of the group's own records."""

    timestamp_ms: int
    log_offset: int
    key_type: int | None = None
    """None: a commit."""
    tombstone: bool = False
    detail: Any = None
    """``schema.GROUP_DETAIL``; not needed for a tombstone of the group."""


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
    converted_from: int | None = None
    """Log offset of the tombstone of the same group with another type, ..."""
    converted_at_once: bool | None = None
    """... and whether this one begins in the same write."""
    members: int = 0


class GroupLife:
    """Applies the events of one group in log order."""

    def __init__(self, rules: RuleSet) -> None:
        self.rules = rules
        self.known = False
        self._forget()
        self.entered_ms: int | None = None
        self.judged_since_ms: int | None = None
        self.released: dict[str, int] = {}
        self.dated: tuple[int | None, int | None] = (None, None)
        self.ended: tuple[str, int, int] | None = None
        self.last: tuple[Any, ...] | None = None
        self.converted: tuple[int | None, bool | None] = (None, None)

    def _forget(self, group_type: str = retention.TYPE_CLASSIC) -> None:
        """Become an empty group of that type."""
        self.type = group_type
        self.protocol_type = ""
        self.generation: int | None = None
        self.state_since_ms: int | None = None
        self.members: dict[str, tuple[str, ...]] = {}
        self.member_count = 0
        self.names: Counter[str] = Counter()
        self.resolved: dict[str, tuple[str, ...]] = {}
        self.topics: frozenset[str] | None = frozenset()

    # --- events ---

    def apply(self, event: GroupEvent) -> GroupState | None:
        """Apply an event; return the new state, or None if nothing that decides has changed."""
        before = (self.known, self.type, self.state)
        kept_whole, subscribed, empty_since = (
            self._keeps_whole(),
            self._subscribed(),
            self._empty_since(),
        )
        self.converted = (None, None)
        if event.key_type is None:
            self._commit()
        else:
            self._own_record(event, event.key_type)
        now = event.timestamp_ms
        if before != (self.known, self.type, self.state):
            # A group that a commit created has been empty from the start.
            self.entered_ms = None if event.key_type is None else now
        self._release(kept_whole, subscribed, now)
        self._redate(empty_since, now)
        return self._row(event)

    def _commit(self) -> None:
        if not self.known:
            self._forget()
            self.known, self.ended = True, None

    def _own_record(self, event: GroupEvent, key_type: int) -> None:
        group_type = TYPE_OF_RECORD[key_type]
        if group_type != retention.TYPE_CLASSIC and not self.rules.new_coordinator:
            return  # the Scala coordinator skips the records of KIP-848
        if event.tombstone:
            self._tombstone(event, key_type, group_type)
            return
        if key_type == types.GROUP_METADATA or not self.known or self.type != group_type:
            self._begin(event, group_type)
        self._value(key_type, event.detail)

    def _begin(self, event: GroupEvent, group_type: str) -> None:
        if not self.known and self.ended is not None and self.ended[0] != group_type:
            # All records of one write have one timestamp.
            _, log_offset, at = self.ended
            self.converted = (log_offset, at == event.timestamp_ms)
        self._forget(group_type)
        self.known, self.ended = True, None

    def _tombstone(self, event: GroupEvent, key_type: int, group_type: str) -> None:
        if key_type in types.GROUP_TYPES:
            simple = self.type == retention.TYPE_CLASSIC and not self.protocol_type
            if simple or group_type in (self.type, retention.TYPE_CLASSIC):
                self.ended = (group_type, event.log_offset, event.timestamp_ms)
                self._forget()
                self.known = False
        elif self.known and self.type == group_type:
            member, regex = event.detail["member"], event.detail["regex"]
            if key_type in types.MEMBER_TYPES:
                self._member(member, (), removed=True)
            elif regex is not None:
                self.resolved.pop(regex, None)
                self._resolve()

    def _value(self, key_type: int, detail: dict[str, Any]) -> None:
        topics = detail["topics"]
        if key_type == types.GROUP_METADATA:
            self.protocol_type = detail["protocol_type"] or ""
            self.generation = detail["generation"]
            self.state_since_ms = detail["state_since_ms"]
            self.member_count = detail["members"]
            self.topics = None if topics is None else frozenset(topics)
        elif key_type in types.MEMBER_TYPES:
            self._member(detail["member"], tuple(topics or ()))
        elif key_type in types.CURRENT_ASSIGNMENT_TYPES:
            # A member without a member record (yet) counts as a member.
            self._member(detail["member"], self.members.get(detail["member"], ()))
        elif key_type == types.REGULAR_EXPRESSION:
            self.resolved[detail["regex"]] = tuple(topics)
            self._resolve()
        elif key_type == types.STREAMS_TOPOLOGY:
            self.topics = frozenset(topics)

    def _member(self, member: str, topics: tuple[str, ...], *, removed: bool = False) -> None:
        self.names.subtract(self.members.pop(member, ()))
        self.names.update(topics)
        if not removed:
            self.members[member] = topics
        self.member_count = len(self.members)
        self._resolve()

    def _resolve(self) -> None:
        """Update a consumer group's subscriptions: names, and topics of regular expressions."""
        if self.type == retention.TYPE_CONSUMER:
            self.names = +self.names
            self.topics = frozenset(self.names).union(*self.resolved.values())

    # --- state ---

    @property
    def state(self) -> str:
        """Stable with members, else Empty: rebalances are not in the log."""
        return retention.STATE_STABLE if self.member_count else retention.STATE_EMPTY

    def snapshot(self) -> GroupSnapshot | None:
        """The group for the rules; None: it does not exist."""
        if not self.known:
            return None
        topics = self.topics if self.member_count else frozenset()
        return GroupSnapshot(
            self.type, self.state, self.protocol_type, self.state_since_ms, topics,
            self.generation or 0,
        )  # fmt: skip

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
            self.known, self.type, self.state, self.protocol_type, self.generation,
            self.state_since_ms, self.topics, self.judged_since_ms, *self.dated, *self.converted,
            self.member_count,
        )  # fmt: skip
        if last == self.last and not event.tombstone:
            return None
        self.last = last
        return GroupState(event.log_offset, self.entered_ms, list(self.released.items()), *last)
