"""Where in the logs a reset can go: ends and times (ListOffsets), and the leader epochs between.

A committed leader epoch lets a consumer notice that its log was truncated (KIP-320). ListOffsets
gives it for the places that it finds; for any other offset it is searched with
OffsetForLeaderEpoch, which says where an epoch ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from kgtool.client.cluster import Cluster
from kgtool.client.leaders import by_leader
from kgtool.client.ops import Operation, call, grouped
from kgtool.errors import KgError
from kgtool.model import TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import offset_for_leader_epoch
from kgtool.protocol.codes import broker_error
from kgtool.queries.offsets.ranges import EARLIEST, LATEST, READ_UNCOMMITTED, Time, ask_offsets

SEARCH_ROUNDS = 200
"""More than any search takes that is not led astray: an offset costs log2(epochs) rounds."""


def log_ranges(
    cluster: Cluster, partitions: Iterable[TopicPartition], timestamp_ms: int | None = None
) -> Operation[dict[TopicPartition, LogRange | KgError]]:
    """Return where each log begins, ends, and has its first record at or after a time.

    One round trip per leader. A partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION (3),
    one without a leader LEADER_NOT_AVAILABLE (5), each after one refresh of the metadata.
    """
    times = [] if timestamp_ms is None else [timestamp_ms]
    return (yield from by_leader(cluster, partitions, partial(_ask, times=times)))


def ranges_at(
    cluster: Cluster, times: Mapping[TopicPartition, int]
) -> Operation[dict[TopicPartition, LogRange | KgError]]:
    """Return what ``log_ranges`` does, for a time of each partition's own."""
    return (yield from by_leader(cluster, times, partial(_ask, times=[times])))


def _ask(
    broker: int, partitions: list[TopicPartition], times: Sequence[Time]
) -> Operation[dict[TopicPartition, Any]]:
    """Ask for at most one time, and for both ends."""
    # A broker answers in this order, so the time's offset is never beyond the end.
    wanted = [(time, READ_UNCOMMITTED) for time in (*times, EARLIEST, LATEST)]
    *at, start, end = yield from ask_offsets(broker, partitions, wanted)
    return {p: _range(*(_point(rows, p) for rows in (start, end, *at))) for p in partitions}


def _point(rows: Mapping[TopicPartition, Any], partition: TopicPartition) -> Any:
    """Return a point, None where no record is that young, or the error."""
    row = rows.get(partition)
    if row is None:
        return broker_error(codes.UNKNOWN_TOPIC_OR_PARTITION)
    if isinstance(row, KgError):
        return row
    if row.error_code:
        return broker_error(row.error_code)
    epoch = row.leader_epoch if row.leader_epoch >= 0 else None
    return LogPoint(row.offset, epoch) if row.offset >= 0 else None


def _range(start: Any, end: Any, at_time: Any = None) -> LogRange | KgError:
    for point in (start, end, at_time):
        if isinstance(point, KgError):
            return point
    if start is None or end is None:
        return broker_error(codes.OFFSET_NOT_AVAILABLE)
    return LogRange(start, end, at_time)


# ---------------------------------------------------------------------------------------------
# Leader epochs


def leader_epochs(
    cluster: Cluster,
    points: Iterable[tuple[TopicPartition, int]],
    logs: Mapping[TopicPartition, LogRange],
) -> Operation[dict[tuple[TopicPartition, int], int | None]]:
    """Return the leader epoch of the record at each offset, None where it can't be found out.

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
    """The search for the epoch of one offset: it lies between ``low`` and ``high``."""

    def __init__(self, partition: TopicPartition, offset: int, log: LogRange) -> None:
        self.partition = partition
        self.offset = offset
        self.low = log.start.leader_epoch or 0
        self.high = self.low if log.end.leader_epoch is None else log.end.leader_epoch
        self.has_failed = log.end.leader_epoch is None

    @property
    def is_over(self) -> bool:
        return self.has_failed or self.low >= self.high

    @property
    def middle(self) -> int:
        return (self.low + self.high) // 2

    @property
    def epoch(self) -> int | None:
        return self.high if self.is_over and not self.has_failed else None

    def learn(self, asked: int, answer: Any) -> None:
        """Take in that the largest epoch up to the one asked for ended at some offset."""
        if isinstance(answer, KgError):
            self.has_failed = True
            return
        epoch, end = answer
        if end > self.offset:
            if self.low <= epoch < self.high:
                self.high = epoch
            elif asked == self.middle:  # an answer that makes no sense must not be asked for again
                self.has_failed = True
        elif asked >= self.low:
            self.low = asked + 1


def _epoch_ends(
    cluster: Cluster, questions: Mapping[TopicPartition, int]
) -> Operation[dict[TopicPartition, Any]]:
    """Ask where epochs ended: ``(largest epoch up to it, its end offset)`` for each partition."""

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


class LogPoint(NamedTuple):
    """An offset and the leader epoch of the record there (None: the broker doesn't say)."""

    offset: int
    leader_epoch: int | None


class LogRange(NamedTuple):
    """Where a log begins and ends (the high watermark).

    ``at_time`` is the first record at or after the time asked for, None if there is none.
    """

    start: LogPoint
    end: LogPoint
    at_time: LogPoint | None = None

    def fit(self, offset: int) -> int:
        """Return the nearest offset that a consumer can start from."""
        return max(self.start.offset, min(offset, self.end.offset))
