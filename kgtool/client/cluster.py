"""A cache of the cluster's brokers, coordinators and leaders, and the operations that fill it.

Only the operations here and in ``routing`` change it. An entry that an answer contradicts
(NOT_COORDINATOR, NOT_LEADER_OR_FOLLOWER, a lost connection) is dropped and looked up again until
the command's time is up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from kgtool.client import denied
from kgtool.client.answers import (
    PROTOCOL_TRIES,
    is_permanent,
    keep_reason,
    left_out,
    may_get_better,
    other_cluster,
    peer_of,
    refused,
)
from kgtool.client.ops import ANY, Operation, Versions, backoff, call, cut, gather
from kgtool.errors import BrokerError, ConnectionLost, EncodeError, IncompleteAnswer, KgError
from kgtool.model import Broker, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import find_coordinator, metadata
from kgtool.protocol.codes import broker_error
from kgtool.protocol.schema import changes

COORDINATORS_PER_REQUEST = 1000
"""Keys in one FindCoordinator v4+: a few dozen bytes each, so a request stays under 100 kB."""

SEVERAL_KEYS = 4
"""The version of FindCoordinator that takes several groups (KIP-699, Kafka 3.0)."""

ANY_TRIES = 3

NO_OFFSETS_TOPIC = (
    "The cluster has no topic __consumer_offsets: no group has committed anything yet, or its "
    "brokers are not Apache Kafka's and keep offsets elsewhere."
)


class TopicInfo(NamedTuple):
    """A topic as Metadata describes it; ``leaders`` maps partition to broker id or -1, ``epochs``
    to its leader's epoch, -1 where a broker before 2.1 does not tell."""

    name: str
    topic_id: UUID | None
    leaders: dict[int, int]
    error: KgError | None = None
    is_internal: bool = False
    epochs: Mapping[int, int] = {}


class Cluster:
    """The cache; the network layer reads addresses from it."""

    def __init__(self) -> None:
        self.brokers: dict[int, Broker] = {}
        self.cluster_id: str | None = None
        self.controller: int = ANY
        self.coordinators: dict[str, int] = {}
        self.topics: dict[str, TopicInfo] = {}
        self.must_bootstrap = False
        """Whether the next request goes to one of the addresses that the user gave."""

    def forget_brokers(self) -> None:
        """Start again with the user's addresses: the known brokers may be another cluster's now."""
        self.brokers = {}
        self.coordinators.clear()
        self.must_bootstrap = True

    def learn(self, reply: Any) -> None:
        """Store the brokers, cluster id and topics of a Metadata response."""
        self.brokers = {
            row.node_id: Broker(row.node_id, row.host, row.port, row.rack) for row in reply.brokers
        }
        self.cluster_id = reply.cluster_id or self.cluster_id
        self.controller = reply.controller_id
        for row in reply.topics:
            if row.name is not None:
                self.topics[row.name] = _topic_info(row)

    def leader(self, partition: TopicPartition) -> int:
        """Return the broker id of a partition's leader, -1 if there is none or it is unknown."""
        topic = self.topics.get(partition.topic)
        return -1 if topic is None else topic.leaders.get(partition.partition, -1)


def _topic_info(row: Any) -> TopicInfo:
    leaders = {part.partition: part.leader_id for part in row.partitions}
    topic_id = row.topic_id if row.topic_id.int else None
    error = None
    # LEADER_NOT_AVAILABLE (5) is about single partitions; those have leader -1.
    if row.error_code not in (codes.NONE, codes.LEADER_NOT_AVAILABLE):
        unknown = row.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION
        message = NO_OFFSETS_TOPIC if unknown and row.name == "__consumer_offsets" else None
        refusal = broker_error(row.error_code, message)
        error = denied.explain(refusal, denied.DESCRIBE, topic=row.name)
    epochs = {part.partition: part.leader_epoch for part in row.partitions}
    return TopicInfo(row.name, topic_id, leaders, error, bool(row.is_internal), epochs)


