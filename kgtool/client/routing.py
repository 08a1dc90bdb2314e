"""Requests to coordinators of groups and to leaders of partitions, which may move."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kgtool.client.answers import keep_reason, left_out, may_get_better, named, noting
from kgtool.client.cluster import (
    Cluster,
    coordinator_may_appear,
    ensure_topics,
    fetch_metadata,
    fetch_topic,
    find_coordinators,
)
from kgtool.client.ops import ANY, DeadlineExceeded, Operation, backoff, cut, gather, grouped
from kgtool.errors import BrokerError, KgError
from kgtool.model import TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import find_coordinator
from kgtool.protocol.codes import broker_error

GROUPS_PER_REQUEST = 250
"""In one request to a coordinator: replies are bounded too, and the first ones arrive while the
broker works on the rest."""

_COORDINATOR_MOVED = (
    codes.COORDINATOR_LOAD_IN_PROGRESS,
    codes.COORDINATOR_NOT_AVAILABLE,
    codes.NOT_COORDINATOR,
)
"""Answers of coordinators that move."""

Work = Callable[[int, list[str]], Operation[dict[str, Any]]]


def by_coordinator(
    cluster: Cluster, groups: Sequence[str], work: Work
) -> Operation[dict[str, Any]]:
    """Run ``work(broker, groups)`` for each coordinator, side by side, and merge the answers.

    ``work`` returns, for every group it was given, a result or a ``KgError``. Groups whose
    coordinator moved, is loading or did not answer are looked up and asked again until the
    command's time is up; after that they have their last error. ``work`` must be safe to repeat.
    """
    unique = list(dict.fromkeys(groups))
    located = yield from find_coordinators(cluster, unique, wait=False)
    nodes = ((located[group], group) for group in unique)
    parts = grouped((node if isinstance(node, int) else ANY, group) for node, group in nodes)
    operations = [
        _follow(cluster, {group: located[group] for group in ids}, work) for ids in parts.values()
    ]
    answers: dict[str, Any] = {}
    for part in (yield from gather(operations)):
        answers.update(part)
    return {group: answers[group] for group in unique}


def _follow(
    cluster: Cluster, located: dict[str, int | KgError], work: Work
) -> Operation[dict[str, Any]]:
    """Ask until all groups are answered or time is up, in rounds: no storm of requests."""
    answers: dict[str, Any] = {}
    attempt = 0
    while True:
        requests: set[str] = set()
        now = yield from _ask_located(located, work, requests)
        for group, answer in now.items():
            named_answer = _with_source(cluster, located[group], requests, answer)
            answers[group] = keep_reason(answers.get(group), named_answer)
        again = [g for g in now if _try_again(located[g], now[g], attempt)]
        if not again:
            return answers
        for group in again:
            if now[group].code != codes.COORDINATOR_LOAD_IN_PROGRESS:
                cluster.coordinators.pop(group, None)
        if attempt == 1 and any(now[g].code == codes.COORDINATOR_NOT_AVAILABLE for g in again):
            yield from _look_at_log(cluster)
        yield backoff(attempt)
        attempt += 1
        located = yield from find_coordinators(cluster, again, wait=False)


def _look_at_log(cluster: Cluster) -> Operation[None]:
    """Learn the leaders of ``__consumer_offsets``: a partition without one has no coordinator."""
    topic = yield from fetch_topic(cluster, "__consumer_offsets")
    if topic.error is not None:
        cluster.topics.pop(topic.name, None)


def _with_source(cluster: Cluster, node: int | KgError, requests: set[str], answer: Any) -> Any:
    """Name the broker and the request of an error that should be temporary, but may not be."""
    if not isinstance(answer, BrokerError) or answer.code not in _COORDINATOR_MOVED:
        return answer
    if isinstance(node, int):
        return named(cluster, node, requests, answer)
    return named(cluster, ANY, [find_coordinator.Request.NAME], answer)


def _ask_located(
    located: dict[str, int | KgError], work: Work, requests: set[str]
) -> Operation[dict[str, Any]]:
    """Ask each coordinator once; the error of an unknown one is its groups' answer."""
    answers: dict[str, Any] = {g: node for g, node in located.items() if isinstance(node, KgError)}
    homes = grouped((node, g) for g, node in located.items() if isinstance(node, int))
    asked = [(node, part) for node, ids in homes.items() for part in cut(ids, GROUPS_PER_REQUEST)]
    parts = yield from gather([noting(work(*one), requests) for one in asked])
    for (_, ids), part in zip(asked, parts, strict=True):
        answers.update({group: part[group] for group in ids if group in part})
    return {g: answers[g] if g in answers else left_out(None, f"group {g}") for g in located}


