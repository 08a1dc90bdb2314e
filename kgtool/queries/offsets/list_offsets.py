"""Where logs begin and end, and where their records of a time are (ListOffsets)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.client import denied
from kgtool.client.answers import left_out, may_get_better
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Call, Operation, cut, grouped, pipelined
from kgtool.client.routing import by_leader
from kgtool.errors import KgError
from kgtool.model import TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import list_offsets
from kgtool.protocol.codes import broker_error
from kgtool.queries.offsets.lag import LogEnds

LATEST, EARLIEST = -1, -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1

PARTITIONS_PER_REQUEST = 20_000

Time = int | Mapping[TopicPartition, int]
"""Of all partitions, or of each: ms since the epoch, or a special one of ListOffsets."""


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


def log_ends(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    *,
    starts: bool = True,
    stable: bool = False,
    emit: Callable[[dict[TopicPartition, LogEnds]], None] | None = None,
) -> Operation[dict[TopicPartition, LogEnds]]:
    """Return where each partition's log begins and ends (the high watermark).

    One round trip a leader.

    :param starts: ask for the beginnings too.
    :param stable: ask for the last stable offsets too.
    :param emit: called with each leader's good answers as they arrive.
    """
    # The last stable offset is asked for first, so that it is never beyond the end.
    wanted = [(LATEST, READ_COMMITTED)] if stable else []
    wanted += [(LATEST, READ_UNCOMMITTED)]
    wanted += [(EARLIEST, READ_UNCOMMITTED)] if starts else []

    def work(broker: int, parts: list[TopicPartition]) -> Operation[dict[TopicPartition, Any]]:
        answers = yield from ask_offsets(broker, parts, wanted)
        ends = {p: _ends([_offset(rows, p) for rows in answers], stable) for p in parts}
        if emit is not None:
            emit({p: answer for p, answer in ends.items() if isinstance(answer, LogEnds)})
        return ends

    answers = yield from by_leader(cluster, partitions, work)
    return {
        partition: answer if isinstance(answer, LogEnds) else LogEnds(None, answer)
        for partition, answer in answers.items()
    }


def _ends(answers: list[Any], stable: bool) -> LogEnds | KgError:
    """Combine the last stable offset, the end and the beginning, as far as they were asked for.

    A connection that broke in between is an error of the whole: everything is asked again.
    """
    for answer in answers:
        if may_get_better(answer, 0):
            return answer  # type: ignore[no-any-return]
    last_stable = answers[0] if stable else None
    end, *start = answers[1:] if stable else answers
    if isinstance(end, KgError):
        return end
    known = [None if isinstance(value, KgError) else value for value in (*start, None)]
    return LogEnds(known[0], end, None if isinstance(last_stable, KgError) else last_stable)


def log_ranges(
    cluster: Cluster, partitions: Iterable[TopicPartition], time: Time | None = None
) -> Operation[dict[TopicPartition, LogRange | KgError]]:
    """Return where each log begins, ends, and has its first record at or after a time.

    One round trip a leader. A partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION (3),
    one without a leader LEADER_NOT_AVAILABLE (5), each after one refresh of the metadata.
    """
    # A broker answers in this order, so the time's offset is never beyond the end.
    times = [*([] if time is None else [time]), EARLIEST, LATEST]

    def work(broker: int, parts: list[TopicPartition]) -> Operation[dict[TopicPartition, Any]]:
        answers = yield from ask_offsets(broker, parts, [(at, READ_UNCOMMITTED) for at in times])
        return {p: _range([_point(rows, p) for rows in answers]) for p in parts}

    return (yield from by_leader(cluster, partitions, work))


def _range(points: list[Any]) -> LogRange | KgError:
    error = next((point for point in points if isinstance(point, KgError)), None)
    *at_time, start, end = points
    if error is None and (start is None or end is None):
        error = broker_error(codes.OFFSET_NOT_AVAILABLE)
    return error or LogRange(start, end, *at_time)


# ---------------------------------------------------------------------------------------------
# The request


def ask_offsets(
    broker: int, partitions: Sequence[TopicPartition], wanted: Sequence[tuple[Time, int]]
) -> Operation[list[dict[TopicPartition, Any]]]:
    """Ask one broker for the offsets at some times, each with an isolation level, in that order.

    Each answer has a row or a KgError of every partition that the broker doesn't leave out.
    """
    chunks = cut(partitions, PARTITIONS_PER_REQUEST)
    asked = [(n, chunk) for n in range(len(wanted)) for chunk in chunks]
    replies = yield from pipelined([Call(broker, _request(part, *wanted[n])) for n, part in asked])
    found: list[dict[TopicPartition, Any]] = [{} for _ in wanted]
    for (n, chunk), reply in zip(asked, replies, strict=True):
        if isinstance(reply, KgError):
            found[n].update(dict.fromkeys(chunk, reply))
        else:
            rows = ((topic.name, row) for topic in reply.topics for row in topic.partitions)
            found[n].update({TopicPartition(name, row.partition): row for name, row in rows})
    return found


def _request(partitions: Iterable[TopicPartition], time: Time, isolation: int) -> Any:
    api = list_offsets
    topics = grouped(
        (
            at.topic,
            api.RequestPartition(
                partition=at.partition, timestamp=time if isinstance(time, int) else time[at]
            ),
        )
        for at in partitions
    )
    rows = [api.RequestTopic(name=name, partitions=parts) for name, parts in topics.items()]
    return api.Request(replica_id=-1, isolation_level=isolation, topics=rows)


def _point(rows: Mapping[TopicPartition, Any], partition: TopicPartition) -> Any:
    """Return a LogPoint, None where no record is that young, or the error."""
    row = rows.get(partition)
    if row is None:
        return left_out(list_offsets.Request, str(partition))
    if isinstance(row, KgError):
        return row
    if row.error_code:
        error = broker_error(row.error_code)
        return denied.explain(error, denied.DESCRIBE, topic=partition.topic)
    # v0 has a list, of which one was asked for.
    offset = next(iter(row.old_style_offsets), row.offset)
    return (
        LogPoint(offset, row.leader_epoch if row.leader_epoch >= 0 else None)
        if offset >= 0
        else None
    )


def _offset(rows: Mapping[TopicPartition, Any], partition: TopicPartition) -> Any:
    """Return the offset of the beginning or the end of a log, or the error."""
    point = _point(rows, partition)
    if point is None:
        return left_out(list_offsets.Request, str(partition))
    return point.offset if isinstance(point, LogPoint) else point
