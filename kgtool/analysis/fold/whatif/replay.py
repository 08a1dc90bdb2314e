"""One group's history under another retention: what a check would have removed, and when.

The same answers as ``tests.retention.simulation``, but driven by events instead of by the clock: a
check is only played where something can be due. Every decision is that of ``retention.rules``.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from kgtool.analysis.fold.group_life import Event, GroupLife
from kgtool.analysis.input.scenarios import Scenario
from kgtool.retention import rules as r
from kgtool.retention.rules import CommittedOffset, GroupSnapshot, Verdict, verdict

_TOMBSTONE_OF = {r.TYPE_CLASSIC: 2, r.TYPE_CONSUMER: 3, r.TYPE_SHARE: 11, r.TYPE_STREAMS: 17}
OFFSET, GROUP, TOMBSTONE = range(3)
Key = tuple[str, int]
"""Topic, and a number that tells its offsets apart."""


class Put(NamedTuple):
    """What a commit stores."""

    committed: CommittedOffset
    offset: int
    order: int
    """The log offset of the commit; the newer one wins."""
    first_ms: int
    """When the first of the commits that this one stands for was made."""


class Stored(NamedTuple):
    """A committed offset while it is there."""

    key: Key
    put: Put
    since_ms: int


_ANY = Stored(("\x00", 0), Put(CommittedOffset(0), 0, 0, 0), 0)
"""Of a topic that there can't be, so no member holds it."""


class Life(NamedTuple):
    """From when until when something was there; ``role`` says what."""

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
    """When something was committed again for what had expired."""