def _try_again(node: int | KgError, reply: Any, attempt: int) -> bool:
    if isinstance(node, KgError):
        return coordinator_may_appear(node, attempt)
    if isinstance(reply, BrokerError):
        return reply.code in _COORDINATOR_MOVED
    return may_get_better(reply, attempt)


# ---------------------------------------------------------------------------------------------
# Leaders


_LEADER_MOVED = (
    codes.UNKNOWN_TOPIC_OR_PARTITION,
    codes.LEADER_NOT_AVAILABLE,
    codes.NOT_LEADER_OR_FOLLOWER,
    codes.FENCED_LEADER_EPOCH,
    codes.KAFKA_STORAGE_ERROR,
    codes.UNKNOWN_LEADER_EPOCH,
    codes.OFFSET_NOT_AVAILABLE,
)

LeaderWork = Callable[[int, list[TopicPartition]], Operation[dict[TopicPartition, Any]]]


def by_leader(
    cluster: Cluster, partitions: Iterable[TopicPartition], work: LeaderWork
) -> Operation[dict[TopicPartition, Any]]:
    """Run ``work(broker, partitions)`` for each leader, side by side, and merge the answers.

    Unknown topics and partitions (3) and partitions without a leader (5) are final after one
    refresh of the metadata: the Java client retries those until its timeout of 30 s. Where Metadata
    fails, its error is the answer of all.
    """
    wanted = list(dict.fromkeys(partitions))
    try:
        yield from ensure_topics(cluster, (partition.topic for partition in wanted))
    except KgError as error:
        return dict.fromkeys(wanted, error)
    answers = yield from _ask_leaders(cluster, wanted, work)
    attempt = 0
    while again := [p for p in wanted if _leader_moved(answers[p], attempt)]:
        yield backoff(attempt)
        attempt += 1
        try:
            yield from fetch_metadata(cluster, sorted({partition.topic for partition in again}))
            later = yield from _ask_leaders(cluster, again, work)
        except KgError as error:
            later = dict.fromkeys(again, error)
        answers.update({p: keep_reason(answers[p], later[p]) for p in again})
        wanted = [p for p in again if not isinstance(later[p], DeadlineExceeded)]
    return answers


def _ask_leaders(
    cluster: Cluster, partitions: list[TopicPartition], work: LeaderWork
) -> Operation[dict[TopicPartition, Any]]:
    """Ask each leader once for its partitions."""
    answers: dict[TopicPartition, Any] = {}
    running: list[Operation[dict[TopicPartition, Any]]] = []
    for leader, led in grouped((cluster.leader(p), p) for p in partitions).items():
        if leader in cluster.brokers:
            running.append(work(leader, led))
        else:
            answers.update({p: _no_leader(cluster, p) for p in led})
    for part in (yield from gather(running)):
        answers.update(part)
    return {p: answers[p] if p in answers else left_out(None, str(p)) for p in partitions}


def _no_leader(cluster: Cluster, partition: TopicPartition) -> KgError:
    topic = cluster.topics.get(partition.topic)
    if topic is not None and topic.error is not None:
        return topic.error
    if topic is None or partition.partition not in topic.leaders:
        return broker_error(codes.UNKNOWN_TOPIC_OR_PARTITION)
    return broker_error(codes.LEADER_NOT_AVAILABLE)


def _leader_moved(reply: Any, attempt: int) -> bool:
    if isinstance(reply, BrokerError):
        final = (codes.UNKNOWN_TOPIC_OR_PARTITION, codes.LEADER_NOT_AVAILABLE)
        return reply.code in _LEADER_MOVED and (attempt == 0 or reply.code not in final)
    return may_get_better(reply, attempt)
