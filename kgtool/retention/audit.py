"""The cause of every tombstone in the log: which removals were expiry.

A tombstone has no cause. It is inferred from the state just before it:

* An offset that was due is ``expired``, any other is ``explicit``: a broker is never early. An
  offset that never expires (orphans, share, subscribed, live) can only be deleted explicitly.
* A group that the next check would have removed anyway is ``group-empty``; one whose records
  continue as another type of group in the same write is ``converted``; any other is ``explicit``.
* All removals of one group in one write have one cause. A check removes nothing that is not due,
  so one offset that was not due makes the whole write ``explicit``: so DeleteGroups on a group
  with some due offsets is recognised, and its group tombstone is not taken for an empty group's.
  All records of one append have the same timestamp.

The log can't show an OffsetDelete, DeleteGroups or topic deletion that only removes what was
already due, before the next check: that counts as expiry. Where the removed record itself is
missing (compacted away), and where ``kgtool.retention.doubts`` has doubts, the cause is ``None``;
``latency_ms`` shows how late a removal was.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, groupby

from kgtool.retention import rules as r
from kgtool.retention.doubts import (
    INTERVAL_MS,
    Checks,
    EarlyRemovals,
    Moment,
    Seen,
    Spans,
    certain_checks,
    is_an_age,
    is_of_age,
    shared_ages,
)
from kgtool.retention.history import Entry, History
from kgtool.retention.part_of_log import WHOLE, Part, Unknown
from kgtool.retention.phases import RulePhases
from kgtool.retention.rules import RuleSet
from kgtool.retention.writes import (
    Future,
    Removal,
    Row,
    Write,
    certain,
    compared,
    decided,
    doubt_raced,
)


def audit(
    entries: Iterable[Entry],
    rules: RuleSet | RulePhases,
    retention_ms: int,
    interval_ms: int = INTERVAL_MS,
    part: Part = WHOLE,
) -> list[Removal]:
    """Return every offset's and group's tombstone, by partition and offset of the log.

    :param rules: those of the brokers, or those over time.
    :param part: what of the log these entries are.
    """
    judges = _judges(entries, rules, retention_ms, interval_ms, part)
    found = _over_time(judges, (), ())
    known = [*found, *part.elsewhere]
    ages = tuple(each.age_ms for each in shared_ages(_early(known, retention_ms, interval_ms)))
    checks: Spans = ()
    if part.seen == Seen.LOG and not judges[-1].rules.new_coordinator:
        checks = certain_checks(
            Moment(row.removed_at_ms, row.topic, row.cause)
            for row in known
            if row.topic is not None and row.stored is not None
        )
    return _over_time(judges, checks, ages) if checks or ages else found


def judged_alone(
    entries: Iterable[Entry],
    rules: RuleSet | RulePhases,
    retention_ms: int,
    interval_ms: int,
    part: Part,
) -> list[Removal]:
    """Return every tombstone as ``audit`` judges it by itself: ``Part.elsewhere`` of the others."""
    return _over_time(_judges(entries, rules, retention_ms, interval_ms, part), (), ())


def _judges(
    entries: Iterable[Entry],
    rules: RuleSet | RulePhases,
    retention_ms: int,
    interval_ms: int,
    part: Part,
) -> list[_Judge]:
    ordered = sorted(entries, key=lambda entry: (entry.partition, entry.offset))
    phases = ((0, rules),) if isinstance(rules, RuleSet) else rules
    ends = [*(start for start, _ in phases[1:]), r.MAX_TIMESTAMP_MS]
    return [
        _Judge(ordered, generation, retention_ms, interval_ms, part, (start * (at > 0), end))
        for at, ((start, generation), end) in enumerate(zip(phases, ends, strict=True))
    ]


def _over_time(judges: list[_Judge], checks: Spans, ages_ms: tuple[int, ...]) -> list[Removal]:
    """Each removal by the rules of its time."""
    found = judges[-1].decide(checks, ages_ms)
    for judge in reversed(judges[:-1]):
        earlier, until = judge.decide(checks, ages_ms), judge.hold_ms[1]
        both = zip(earlier, found, strict=True)
        found = [one if other.removed_at_ms < until else other for one, other in both]
    return found


def _early(found: list[Removal], retention_ms: int, interval_ms: int) -> list[EarlyRemovals]:
    """Offsets that were removed before their time, by age and time."""
    rows: dict[tuple[int, int], EarlyRemovals] = {}
    for row in found:
        at_ms, due_ms = row.removed_at_ms, row.expires_at_ms
        if row.topic is None or row.cause != r.CAUSE_EXPLICIT or due_ms is None or due_ms <= at_ms:
            continue
        age = max(at_ms - due_ms + retention_ms, 0)
        step, moment = age // interval_ms, at_ms // interval_ms
        old = rows.get((step, moment), EarlyRemovals(step, moment, 0, age, at_ms))
        count, least, last = old.removals + 1, min(old.least, age), max(old.last, at_ms)
        rows[step, moment] = EarlyRemovals(step, moment, count, least, last)
    return list(rows.values())


class _Judge:
    """All removals by one generation's rules."""

    def __init__(
        self,
        ordered: list[Entry],
        rules: RuleSet,
        retention_ms: int,
        interval_ms: int,
        part: Part,
        hold_ms: tuple[int, int],
    ) -> None:
        self.rules, self.hold_ms = rules, hold_ms
        self._retention_ms, self._interval_ms, self._part = retention_ms, interval_ms, part
        self._writes: list[list[list[Row]]] = []
        """By partition of the log and write, those of one group."""
        self._unknown: list[Unknown] = []
        for _, each in groupby(ordered, key=lambda entry: entry.partition):
            partition = list(each)
            unknown = Unknown(partition, rules, part)
            history, futures = History(rules, retention_ms), dict[str, list[Future]]()
            self._unknown.append(unknown)
            self._writes.append(
                [
                    compared(rows, history) if part.lacks_others else rows
                    for _, write in groupby(partition, key=lambda entry: entry.timestamp_ms)
                    for rows in Write(history, list(write), interval_ms, futures).explain()
                ]
            )

    def decide(self, anywhere: Spans, ages_ms: tuple[int, ...]) -> list[Removal]:
        """The removals of all partitions, each of which has only its own checks and ``anywhere``'s.

        :param ages_ms: those that the brokers' retention may have been.
        """
        removals: list[Removal] = []
        start, end = self.hold_ms
        for writes, unknown in zip(self._writes, self._unknown, strict=True):
            sure = chain.from_iterable(certain(rows, self._interval_ms) for rows in writes)
            held = [at for at in sure if start <= at < end]
            checks = Checks(self.rules, self._interval_ms, held, anywhere, self._part.seen)
            may_age = ages_ms or self._part.lacks_others
            aged = [self._aged(rows, ages_ms) for rows in writes] if may_age else writes
            found = [decided(rows, checks, self._interval_ms) for rows in aged]
            if not self.rules.new_coordinator:
                doubt_raced(writes, found)
            if not self._part.is_complete:
                both = zip(writes, found, strict=True)
                found = [_as_far_as_known(rows, told, unknown, self._part) for rows, told in both]
            removals += sorted(chain.from_iterable(found), key=lambda row: row.log_offset)
        older = self._part.older_until_ms
        return [
            row if older is None or row.removed_at_ms > older else _hidden(row) for row in removals
        ]

    def _aged(self, rows: list[Row], ages_ms: tuple[int, ...]) -> list[Row]:
        """Those of one write; in doubt where their age may have been the brokers' retention."""
        found = []
        for row in rows:
            removal = row.removal
            due_ms, at_ms = removal.expires_at_ms, removal.removed_at_ms
            is_early = removal.stored is not None and removal.cause == r.CAUSE_EXPLICIT
            if is_early and due_ms is not None and due_ms > at_ms:
                age_ms = at_ms - due_ms + self._retention_ms
                of_age = is_of_age(age_ms, ages_ms, self._interval_ms)
                of_age |= self._part.lacks_others and self._may_be_checked(row, age_ms)
                row = row._replace(is_of_age=of_age)
            found.append(row)
        return found

    def _may_be_checked(self, row: Row, age_ms: int) -> bool:
        """Whether a check of brokers with another retention may have removed an offset."""
        is_dated = row.removal.rule != r.RULE_EXPLICIT  # by its own date, not by a retention
        return is_dated and not row.keeps_older and is_an_age(age_ms, self._interval_ms)


