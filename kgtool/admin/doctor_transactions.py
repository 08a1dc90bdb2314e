"""The transactions that hold back committed offsets: how long they have been open, and why.

A coordinator of transactions ends what is open for longer than its own timeout. What it does not
know of any more (a *hanging* transaction) nobody ends by himself: consumers that ask for stable
offsets wait for ever (KIP-664, ``kafka-transactions.sh find-hanging``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kgtool.admin.configs import broker_configs
from kgtool.admin.doctor_brokers import TOPIC
from kgtool.client.cluster import Cluster, version_of
from kgtool.client.ops import Operation, call, gather
from kgtool.errors import KgError
from kgtool.protocol.api import describe_producers, describe_transactions, list_transactions

UNDER_WAY = ["Ongoing", "PrepareCommit", "PrepareAbort"]
USUAL_LONGEST_MS = 900_000
"""Kafka's default of transaction.max.timeout.ms."""
_LONGEST = "transaction.max.timeout.ms"


class Transaction(NamedTuple):
    """One transaction under way; times in ms. ``partitions``: of ``__consumer_offsets``."""

    transactional_id: str
    producer_id: int
    state: str
    timeout_ms: int
    start_ms: int
    partitions: frozenset[int]


class Writer(NamedTuple):
    """A producer with a transaction that is open in one partition, as its leader has it."""

    producer_id: int
    start_offset: int
    last_ms: int


class Transactions(NamedTuple):
    """What is under way, and what is open in which partition of ``__consumer_offsets``.

    ``is_complete``: every broker said what it knows; ``longest_ms``: the most that any client may
    ask for as its timeout.
    """

    under_way: tuple[Transaction, ...] = ()
    writers: Mapping[int, tuple[Writer, ...]] = {}
    is_complete: bool = False
    longest_ms: int = USUAL_LONGEST_MS


def open_transactions(cluster: Cluster, leaders: Mapping[int, int]) -> Operation[Transactions]:
    """Ask all brokers for transactions, and the leaders of some partitions for their producers.

    :param leaders: partition of ``__consumer_offsets`` → broker id.
    """
    if not leaders:
        return Transactions()
    brokers = sorted(cluster.brokers)
    *listed, writers, configs = yield from gather(
        [
            *(_under_way(cluster, broker) for broker in brokers),
            _writers(cluster, leaders),
            broker_configs(cluster, [_LONGEST], sorted(set(leaders.values()))),
        ]
    )
    known = [found for found in listed if found is not None]
    return Transactions(
        tuple(each for found in known for each in found),
        writers,
        len(known) == len(brokers),
        max(_longest(configs), default=USUAL_LONGEST_MS),
    )


def _longest(configs: Mapping[int, Any]) -> Iterable[int]:
    for values in configs.values():
        text = None if isinstance(values, KgError) else values.get(_LONGEST)
        if text is not None and text.isdecimal():
            yield int(text)


def _under_way(cluster: Cluster, broker: int) -> Operation[list[Transaction] | None]:
    """Return what one broker coordinates; None where it does not say."""
    version = yield from version_of(cluster, broker, list_transactions.Request)
    if isinstance(version, KgError) or version < 0:
        return None
    listed = yield from call(broker, list_transactions.Request(state_filters=UNDER_WAY))
    if isinstance(listed, KgError) or listed.error_code:
        return None
    ids = [row.transactional_id for row in listed.transaction_states]
    if not ids:
        return []
    described = yield from call(broker, describe_transactions.Request(transactional_ids=ids))
    if isinstance(described, KgError):
        return None
    return [
        Transaction(
            row.transactional_id, row.producer_id, row.transaction_state,
            row.transaction_timeout_ms, row.transaction_start_time_ms,
            frozenset(n for part in row.topics if part.topic == TOPIC for n in part.partitions),
        )
        for row in described.transaction_states
        if not row.error_code
    ]  # fmt: skip


def _writers(
    cluster: Cluster, leaders: Mapping[int, int]
) -> Operation[dict[int, tuple[Writer, ...]]]:
    """Ask for the producers of partitions (DescribeProducers, 2.8+, takes READ on the topic)."""
    parts: dict[int, list[int]] = {}
    for number, broker in leaders.items():
        parts.setdefault(broker, []).append(number)
    found: dict[int, tuple[Writer, ...]] = {}
    asked = [_writers_on(cluster, broker, numbers) for broker, numbers in parts.items()]
    for answers in (yield from gather(asked)):
        found.update(answers)
    return found


def _writers_on(
    cluster: Cluster, broker: int, numbers: list[int]
) -> Operation[dict[int, tuple[Writer, ...]]]:
    version = yield from version_of(cluster, broker, describe_producers.Request)
    if isinstance(version, KgError) or version < 0:
        return {}
    topic = describe_producers.RequestTopic(name=TOPIC, partitions=numbers)
    reply = yield from call(broker, describe_producers.Request(topics=[topic]))
    if isinstance(reply, KgError):
        return {}
    return {
        part.partition: tuple(
            Writer(row.producer_id, row.current_txn_start_offset, row.last_timestamp)
            for row in part.active_producers
            if row.current_txn_start_offset >= 0
        )
        for found in reply.topics
        for part in found.partitions
        if not part.error_code
    }
