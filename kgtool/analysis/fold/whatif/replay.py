"""One group in one scenario, event by event: what checks remove, and when.

Gives the same as ``tests.retention.simulation``, but runs a check only where something can be due.
Every decision is that of ``retention.rules``.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from kgtool.analysis.fold.group_life import GroupEvent, GroupLife
from kgtool.analysis.input.broker_settings import Scenario
from kgtool.retention import rules as r
from kgtool.retention.rules import CommittedOffset, GroupSnapshot, Verdict, verdict

_TOMBSTONE_OF = {r.TYPE_CLASSIC: 2, r.TYPE_CONSUMER: 3, r.TYPE_SHARE: 11, r.TYPE_STREAMS: 17}
OFFSET, GROUP, TOMBSTONE = range(3)
Key = tuple[str, int]
"""Topic, and a number unique among its offsets."""


class Commit(NamedTuple):
    """A commit's value."""

    committed: CommittedOffset
    offset: int
    order: int
    """The log offset of the commit; the newer one wins."""
    first_ms: int
    """Time of the first of the commits that this one stands for."""


class StoredOffset(NamedTuple):
    """A committed offset, and since when the key has one."""

    key: Key
    commit: Commit
    since_ms: int


_ANY = StoredOffset(("\x00", 0), Commit(CommittedOffset(0), 0, 0, 0), 0)
"""Of an impossible topic name, so no member subscribes to it."""


class Interval(NamedTuple):
    """From when until when something existed; ``role`` says what."""

    role: int
    """OFFSET; GROUP: it has offsets; TOMBSTONE: the broker removed it at ``until``."""
    key: Key | None
    from_ms: int
    until_ms: int | None
    """``None``: until the end."""
    expired: bool
    """Whether a check ended it."""
    rule: str | None = None
    offset: int | None = None
    commit_ms: int | None = None
    again_ms: int | None = None
    """When the key was committed again after the offset expired."""


