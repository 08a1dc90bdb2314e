"""Findings about the offsets that groups have committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kgtool.model import GroupDescription, GroupOffsets, OffsetRow, TopicPartition
from kgtool.queries.doctor.facts import Facts, is_abandoned
from kgtool.queries.doctor.finding import PROBLEM, WARNING, Finding, file_name, idle_step
from kgtool.retention.rules import RULE_COMMIT
from kgtool.text import counted, listed, moment, span

Rows = dict[str, list[OffsetRow]]
"""Rows of one group by topic."""


def find_in_offsets(facts: Facts, found: GroupOffsets) -> Iterator[Finding]:
    """Find what is wrong with one group's offsets, an offset at a time."""
    group = found.description
    if is_abandoned(facts, group):
        return
    kinds: dict[Callable[..., Iterator[Finding]], Rows] = {}
    for row in found.rows:
        kind = _kind(facts, group, row)
        if kind is not None:
            kinds.setdefault(kind, {}).setdefault(row.topic, []).append(row)
    for kind, topics in kinds.items():
        for rows in topics.values():
            yield from kind(facts, group, rows)


def _kind(
    facts: Facts, group: GroupDescription, row: OffsetRow
) -> Callable[..., Iterator[Finding]] | None:
    """Choose one finding for an offset: without a subscriber its position does not matter."""
    if row.current_offset is None:
        is_new = row.status == "no-commit" and row.member_id is None
        return uncommitted if is_new and _records(row) else None
    if row.status == "unknown-topic":
        return topic_gone
    if is_ghost(facts, group, row):
        return ghost_topic
    if row.status in _WRONG:
        return _WRONG[row.status]
    if _is_other_topic(facts, row):
        return topic_recreated
    return at_risk if (row.group, row.topic_partition) in facts.at_risk else None


def is_ghost(facts: Facts, group: GroupDescription, row: OffsetRow) -> bool:
    """Whether no member of a living group subscribes to the topic of a committed offset.

    Only the log tells what a regular expression matches: an offset that expires by its commit time
    has no subscriber.
    """
    if group.is_empty or group.is_rebalancing or not group.members or row.current_offset is None:
        return False
    if row.subscribed is None and any(member.subscribed_regex for member in group.members):
        expiry = facts.expiry(row)
        return expiry is not None and expiry.rule == RULE_COMMIT
    return row.subscribed is False


def _ids(facts: Facts, row: OffsetRow) -> tuple[str | None, str | None]:
    """Return the topic's id at the commit, and now; None where it is unknown."""
    at = facts.commit_time(row)
    return at.topic_id if at else None, facts.topic_ids.get(row.topic)


def _is_other_topic(facts: Facts, row: OffsetRow) -> bool:
    before, now = _ids(facts, row)
    return before is not None and now is not None and before != now


# ---------------------------------------------------------------------------------------------
# One finding each


def beyond_end(
    facts: Facts, group: GroupDescription, rows: Sequence[OffsetRow]
) -> Iterator[Finding]:
    """Committed > log end, twice in a row: truncated (unclean election), or re-created."""
    other = [row for row in rows if _is_other_topic(facts, row)]
    yield from _of_another_log(
        "beyond-end", facts, group, other, "the log ends at {end}, the topic was re-created"
    )
    same = [row for row in rows if row not in other]
    if not same:
        return
    # What was written since the last commit is unread, however much was truncated.
    fix = _reset(group, same, "--to-datetime", _last_commit(facts, same))
    for row in same:
        detail = f"committed {row.current_offset}, the log ends at {row.log_end_offset}"
        yield _offset("beyond-end", PROBLEM, row, detail, _two_logs(facts, group, row), fix)


def topic_recreated(
    facts: Facts, group: GroupDescription, rows: Sequence[OffsetRow]
) -> Iterator[Finding]:
    """The commit's topic id (OffsetCommitValue v4, 4.1+) is not the topic's current one."""
    said = "in a topic of the same name, which is gone"
    yield from _of_another_log("topic-recreated", facts, group, rows, said)


