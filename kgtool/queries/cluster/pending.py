"""Offsets that an open transaction is about to change (KIP-447).

OffsetFetch for a whole group leaves out partitions whose very first commit is pending: such a
group looks as if it had no offsets. Only a question for those partitions shows them. So the open
transactions are looked at first: a group whose partition of ``__consumer_offsets`` none of them
touches has nothing pending, which is nearly always so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from kgtool.client.answers import refused
from kgtool.client.cluster import Cluster, ensure_brokers, fetch_metadata, fetch_topic, version_of
from kgtool.client.ops import Operation, call, cut, gather
from kgtool.errors import BrokerError, KgError
from kgtool.model import CommittedOffset, ItemError, Target, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import describe_transactions, list_transactions, offset_fetch
from kgtool.protocol.codes import broker_error
from kgtool.queries.cluster.offsets_partition import TOPIC, offsets_partition
from kgtool.queries.offsets.fetch import STABLE, Committed, fetch_selected
from kgtool.queries.offsets.list_offsets import log_ends
from kgtool.text import listed, shell_word

OPEN_STATES = ["Ongoing", "PrepareCommit", "PrepareAbort"]
PARTITIONS_AT_ONCE = 50_000
"""In one request, of all its groups together."""


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
    rows = yield from described_on(cluster, broker)
    if isinstance(rows, KgError):
        return rows
    if rows is None:
        version = yield from version_of(broker, offset_fetch.Request)
        is_stable = isinstance(version, int) and version >= STABLE
        return (yield from held_open(cluster, broker)) if is_stable else set()
    return set().union(*map(offsets_partitions, rows))


def offsets_partitions(row: Any) -> frozenset[int]:
    """Return the partitions of ``__consumer_offsets`` that a transaction has touched."""
    return frozenset(n for topic in row.topics if topic.topic == TOPIC for n in topic.partitions)


def described_on(cluster: Cluster, broker: int) -> Operation[list[Any] | KgError | None]:
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
