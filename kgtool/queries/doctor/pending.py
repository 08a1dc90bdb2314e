"""What ``doctor`` says of transactions that hold back committed offsets (KIP-447, KIP-664)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kgtool.model import GroupOffsets
from kgtool.queries.cluster.broker_rules import BrokerRules
from kgtool.queries.cluster.offsets_partition import TOPIC, offsets_partition
from kgtool.queries.cluster.open_transactions import Transaction, Writer
from kgtool.queries.doctor.facts import Facts
from kgtool.queries.doctor.finding import NOTE, PROBLEM, SEVERITIES, WARNING, Finding
from kgtool.text import counted, span

SLACK_MS = 30_000
"""A coordinator looks for transactions that are overdue every 10 s
(``transaction.abort.timed.out.transaction.cleanup.interval.ms``), and clocks differ."""


FORCE_TERMINATE = (4, 1)
"""The release whose ``kafka-transactions.sh`` has ``forceTerminateTransaction``."""


def find_pending(facts: Facts) -> Iterator[Finding]:
    """Say of each group with pending commits which transaction holds them, and whether it ends."""
    for found in facts.groups:
        pending = sum(row.is_pending for row in found.rows)
        if pending and facts.brokers.home.size:
            yield _judge(facts, found, counted(pending, "offset"))


def _judge(facts: Facts, found: GroupOffsets, many: str) -> Finding:
    """Choose the worst of the transactions that hold the group's offsets."""
    seen, group = facts.transactions, found.description.group
    number = offsets_partition(group, facts.brokers.home.size)
    known = [each for each in seen.under_way if number in each.partitions]
    holders = seen.holders.get(group)
    if holders is None:  # another application may have any of them
        ids = sorted(each.transactional_id for each in known)
        detail = f"{many}, and the log of __consumer_offsets, which tells by whom, can't be read"
        return _finding(found, NOTE, detail, {"open_in_partition": ids})
    hanging = [
        _hanging(facts, found, writer, many)
        for writer in seen.writers.get(number, ())
        if writer.producer_id in holders - {each.producer_id for each in known}
    ]
    mine = sorted((e for e in known if e.producer_id in holders), key=lambda each: each.start_ms)
    every = [*hanging, *(_open(facts, found, each, many) for each in mine)]
    if not every:
        return _finding(found, NOTE, f"{many}, by a transaction that has ended since", {})
    return min(every, key=lambda each: SEVERITIES.index(each.severity))


def _hanging(facts: Facts, found: GroupOffsets, writer: Writer, many: str) -> Finding:
    """A transaction that no coordinator knows; or that this login may not see."""
    seen, age = facts.transactions, facts.ask.now_ms - writer.last_ms
    evidence = {
        "producer_id": writer.producer_id, "open_ms": age, "start_offset": writer.start_offset,
        "longest_timeout_ms": seen.longest_ms,
    }  # fmt: skip
    who = f"{many} held by producer {writer.producer_id} for {span(age)}"
    if not seen.is_complete:
        return _finding(found, NOTE, f"{who}; its transaction can't be seen", evidence)
    if seen.longest_ms is None:
        why = "no coordinator knows the transaction, and transaction.max.timeout.ms is unknown"
        return _finding(found, NOTE, f"{who}; {why}", evidence)
    if age <= seen.longest_ms + SLACK_MS:
        return _finding(found, NOTE, f"{who}; no coordinator knows the transaction yet", evidence)
    detail = f"{many}: hanging for {span(age)}, no coordinator knows the transaction"
    number = offsets_partition(found.description.group, facts.brokers.home.size)
    return _finding(found, PROBLEM, detail, evidence, _abort(number, writer))


def _open(facts: Facts, found: GroupOffsets, transaction: Transaction, many: str) -> Finding:
    """A transaction that its coordinator knows, and only the coordinator may end."""
    age, timeout = facts.ask.now_ms - transaction.start_ms, transaction.timeout_ms
    name, state = transaction.transactional_id, transaction.state
    evidence = {
        "transactional_id": name, "producer_id": transaction.producer_id, "state": state,
        "open_ms": age, "timeout_ms": timeout,
    }  # fmt: skip
    detail = f"{many} held by {name} ({state}), open for {span(age)}, timeout {span(timeout)}"
    if age <= timeout + SLACK_MS:
        return _finding(found, NOTE, detail, evidence)
    if state != "Ongoing":  # decided: an abort here would tear a committed transaction apart
        return _finding(
            found, WARNING, f"{detail}; it is decided, its coordinator has to complete it", evidence
        )
    releases = [r.release for r in facts.brokers.rules.values() if isinstance(r, BrokerRules)]
    can = bool(releases) and min(releases) >= FORCE_TERMINATE
    fix = ("kafka-transactions.sh", "forceTerminateTransaction", "--transactionalId", name)
    return _finding(found, WARNING, detail, evidence, fix if can else ())


def _abort(number: int, writer: Writer) -> tuple[str, ...]:
    return (
        "kafka-transactions.sh", "abort", "--topic", TOPIC, "--partition", str(number),
        "--start-offset", str(writer.start_offset),
    )  # fmt: skip


def _finding(
    found: GroupOffsets, severity: str, detail: str, evidence: dict[str, Any],
    fix: tuple[str, ...] = (),
) -> Finding:  # fmt: skip
    rows = [row for row in found.rows if row.is_pending]
    evidence = {"offsets": len(rows), **evidence}
    topics = {row.topic for row in rows}
    return Finding(
        "pending-transaction", severity, detail,
        {**evidence, "partitions": [f"{row.topic}-{row.partition}" for row in rows]}, fix,
        found.description.group, rows[0].topic if len(topics) == 1 else None,
        rows[0].partition if len(rows) == 1 else None,
    )  # fmt: skip
