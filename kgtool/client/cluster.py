"""What is known of a cluster: brokers, coordinators, leaders, and how to find them out again.

State is only changed by the operations in this module. It is a cache: whatever an answer
contradicts (NOT_COORDINATOR, NOT_LEADER_OR_FOLLOWER, a lost connection) is forgotten and looked
up again until the command's time is up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from kgtool.client import denied
from kgtool.client.ops import (
    ANY,
    Call,
    DeadlineExceeded,
    Operation,
    Versions,
    backoff,
    call,
    gather,
)
from kgtool.errors import (
    BrokerError,
    ConnectionLost,
    KgError,
    NetworkError,
    ProtocolError,
    UnsupportedVersion,
)
from kgtool.model import Broker, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import find_coordinator, metadata
from kgtool.protocol.codes import broker_error
from kgtool.protocol.release import needs_kafka

T = TypeVar("T")

COORDINATORS_PER_REQUEST = 1000
"""Keys in one FindCoordinator v4+: a few dozen bytes each, so a request stays under 100 kB."""

PROTOCOL_TRIES = 3
ANY_TRIES = 3

_COORDINATOR_MOVED = (codes.COORDINATOR_NOT_AVAILABLE, codes.NOT_COORDINATOR)


class TopicInfo(NamedTuple):
    """A topic as Metadata describes it; ``leaders`` maps partition to broker id or -1."""

    name: str
    topic_id: UUID | None
    leaders: dict[int, int]
    error: KgError | None = None
    is_internal: bool = False


class Cluster:
    """The cache, and the address book that the network layer reads."""

    def __init__(self) -> None:
        self.brokers: dict[int, Broker] = {}
        self.cluster_id: str | None = None
        self.controller: int = ANY
        self.coordinators: dict[str, int] = {}
        self.topics: dict[str, TopicInfo] = {}

    def learn(self, reply: Any) -> None:
        """Take brokers, cluster id and topics from a Metadata response."""
        if reply.brokers:
            self.brokers = {
                row.node_id: Broker(row.node_id, row.host, row.port, row.rack)
                for row in reply.brokers
            }
        self.cluster_id = reply.cluster_id or self.cluster_id
        self.controller = reply.controller_id
        for row in reply.topics:
            if row.name is not None:
                self.topics[row.name] = _topic_info(row)

    def leader(self, partition: TopicPartition) -> int:
        """Return the broker id of a partition's leader, -1 if there is none or it isn't known."""
        topic = self.topics.get(partition.topic)
        return -1 if topic is None else topic.leaders.get(partition.partition, -1)


def _topic_info(row: Any) -> TopicInfo:
    leaders = {part.partition: part.leader_id for part in row.partitions}
    topic_id = row.topic_id if row.topic_id.int else None
    error = None
    # 5 (LEADER_NOT_AVAILABLE) is said of single partitions; those have leader -1.
    if row.error_code not in (codes.NONE, codes.LEADER_NOT_AVAILABLE):
        error = denied.explain(broker_error(row.error_code), denied.DESCRIBE, topic=row.name)
    return TopicInfo(row.name, topic_id, leaders, error, bool(row.is_internal))


def is_final(reply: object) -> bool:
    """Whether asking again cannot change the answer."""
    return isinstance(reply, DeadlineExceeded) or not isinstance(reply, NetworkError)


def is_permanent(error: KgError) -> bool:
    """Whether asking the same broker again, however often, can't change an error."""
    if isinstance(error, BrokerError):
        return not error.retriable
    return not may_get_better(error, 0)


def may_get_better(reply: object, attempt: int) -> bool:
    """Whether a failure of one connection is worth another one.

    Bytes that make no sense may be the fault of something on the way, but not many times over.
    """
    if isinstance(reply, ProtocolError) and not isinstance(reply, UnsupportedVersion):
        return attempt < PROTOCOL_TRIES
    return isinstance(reply, NetworkError) and not isinstance(reply, DeadlineExceeded)


def call_any(request: Any, max_version: int | None = None) -> Operation[Any]:
    """Ask whichever broker answers; a connection that breaks on the way is tried again.

    That no broker can be reached at all is final: the network layer has tried them all.
    """
    reply = yield from call(ANY, request, max_version)
    for attempt in range(ANY_TRIES):
        if not (isinstance(reply, KgError) and may_get_better(reply, attempt)):
            break
        if not (reply.maybe_done or isinstance(reply, ConnectionLost)):
            break
        yield backoff(attempt)
        reply = keep_reason(reply, (yield from call(ANY, request, max_version)))
    return reply


