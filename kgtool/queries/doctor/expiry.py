"""Findings about time: what expires soon, whether the retention fits the groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kgtool.model import GroupOffsets, OffsetRow
from kgtool.queries.cluster.broker_rules import BrokerRules
from kgtool.queries.doctor.facts import Facts, is_abandoned
from kgtool.queries.doctor.finding import NOTE, WARNING, Finding, file_name
from kgtool.queries.doctor.offsets import is_ghost
from kgtool.queries.log.commit_times import CommitTimes
from kgtool.queries.log.expiry import Expiry
from kgtool.retention import rules as r
from kgtool.text import DAY_MS, counted, span

SHORT_MS = 3 * DAY_MS
"""Consumers that are stopped on a Friday evening are started on Monday morning, or on Tuesday."""
RARE_CHECK = 10
"""Checks are rare at more than a tenth of the retention, and more than an hour."""
HOUR_MS = 3_600_000


class _Row(NamedTuple):
    """An offset that is in use, and when it expires."""

    row: OffsetRow
    expiry: Expiry
    committed_at_ms: int | None


def find_in_times(facts: Facts, found: GroupOffsets) -> Iterator[Finding]:
    """Find what one group is about to lose, or may lose sooner than it seems."""
    group = found.description
    if is_abandoned(facts, group):
        return
    rows = list(_in_use(facts, found))
    due = [each for each in rows if _is_due(facts, each)]
    if due:
        yield _expiring(facts, found, due)
    broker = _broker(facts, group.group)
    if broker is None or broker.retention_ms is None:
        return
    if group.type == r.TYPE_CONSUMER and not group.is_empty:
        yield from _loses_when_empty(facts, found, rows, broker.retention_ms)
    yield from _gap(facts, found, [each for each in rows if each not in due], broker.retention_ms)


def _in_use(facts: Facts, found: GroupOffsets) -> Iterator[_Row]:
    """Leave out topics that no member subscribes to, and deleted ones."""
    for row in found.rows:
        expiry = facts.expiry(row)
        is_read = row.status != "unknown-topic" and not is_ghost(facts, found.description, row)
        if expiry is not None and is_read:
            at = facts.commit_time(row)
            yield _Row(row, expiry, at.at_ms if at else expiry.committed_at_ms)


def _is_due(facts: Facts, each: _Row) -> bool:
    at = each.expiry.expires_at_ms
    return at is not None and at <= facts.options.now_ms + facts.options.within_ms


def _broker(facts: Facts, group: str) -> BrokerRules | None:
    known = facts.expiries.groups.get(group)
    return known.broker if known else None


def _expiring(facts: Facts, found: GroupOffsets, due: list[_Row]) -> Finding:
    group = found.description.group
    first = min(due, key=lambda each: each.expiry.expires_at_ms or 0).expiry
    last = max(each.expiry.expires_at_ms or 0 for each in due)
    left = (first.expires_at_ms or 0) - facts.options.now_ms
    when = f"the first in {span(left)}" if left > 0 else "the first at the next check"
    of = sum(row.current_offset is not None for row in found.rows)
    evidence = {
        "offsets": len(due),
        "of": of,
        "first_expires_at_ms": first.expires_at_ms,
        "last_expires_at_ms": last,
        "rule": first.rule,
        "lag": sum(max(each.row.lag or 0, 0) for each in due),
    }
    needs_join = any(each.expiry.rule == r.RULE_EMPTY_SINCE for each in due)
    fix = _keep(found, *(("--join",) if needs_join else ()))
    detail = f"{len(due)} of {counted(of, 'offset')}, {when} ({first.rule})"
    return Finding("expiring", WARNING, detail, evidence, fix, group)


def _loses_when_empty(
    facts: Facts, found: GroupOffsets, rows: list[_Row], retention_ms: int
) -> Iterator[Finding]:
    """KIP-848: an Empty group's offsets go by the time of each commit alone."""
    limit = facts.options.now_ms - retention_ms
    before = _before_ms(facts, found.description.group)
    old = [
        each
        for each in rows
        if each.expiry.rule == r.RULE_SUBSCRIBED
        and (before if each.committed_at_ms is None else each.committed_at_ms) <= limit
    ]
    if not old:
        return
    times = [each.committed_at_ms for each in old]
    known = [at for at in times if at is not None]
    evidence = {
        "offsets": len(old),
        "partitions": [f"{e.row.topic}-{e.row.partition}" for e in old],
        "retention_ms": retention_ms,
        "oldest_commit_at_ms": min(known) if len(known) == len(old) else None,
    }
    detail = f"{counted(len(old), 'offset')} committed more than {span(retention_ms)} ago"
    name = found.description.group
    fix = ("kgtool", "backup", "--group", name, "--out", file_name(name, "group"))
    yield Finding("loses-when-empty", WARNING, detail, evidence, fix, name)


