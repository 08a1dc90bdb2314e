"""Findings about transactions that hold back committed offsets (KIP-447, KIP-664)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kgtool.model import GroupOffsets
from kgtool.queries.cluster.broker_rules import BrokerRules
from kgtool.queries.cluster.offsets_partition import TOPIC, offsets_partition
from kgtool.queries.cluster.transactions import ActiveProducer, Transaction
from kgtool.queries.doctor.facts import Facts
from kgtool.queries.doctor.finding import NOTE, PROBLEM, SEVERITIES, WARNING, Finding
from kgtool.text import counted, span

SLACK_MS = 30_000
"""A coordinator looks for transactions that are overdue every 10 s
(``transaction.abort.timed.out.transaction.cleanup.interval.ms``), and clocks differ."""

FORCE_TERMINATE = (4, 1)
"""The release whose ``kafka-transactions.sh`` has ``forceTerminateTransaction``."""
DESCRIBES_PRODUCERS, LISTS = (2, 8), (3, 0)
"""The releases whose brokers say who writes to a partition, and list their transactions."""


def find_pending_transactions(facts: Facts) -> Iterator[Finding]:
    """Find which transaction holds the pending commits of each group, and whether it ends."""
    for found in facts.groups:
        if any(row.is_pending for row in found.rows) and facts.brokers.offsets_topic.size:
            yield _worst(facts, found)


def _worst(facts: Facts, found: GroupOffsets) -> Finding:
    known, group = facts.transactions, found.description.group
    number = offsets_partition(group, facts.brokers.offsets_topic.size)
    near = [each for each in known.open if number in each.partitions]
    holders = known.holders.get(group)
    if holders is None:  # any of them may be another application's
        ids = sorted(each.transactional_id for each in near)
        detail = ", and the log of __consumer_offsets, which tells by whom, can't be read"
        return _finding(found, NOTE, detail, {"open_in_partition": ids})
    hanging = [
        _hanging(facts, found, number, producer)
        for producer in known.producers.get(number, ())
        if producer.producer_id in holders - {each.producer_id for each in near}
    ]
    own = sorted((e for e in near if e.producer_id in holders), key=lambda each: each.start_ms)
    findings = [*hanging, *(_open(facts, found, each) for each in own)]
    if not findings:
        return _finding(found, NOTE, ", by a transaction that has ended since", {})
    return min(findings, key=lambda each: SEVERITIES.index(each.severity))


def _hanging(facts: Facts, found: GroupOffsets, number: int, producer: ActiveProducer) -> Finding:
    """A transaction that no coordinator knows; or that this login may not see."""
    known, age = facts.transactions, facts.options.now_ms - producer.last_ms
    evidence = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "open_ms": age,
        "start_offset": producer.start_offset,
        "longest_timeout_ms": known.longest_ms,
    }
    abort = ("kafka-transactions.sh", "abort", "--topic", TOPIC, "--partition", str(number))
    fix: tuple[str, ...] = (*abort, "--start-offset", str(producer.start_offset))
    is_told = _oldest(facts) >= DESCRIBES_PRODUCERS
    if not is_told:  # else the tool asks the broker whose transaction begins there
        fix = (*abort, *_names_producer(producer))
    if not known.is_complete:
        why = "its transaction can't be seen"
        longest_ms = known.longest_ms
        if _oldest(facts) < LISTS and longest_ms is not None and age > longest_ms + SLACK_MS:
            detail = (
                f" held by producer {producer.producer_id} for {span(age)}, longer than any "
                "may be open; brokers before 3.0 do not say whether it is being completed"
            )
            finding = _finding(found, WARNING, detail, evidence, fix)
            # They know WriteTxnMarkers v0 only, which Kafka's tools have dropped in 4.0.
            return finding if is_told else finding._replace(instead=_markers(number, producer))
    elif known.longest_ms is None:
        why = "no coordinator knows the transaction, and transaction.max.timeout.ms is unknown"
    elif age <= known.longest_ms + SLACK_MS:
        why = "no coordinator knows the transaction yet"
    else:
        detail = f": hanging for {span(age)}, no coordinator knows the transaction"
        finding = _finding(found, PROBLEM, detail, evidence, fix)
        return finding._replace(instead=_markers(number, producer))
    detail = f" held by producer {producer.producer_id} for {span(age)}; {why}"
    return _finding(found, NOTE, detail, evidence)


def _names_producer(producer: ActiveProducer) -> tuple[str, ...]:
    return (
        *("--producer-id", str(producer.producer_id)),
        *("--producer-epoch", str(producer.epoch)),
        *("--coordinator-epoch", str(max(producer.coordinator_epoch, 0))),
    )


def _markers(number: int, producer: ActiveProducer) -> tuple[str, ...]:
    """Return the request that ``kafka-transactions.sh abort`` sends, too."""
    marker = {
        "producerId": producer.producer_id,
        "producerEpoch": producer.epoch,
        "transactionResult": False,  # abort
        "topics": [{"name": TOPIC, "partitionIndexes": [number]}],
        "coordinatorEpoch": max(producer.coordinator_epoch, 0),
    }
    return ("kgtool", "request", "WriteTxnMarkers", "--body", json.dumps({"markers": [marker]}))


def _open(facts: Facts, found: GroupOffsets, transaction: Transaction) -> Finding:
    """A transaction that its coordinator knows, and only the coordinator may end."""
    age, timeout = facts.options.now_ms - transaction.start_ms, transaction.timeout_ms
    name, state = transaction.transactional_id, transaction.state
    evidence = {
        "transactional_id": name,
        "producer_id": transaction.producer_id,
        "state": state,
        "open_ms": age,
        "timeout_ms": timeout,
    }
    detail = f" held by {name} ({state}), open for {span(age)}, timeout {span(timeout)}"
    if age <= timeout + SLACK_MS:
        return _finding(found, NOTE, detail, evidence)
    if state != "Ongoing":  # decided: an abort here would tear a committed transaction apart
        detail += "; it is decided, its coordinator has to complete it"
        return _finding(found, WARNING, detail, evidence)
    fix = ("kafka-transactions.sh", "forceTerminateTransaction", "--transactionalId", name)
    can = _oldest(facts) >= FORCE_TERMINATE
    return _finding(found, WARNING, detail, evidence, fix if can else ())


def _oldest(facts: Facts) -> tuple[int, ...]:
    """Return the oldest release of the brokers, as far as they are known."""
    releases = [r.release for r in facts.brokers.rules.values() if isinstance(r, BrokerRules)]
    return min(releases, default=())


def _finding(
    found: GroupOffsets,
    severity: str,
    detail: str,
    evidence: dict[str, Any],
    fix: tuple[str, ...] = (),
) -> Finding:
    """Return a finding; ``detail`` follows the number of pending offsets."""
    rows = [row for row in found.rows if row.is_pending]
    partitions = [f"{row.topic}-{row.partition}" for row in rows]
    topics = {row.topic for row in rows}
    return Finding(
        "pending-transaction",
        severity,
        counted(len(rows), "offset") + detail,
        {"offsets": len(rows), **evidence, "partitions": partitions},
        fix,
        found.description.group,
        rows[0].topic if len(topics) == 1 else None,
        rows[0].partition if len(rows) == 1 else None,
    )