def fetch_metadata(cluster: Cluster, topics: Sequence[str] | None = ()) -> Operation[None]:
    """Learn the brokers, and the given topics (None: all of them; none by default).

    :raises KgError: no broker answered.
    """
    rows = None if topics is None else [metadata.RequestTopic(name=name) for name in topics]
    request = metadata.Request(topics=rows, allow_auto_topic_creation=False)
    reply = yield from call_any(request)
    if isinstance(reply, KgError):
        raise reply
    cluster.learn(reply)
    for name in topics or ():
        if name not in cluster.topics:
            missing = broker_error(codes.UNKNOWN_TOPIC_OR_PARTITION)
            cluster.topics[name] = TopicInfo(name, None, {}, missing)


def need_brokers(cluster: Cluster) -> Operation[None]:
    """Learn the brokers if nobody did yet."""
    if not cluster.brokers:
        yield from fetch_metadata(cluster)


def need_topics(cluster: Cluster, names: Iterable[str]) -> Operation[None]:
    """Learn the topics that are not known yet."""
    missing = sorted({name for name in names if name not in cluster.topics})
    if missing:
        yield from fetch_metadata(cluster, missing)


def version_of(cluster: Cluster, to: int, request: Any) -> Operation[int | KgError]:
    """Return the highest version of an API that a broker and kgtool share (-1: none)."""
    versions = yield Versions(to)
    if isinstance(versions, KgError):
        return versions
    low, high = versions.get(request.KEY, (0, -1))
    best: int = min(high, request.VERSIONS.high)
    return best if best >= max(low, request.VERSIONS.low) else -1


def too_old(cluster: Cluster, broker: int, request: Any) -> Operation[KgError | None]:
    """Return the error of a broker that doesn't offer an API at all; None where it does."""
    version = yield from version_of(cluster, broker, request)
    if isinstance(version, KgError) or version >= 0:
        return None
    known = cluster.brokers.get(broker)
    name = "The broker" if broker == ANY else f"broker {broker}"
    return needs_kafka(f"{known.host}:{known.port}" if known else name, request.NAME)


# ---------------------------------------------------------------------------------------------
# Coordinators


def find_coordinators(
    cluster: Cluster, groups: Sequence[str], *, wait: bool = True
) -> Operation[dict[str, int | KgError]]:
    """Return the coordinator of each group: a broker id, or why there is none.

    A coordinator that is not available yet (the first use of a cluster creates
    ``__consumer_offsets``) is asked for again until the command's time is up.

    :param wait: False asks once, and leaves COORDINATOR_NOT_AVAILABLE to the caller.
    """
    yield from need_brokers(cluster)
    found: dict[str, int | KgError] = {
        group: cluster.coordinators[group] for group in groups if group in cluster.coordinators
    }
    missing = [group for group in dict.fromkeys(groups) if group not in found]
    attempt = 0
    while missing:
        answers = yield from _ask_coordinators(cluster, missing)
        found.update({g: keep_reason(found.get(g), answer) for g, answer in answers.items()})
        missing = [group for group in missing if _coordinator_may_appear(answers[group]) and wait]
        if missing:
            yield backoff(attempt)
            attempt += 1
    for group, node in found.items():
        if isinstance(node, int):
            cluster.coordinators[group] = node
    return found


def keep_reason(before: Any, now: Any) -> Any:
    """Prefer the reason of an earlier failure to the bare news that time is up."""
    if isinstance(now, DeadlineExceeded) and isinstance(before, KgError):
        return before
    return now


def _coordinator_may_appear(answer: int | KgError) -> bool:
    return isinstance(answer, BrokerError) and answer.code in (
        codes.COORDINATOR_LOAD_IN_PROGRESS,
        codes.COORDINATOR_NOT_AVAILABLE,
    )


