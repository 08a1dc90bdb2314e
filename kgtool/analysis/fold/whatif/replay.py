"""One group's history under another retention: what a check would have removed, and when.

The same answers as ``tests.retention.simulation``, but driven by events instead of by the clock: a
check is only played where something can be due. A worker holds what one group has stored at one
moment, never its past. Every decision is that of ``retention.rules``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kgtool.analysis.fold.group_life import Event, GroupLife
from kgtool.analysis.fold.whatif.due import DueQueue, Key, Put, Stored
from kgtool.analysis.input.scenarios import Scenario
from kgtool.retention import rules as r
from kgtool.retention.rules import GroupSnapshot, Verdict, verdict

_TOMBSTONE_OF = {r.TYPE_CLASSIC: 2, r.TYPE_CONSUMER: 3, r.TYPE_SHARE: 11, r.TYPE_STREAMS: 17}
_ANY = Stored(("\x00", 0), Put(0, None, 0, 0, 0), 0)
"""Of a topic that there can't be, so nobody holds it."""


OFFSET, GROUP, TOMBSTONE = range(3)


class Life(NamedTuple):
    """From when until when something was there; ``role`` says what."""

    role: int
    """OFFSET; GROUP: it has offsets; TOMBSTONE: the broker removed it at ``until``."""
    topic: str | None
    partition: int | None
    from_ms: int
    until_ms: int | None
    """``None``: until the end."""
    expired: bool
    """Whether a check ended it."""
    rule: str | None
    offset: int | None
    commit_timestamp_ms: int | None
    again_ms: int | None
    """When something was committed again for what had expired."""


class GroupReplay:
    """One group in one scenario; give it the events in log order, then call ``finish``."""

    def __init__(self, scenario: Scenario, emit: Callable[[Life], None]) -> None:
        self.scenario = scenario
        self.rules = scenario.rules
        self.emit = emit
        self.life = GroupLife(scenario.rules)
        self.snapshot: GroupSnapshot | None = None
        self.clock_ms = 0
        self.stored: dict[Key, Stored] = {}
        self.lost: dict[Key, Life] = {}
        self.group_since_ms: int | None = None
        self.transactions: dict[int, dict[Key, Put]] = {}
        self.holders: dict[Key, int] = {}
        self.marks: set[int] = set()
        self.queue = DueQueue(scenario, self._judge)

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

    def finish(self, end_ms: int) -> None:
        """Play the checks up to and including ``end_ms``; tell what is left."""
        self._until(end_ms + 1)
        for stored in self.stored.values():
            self._tell(stored, None)
        for lost in self.lost.values():
            self.emit(lost)
        if self.group_since_ms is not None:
            self._tell_group(None)

    # --- what is stored ------------------------------------------------------------------------

    def _put(self, key: Key, put: Put, at_ms: int) -> None:
        present = self.stored.get(key)
        if present is None:
            lost = self.lost.pop(key, None)
            if lost is not None:
                self.emit(lost._replace(again_ms=at_ms))
            if self.group_since_ms is None:
                self.group_since_ms = at_ms
        elif not present.put.continued:
            self.queue.remove(present)
        stored = Stored(key, put, at_ms if present is None else present.since_ms)
        self.stored[key] = stored
        if not put.continued:
            self.queue.add(stored)

    def _drop(self, key: Key, at_ms: int) -> None:
        """Somebody's tombstone: what is stored goes, and what is pending where that is so."""
        stored = self._take(key)
        if stored is not None:
            self._tell(stored, at_ms)
            self._maybe_without_offsets(at_ms)
        self._drop_pending(key)

    def _drop_pending(self, key: Key) -> None:
        if self.rules.tombstone_drops_pending and key in self.holders:
            for held in self.transactions.values():
                if held.pop(key, None) is not None:
                    self._release(key)

    def _take(self, key: Key) -> Stored | None:
        stored = self.stored.pop(key, None)
        if stored is not None:
            self.queue.remove(stored)
        return stored

    def _release(self, key: Key) -> None:
        self.holders[key] -= 1
        if not self.holders[key]:
            del self.holders[key]
            self.queue.released(key)

    def _maybe_without_offsets(self, at_ms: int) -> None:
        if not self.stored:
            self._tell_group(at_ms)
            self.group_since_ms = None

    # --- the group -----------------------------------------------------------------------------

    def _revive(self, at_ms: int) -> None:
        if self.rules.new_coordinator and not self.life.known:
            self.life.apply(Event(at_ms, 0))
            self._look_at_group()

    def _look_at_group(self) -> None:
        before, self.snapshot = self.snapshot, self.life.snapshot()
        if self.snapshot != before:
            self.queue.group_changed()

    def _judge(self, stored: Stored | None) -> Verdict:
        if stored is None:
            stored = _ANY
        return verdict(
            self.rules, self.snapshot, stored.asked, stored.key[0], self.scenario.retention_ms,
            stored.key in self.holders,
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
                due = self.queue.next_due_ms()
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

    def _check(self, tick: int) -> None:
        offsets_before = bool(self.stored)
        for stored, found in self.queue.due(tick):
            self._take(stored.key)
            self.lost[stored.key] = self._life(stored, tick, found.rule)
            self._drop_pending(stored.key)
        if offsets_before:
            self._maybe_without_offsets(tick)
        if self._group_may_go(offsets_before=offsets_before):
            self._tombstone(tick)

    def _tombstone(self, tick: int) -> None:
        self.emit(Life(TOMBSTONE, None, None, tick, tick, True, None, None, None, None))
        self.life.apply(Event(tick, -1, _TOMBSTONE_OF[self.life.type], tombstone=True))
        self._look_at_group()

    # --- telling -------------------------------------------------------------------------------

    def _life(self, stored: Stored, until_ms: int | None, rule: str | None = None) -> Life:
        put = stored.put
        return Life(
            OFFSET, *stored.key, stored.since_ms, until_ms, rule is not None, rule, put.offset,
            put.commit_timestamp_ms, None,
        )  # fmt: skip

    def _tell(self, stored: Stored, until_ms: int | None) -> None:
        self.emit(self._life(stored, until_ms))

    def _tell_group(self, until_ms: int | None) -> None:
        since = self.group_since_ms
        assert since is not None
        self.emit(Life(GROUP, None, None, since, until_ms, False, None, None, None, None))