class GroupReplay:
    """One group in one scenario; give it the events in log order, then call ``finish``."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.rules = scenario.rules
        self.lives: list[Life] = []
        self.life = GroupLife(scenario.rules)
        self.snapshot: GroupSnapshot | None = None
        self.clock_ms = 0
        self.stored: dict[Key, Stored] = {}
        self.lost: dict[Key, Life] = {}
        self.group_since_ms: int | None = None
        self.transactions: dict[int, dict[Key, Put]] = {}
        self.holders: dict[Key, int] = {}
        self.marks: set[int] = set()
        self.waiting: list[tuple[int, int, Stored]] = []
        """A heap: when each may go as things stand. One that is not stored any more, or is held
        by a transaction, counts for nothing."""
        self.tickets = count()
        self.is_stale = False
        """Whether a change of the group changes all of that."""
        self.goes_by_commit = False
        """Whether an offset without a date of its own goes no sooner than commit + retention."""

    # --- events --------------------------------------------------------------------------------

    def commit(self, at_ms: int, key: Key, put: Put) -> None:
        """An ordinary commit."""
        self._until(at_ms)
        self._revive(at_ms)
        self._put(key, put, put.first_ms)

    def pend(self, at_ms: int, key: Key, put: Put, producer_id: int) -> None:
        """A commit within a transaction."""
        self._until(at_ms)
        self._revive(at_ms)
        held = self.transactions.setdefault(producer_id, {})
        self.holders[key] = self.holders.get(key, 0) + (key not in held)
        held[key] = put
        self.marks.add(producer_id)

    def end(self, at_ms: int, key: Key, producer_id: int, *, committed: bool) -> None:
        """The transaction of an earlier ``pend`` is over."""
        self._until(at_ms)
        put = self.transactions.get(producer_id, {}).pop(key, None)
        if put is None:
            return
        self._release(key)
        self.marks.discard(producer_id)
        present = self.stored.get(key)
        newer = present is None or put.order > present.put.order
        if committed and (newer or self.rules.commit_always_replaces):
            self._put(key, put, at_ms)

    def forget(self, at_ms: int, key: Key) -> None:
        """Somebody deleted the offset."""
        self._until(at_ms)
        self._drop(key, at_ms)

    def group_record(self, event: Event, *, wipe: bool = False) -> None:
        """A record of the group's own; ``wipe``: by DeleteGroups."""
        at_ms = event.timestamp_ms
        self._until(at_ms)
        if wipe:
            pending = self.holders if self.rules.tombstone_drops_pending else {}
            for key in [*self.stored, *(key for key in pending if key not in self.stored)]:
                self._drop(key, at_ms)
        if self.life.apply(event) is not None:
            self._look_at_group()

    def finish(self, end_ms: int) -> list[Life]:
        """Play the checks up to and including ``end_ms``; everything that was there."""
        self._until(end_ms + 1)
        self.lives += [_life(stored, None) for stored in self.stored.values()]
        self.lives += self.lost.values()
        self._end_of_offsets(None)
        return self.lives

    # --- what is stored ------------------------------------------------------------------------

    def _put(self, key: Key, put: Put, at_ms: int) -> None:
        present = self.stored.get(key)
        if present is None and key in self.lost:
            self.lives.append(self.lost.pop(key)._replace(again_ms=at_ms))
        if self.group_since_ms is None:
            self.group_since_ms = at_ms
        self.stored[key] = Stored(key, put, at_ms if present is None else present.since_ms)
        self._wait(self.stored[key])

    def _drop(self, key: Key, at_ms: int) -> None:
        """Somebody's tombstone: what is stored goes, and what is pending where that is so."""
        stored = self.stored.pop(key, None)
        if stored is not None:
            self.lives.append(_life(stored, at_ms))
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
        """The group may have none any more; ``None``: it has them until the end."""
        if self.group_since_ms is not None and (at_ms is None or not self.stored):
            self.lives.append(Life(GROUP, None, self.group_since_ms, at_ms, expired=False))
            self.group_since_ms = None

    # --- the group -----------------------------------------------------------------------------

    def _revive(self, at_ms: int) -> None:
        if self.rules.new_coordinator and not self.life.known:
            self.life.apply(Event(at_ms, 0))
            self._look_at_group()

    def _look_at_group(self) -> None:
        before, self.snapshot = self.snapshot, self.life.snapshot()
        self.is_stale |= self.snapshot != before

    def _judge(self, stored: Stored) -> Verdict:
        key, put = stored.key, stored.put
        return verdict(
            self.rules, self.snapshot, put.committed, key[0], self.scenario.retention_ms,
            key in self.holders,
        )  # fmt: skip

    def _group_may_go(self, *, offsets_before: bool) -> bool:
        # Without a group there is only what the Scala coordinator makes up, and drops silently.
        if self.snapshot is None or self.stored:
            return False
        pending = bool(self.marks) if self.rules.marks_outlive_offsets else bool(self.holders)
        return r.group_leaves_tombstone(self.rules, self.snapshot) and r.group_may_go(
            self.rules, self.snapshot, offsets_before=offsets_before, offsets_left=False,
            pending=pending,
        )  # fmt: skip

    # --- checks --------------------------------------------------------------------------------

    def _until(self, at_ms: int) -> None:
        """Play the checks before ``at_ms``; one at that very moment sees what happens then."""
        if at_ms <= self.clock_ms:  # as for all that a client commits at once
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
        """The first check at or after that moment."""
        interval = self.scenario.interval_ms
        return max(-(-at_ms // interval), 1) * interval

    def _wait(self, stored: Stored) -> None:
        """Let a check ask about it when it may go; not at all while it may not."""
        at_ms, own = stored.put.committed
        if self.is_stale:
            return
        if self.goes_by_commit and own is None:  # as most: no need to ask the rules yet
            due: int | None = at_ms + self.scenario.retention_ms
        else:
            due = self._judge(stored).expires_at_ms
        if due is not None:
            heappush(self.waiting, (due, next(self.tickets), stored))

    def _next_due_ms(self) -> int | None:
        """Not before that moment an offset can go; ``None``: as things stand never."""
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
                self.lost[stored.key] = _life(stored, tick, found.rule)
                self._drop_pending(stored.key)
        self._end_of_offsets(tick)
        if self._group_may_go(offsets_before=offsets_before):
            self._tombstone(tick)

    def _tombstone(self, tick: int) -> None:
        self.lives.append(Life(TOMBSTONE, None, tick, tick, expired=True))
        self.life.apply(Event(tick, -1, _TOMBSTONE_OF[self.life.type], tombstone=True))
        self._look_at_group()


def _life(stored: Stored, until_ms: int | None, rule: str | None = None) -> Life:
    put = stored.put
    return Life(
        OFFSET, stored.key, stored.since_ms, until_ms, rule is not None, rule, put.offset,
        put.committed.commit_timestamp_ms,
    )  # fmt: skip