class GroupReplay:
    """Takes a group's events in log order, then ``finish``."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.rules = scenario.rules
        self.intervals: list[Interval] = []
        self.life = GroupLife(scenario.rules)
        self.snapshot: GroupSnapshot | None = None
        self.clock_ms = 0
        self.stored: dict[Key, StoredOffset] = {}
        self.lost: dict[Key, Interval] = {}
        self.group_since_ms: int | None = None
        self.transactions: dict[int, dict[Key, Commit]] = {}
        self.holders: dict[Key, int] = {}
        self.marks: set[int] = set()
        self.waiting: list[tuple[int, int, StoredOffset]] = []
        """A heap of (due time, tie-break, offset). Offsets that are no longer stored or that a
        transaction holds are skipped."""
        self.tickets = count()
        self.is_stale = False
        """Whether a change of the group has outdated the heap."""
        self.goes_by_commit = False
        """Whether offsets without an expire timestamp go by commit + retention."""

    # --- events --------------------------------------------------------------------------------

    def commit(self, at_ms: int, key: Key, commit: Commit) -> None:
        """An ordinary commit."""
        self._until(at_ms)
        self._revive(at_ms)
        self._put(key, commit, commit.first_ms)

    def transactional_commit(self, at_ms: int, key: Key, commit: Commit, producer_id: int) -> None:
        """A commit within a transaction."""
        self._until(at_ms)
        self._revive(at_ms)
        held = self.transactions.setdefault(producer_id, {})
        self.holders[key] = self.holders.get(key, 0) + (key not in held)
        held[key] = commit
        self.marks.add(producer_id)

    def end_transaction(self, at_ms: int, key: Key, producer_id: int, *, committed: bool) -> None:
        """The end of the transaction of an earlier ``transactional_commit``."""
        self._until(at_ms)
        commit = self.transactions.get(producer_id, {}).pop(key, None)
        if commit is None:
            return
        self._release(key)
        self.marks.discard(producer_id)
        present = self.stored.get(key)
        newer = present is None or commit.order > present.commit.order
        if committed and (newer or self.rules.commit_always_replaces):
            self._put(key, commit, at_ms)

    def delete(self, at_ms: int, key: Key) -> None:
        """A deletion of the offset by a client."""
        self._until(at_ms)
        self._drop(key, at_ms)

    def group_record(self, event: GroupEvent, *, deletes_group: bool = False) -> None:
        """A record of the group's own; ``deletes_group``: by DeleteGroups."""
        at_ms = event.timestamp_ms
        self._until(at_ms)
        if deletes_group:
            pending = self.holders if self.rules.tombstone_drops_pending else {}
            for key in [*self.stored, *(key for key in pending if key not in self.stored)]:
                self._drop(key, at_ms)
        if self.life.apply(event) is not None:
            self._look_at_group()

    def finish(self, end_ms: int) -> list[Interval]:
        """Run the checks up to and including ``end_ms``; return all intervals."""
        self._until(end_ms + 1)
        self.intervals += [_interval(stored, None) for stored in self.stored.values()]
        self.intervals += self.lost.values()
        self._end_of_offsets(None)
        return self.intervals

    # --- what is stored ------------------------------------------------------------------------

    def _put(self, key: Key, commit: Commit, at_ms: int) -> None:
        present = self.stored.get(key)
        if present is None and key in self.lost:
            self.intervals.append(self.lost.pop(key)._replace(again_ms=at_ms))
        if self.group_since_ms is None:
            self.group_since_ms = at_ms
        self.stored[key] = StoredOffset(key, commit, at_ms if present is None else present.since_ms)
        self._wait(self.stored[key])

    def _drop(self, key: Key, at_ms: int) -> None:
        stored = self.stored.pop(key, None)
        if stored is not None:
            self.intervals.append(_interval(stored, at_ms))
            self._end_of_offsets(at_ms)
        self._drop_pending(key)

    def _drop_pending(self, key: Key) -> None:
        if self.rules.tombstone_drops_pending and key in self.holders:
            for held in self.transactions.values():
                if held.pop(key, None) is not None:
                    self._release(key)

    def _release(self, key: Key) -> None:
        self.holders[key] -= 1
        if not self.holders[key]:
            del self.holders[key]
            if key in self.stored:
                self._wait(self.stored[key])

    def _end_of_offsets(self, at_ms: int | None) -> None:
        """End the group's interval if no offset is left; ``None``: it lasts until the end."""
        if self.group_since_ms is not None and (at_ms is None or not self.stored):
            self.intervals.append(Interval(GROUP, None, self.group_since_ms, at_ms, expired=False))
            self.group_since_ms = None

    # --- the group -----------------------------------------------------------------------------

    def _revive(self, at_ms: int) -> None:
        if self.rules.new_coordinator and not self.life.known:
            self.life.apply(GroupEvent(at_ms, 0))
            self._look_at_group()

    def _look_at_group(self) -> None:
        before, self.snapshot = self.snapshot, self.life.snapshot()
        self.is_stale |= self.snapshot != before

    def _judge(self, stored: StoredOffset) -> Verdict:
        key, commit = stored.key, stored.commit
        return verdict(
            self.rules,
            self.snapshot,
            commit.committed,
            key[0],
            self.scenario.retention_ms,
            key in self.holders,
        )

    def _group_may_go(self, *, offsets_before: bool) -> bool:
        # Of a group without records the Scala coordinator writes no tombstone.
        if self.snapshot is None or self.stored:
            return False
        pending = bool(self.marks) if self.rules.marks_outlive_offsets else bool(self.holders)
        return r.group_leaves_tombstone(self.rules, self.snapshot) and r.group_may_go(
            self.rules,
            self.snapshot,
            offsets_before=offsets_before,
            offsets_left=False,
            pending=pending,
        )

    # --- checks --------------------------------------------------------------------------------

    def _until(self, at_ms: int) -> None:
        """Run the checks before ``at_ms``; one at ``at_ms`` itself sees what happens then."""
        if at_ms <= self.clock_ms:  # as for commits of one request
            return
        while True:
            tick = self._tick(self.clock_ms)
            if tick >= at_ms:
                break
            if not self._group_may_go(offsets_before=False):
                due = self._next_due_ms()
                if due is None:
                    break
                tick = self._tick(max(due, self.clock_ms))
                if tick >= at_ms:
                    break
            self._check(tick)
            self.clock_ms = tick + 1
        self.clock_ms = max(self.clock_ms, at_ms)

    def _tick(self, at_ms: int) -> int:
        interval = self.scenario.interval_ms
        return max(-(-at_ms // interval), 1) * interval

    def _wait(self, stored: StoredOffset) -> None:
        """Queue the offset for when it is due, if ever."""
        at_ms, own = stored.commit.committed
        if self.is_stale:
            return
        if self.goes_by_commit and own is None:  # the common case, without asking the rules
            due: int | None = at_ms + self.scenario.retention_ms
        else:
            due = self._judge(stored).expires_at_ms
        if due is not None:
            heappush(self.waiting, (due, next(self.tickets), stored))

    def _next_due_ms(self) -> int | None:
        """The earliest time at which an offset can be removed; ``None``: never, as things stand."""
        if self.is_stale:
            self.is_stale, self.goes_by_commit = False, self._judge(_ANY).rule == r.RULE_COMMIT
            self.waiting.clear()
            for stored in self.stored.values():
                self._wait(stored)
        while self.waiting and self.stored.get(self.waiting[0][2].key) is not self.waiting[0][2]:
            heappop(self.waiting)
        return self.waiting[0][0] if self.waiting else None

    def _check(self, tick: int) -> None:
        offsets_before = bool(self.stored)
        while (due := self._next_due_ms()) is not None and due <= tick:
            stored = heappop(self.waiting)[2]
            found = self._judge(stored)
            if found.expires_at_ms is not None and found.expires_at_ms > tick:
                heappush(self.waiting, (found.expires_at_ms, next(self.tickets), stored))
            elif found.expires_at_ms is not None:
                del self.stored[stored.key]
                self.lost[stored.key] = _interval(stored, tick, found.rule)
                self._drop_pending(stored.key)
        self._end_of_offsets(tick)
        if self._group_may_go(offsets_before=offsets_before):
            self._tombstone(tick)

    def _tombstone(self, tick: int) -> None:
        self.intervals.append(Interval(TOMBSTONE, None, tick, tick, expired=True))
        self.life.apply(GroupEvent(tick, -1, _TOMBSTONE_OF[self.life.type], tombstone=True))
        self._look_at_group()


def _interval(stored: StoredOffset, until_ms: int | None, rule: str | None = None) -> Interval:
    commit = stored.commit
    return Interval(
        OFFSET,
        stored.key,
        stored.since_ms,
        until_ms,
        rule is not None,
        rule,
        commit.offset,
        commit.committed.commit_timestamp_ms,
    )
