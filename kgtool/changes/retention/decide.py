"""What a rule of ``kgtool retention`` does with each offset, and when: pure decisions.

Longer than the broker's retention: an offset is kept again once less than half of that is left.
Shorter: the offsets of a group without members go by their last commit, and with the last one the
group; a change of members counts as a use, as in ``cleanup --idle``. A finite longer retention
counts from the last commit that was not kgtool's (``first_ms``): once it would be over before the
broker's, the rest is left to the broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kgtool.changes.cleanup.criteria import Unknown, is_idle, last_use, make_item, planned
from kgtool.changes.cleanup.facts import GONE_PARTITION, GONE_TOPIC, GroupFacts
from kgtool.changes.cleanup.plan_file import DELETE_GROUP, DELETE_OFFSETS, KEEP_OFFSETS, PlanItem
from kgtool.changes.kinds.keep import clock_ms, find_way
from kgtool.config.retention import Rule
from kgtool.model import ItemError, Target, TopicPartition
from kgtool.queries.log.expiry import GroupExpiry
from kgtool.text import moment, span

KEEP, NONE = "keep", "none"
DUE, WAITING, REFUSED, UNKNOWN = "due", "waiting", "refused", "unknown"
LEFT, SAFE, IN_USE = "left-to-broker", "not-expiring", "has-members"
REFUSALS = (REFUSED, UNKNOWN)


class RetentionRow(NamedTuple):
    """One offset; ``topic`` None: all of a group. Times in ms since the epoch.

    ``rule``: the pattern that matches; None: none. ``retention_ms``: None: never, or no rule.
    ``expires_at_ms``: by the broker alone. ``status`` of what is foreseen: ``due``, ``waiting``
    (until ``at_ms``), ``refused`` or ``unknown`` (see ``error``), ``left-to-broker`` (no rule, the
    same retention, or no longer kept), ``not-expiring``, ``has-members``.
    """

    group: str
    topic: str | None
    partition: int | None
    rule: str | None = None
    retention_ms: int | None = None
    expires_at_ms: int | None = None
    action: str = NONE
    at_ms: int | None = None
    status: str = LEFT
    error: ItemError | None = None


class Matched(NamedTuple):
    """The rule of a group, and its pattern that matches."""

    rule: Rule
    glob: str

    @property
    def text(self) -> str:
        """The rule's retention, for reasons."""
        return "never" if self.rule.retention_ms is None else span(self.rule.retention_ms)


FirstTimes = Mapping[TopicPartition, int]
"""From which time offsets counted before kgtool kept them, where it has."""


def decide(
    facts: GroupFacts, matched: Matched, expiry: GroupExpiry, first_ms: FirstTimes, now_ms: int
) -> list[RetentionRow]:
    """Decide about each offset of a group that was read."""
    broker_ms = expiry.broker.retention_ms if expiry.broker is not None else None
    wanted_ms = matched.rule.retention_ms
    rows = {
        at: RetentionRow(
            facts.description.group, *at, matched.glob, wanted_ms, found.expiry.expires_at_ms
        )
        for at, found in facts.offsets.items()
    }
    if facts.is_share:  # brokers have no retention for start offsets: every one is shorter
        if wanted_ms is None:
            return [row._replace(status=SAFE) for row in rows.values()]
        return _shorter(facts, rows, wanted_ms, now_ms)
    if broker_ms is None:
        return [_unknown(row, _NO_RETENTION) for row in rows.values()]
    if wanted_ms is None or wanted_ms > broker_ms:
        return [
            _longer(row, facts, expiry, broker_ms, first_ms.get(at), now_ms)
            for at, row in rows.items()
        ]
    if wanted_ms == broker_ms:
        return list(rows.values())
    return _shorter(facts, rows, wanted_ms, now_ms)


_NO_RETENTION = "The retention of its broker is unknown."


def _unknown(row: RetentionRow, why: str, hint: str | None = None) -> RetentionRow:
    target = Target(row.group, row.topic, row.partition)
    error = ItemError(target, None, "UNKNOWN_EXPIRY", why, hint)
    return row._replace(status=UNKNOWN, error=error)


# ---------------------------------------------------------------------------------------------
# Longer


def is_due(expires_at_ms: int, broker_ms: int, now_ms: int) -> bool:
    """Whether less than half of the broker's retention is left."""
    return 2 * (expires_at_ms - now_ms) < broker_ms


