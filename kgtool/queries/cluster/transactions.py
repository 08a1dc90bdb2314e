"""First commits that are still pending in a transaction (KIP-447, KIP-664).

OffsetFetch for a whole group leaves out partitions whose very first commit is pending: such a
group looks as if it had nothing. Only a question for those partitions shows them. So the
transactions that are under way are looked at first: a group whose partition of
``__consumer_offsets`` none of them touches has nothing pending, which is nearly always so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from kgtool.client.answers import refused
from kgtool.client.cluster import (
    Cluster,
    fetch_metadata,
    know_topic,
    need_brokers,
    version_of,
)
from kgtool.client.ops import Operation, call, cut, gather
from kgtool.errors import BrokerError, KgError
from kgtool.model import CommittedOffset, ItemError, Target, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import describe_transactions, list_transactions, offset_fetch
from kgtool.protocol.codes import broker_error
from kgtool.queries.cluster.offsets_partition import TOPIC, offsets_partition
from kgtool.queries.offsets.fetch import STABLE, Committed, fetch_selected
from kgtool.queries.offsets.list_offsets import log_ends
from kgtool.text import listed

UNDER_WAY = ["Ongoing", "PrepareCommit", "PrepareAbort"]
PARTITIONS_AT_ONCE = 50_000
"""In one question, of all its groups together."""


def first_commits(
    cluster: Cluster, groups: Sequence[str], *, strict: bool = False
) -> Operation[dict[str, Committed | KgError]]:
    """Return the partitions of each group whose first commit is pending.

    Groups without any are left out, and so are those of which that can't be found out: brokers
    before 2.5, transactions that may not be seen. A group that a transaction may be about, and
    that could not be asked for it, has the error.

    :param strict: so have all groups where a broker does not say which transactions are under way.
    """
    if not groups:
        return {}
    yield from need_brokers(cluster)
    parts = yield from gather([_busy_on(cluster, broker) for broker in sorted(cluster.brokers)])
    silent = [part for part in parts if isinstance(part, KgError)]
    busy = set[int]().union(*(part for part in parts if not isinstance(part, KgError)))
    pending = (yield from _pending(cluster, groups, busy)) if busy else {}
    return {**dict.fromkeys(groups, silent[0]), **pending} if strict and silent else pending


def _pending(
    cluster: Cluster, groups: Sequence[str], busy: Collection[int]
) -> Operation[dict[str, Committed | KgError]]:
    """Ask for all partitions of the groups that a transaction may be about."""
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
    for names in cut(suspects, at_once):
        for part in cut(partitions, PARTITIONS_AT_ONCE):
            found = yield from fetch_selected(cluster, dict.fromkeys(names, part))
            for group, committed in found.items():
                _add_pending(pending, group, committed)
    return pending


def _add_pending(
    pending: dict[str, Committed | KgError], group: str, committed: Committed | KgError
) -> None:
    if isinstance(committed, KgError):
        pending[group] = committed
        return
    first = {
        partition: value
        for partition, value in committed.items()
        if isinstance(value, CommittedOffset) and value.is_pending and value.offset is None
    }
    known = pending.setdefault(group, {}) if first else None
    if isinstance(known, dict):
        known.update(first)


def under_way(cluster: Cluster, broker: int) -> Operation[list[Any] | KgError | None]:
    """Return the transactions that one broker coordinates, as DescribeTransactions has them.

    None where it is too old to tell (before 3.0). Of one that has ended since it was listed the row
    says so, by TRANSACTIONAL_ID_NOT_FOUND.
    """
    request = list_transactions.Request(state_filters=UNDER_WAY)
    version = yield from version_of(cluster, broker, request)
    if isinstance(version, KgError) or version < 0:
        return version if isinstance(version, KgError) else None
    listed = yield from call(broker, request)
    if isinstance(listed, KgError):
        return listed
    if listed.error_code:
        return refused(cluster, broker, request, listed)
    ids = [row.transactional_id for row in listed.transaction_states]
    if not ids:
        return []
    described = yield from call(broker, describe_transactions.Request(transactional_ids=ids))
    return described if isinstance(described, KgError) else list(described.transaction_states)


def _busy_on(cluster: Cluster, broker: int) -> Operation[set[int] | KgError]:
    """Return the partitions of ``__consumer_offsets`` that open transactions have touched.

    Those of a broker's own transactions; before 3.0 those that the broker leads.
    """
    rows = yield from under_way(cluster, broker)
    if isinstance(rows, KgError):
        return rows
    if rows is None:
        version = yield from version_of(cluster, broker, offset_fetch.Request)
        tells = isinstance(version, int) and version >= STABLE
        return (yield from held_open(cluster, broker)) if tells else set()
    return {
        number
        for row in rows
        for topic in row.topics
        if topic.topic == TOPIC
        for number in topic.partitions
    }


def held_open(cluster: Cluster, broker: int) -> Operation[set[int]]:
    """Return the partitions of ``__consumer_offsets`` on a broker that a transaction is open in.

    There the last stable offset stands still before the end of the log (KIP-98), which brokers of
    all versions tell. A partition that can't be asked may have one.
    """
    home = yield from know_topic(cluster, TOPIC)
    led = [TopicPartition(TOPIC, number) for number, node in home.leaders.items() if node == broker]
    ends = yield from log_ends(cluster, led, starts=False, stable=True)
    return {at.partition for at, end in ends.items() if end.stable is None or end.stable != end.end}


# ---------------------------------------------------------------------------------------------
# A deletion or a reset that comes before the end of a transaction is undone by it: the offsets that
# it commits are stored after the tombstone.


def pending_error(group: str) -> BrokerError:
    """Say why an offset had better be left alone."""
    return broker_error(
        codes.UNSTABLE_OFFSET_COMMIT,
        f"A transaction is about to change this offset of group '{group}'.",
        hint="Wait until it has ended, or give --force.",
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
    """Return why a whole group had better be left alone; None where nothing is pending."""
    pending = pending_partitions(committed)
    if not pending:
        return None
    error = broker_error(
        codes.UNSTABLE_OFFSET_COMMIT,
        f"A transaction is about to change offsets of group '{group}' ({listed(pending, 3)}).",
        hint="Wait until it has ended, or give --force.",
    )
    return ItemError.of(error, Target(group=group))
