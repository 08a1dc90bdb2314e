"""The leader epochs of records (OffsetForLeaderEpoch).

A committed leader epoch lets a consumer notice that its log was truncated (KIP-320). ListOffsets
gives it for the points that it finds; for any other offset it is searched with
OffsetForLeaderEpoch, which says where an epoch ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation, call, grouped
from kgtool.client.routing import by_leader
from kgtool.errors import KgError
from kgtool.model import TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import offset_for_leader_epoch
from kgtool.protocol.codes import broker_error
from kgtool.queries.offsets.list_offsets import LogRange

SEARCH_ROUNDS = 200
"""A search takes log2(epochs) rounds; contradictory answers must not make it endless."""


def leader_epochs(
    cluster: Cluster,
    points: Iterable[tuple[TopicPartition, int]],
    logs: Mapping[TopicPartition, LogRange],
) -> Operation[dict[tuple[TopicPartition, int], int | None]]:
    """Return the leader epoch of the record at each offset, None where it is unknown.

    A binary search over the epochs of each log, all partitions of all leaders at the same time.
    """
    searches = [_Search(*point, logs[point[0]]) for point in dict.fromkeys(points)]
    for _ in range(SEARCH_ROUNDS):
        questions: dict[TopicPartition, int] = {}
        for search in searches:
            if not search.is_over:
                questions.setdefault(search.partition, search.middle)
        if not questions:
            break
        answers = yield from _epoch_ends(cluster, questions)
        for search in searches:
            if not search.is_over and search.partition in questions:
                search.learn(questions[search.partition], answers[search.partition])
    return {(search.partition, search.offset): search.epoch for search in searches}


class _Search:
    """The search for the epoch of one offset, which lies between ``low`` and ``high``."""

    def __init__(self, partition: TopicPartition, offset: int, log: LogRange) -> None:
        self.partition = partition
        self.offset = offset
        self.low = log.start.leader_epoch or 0
        self.high = log.end.leader_epoch
        """None: it has failed."""

    @property
    def is_over(self) -> bool:
        return self.high is None or self.low >= self.high

    @property
    def middle(self) -> int:
        return (self.low + (self.high or 0)) // 2

    @property
    def epoch(self) -> int | None:
        return self.high if self.is_over else None

    def learn(self, asked: int, answer: Any) -> None:
        """Narrow the search by where the largest epoch up to the one asked for ended."""
        if isinstance(answer, KgError) or self.high is None:
            self.high = None
            return
        epoch, end = answer
        if end > self.offset:
            if self.low <= epoch < self.high:
                self.high = epoch
            elif asked == self.middle:  # asking again would bring the same contradiction
                self.high = None
        elif asked >= self.low:
            self.low = asked + 1


def _epoch_ends(
    cluster: Cluster, questions: Mapping[TopicPartition, int]
) -> Operation[dict[TopicPartition, Any]]:
    """Return ``(largest epoch up to the one asked for, its end offset)`` of each partition."""

    def work(broker: int, parts: list[TopicPartition]) -> Operation[dict[TopicPartition, Any]]:
        reply = yield from call(broker, _epoch_request(parts, questions))
        if isinstance(reply, KgError):
            return dict.fromkeys(parts, reply)
        missing: Any = broker_error(codes.UNKNOWN_TOPIC_OR_PARTITION)
        return dict.fromkeys(parts, missing) | {
            TopicPartition(topic.topic, row.partition): broker_error(row.error_code)
            if row.error_code
            else (row.leader_epoch, row.end_offset)
            for topic in reply.topics
            for row in topic.partitions
        }

    return (yield from by_leader(cluster, questions, work))


def _epoch_request(
    partitions: Iterable[TopicPartition], questions: Mapping[TopicPartition, int]
) -> offset_for_leader_epoch.Request:
    api = offset_for_leader_epoch
    topics = grouped(
        (at.topic, api.RequestPartition(partition=at.partition, leader_epoch=questions[at]))
        for at in partitions
    )
    rows = [api.RequestTopic(topic=name, partitions=parts) for name, parts in topics.items()]
    return api.Request(replica_id=-1, topics=rows)