def _as_far_as_known(
    rows: list[Row], removals: list[Removal], unknown: Unknown, part: Part
) -> list[Removal]:
    """Those of one write, without what a log with missing records can't tell."""
    group = removals[0].group
    headless, hidden, untold = part.is_headless, [], []
    for row in removals:
        at, is_group = row.log_offset, row.topic is None
        untold.append(not is_group and unknown.topics(group, at))
        is_converted = is_group and row.cause == r.CAUSE_EXPLICIT and unknown.goes_on(group, at)
        late = headless and (unknown.before(group, at) or row.cause is None)
        hidden.append(is_converted or untold[-1] or late)
    if not headless:
        found = []
        for row, is_hidden, is_untold in zip(removals, hidden, untold, strict=True):
            lost = is_hidden or (any(untold) and row.cause != r.CAUSE_CONVERTED)
            found.append(_untold(row, cause=lost, date=is_untold))
        return found
    both = zip(removals, hidden, strict=True)
    bare = not any(row.topic is not None and not lost for row, lost in both)
    for at, (row, each) in enumerate(zip(removals, rows, strict=True)):
        if row.topic is None and bare and not each.has_left:
            hidden[at] = hidden[at] or unknown.contents(group, row.log_offset)
    # One that was not due would tell that nothing of this write expired.
    some = any(hidden)
    hidden = [
        lost or (some and row.cause != r.CAUSE_EXPLICIT)
        for row, lost in zip(removals, hidden, strict=True)
    ]
    return [
        _untold(row, cause=lost, date=lost or unknown.date(group, row.expires_at_ms))
        for row, lost in zip(removals, hidden, strict=True)
    ]


def _untold(row: Removal, *, cause: bool, date: bool) -> Removal:
    row = row._replace(cause=None) if cause else row
    return row._replace(expires_at_ms=None, latency_ms=None) if date else row


def _hidden(row: Removal) -> Removal:
    return _untold(row, cause=True, date=True)._replace(rule=None)
