"""Which of a group's offsets are worth asking about at a check; ``replay`` asks.

* Offsets without a date of their own wait in a heap by commit timestamp + retention; while the
  group is Empty since a known moment they share that date, and while it keeps all it has nothing
  is asked at all.
* An offset that is due but held, by a subscription or an open transaction, is parked until that
  may have changed.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import NamedTuple

from kgtool.analysis.input.scenarios import Scenario
from kgtool.retention import rules as r
from kgtool.retention.rules import CommittedOffset, Verdict

Key = tuple[str, int]
"""Topic and partition."""


class Put(NamedTuple):
    """What a commit stores."""

    commit_timestamp_ms: int
    expire_timestamp_ms: int | None
    offset: int
    order: int
    """The log offset of the commit; the newer one wins."""
    first_ms: int
    """When the first of the commits that this one stands for was made."""
    continued: bool = False


class Stored:
    """A committed offset while it is there."""

    __slots__ = ("key", "put", "since_ms", "ticket")

    def __init__(self, key: Key, put: Put, since_ms: int) -> None:
        self.key = key
        self.put = put
        self.since_ms = since_ms
        self.ticket = 0

    @property
    def asked(self) -> CommittedOffset:
        """As the rules look at it; most offsets are replaced before anybody does."""
        return CommittedOffset(self.put.commit_timestamp_ms, self.put.expire_timestamp_ms)


Judge = Callable[["Stored | None"], Verdict]
"""The verdict on a stored offset as things stand; on ``None``: on any that nobody holds and that
has no date of its own."""


class DueQueue:
    """Which of a group's stored offsets may be due; continued ones are never in it.

    An entry of a heap counts only if it bears its offset's current ticket; 0 is no ticket.
    """

    def __init__(self, scenario: Scenario, judge: Judge) -> None:
        self.scenario = scenario
        self.judge = judge
        self.heap: list[tuple[int, int, Stored]] = []
        self.own: list[tuple[int, int, Stored]] = []
        self.undated: dict[Key, Stored] = {}
        self.parked: dict[Key, Stored] = {}
        self.tickets = 0
        self.is_stale = True
        self.shared_ms: int | None = None
        self.keeps_all = False

    def add(self, stored: Stored) -> None:
        """Wait for that offset's time."""
        put, scenario = stored.put, self.scenario
        own = put.expire_timestamp_ms
        if own is not None and (own != -1 or scenario.rules.minus_one_is_past):
            self._push(self.own, own, stored)
        else:
            self.undated[stored.key] = stored
            self._push(self.heap, put.commit_timestamp_ms + scenario.retention_ms, stored)

    def remove(self, stored: Stored) -> None:
        """It is not stored any more."""
        stored.ticket = 0
        self.undated.pop(stored.key, None)
        self.parked.pop(stored.key, None)

    def released(self, key: Key) -> None:
        """A transaction does not hold it any more."""
        stored = self.parked.pop(key, None)
        if stored is not None:
            self.add(stored)

    def group_changed(self) -> None:
        """Subscriptions, state or date have changed."""
        self.is_stale = True

    def next_due_ms(self) -> int | None:
        """Not before that moment anything can be removed; ``None``: as things stand never."""
        self._refresh()
        if self.keeps_all:
            return None
        times = [heap[0][0] for heap in self._heaps() if self._trim(heap)]
        if self.shared_ms is not None and self.undated:
            times.append(self.shared_ms)
        return min(times, default=None)

    def due(self, tick: int) -> list[tuple[Stored, Verdict]]:
        """What a check at that moment removes."""
        self._refresh()
        found = []
        for stored in [] if self.keeps_all else self._candidates(tick):
            judged = self.judge(stored)
            if judged.expires_at_ms is None:
                self.remove(stored)
                self.parked[stored.key] = stored
            elif judged.expires_at_ms <= tick:
                found.append((stored, judged))
            else:
                # The strict comparison of brokers up to 2.0.
                undated = stored.key in self.undated
                self._push(self.heap if undated else self.own, judged.expires_at_ms, stored)
        return found

    def _push(self, heap: list[tuple[int, int, Stored]], at_ms: int, stored: Stored) -> None:
        self.tickets += 1
        stored.ticket = self.tickets
        heappush(heap, (at_ms, self.tickets, stored))

    def _candidates(self, tick: int) -> list[Stored]:
        found = []
        for heap in self._heaps():
            while self._trim(heap) and heap[0][0] <= tick:
                found.append(heappop(heap)[2])
        if self.shared_ms is not None and self.shared_ms <= tick:
            found += self.undated.values()
        return found

    def _heaps(self) -> list[list[tuple[int, int, Stored]]]:
        return [self.own] if self.shared_ms is not None else [self.own, self.heap]

    def _trim(self, heap: list[tuple[int, int, Stored]]) -> bool:
        """Take away entries that do not count any more; whether something is left."""
        while heap and heap[0][1] != heap[0][2].ticket:
            heappop(heap)
        return bool(heap)

    def _refresh(self) -> None:
        """See what the group's changes mean; only where a check comes, not at every change."""
        if not self.is_stale:
            return
        self.is_stale = False
        judged = self.judge(None)
        self.keeps_all = judged.expires_at_ms is None
        dated = judged.rule == r.RULE_EMPTY_SINCE
        self.shared_ms = judged.expires_at_ms if dated else None
        if self.keeps_all:
            return
        for stored in list(self.parked.values()):
            if self.judge(stored).expires_at_ms is not None:
                del self.parked[stored.key]
                self.add(stored)
