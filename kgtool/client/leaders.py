"""Requests to the leaders of partitions, which may move."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kgtool.client.answers import keep_reason, left_out, may_get_better
from kgtool.client.cluster import Cluster, ensure_topics, fetch_metadata
from kgtool.client.ops import DeadlineExceeded, Operation, backoff, gather, grouped
from kgtool.errors import BrokerError, KgError
from kgtool.model import TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.codes import broker_error

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
