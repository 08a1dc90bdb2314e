"""Removals whose time does not say what they were: before it by a broker's bug, or long after it.

*Early.* Some brokers expire offsets of an Empty group by their commits although the group has a
date (``RuleSet.rebalancing_is_stable``, ``RuleSet.forgets_date_on_load``). In the log that looks
like a deletion of an offset that is older than the retention. What tells them apart: up to 3.9 the
Scala coordinator checks all groups of a broker at one fixed rate
(``GroupMetadataManager.startup``), so its removals have one phase, to some milliseconds; and a
rebalance ends with a new generation, mostly after ``group.initial.rebalance.delay.ms``, 3 s.

Likewise the topics that a static member came back without go after a load (``Group.by_load``),
by any broker. The new coordinator's checks have no such phase, so that nothing tells them apart.

The Scala coordinator's check goes through all groups of the broker at once
(``GroupMetadataManager.cleanupExpiredOffsets``), so its removals in all log partitions come within
some milliseconds of each other. A write in doubt among them is the check's too, unless a deletion
is among them, or all are of one topic, which may have been deleted.

*Late.* A removal comes within one check interval after it is due. A later one is a sign of brokers
that stood still, or of a retention that changed, unless a move of the coordinator or the end of a
rebalance shortly before explains it. Without that nobody can say whether it is a check's. A group
without offsets goes by no retention, so its removal alone is no sign.

*Out of order.* Up to 3.9 a check and the deletion of a topic (or an OffsetDelete) clean up in two
threads (``GroupMetadataManager.cleanupGroupMetadata``): each removes offsets from memory, then
writes. The one that finds the group without offsets may write the group's tombstone before the
other has written those of the offsets. Then which of them removed the group is unknown.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from kgtool.retention import rules as r

INTERVAL_MS = 600_000
"""The default of offsets.retention.check.interval.ms."""
REBALANCE_MS = 300_000
"""How long a rebalance takes at most: the default of max.poll.interval.ms."""
_SOON_MS = 10_000
"""Within this time before a new generation a removal is in the rebalance."""
_PHASE_MS = 10
RACE_MS = 5_000
"""How long after the group's tombstone those of its offsets may come, if two threads clean up."""
_APART_MS = 20
"""How far apart two writes of one check may be."""
_CHECKS = 100
"""The clock of the checks is compared over this many of them: it drifts against the time."""
_FEWEST, _MOMENTS = 10, 3
"""Early removals of one age, and check intervals with some, that are no accident."""
_AROUND, _DEVIATIONS = 6, 6
"""Steps on both sides of an age that tell how many removals are usual, and how far it is above."""
_SHORTEST_MS = 60_000
"""The shortest retention: offsets.retention.minutes is at least 1."""


