"""What ``doctor`` says of transactions that hold back committed offsets (KIP-447, KIP-664)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kgtool.admin.doctor_brokers import TOPIC
from kgtool.admin.doctor_facts import Facts
from kgtool.admin.doctor_finding import NOTE, PROBLEM, WARNING, Finding
from kgtool.admin.doctor_transactions import Transaction, Writer
from kgtool.admin.partition import offsets_partition
from kgtool.model import GroupOffsets
from kgtool.words import counted, span

SLACK_MS = 30_000
"""A coordinator looks for transactions that are overdue every 10 s
(``transaction.abort.timed.out.transaction.cleanup.interval.ms``), and clocks differ."""


def find_pending(facts: Facts) -> Iterator[Finding]:
    """Say of each group with pending commits how long that has been so, and whether it ends."""
    for found in facts.groups:
        pending = [row for row in found.rows if row.is_pending]
        count = facts.brokers.home.size
        if pending and count:
            number = offsets_partition(found.description.group, count)
            yield _judge(facts, found, len(pending), number)


def _judge(facts: Facts, found: GroupOffsets, pending: int, number: int) -> Finding:
    """Take the oldest transaction in the group's partition: nobody says whose commits it holds."""
    now_ms = facts.ask.now_ms
    known = [each for each in facts.transactions.under_way if number in each.partitions]
    ids = {each.producer_id for each in known}
    writers = facts.transactions.writers.get(number, ())
    strange = [w for w in writers if w.producer_id not in ids]
    evidence: dict[str, Any] = {"offsets": pending, "offsets_partition": number}
    many = counted(pending, "offset")
    hanging = min(strange, key=lambda w: w.last_ms, default=None)
    if (
        hanging is not None
        and facts.transactions.is_complete
        and now_ms - hanging.last_ms > facts.transactions.longest_ms
    ):
        age = now_ms - hanging.last_ms
        evidence |= {"producer_id": hanging.producer_id, "open_ms": age,
                     "start_offset": hanging.start_offset}  # fmt: skip
        detail = f"{many}: hanging for {span(age)}, no coordinator knows the transaction"
        return _finding(found, PROBLEM, detail, evidence, _abort(number, hanging))
    oldest = min(known, key=lambda each: each.start_ms, default=None)
    if oldest is None:
        return _finding(found, NOTE, f"{many}, by a transaction that is not to be seen", evidence)
    return _of(found, oldest, now_ms, many, evidence, writers)


def _of(
    found: GroupOffsets, transaction: Transaction, now_ms: int, many: str,
    evidence: dict[str, Any], writers: tuple[Writer, ...],
) -> Finding:  # fmt: skip
    age, timeout = now_ms - transaction.start_ms, transaction.timeout_ms
    number = evidence["offsets_partition"]
    evidence |= {
        "transactional_id": transaction.transactional_id, "producer_id": transaction.producer_id,
        "state": transaction.state, "open_ms": age, "timeout_ms": timeout,
    }  # fmt: skip
    name = transaction.transactional_id
    detail = f"{many} held by {name}, open for {span(age)}, timeout {span(timeout)}"
    if age <= timeout + SLACK_MS:
        return _finding(found, NOTE, detail, evidence)
    mine = [w for w in writers if w.producer_id == transaction.producer_id]
    return _finding(found, WARNING, detail, evidence, _abort(number, mine[0]) if mine else ())


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
    topics = {row.topic for row in rows}
    return Finding(
        "pending-transaction", severity, detail,
        {**evidence, "partitions": [f"{row.topic}-{row.partition}" for row in rows]}, fix,
        found.description.group, rows[0].topic if len(topics) == 1 else None,
        rows[0].partition if len(rows) == 1 else None,
    )  # fmt: skip