def _of_another_log(
    kind: str, facts: Facts, group: GroupDescription, rows: Sequence[OffsetRow], said: str
) -> Iterator[Finding]:
    """The group has read nothing of the current topic."""
    for row in rows:
        detail = f"committed {row.current_offset}, {said.format(end=row.log_end_offset)}"
        evidence = _two_logs(facts, group, row)
        yield _offset(kind, PROBLEM, row, detail, evidence, _reset(group, rows, "--to-earliest"))


def _two_logs(facts: Facts, group: GroupDescription, row: OffsetRow) -> dict[str, Any]:
    before, now = _ids(facts, row)
    return {**_numbers(group, row), "committed_topic_id": before, "topic_id": now}


def _last_commit(facts: Facts, rows: Sequence[OffsetRow]) -> str:
    """Return when the first of some rows was committed; ``TIME`` where that is unknown."""
    known = [at.at_ms for row in rows if (at := facts.commit_time(row)) is not None]
    return moment(min(known)) if len(known) == len(rows) else "TIME"


def before_start(
    _facts: Facts, group: GroupDescription, rows: Sequence[OffsetRow]
) -> Iterator[Finding]:
    """Committed < log start: retention or DeleteRecords has overtaken the group."""
    fix = _reset(group, rows, "--to-earliest")
    for row in rows:
        lost = (row.log_start_offset or 0) - (row.current_offset or 0)
        detail = (
            f"committed {row.current_offset}, the log starts at {row.log_start_offset}: "
            f"{counted(lost, 'record')} gone unread"
        )
        evidence = {**_numbers(group, row), "lost_records": lost}
        yield _offset("before-start", WARNING, row, detail, evidence, fix)


def at_risk(facts: Facts, group: GroupDescription, rows: Sequence[OffsetRow]) -> Iterator[Finding]:
    """The first unread records are in the last quarter of their topic's retention."""
    risks = [facts.at_risk[row.group, row.topic_partition] for row in rows]
    times = [risk.lost_at_ms for risk in risks if risk.lost_at_ms is not None]
    first_ms = min(times, default=None)
    numbers, records = [row.partition for row in rows], sum(row.readable or 0 for row in rows)
    left_ms = None if first_ms is None else first_ms - facts.options.now_ms
    kept = span(risks[0].retention_ms)
    when = f"the first in {span(left_ms)}" if left_ms and left_ms > 0 else "the first at any moment"
    if left_ms is None:
        when = "soon"
    detail = (
        f"{counted(records, 'unread record')} in {counted(len(rows), 'partition')} "
        f"({listed(numbers, 5)}), kept for {kept}: {when}"
    )
    evidence = {
        "partitions": numbers,
        "records": records,
        "first_lost_at_ms": first_ms,
        "retention_ms": risks[0].retention_ms,
        "members": len(group.members),
    }
    # The group has no members, or the time is over.
    is_lost = group.is_empty or (left_ms is not None and left_ms <= 0)
    fix = ("kgtool", "lag", "--group", group.group, "--topic", _place(rows), "--rates")
    one = numbers[0] if len(numbers) == 1 else None
    severity = PROBLEM if is_lost else WARNING
    yield Finding("at-risk", severity, detail, evidence, fix, group.group, rows[0].topic, one)


def topic_gone(
    facts: Facts, group: GroupDescription, rows: Sequence[OffsetRow]
) -> Iterator[Finding]:
    """Brokers refuse OffsetDelete for deleted topics: the group is rebuilt without them."""
    topic = rows[0].topic
    idle = idle_step([facts.idle_ms(group.group)])
    fix: tuple[str, ...] = ()
    if group.is_empty and idle is not None:
        out = file_name(f"orphans-{group.group}", "orphans")
        fix = ("kgtool", "cleanup", "plan", "--orphaned", "--group", group.group)
        fix += ("--idle", idle, "--out", out)
    exists = topic in facts.topic_ids
    what = "there are fewer partitions now" if exists else "there is no such topic"
    for row in rows:
        detail = f"committed {row.current_offset}, and {what}"
        yield _offset(
            "topic-gone",
            WARNING,
            row,
            detail,
            {**_numbers(group, row), "topic_exists": exists},
            fix,
        )