def _ask_coordinators(cluster: Cluster, groups: list[str]) -> Operation[dict[str, int | KgError]]:
    version = yield from version_of(cluster, ANY, find_coordinator.Request)
    if isinstance(version, KgError):
        return dict.fromkeys(groups, version)
    if version < 4:
        requests = [find_coordinator.Request(key=group) for group in groups]
    else:
        requests = [
            find_coordinator.Request(coordinator_keys=groups[at : at + COORDINATORS_PER_REQUEST])
            for at in range(0, len(groups), COORDINATORS_PER_REQUEST)
        ]
    replies = yield from gather([call_any(request) for request in requests])
    found: dict[str, int | KgError] = {}
    for request, reply in zip(requests, replies, strict=True):
        keys = request.coordinator_keys or [request.key]
        if isinstance(reply, KgError):
            found.update(dict.fromkeys(keys, reply))
        elif version < 4:
            found[request.key] = _learn_coordinator(cluster, request.key, reply)
        else:
            found.update(
                {row.key: _learn_coordinator(cluster, row.key, row) for row in reply.coordinators}
            )
    for group in groups:
        found.setdefault(group, broker_error(codes.COORDINATOR_NOT_AVAILABLE))
    return found


def _learn_coordinator(cluster: Cluster, group: str, row: Any) -> int | KgError:
    if row.error_code:
        error = broker_error(row.error_code, row.error_message)
        return denied.explain(error, denied.DESCRIBE, group=group)
    known = cluster.brokers.get(row.node_id)
    if known is None or (known.host, known.port) != (row.host, row.port):
        cluster.brokers[row.node_id] = Broker(row.node_id, row.host, row.port)
    return int(row.node_id)


Work = Callable[[int, list[str]], Operation[dict[str, Any]]]


def by_coordinator(
    cluster: Cluster, groups: Sequence[str], work: Work, *, chunk: int = 250, attempt: int = 0
) -> Operation[dict[str, Any]]:
    """Run ``work(broker, groups)`` for each coordinator, side by side, and merge the answers.

    ``work`` returns, for every group it was given, a result or a ``KgError``. Groups whose
    coordinator moved, is loading or did not answer are looked up and asked again until the
    command's time is up; what is unanswered then keeps its last real reason. ``work`` must be
    safe to repeat. ``chunk`` bounds the groups of one request, so that no reply grows without
    limit and the first ones arrive while the broker works on the rest.
    """
    unique = list(dict.fromkeys(groups))
    located = yield from find_coordinators(cluster, unique, wait=False)
    answers: dict[str, Any] = {g: e for g, e in located.items() if isinstance(e, KgError)}
    per_broker: dict[int, list[str]] = {}
    for group in unique:
        node = located[group]
        if isinstance(node, int):
            per_broker.setdefault(node, []).append(group)
    parts = [
        _coordinator_part(cluster, node, ids, work, chunk, attempt)
        for node, ids in per_broker.items()
    ]
    homeless = {g: e for g, e in answers.items() if _coordinator_may_appear(e)}
    if homeless:
        parts.append(_once_more(cluster, homeless, work, chunk, attempt))
    for part in (yield from gather(parts)):
        answers.update(part)
    return {group: answers[group] for group in unique}


def _coordinator_part(
    cluster: Cluster, node: int, groups: list[str], work: Work, chunk: int, attempt: int
) -> Operation[dict[str, Any]]:
    """Do one broker's share, then look up together what it could not answer: no request storm."""
    chunks = [groups[at : at + chunk] for at in range(0, len(groups), chunk)]
    answers: dict[str, Any] = {}
    for part in (yield from gather([work(node, ids) for ids in chunks])):
        answers.update(part)
    again = [group for group in groups if _try_elsewhere(answers.get(group), attempt)]
    if not again:
        return answers
    for group in again:
        reply = answers[group]
        if not (
            isinstance(reply, BrokerError) and reply.code == codes.COORDINATOR_LOAD_IN_PROGRESS
        ):
            cluster.coordinators.pop(group, None)
    before = {group: answers[group] for group in again}
    answers.update((yield from _once_more(cluster, before, work, chunk, attempt)))
    return answers


def _once_more(
    cluster: Cluster, before: dict[str, Any], work: Work, chunk: int, attempt: int
) -> Operation[dict[str, Any]]:
    """Try groups again after a pause; what can't be answered any more keeps its reason."""
    yield backoff(attempt)
    later = yield from by_coordinator(cluster, list(before), work, chunk=chunk, attempt=attempt + 1)
    return {group: keep_reason(reason, later[group]) for group, reason in before.items()}


def _try_elsewhere(reply: Any, attempt: int) -> bool:
    if isinstance(reply, BrokerError):
        return reply.code in (codes.COORDINATOR_LOAD_IN_PROGRESS, *_COORDINATOR_MOVED)
    return may_get_better(reply, attempt)


def pipelined(calls: list[Call]) -> Operation[list[Any]]:
    """Make several calls at once; no calls, no round trip."""
    if not calls:
        return []
    replies: list[Any] = yield calls
    return replies
