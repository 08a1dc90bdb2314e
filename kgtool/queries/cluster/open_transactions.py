"""The transactions that hold back committed offsets: how long they have been open, and why.

A coordinator ends each of its transactions that is open for longer than its timeout. It never ends
one that it does not know (a *hanging* transaction): consumers that ask for stable offsets wait for
ever (KIP-664, ``kafka-transactions.sh find-hanging``).

Only the log tells whose transaction holds a group's offset: the commits that are open lie in the
batches of their producer.
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
from kgtool.queries.cluster.transactions import under_way
from kgtool.queries.log.scan import GroupLog, scan
from kgtool.retention.rules import RuleSet

_LONGEST = "transaction.max.timeout.ms"
_SEEN = (codes.NONE, codes.TRANSACTIONAL_ID_NOT_FOUND)


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

    ``holders``: group → the producers whose open transactions hold its commits; a group is left out
    where the log could not be read. ``is_complete``: every broker answered, and this login may see
    all transactions. ``longest_ms``: the longest timeout that a client may ask for; None where a
    broker does not tell.
    """

    under_way: tuple[Transaction, ...] = ()
    writers: Mapping[int, tuple[Writer, ...]] = {}
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
    *listed, sees_all, configs = yield from gather(
        [
            *(_under_way(cluster, broker) for broker in brokers),
            _sees_all(cluster),
            broker_configs(cluster, [_LONGEST], brokers),
        ]
    )
    # Only afterwards: a transaction that has ended meanwhile is no longer open in a partition.
    writers = yield from _writers(cluster, leaders)
    holders = yield from _holders(cluster, groups, writers, rules)
    known = [found for found in listed if found is not None]
    return Transactions(
        tuple(each for found in known for each in found),
        writers,
        holders,
        sees_all and len(known) == len(brokers),
        _longest(list(configs.values())),
    )


def _longest(configs: Sequence[Mapping[str, str | None] | KgError]) -> int | None:
    told = ["" if isinstance(each, KgError) else each.get(_LONGEST) or "" for each in configs]
    return max(map(int, told)) if told and all(text.isdecimal() for text in told) else None


def _sees_all(cluster: Cluster) -> Operation[bool]:
    """Ask for an id that nobody uses: ListTransactions leaves out what may not be described."""
    version = yield from version_of(cluster, ANY, describe_transactions.Request)
    if isinstance(version, KgError) or version < 0:
        return False
    request = describe_transactions.Request(transactional_ids=[f"kgtool-{uuid.uuid4()}"])
    reply = yield from call_any(request)
    if isinstance(reply, KgError):
        return False
    denied = codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return all(row.error_code != denied for row in reply.transaction_states)


def _holders(
    cluster: Cluster, groups: Mapping[str, int], writers: Mapping[int, tuple[Writer, ...]],
    rules: RuleSet,
) -> Operation[dict[str, frozenset[int]]]:  # fmt: skip
    """Read the log from where the oldest open transaction began."""
    begins = {n: min(w.start_offset for w in known) for n, known in writers.items() if known}
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


def _under_way(cluster: Cluster, broker: int) -> Operation[list[Transaction] | None]:
    """Return what one broker coordinates; None where it does not say."""
    rows = yield from under_way(cluster, broker)
    if rows is None or isinstance(rows, KgError):
        return None
    # Not found: it has ended since it was listed.
    if any(row.error_code not in _SEEN for row in rows):
        return None
    return [
        Transaction(
            row.transactional_id, row.producer_id, row.transaction_state,
            row.transaction_timeout_ms, row.transaction_start_time_ms,
            frozenset(n for part in row.topics if part.topic == TOPIC for n in part.partitions),
        )
        for row in rows
        if not row.error_code
    ]  # fmt: skip


def _writers(
    cluster: Cluster, leaders: Mapping[int, int]
) -> Operation[dict[int, tuple[Writer, ...]]]:
    """Ask for the producers of partitions (DescribeProducers, 2.8+, takes READ on the topic)."""
    parts = grouped((broker, number) for number, broker in leaders.items())
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