def ghost_topic(
    facts: Facts, group: GroupDescription, rows: Sequence[OffsetRow]
) -> Iterator[Finding]:
    """The group has dropped the topic: delete-offsets works on living groups (KIP-496)."""
    dates = [expiry.expires_at_ms for row in rows if (expiry := facts.expiry(row)) is not None]
    last = max((ms for ms in dates if ms is not None), default=None)
    lag = sum(max(row.lag or 0, 0) for row in rows)
    evidence = {
        "offsets": len(rows),
        "lag": lag,
        "members": len(group.members),
        "partitions": [row.partition for row in rows],
        "expires_at_ms": last,
    }
    detail = f"{counted(len(rows), 'offset')} with a lag of {lag}"
    fix: tuple[str, ...] = ()
    if facts.brokers.can_delete_offsets:
        fix = ("kgtool", "delete-offsets", "--group", group.group, "--topic", rows[0].topic)
    yield Finding("ghost-topic", WARNING, detail, evidence, fix, group.group, rows[0].topic)


def _records(row: OffsetRow) -> int:
    return (row.log_end_offset or 0) - (row.log_start_offset or 0)


def uncommitted(
    _facts: Facts, group: GroupDescription, rows: Sequence[OffsetRow]
) -> Iterator[Finding]:
    """The topic has grown, or nothing was read there before the members left."""
    numbers = [row.partition for row in rows]
    records = sum(map(_records, rows))
    what = counted(len(rows), "partition")
    detail = f"{what} ({listed(numbers, 5)}) with {counted(records, 'record')}"
    evidence = {"partitions": numbers, "records": records, "members": len(group.members)}
    # A living group commits there as soon as a member has it.
    fix = _reset(group, rows, "--to-earliest") if group.is_empty else ()
    one = numbers[0] if len(numbers) == 1 else None
    yield Finding("uncommitted", WARNING, detail, evidence, fix, group.group, rows[0].topic, one)


_WRONG = {"beyond-end": beyond_end, "before-start": before_start}


def no_leader(groups: Sequence[GroupOffsets]) -> Iterator[Finding]:
    """Find partitions without a leader, and how many groups wait for them."""
    waiting: Counter[TopicPartition] = Counter()
    for found in groups:
        for row in found.rows:
            if row.status == "no-leader":
                waiting[row.topic_partition] += 1
    for place, count in sorted(waiting.items()):
        yield Finding(
            "no-leader",
            PROBLEM,
            f"{counted(count, 'group')} can't read it",
            {"groups": count},
            topic=place.topic,
            partition=place.partition,
        )


# ---------------------------------------------------------------------------------------------


def _numbers(group: GroupDescription, row: OffsetRow) -> dict[str, Any]:
    return {
        "committed_offset": row.current_offset,
        "log_start_offset": row.log_start_offset,
        "log_end_offset": row.log_end_offset,
        "members": len(group.members),
    }


def _offset(
    kind: str,
    severity: str,
    row: OffsetRow,
    detail: str,
    evidence: dict[str, Any],
    fix: tuple[str, ...],
) -> Finding:
    return Finding(kind, severity, detail, evidence, fix, row.group, row.topic, row.partition)


def _place(rows: Sequence[OffsetRow]) -> str:
    return f"{rows[0].topic}:{','.join(str(row.partition) for row in rows)}"


def _reset(group: GroupDescription, rows: Sequence[OffsetRow], *to: str) -> tuple[str, ...]:
    """Return the command that moves offsets; a group with members has to be stopped first."""
    wait = () if group.is_empty else ("--wait-empty", "10m")
    return (
        "kgtool",
        "reset-offsets",
        "--group",
        group.group,
        "--topic",
        _place(rows),
        *to,
        *wait,
        "--execute",
    )
