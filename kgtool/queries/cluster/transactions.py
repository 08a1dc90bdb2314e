"""Transactions that hold committed offsets, and how long they have been open (KIP-664).

A coordinator aborts each of its transactions that is open for longer than its timeout. It never
ends one that it does not know (a *hanging* transaction): consumers that ask for stable offsets
then wait for ever (``kafka-transactions.sh find-hanging``). Only the log tells whose transaction
holds a group's offset: its commits lie in the batches of their producer.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kgtool.client.cluster import Cluster, call_any, fetch_metadata, version_of
from kgtool.client.ops import ANY, Operation, call, gather, grouped
from kgtool.errors import KgError
from kgtool.protocol import codes
from kgtool.protocol.api import describe_producers, describe_transactions
from kgtool.queries.cluster.broker_configs import broker_configs
from kgtool.queries.cluster.offsets_partition import TOPIC
from kgtool.queries.cluster.pending import described_on, offsets_partitions
from kgtool.queries.log.scan import GroupLog, scan
from kgtool.records.batch import Batch, batches, read_records
from kgtool.records.control import decode_marker
from kgtool.retention.rules import RuleSet

_MAX_TIMEOUT = "transaction.max.timeout.ms"


class Transaction(NamedTuple):
    """One open transaction; times in ms. ``partitions``: of ``__consumer_offsets``."""

    transactional_id: str
    producer_id: int
    state: str
    timeout_ms: int
    start_ms: int
    partitions: frozenset[int]


class ActiveProducer(NamedTuple):
    """A producer with an open transaction in one partition (DescribeProducers, or the log).

    ``coordinator_epoch``: of the last marker that its coordinator wrote, -1: none yet.
    """

    producer_id: int
    start_offset: int
    last_ms: int
    epoch: int = 0
    coordinator_epoch: int = -1


class Transactions(NamedTuple):
    """Open transactions, and their producers by partition of ``__consumer_offsets``.

    ``holders``: group → the producers whose open transactions hold its commits; a group is left out
    where the log could not be read. ``is_complete``: every broker answered, and this login may see
    all transactions. ``longest_ms``: the longest timeout that a client may ask for; None where a
    broker does not say.
    """

    open: tuple[Transaction, ...] = ()
    producers: Mapping[int, tuple[ActiveProducer, ...]] = {}
    holders: Mapping[str, frozenset[int]] = {}
    is_complete: bool = False
    longest_ms: int | None = None


def open_transactions(
    cluster: Cluster, groups: Mapping[str, int], leaders: Mapping[int, int], rules: RuleSet
) -> Operation[Transactions]:
    """Ask all brokers for transactions, and the leaders of some partitions for their producers.

    :param groups: those with pending commits → their partitions of ``__consumer_offsets``.
    :param leaders: the leader (broker id) of each such partition that has one.
    """
    if not leaders:
        return Transactions()
    brokers = sorted(cluster.brokers)
    *answers, sees_all, configs = yield from gather(
        [
            *(_open_on(cluster, broker) for broker in brokers),
            _sees_all(cluster),
            broker_configs(cluster, [_MAX_TIMEOUT], brokers),
        ]
    )
    # Only afterwards: a transaction that has ended meanwhile is no longer open in a partition.
    parts = grouped((broker, number) for number, broker in leaders.items())
    asked = [_producers_on(cluster, broker, numbers) for broker, numbers in parts.items()]
    producers: dict[int, tuple[ActiveProducer, ...]] = {}
    for part in (yield from gather(asked)):
        producers.update(part)
    producers.update((yield from _producers_in_log(cluster, leaders)))
    holders = yield from _holders(cluster, groups, producers, rules)
    known = [found for found in answers if found is not None]
    return Transactions(
        tuple(each for found in known for each in found),
        producers,
        holders,
        sees_all and len(known) == len(brokers),
        _longest(list(configs.values())),
    )


def _longest(configs: Sequence[Mapping[str, str | None] | KgError]) -> int | None:
    known = ["" if isinstance(each, KgError) else each.get(_MAX_TIMEOUT) or "" for each in configs]
    return max(map(int, known)) if known and all(text.isdecimal() for text in known) else None


def _sees_all(cluster: Cluster) -> Operation[bool]:
    """Describe an unused id: ListTransactions leaves out what may not be described."""
    version = yield from version_of(ANY, describe_transactions.Request)
    if isinstance(version, KgError) or version < 0:
        return False
    request = describe_transactions.Request(transactional_ids=[f"kgtool-{uuid.uuid4()}"])
    reply = yield from call_any(request)
    if isinstance(reply, KgError):
        return False
    denied = codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return all(row.error_code != denied for row in reply.transaction_states)


def _holders(
    cluster: Cluster,
    groups: Mapping[str, int],
    producers: Mapping[int, tuple[ActiveProducer, ...]],
    rules: RuleSet,
) -> Operation[dict[str, frozenset[int]]]:
    """Read the log from where the oldest open transaction began."""
    begins = {n: min(p.start_offset for p in known) for n, known in producers.items() if known}
    homes = {n: [group for group, home in groups.items() if home == n] for n in begins}
    logs = {number: GroupLog(rules, names) for number, names in homes.items()}
    feeds = {number: log.feed for number, log in logs.items()}
    try:
        yield from fetch_metadata(cluster, [TOPIC])
        found = yield from scan(cluster, feeds, begins=begins)
    except KgError:
        return {}
    return {
        group: logs[number].holders(group)
        for number, names in homes.items()
        if not isinstance(found[number], KgError)
        for group in names
    }


class _OpenBatches:
    """Takes batches of one partition; keeps the producers whose transactions are not ended."""

    def __init__(self) -> None:
        self.producers: dict[int, ActiveProducer] = {}
        self._markers: dict[int, int] = {}

    def feed(self, data: bytes) -> None:
        """Take whole batches, in the order of the log."""
        for batch in batches(data):
            if batch.is_control:
                self._end(data, batch)
            elif batch.is_transactional:
                known = self.producers.get(batch.producer_id)
                self.producers[batch.producer_id] = ActiveProducer(
                    batch.producer_id,
                    batch.base_offset if known is None else known.start_offset,
                    batch.max_timestamp_ms,
                    batch.producer_epoch(data),
                    self._markers.get(batch.producer_id, -1),
                )

    def _end(self, data: bytes, batch: Batch) -> None:
        self.producers.pop(batch.producer_id, None)
        for record in read_records(data, batch):
            epoch = decode_marker(record.key or b"", record.value).coordinator_epoch
            if epoch is not None:
                self._markers[batch.producer_id] = epoch


def _producers_in_log(
    cluster: Cluster, leaders: Mapping[int, int]
) -> Operation[dict[int, tuple[ActiveProducer, ...]]]:
    """Find what DescribeProducers tells in the partitions whose leaders are older than that (2.8).

    They are read from their beginning: markers of earlier transactions have the epoch of the
    producer's coordinator. Where none is left it counts as 0; a leader refuses one that is too low.
    """
    old = set()
    for broker in set(leaders.values()):
        version = yield from version_of(broker, describe_producers.Request)
        if not isinstance(version, KgError) and version < 0:
            old.add(broker)
    found = {number: _OpenBatches() for number, broker in leaders.items() if broker in old}
    if not found:
        return {}
    try:
        yield from fetch_metadata(cluster, [TOPIC])
        read = yield from scan(cluster, {number: each.feed for number, each in found.items()})
    except KgError:
        return {}
    return {
        number: tuple(each.producers.values())
        for number, each in found.items()
        if not isinstance(read[number], KgError)
    }


def _open_on(cluster: Cluster, broker: int) -> Operation[list[Transaction] | None]:
    """Return the open transactions that one broker coordinates; None where it does not say."""
    rows = yield from described_on(cluster, broker)
    if rows is None or isinstance(rows, KgError):
        return None
    ended = codes.TRANSACTIONAL_ID_NOT_FOUND
    if any(row.error_code not in (codes.NONE, ended) for row in rows):
        return None
    return [
        Transaction(
            row.transactional_id,
            row.producer_id,
            row.transaction_state,
            row.transaction_timeout_ms,
            row.transaction_start_time_ms,
            offsets_partitions(row),
        )
        for row in rows
        if not row.error_code
    ]


def _producers_on(
    cluster: Cluster, broker: int, numbers: list[int]
) -> Operation[dict[int, tuple[ActiveProducer, ...]]]:
    """Ask for the producers of partitions (DescribeProducers, 2.8+, takes READ on the topic)."""
    version = yield from version_of(broker, describe_producers.Request)
    if isinstance(version, KgError) or version < 0:
        return {}
    topic = describe_producers.RequestTopic(name=TOPIC, partitions=numbers)
    reply = yield from call(broker, describe_producers.Request(topics=[topic]))
    if isinstance(reply, KgError):
        return {}
    return {
        part.partition: tuple(
            ActiveProducer(
                row.producer_id,
                row.current_txn_start_offset,
                row.last_timestamp,
                row.producer_epoch,
                row.coordinator_epoch,
            )
            for row in part.active_producers
            if row.current_txn_start_offset >= 0
        )
        for found in reply.topics
        for part in found.partitions
        if not part.error_code
    }