def due_ms(expires_at_ms: int, broker_ms: int) -> int:
    """Return the first moment at which it is due."""
    return (2 * expires_at_ms - broker_ms) // 2 + 1


def _longer(
    row: RetentionRow,
    facts: GroupFacts,
    expiry: GroupExpiry,
    broker_ms: int,
    first_ms: int | None,
    now_ms: int,
) -> RetentionRow:
    found = facts.offsets[TopicPartition(str(row.topic), row.partition or 0)]
    ends_ms = found.expiry.expires_at_ms
    if found.expiry.rule is None:
        return _unknown(row, "When it expires is unknown.", "kgtool explain says why.")
    if ends_ms is None:
        return row._replace(status=SAFE)
    if row.retention_ms is not None:
        counts_ms = clock_ms(found.expiry, broker_ms) if first_ms is None else first_ms
        if counts_ms is not None and ends_ms >= counts_ms + row.retention_ms:
            return row  # it outlives its retention already
    row = row._replace(action=KEEP, at_ms=due_ms(ends_ms, broker_ms))
    error, _ = find_way(facts.description, expiry, True)
    if error is not None:
        target = Target(row.group, row.topic, row.partition)
        return row._replace(status=REFUSED, error=error._replace(target=target))
    return row._replace(status=DUE if is_due(ends_ms, broker_ms, now_ms) else WAITING)


# ---------------------------------------------------------------------------------------------
# Shorter


def _shorter(
    facts: GroupFacts, rows: Mapping[TopicPartition, RetentionRow], wanted_ms: int, now_ms: int
) -> list[RetentionRow]:
    if not facts.description.is_empty:
        return [row._replace(status=IN_USE) for row in rows.values()]
    done = {at: _by_age(facts, at, row, wanted_ms, now_ms) for at, row in rows.items()}
    is_held = any(o.committed.is_pending or o.expiry.is_pending for o in facts.offsets.values())
    if is_held and any(row.status == DUE for row in done.values()):
        why = "A transaction is about to change the group's offsets."
        return [_unknown(row, why, "It goes once that has ended.") for row in rows.values()]
    times = [row.at_ms for row in done.values()]
    last_ms = max((at for at in times if at is not None), default=None)
    goes_whole = all(at is not None for at in times)
    for at, row in done.items():
        is_last = goes_whole and (row.at_ms == last_ms or (last_ms or 0) <= now_ms)
        if is_last:
            done[at] = row._replace(action=DELETE_GROUP)
        elif row.action != NONE and facts.offsets[at].problem in (GONE_TOPIC, GONE_PARTITION):
            done[at] = row._replace(action=NONE, at_ms=None, status=LEFT)  # brokers refuse it
    return list(done.values())


def _by_age(
    facts: GroupFacts, at: TopicPartition, row: RetentionRow, wanted_ms: int, now_ms: int
) -> RetentionRow:
    found = facts.offsets[at]
    since_ms = now_ms - wanted_ms
    row = row._replace(action=DELETE_OFFSETS)
    used_ms = facts.changed_ms
    if found.committed_at is not None:
        used_ms = max(found.committed_at.at_ms, used_ms or 0)
    else:
        try:
            is_idle(facts, found, since_ms)
        except Unknown as reason:
            said = f"{str(reason)[:1].upper()}{str(reason)[1:].rstrip('.')}."
            return _unknown(row._replace(action=NONE), said)
        used_ms = max(facts.committed_before_ms or 0, used_ms or 0)
    ends_ms = used_ms + wanted_ms
    return row._replace(at_ms=ends_ms, status=DUE if ends_ms <= now_ms else WAITING)


# ---------------------------------------------------------------------------------------------
# For a plan


def plan_item(
    facts: GroupFacts, matched: Matched, rows: list[RetentionRow], now_ms: int
) -> PlanItem | None:
    """Return what is due in a group as the item of a plan; None: nothing."""
    due = [row for row in rows if row.status == DUE]
    if not due:
        return None
    places = [TopicPartition(str(row.topic), row.partition or 0) for row in due]
    action = KEEP_OFFSETS if due[0].action == KEEP else due[0].action
    why = [f"{matched.glob} is kept for {matched.text}"]
    if action == KEEP_OFFSETS:
        ends_ms = min(row.expires_at_ms or 0 for row in due)
        why.append(f"the broker may remove it from {moment(ends_ms)} on")
    else:
        why.append(last_use(facts, now_ms))
    return make_item(facts, action, why, planned(facts, places))
