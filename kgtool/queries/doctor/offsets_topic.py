"""Findings about how ``__consumer_offsets`` is set up, and how fast it grows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kgtool.queries.cluster.broker_rules import BrokerRules
from kgtool.queries.cluster.offsets_partition import TOPIC, offsets_partition
from kgtool.queries.doctor.facts import Facts
from kgtool.queries.doctor.finding import PROBLEM, WARNING, Finding
from kgtool.text import counted, listed
from kgtool.text import size as bytes_text

DEFAULT_SEGMENT = 100 * 1024 * 1024
"""``offsets.topic.segment.bytes``."""
LEAST_SEGMENT, MOST_SEGMENT = 10 * 1024 * 1024, 512 * 1024 * 1024
LEAST_DAILY = 100_000
PER_OFFSET = 50_000
"""Records a day for each live offset: a commit every 1.7 s; Kafka's default is one in 5 s."""


def find_in_set_up(facts: Facts) -> Iterator[Finding]:
    """Judge the topic's configuration, which stays as it was created, and its growth."""
    yield from _cleaning(facts)
    yield from _segments(facts)
    yield from _growth(facts)
    rows = facts.brokers.offsets_topic.partitions.values()
    least = min((len(row.replicas) for row in rows), default=0)
    brokers = len(facts.brokers.rules)
    if least and least < min(3, brokers):
        detail = f"{counted(least, 'replica')} on {counted(brokers, 'broker')}"
        evidence = {"replicas": least, "brokers": brokers}
        yield Finding("offsets-replication", WARNING, detail, evidence, topic=TOPIC)


def _cleaning(facts: Facts) -> Iterator[Finding]:
    policy = facts.brokers.offsets_topic.cleanup_policy
    if policy is not None and policy != "compact":
        fix = _alter("cleanup.policy=compact")
        detail, evidence = f"cleanup.policy={policy}", {"cleanup_policy": policy}
        yield Finding("offsets-not-compacted", PROBLEM, detail, evidence, fix, topic=TOPIC)
    known = facts.brokers.rules.items()
    without = [b for b, x in known if isinstance(x, BrokerRules) and not x.has_cleaner]
    if without:
        detail = (
            f"log.cleaner.enable=false on {counted(len(without), 'broker')} ({listed(without, 5)})"
        )
        yield Finding("offsets-not-cleaned", PROBLEM, detail, {"brokers": without}, topic=TOPIC)


def _segments(facts: Facts) -> Iterator[Finding]:
    size = facts.brokers.offsets_topic.segment_bytes
    if size is None or LEAST_SEGMENT <= size <= MOST_SEGMENT:
        return
    what = "tiny" if size < LEAST_SEGMENT else "huge"
    detail = f"segment.bytes={size} ({bytes_text(size)}) is {what}"
    evidence = {"segment_bytes": size, "default_bytes": DEFAULT_SEGMENT}
    fix = _alter(f"segment.bytes={DEFAULT_SEGMENT}")
    yield Finding("offsets-segments", WARNING, detail, evidence, fix, topic=TOPIC)


def _growth(facts: Facts) -> Iterator[Finding]:
    topic = facts.brokers.offsets_topic
    live: Counter[int] = Counter()
    if facts.brokers.sees_all is False or not topic.size:
        return  # whose offsets are live there is not known
    for found in facts.groups:
        number = offsets_partition(found.description.group, topic.size)
        live[number] += sum(row.current_offset is not None for row in found.rows)
    for number, records in sorted(topic.daily.items()):
        if records >= max(LEAST_DAILY, PER_OFFSET * live[number]):
            offsets = counted(live[number], "live offset")
            detail = f"{counted(records, 'record')} in the last day for {offsets}"
            evidence = {"records_in_a_day": records, "live_offsets": live[number]}
            yield Finding(
                "offsets-growth", WARNING, detail, evidence, topic=TOPIC, partition=number
            )


def _alter(config: str) -> tuple[str, ...]:
    entity = ("--entity-type", "topics", "--entity-name", TOPIC)
    return ("kafka-configs.sh", "--alter", *entity, "--add-config", config)