def call_any(request: Any, max_version: int | None = None) -> Operation[Any]:
    """Ask any broker; a connection that breaks before the answer is retried.

    Not so a change that was sent: the caller has to look whether it was made. That no broker can
    be reached at all is final: the network layer has tried them all.
    """
    reply = yield from call(ANY, request, max_version)
    for attempt in range(ANY_TRIES):
        if not (isinstance(reply, KgError) and may_get_better(reply, attempt)):
            return reply
        if not (reply.maybe_done or isinstance(reply, ConnectionLost)):
            return reply
        if reply.maybe_done and changes(request):
            return reply
        yield backoff(attempt)
        reply = keep_reason(reply, (yield from call(ANY, request, max_version)))
    return reply


def ask_metadata(cluster: Cluster, topics: Sequence[str] | None) -> Operation[Any]:
    """Send Metadata for topics (None: all of them), store the answer, and return it or a KgError.

    An answer that is an error as a whole (KIP-1102), or has no broker, is no answer: the request is
    repeated until the command's time is up.
    """
    rows = None if topics is None else [metadata.RequestTopic(name=name) for name in topics]
    request = metadata.Request(topics=rows, allow_auto_topic_creation=False)
    failure: KgError | None = None
    attempt = 0
    while True:
        reply = keep_reason(failure, (yield from call_any(request)))
        if isinstance(reply, KgError):
            return reply
        if not reply.error_code and reply.brokers:
            wrong_cluster = other_cluster(cluster, reply)
            if wrong_cluster is None:
                cluster.learn(reply)
            return wrong_cluster or reply
        failure = left_out(request, "the brokers")
        if reply.error_code:
            failure = refused(cluster, ANY, request, reply)
        if reply.error_code == codes.REBOOTSTRAP_REQUIRED:
            cluster.forget_brokers()
        elif is_permanent(failure):
            return failure
        yield backoff(attempt)
        attempt += 1


def fetch_metadata(cluster: Cluster, topics: Sequence[str] | None = ()) -> Operation[None]:
    """Fetch the brokers, and the given topics (None: all of them; none by default).

    :raises KgError: no broker answered.
    """
    reply = yield from ask_metadata(cluster, topics)
    if isinstance(reply, KgError):
        raise reply
    for name in set(topics or ()).difference(row.name for row in reply.topics):
        cluster.topics[name] = TopicInfo(
            name, None, {}, left_out(metadata.Request, f"topic {name}")
        )


def fetch_topic(cluster: Cluster, name: str) -> Operation[TopicInfo]:
    """Fetch one topic; a failure is its error."""
    try:
        yield from fetch_metadata(cluster, [name])
    except KgError as error:
        return TopicInfo(name, None, {}, error)
    topic = cluster.topics[name]
    if topic.error is None and not topic.leaders:
        return topic._replace(error=left_out(metadata.Request, f"the partitions of {name}"))
    return topic


def ensure_brokers(cluster: Cluster) -> Operation[None]:
    """Fetch the brokers if none is known yet."""
    if not cluster.brokers:
        yield from fetch_metadata(cluster)


def ensure_topics(cluster: Cluster, names: Iterable[str]) -> Operation[None]:
    """Fetch the topics that are not known yet."""
    missing = sorted({name for name in names if name not in cluster.topics})
    if missing:
        yield from fetch_metadata(cluster, missing)


def version_of(to: int, request: Any) -> Operation[int | KgError]:
    """Return the highest version of an API that both a broker and kgtool have (-1: none)."""
    versions = yield Versions(to)
    if isinstance(versions, KgError):
        return versions
    low, high = versions.get(request.KEY, (0, -1))
    best: int = min(high, request.VERSIONS.high)
    return best if best >= max(low, request.VERSIONS.low) else -1


def too_old(cluster: Cluster, broker: int, request: Any) -> Operation[KgError | None]:
    """Return the error of a broker that doesn't offer an API at all; None where it does."""
    version = yield from version_of(broker, request)
    if isinstance(version, KgError) or version >= 0:
        return None
    from kgtool.protocol.capabilities import not_offered

    return not_offered(peer_of(cluster, broker), request.NAME)


