"""Transactions that hold committed offsets (KIP-447, KIP-664).

OffsetFetch for a whole group leaves out partitions whose very first commit is pending: such a
group looks as if it had no offsets. Only a question for those partitions shows them. So the open
transactions are looked at first: a group whose partition of ``__consumer_offsets`` none of them
touches has nothing pending, which is nearly always so.

A coordinator aborts each of its transactions that is open for longer than its timeout. It never
ends one that it does not know (a *hanging* transaction): consumers that ask for stable offsets
then wait for ever (``kafka-transactions.sh find-hanging``). Only the log tells whose transaction
holds a group's offset: its commits lie in the batches of their producer.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.client.answers import refused
from kgtool.client.cluster import (
    Cluster,
    call_any,
    ensure_brokers,
    fetch_metadata,
    fetch_topic,
    version_of,
)
from kgtool.client.ops import ANY, Operation, call, cut, gather, grouped
from kgtool.errors import BrokerError, KgError
from kgtool.model import CommittedOffset, ItemError, Target, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import (
    describe_producers,
    describe_transactions,
    list_transactions,
    offset_fetch,
)
from kgtool.protocol.codes import broker_error
from kgtool.queries.cluster.broker_configs import broker_configs
from kgtool.queries.cluster.offsets_partition import TOPIC, offsets_partition
from kgtool.queries.log.scan import GroupLog, scan
from kgtool.queries.offsets.fetch import STABLE, Committed, fetch_selected
from kgtool.queries.offsets.list_offsets import log_ends
from kgtool.records.batch import Batch, batches, read_records
from kgtool.records.control import decode_marker
from kgtool.retention.rules import RuleSet
from kgtool.text import listed, shell_word

OPEN_STATES = ["Ongoing", "PrepareCommit", "PrepareAbort"]
PARTITIONS_AT_ONCE = 50_000
"""In one request, of all its groups together."""
_MAX_TIMEOUT = "transaction.max.timeout.ms"


# ---------------------------------------------------------------------------------------------
# First commits that are still pending


def first_commits(
    cluster: Cluster, groups: Sequence[str], *, strict: bool = False
) -> Operation[dict[str, Committed | KgError]]:
    """Return the partitions of each group whose first commit is pending.

    Groups without any are left out, and so are those of which that is unknown: brokers before
    2.5, transactions that may not be seen. A group that an open transaction may concern, and
    whose offsets could not be read, has the error.

    :param strict: all groups have an error where a broker does not list its open transactions.
    """
    if not groups:
        return {}
    yield from ensure_brokers(cluster)
    parts = yield from gather([_busy_on(cluster, broker) for broker in sorted(cluster.brokers)])
    failed = [part for part in parts if isinstance(part, KgError)]
    busy = set[int]().union(*(part for part in parts if not isinstance(part, KgError)))
    pending = (yield from _pending(cluster, groups, busy)) if busy else {}
    return {**dict.fromkeys(groups, failed[0]), **pending} if strict and failed else pending


def _pending(
    cluster: Cluster, groups: Sequence[str], busy: Collection[int]
) -> Operation[dict[str, Committed | KgError]]:
    """Fetch all partitions of the groups that an open transaction may concern."""
    yield from fetch_metadata(cluster, None)
    home = cluster.topics.get(TOPIC)
    count = len(home.leaders) if home else 0
    suspects = [group for group in groups if count and offsets_partition(group, count) in busy]
    partitions = [
        TopicPartition(name, number)
        for name, topic in sorted(cluster.topics.items())
        if not topic.is_internal and topic.error is None
        for number in sorted(topic.leaders)
    ]
    pending: dict[str, Committed | KgError] = {}
    at_once = max(1, PARTITIONS_AT_ONCE // max(len(partitions), 1))
    asked = [(n, p) for n in cut(suspects, at_once) for p in cut(partitions, PARTITIONS_AT_ONCE)]
    for names, part in asked:
        found = yield from fetch_selected(cluster, dict.fromkeys(names, part))
        for group, committed in found.items():
            known = pending.get(group, {})
            if isinstance(committed, KgError):
                pending[group] = committed
            elif isinstance(known, dict) and (first := _first_commits(committed)):
                pending[group] = {**known, **first}
    return pending


def _first_commits(committed: Committed) -> Committed:
    return {
        partition: value
        for partition, value in committed.items()
        if isinstance(value, CommittedOffset) and value.is_pending and value.offset is None
    }


def _busy_on(cluster: Cluster, broker: int) -> Operation[set[int] | KgError]:
    """Return the partitions of ``__consumer_offsets`` that open transactions have touched.

    Those of a broker's own transactions; before 3.0 those that the broker leads.
    """
    rows = yield from _described_on(cluster, broker)
    if isinstance(rows, KgError):
        return rows
    if rows is None:
        version = yield from version_of(broker, offset_fetch.Request)
        is_stable = isinstance(version, int) and version >= STABLE
        return (yield from held_open(cluster, broker)) if is_stable else set()
    return set().union(*map(_offsets_partitions, rows))


def _offsets_partitions(row: Any) -> frozenset[int]:
    return frozenset(n for topic in row.topics if topic.topic == TOPIC for n in topic.partitions)


def _described_on(cluster: Cluster, broker: int) -> Operation[list[Any] | KgError | None]:
    """Return the open transactions that one broker coordinates (DescribeTransactions).

    None where it is too old (before 3.0). One that has ended since it was listed has the
    error code TRANSACTIONAL_ID_NOT_FOUND.
    """
    request = list_transactions.Request(state_filters=OPEN_STATES)
    version = yield from version_of(broker, request)
    if isinstance(version, KgError) or version < 0:
        return version if isinstance(version, KgError) else None
    reply = yield from call(broker, request)
    if isinstance(reply, KgError):
        return reply
    if reply.error_code:
        return refused(cluster, broker, request, reply)
    ids = [row.transactional_id for row in reply.transaction_states]
    if not ids:
        return []
    described = yield from call(broker, describe_transactions.Request(transactional_ids=ids))
    return described if isinstance(described, KgError) else list(described.transaction_states)


def held_open(cluster: Cluster, broker: int) -> Operation[set[int]]:
    """Return the partitions of ``__consumer_offsets`` on a broker with an open transaction.

    There the last stable offset stays before the end of the log (KIP-98), which brokers of all
    versions report. A partition that can't be asked counts as one.
    """
    home = yield from fetch_topic(cluster, TOPIC)
    led = [TopicPartition(TOPIC, number) for number, node in home.leaders.items() if node == broker]
    ends = yield from log_ends(cluster, led, starts=False, stable=True)
    return {at.partition for at, end in ends.items() if end.stable is None or end.stable != end.end}


# ---------------------------------------------------------------------------------------------
# A deletion or a reset before the end of a transaction is undone by it: the offsets that it
# commits are stored after the tombstone.


def pending_error(group: str) -> BrokerError:
    """Return the refusal to change an offset that a transaction is about to change."""
    return broker_error(
        codes.UNSTABLE_OFFSET_COMMIT,
        f"A transaction is about to change this offset of group '{group}'.",
        hint=_wait(group),
    )


def _wait(group: str) -> str:
    return (
        f"Wait until it has ended, or give --force; kgtool doctor --group {shell_word(group)} "
        "names it, and what ends one that hangs."
    )


def pending_partitions(
    committed: Committed | KgError, partitions: Iterable[TopicPartition] | None = None
) -> list[TopicPartition]:
    """Return the partitions (of these, or of all) that a pending transaction is about to change."""
    if isinstance(committed, KgError):
        return []
    return [
        partition
        for partition in (committed if partitions is None else partitions)
        if isinstance(value := committed.get(partition), CommittedOffset) and value.is_pending
    ]


def pending_transaction(group: str, committed: Committed | KgError) -> ItemError | None:
    """Return the refusal to delete a whole group; None where no transaction is pending."""
    pending = pending_partitions(committed)
    if not pending:
        return None
    error = broker_error(
        codes.UNSTABLE_OFFSET_COMMIT,
        f"A transaction is about to change offsets of group '{group}' ({listed(pending, 3)}).",
        hint=_wait(group),
    )
    return ItemError.of(error, Target(group=group))


# ---------------------------------------------------------------------------------------------
# Which transactions hold the offsets of groups, and how long they have been open


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
    rows = yield from _described_on(cluster, broker)
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
            _offsets_partitions(row),
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