def slack_ms(interval_ms: int) -> int:
    """What a check itself takes, at most, between two that are ``interval_ms`` apart."""
    return max(1000, interval_ms // 100)


def grace_ms(interval_ms: int) -> int:
    """How long after the due time a removal may come.

    One interval, and the little by which checks drift: the new coordinator starts the next one an
    interval after the last one *ended*.
    """
    return interval_ms + slack_ms(interval_ms)


def explained_until_ms(interval_ms: int) -> int:
    """How long after its due time, or after what explains a delay, a removal is no sign.

    A coordinator checks first an interval after it has loaded the partition.
    """
    return 2 * grace_ms(interval_ms)


class Early(NamedTuple):
    """A removal of an offset older than the retention, before the date of its Empty group.

    Or of a topic that a member subscribed to until the generation that was just being made.
    """

    at_ms: int
    generation_in_ms: int | None = None
    """When the group's next generation with members was written after it; None: not soon."""
    is_consumer: bool = False
    """Whether the group's protocol type is ``consumer``."""
    is_dated: bool = True
    """Whether the date of its Empty group kept it."""
    is_until_load: bool = False
    """Whether its topic was protected only until a load, which a log need not show."""


Spans = tuple[tuple[int, int], ...]
"""(first, last) ms of checks, in the order of time."""


class Moment(NamedTuple):
    """When offsets of a topic were removed."""

    at_ms: int
    topic: str
    cause: str | None
    """One of expired, explicit; None: in doubt."""


def certain_checks(moments: Iterable[Moment]) -> Spans:
    """The checks of the Scala coordinator among the removals of all log partitions."""
    found, run = [], list[Moment]()
    for moment in [*sorted(moments, key=lambda each: each.at_ms), None]:
        if run and (moment is None or moment.at_ms - run[-1].at_ms > _APART_MS):
            causes, topics = {each.cause for each in run}, {each.topic for each in run}
            if causes == {None, r.CAUSE_EXPIRED} and len(topics) > 1:
                found.append((run[0].at_ms, run[-1].at_ms))
            run = []
        if moment is not None:
            run.append(moment)
    return tuple(found)


class Seen(IntEnum):
    """Whose removals are known: fewer say less of when a broker checked, never something else."""

    GROUP = 0
    """Those of the groups asked for."""
    PARTITION = 1
    """Those of all groups in the partition of the log."""
    LOG = 2


class Checks:
    """When the brokers' checks certainly removed something in one partition of the log.

    :param anywhere: of the Scala coordinator: ``certain_checks`` of all partitions.
    """

    def __init__(
        self,
        rules: r.RuleSet,
        interval_ms: int,
        certain_ms: Sequence[int],
        anywhere: Spans = (),
        seen: Seen = Seen.LOG,
    ) -> None:
        self._rules, self._interval_ms, self._anywhere = rules, interval_ms, anywhere
        self._seen = seen
        self._certain = sorted(certain_ms)

    def is_at(self, at_ms: int) -> bool:
        """Whether a check was at work then."""
        place = bisect_right(self._anywhere, (at_ms, r.MAX_TIMESTAMP_MS)) - 1
        return place >= 0 and at_ms <= self._anywhere[place][1]

    def cause(self, removal: Early) -> str | None:
        """``expired``, ``explicit``, or None where it can't be known."""
        rules, after = self._rules, removal.generation_in_ms
        in_rebalance = removal.is_consumer and after is not None and after <= REBALANCE_MS
        bugs = [rules.forgets_date_on_load] if removal.is_dated else []
        bugs += [rules.rebalancing_is_stable] if in_rebalance else []
        bugs += [True] if removal.is_until_load else []
        if not any(bug is not False for bug in bugs):
            return r.CAUSE_EXPLICIT
        agrees = None if rules.new_coordinator else self._agrees(removal.at_ms)
        agrees = self.is_at(removal.at_ms) or agrees
        if not agrees and self._seen < (Seen.LOG if agrees is False else Seen.PARTITION):
            return None  # what was not seen may agree
        if agrees is None and in_rebalance and rules.rebalancing_is_stable is not False:
            agrees = True if after is not None and after <= _SOON_MS else None
        if agrees is None:
            return None
        if agrees:
            return r.CAUSE_EXPIRED
        return None if True in bugs else r.CAUSE_EXPLICIT

    def _agrees(self, at_ms: int) -> bool | None:
        """Whether a removal has the phase of others at that time; None: there are none."""
        interval = self._interval_ms
        low = bisect_left(self._certain, at_ms - _CHECKS * interval)
        high = bisect_right(self._certain, at_ms + _CHECKS * interval)
        apart = ((each - at_ms) % interval for each in self._certain[low:high])
        distances = [min(each, interval - each) for each in apart]
        return min(distances) <= _PHASE_MS if distances else None


class EarlyRemovals(NamedTuple):
    """Offsets that were removed before their time, by hand or by another retention."""

    step: int
    """Their age in intervals of the checks, ..."""
    moment: int
    """... and when, likewise."""
    removals: int
    least: int
    """The lowest age of these in ms."""
    last: int
    """When the last of them was removed (ms)."""


class SharedAge(NamedTuple):
    """Removals before their time, as a broker with another retention would make them."""

    removals: int
    total: int
    """All early removals, of any age."""
    age_ms: int
    """The lowest age of these."""
    last_ms: int
    """When the last of them was."""


def shared_ages(early: Iterable[EarlyRemovals]) -> list[SharedAge]:
    """The ages that stand out of a histogram of all early removals, the most frequent first.

    Clients delete at any time and any age; a broker with a shorter retention than assumed removes
    everything at that age, or within one interval after it: that is in two steps, over many
    checks.
    """
    steps: dict[int, list[EarlyRemovals]] = {}
    for each in early:
        steps.setdefault(each.step, []).append(each)
    count = Counter({step: sum(row.removals for row in rows) for step, rows in steps.items()})
    total, found, free = sum(count.values()), [], set(steps)
    while free:
        sums = {step: count[step] + count[step + 1] * (step + 1 in free) for step in free}
        best = max(sorted(sums), key=sums.__getitem__)
        those = [row for step in (best, best + 1) if step in free for row in steps[step]]
        removals = sum(row.removals for row in those)
        if removals < _FEWEST:
            break
        free -= {best - 1, best, best + 1, best + 2}
        sides = range(best - _AROUND, best), range(best + 2, best + 2 + _AROUND)
        around = max(sum(count[step] for step in side) for side in sides) * 2 / _AROUND
        age_ms = min(row.least for row in those)
        often = len({row.moment for row in those}) >= _MOMENTS
        stands_out = removals >= around + _DEVIATIONS * (around + 1) ** 0.5
        if often and age_ms >= _SHORTEST_MS and stands_out:
            found.append(SharedAge(removals, total, age_ms, max(row.last for row in those)))
    return found


def is_an_age(age_ms: int, interval_ms: int) -> bool:
    """Whether a removal at that age may be one of a check with some retention: whole minutes."""
    return age_ms >= _SHORTEST_MS and age_ms % 60_000 < explained_until_ms(interval_ms)


def is_of_age(age_ms: int, ages_ms: Iterable[int], interval_ms: int) -> bool:
    """Whether a removal at that age may be one of a check with one of these retentions."""
    until = explained_until_ms(interval_ms)
    return any(age <= age_ms < age + until for age in ages_ms)