def find_unsupported(
    cluster: Cluster, homes: Mapping[str, int], api: Any
) -> Operation[dict[str, KgError]]:
    """Return the error of each group whose coordinator doesn't offer an API.

    :param homes: the coordinator of each group.
    """
    errors: dict[int, KgError | None] = {}
    for broker in sorted(set(homes.values())):
        errors[broker] = yield from too_old(cluster, broker, api)
    return {group: why for group, broker in homes.items() if (why := errors[broker]) is not None}


# ---------------------------------------------------------------------------------------------
# Coordinators


def find_coordinators(
    cluster: Cluster, groups: Sequence[str], *, wait: bool = True
) -> Operation[dict[str, int | KgError]]:
    """Return the coordinator of each group: a broker id, or why there is none.

    While a coordinator is not available (the first use of a cluster creates
    ``__consumer_offsets``), the request is repeated until the command's time is up.

    :param wait: False asks once, and leaves COORDINATOR_NOT_AVAILABLE to the caller.
    """
    yield from ensure_brokers(cluster)
    found: dict[str, int | KgError] = {
        group: cluster.coordinators[group] for group in groups if group in cluster.coordinators
    }
    missing = [group for group in dict.fromkeys(groups) if group not in found]
    attempt = 0
    while missing:
        answers = yield from _ask_coordinators(cluster, missing)
        found.update({g: keep_reason(found.get(g), answer) for g, answer in answers.items()})
        missing = [g for g in missing if wait and coordinator_may_appear(answers[g], attempt)]
        if missing:
            yield backoff(attempt)
            attempt += 1
    for group, node in found.items():
        if isinstance(node, int):
            cluster.coordinators[group] = node
    return found


def coordinator_may_appear(answer: int | KgError, attempt: int) -> bool:
    """Whether a coordinator that was not found is worth another question."""
    if isinstance(answer, IncompleteAnswer):
        return attempt < PROTOCOL_TRIES
    return isinstance(answer, BrokerError) and answer.code in (
        codes.COORDINATOR_LOAD_IN_PROGRESS,
        codes.COORDINATOR_NOT_AVAILABLE,
    )


def _ask_coordinators(cluster: Cluster, groups: list[str]) -> Operation[dict[str, int | KgError]]:
    version = yield from version_of(ANY, find_coordinator.Request)
    if isinstance(version, KgError):
        return dict.fromkeys(groups, version)
    found: dict[str, int | KgError] = {}
    if version >= SEVERAL_KEYS:
        requests = [
            find_coordinator.Request(coordinator_keys=part)
            for part in cut(groups, COORDINATORS_PER_REQUEST)
        ]
        replies = yield from gather([call_any(request) for request in requests])
        for request, reply in zip(requests, replies, strict=True):
            if not isinstance(reply, KgError):
                rows = reply.coordinators
                found.update({row.key: _learn_coordinator(cluster, row.key, row) for row in rows})
            elif not isinstance(reply, EncodeError):
                found.update(dict.fromkeys(request.coordinator_keys, reply))
            else:  # this broker is older than the one whose versions are known
                found.update((yield from _ask_one_by_one(cluster, request.coordinator_keys)))
    else:
        found = yield from _ask_one_by_one(cluster, groups)
    missing = {g: left_out(find_coordinator.Request, f"group {g}") for g in groups}
    return {group: found.get(group, error) for group, error in missing.items()}


def _ask_one_by_one(cluster: Cluster, groups: list[str]) -> Operation[dict[str, int | KgError]]:
    """Send a request for each group, which brokers of any version understand."""
    requests = [find_coordinator.Request(key=group) for group in groups]
    replies = yield from gather([call_any(request, SEVERAL_KEYS - 1) for request in requests])
    return {
        group: reply if isinstance(reply, KgError) else _learn_coordinator(cluster, group, reply)
        for group, reply in zip(groups, replies, strict=True)
    }


def _learn_coordinator(cluster: Cluster, group: str, row: Any) -> int | KgError:
    if row.error_code:
        error = broker_error(row.error_code, row.error_message)
        return denied.explain(error, denied.DESCRIBE, group=group)
    known = cluster.brokers.get(row.node_id)
    if known is None or (known.host, known.port) != (row.host, row.port):
        cluster.brokers[row.node_id] = Broker(row.node_id, row.host, row.port)
    return int(row.node_id)