def _before_ms(facts: Facts, group: str) -> int:
    """Return the time before which commits were made that the log was not read back to."""
    times = facts.times.get(group)
    before = times.before_ms if isinstance(times, CommitTimes) else None
    return before if before is not None else facts.options.now_ms


def _gap(
    facts: Facts, found: GroupOffsets, rows: list[_Row], retention_ms: int
) -> Iterator[Finding]:
    """A working consumer whose offsets expire by commit time, and that rarely commits one."""
    by_commit = [
        (facts.options.now_ms - each.committed_at_ms, each.row)
        for each in rows
        if each.expiry.rule == r.RULE_COMMIT and each.committed_at_ms is not None
    ]
    if not by_commit:
        return
    gap, row = max(by_commit)
    youngest = min(by_commit)[0]
    if gap <= retention_ms // 2 or youngest >= retention_ms // RARE_CHECK:
        return
    detail = f"last commit {span(gap)} ago, kept for {span(retention_ms)}"
    evidence = {
        "since_commit_ms": gap,
        "youngest_commit_ms": youngest,
        "retention_ms": retention_ms,
    }
    yield Finding(
        "retention-gap",
        WARNING,
        detail,
        evidence,
        _keep(found),
        row.group,
        row.topic,
        row.partition,
    )


def _keep(found: GroupOffsets, *more: str) -> tuple[str, ...]:
    """Return the command that restarts the clocks; brokers refuse it while there are members."""
    group = found.description
    return ("kgtool", "keep", "--group", group.group, *more) if group.is_empty else ()


# ---------------------------------------------------------------------------------------------
# The brokers' settings


def find_in_retention(brokers: Mapping[int, BrokerRules]) -> Iterator[Finding]:
    """Judge the retention that brokers are configured with."""
    kept = {b: rules.retention_ms for b, rules in brokers.items() if rules.retention_ms is not None}
    if not kept:
        return
    shortest = min(kept.values())
    if len(set(kept.values())) > 1:
        said = ", ".join(f"broker {b} {span(ms)}" for b, ms in sorted(kept.items()))
        by_broker = {"retention_ms": {str(b): ms for b, ms in kept.items()}}
        yield Finding("retention-differs", WARNING, said, by_broker)
    if shortest < SHORT_MS:
        detail = (
            f"{span(shortest)}; offsets.retention.minutes=10080 in server.properties, and a "
            "restart, make it a week"
        )
        evidence = {"retention_ms": shortest, "default_ms": 7 * DAY_MS}
        yield Finding("retention-short", WARNING, detail, evidence)
    yield from _check_interval(brokers, shortest)


def _check_interval(brokers: Mapping[int, BrokerRules], retention_ms: int) -> Iterator[Finding]:
    longest = max((rules.interval_ms or 0 for rules in brokers.values()), default=0)
    if longest > HOUR_MS and longest > retention_ms // RARE_CHECK:
        detail = f"every {span(longest)}, where they are kept for {span(retention_ms)}"
        evidence = {"check_interval_ms": longest, "retention_ms": retention_ms}
        yield Finding("check-interval", NOTE, detail, evidence)
