"""Where the logs of partitions begin and end (ListOffsets)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kgtool.client import denied
from kgtool.client.answers import left_out
from kgtool.client.cluster import Cluster, fetch_metadata, pipelined
from kgtool.client.leaders import by_leader
from kgtool.client.ops import Call, Operation, cut, grouped
from kgtool.client.retries import may_get_better
from kgtool.errors import KgError
from kgtool.model import TopicPartition
from kgtool.protocol.api import list_offsets
from kgtool.protocol.codes import broker_error
from kgtool.queries.offsets.lag import LogEnds

LATEST, EARLIEST = -1, -2
UNKNOWN_OFFSET = -1
"""Neither the beginning nor the end of a log."""
READ_UNCOMMITTED, READ_COMMITTED = 0, 1

PARTITIONS_PER_REQUEST = 20_000


Found = Callable[[dict[TopicPartition, LogEnds]], None]


def log_ends(
    cluster: Cluster, partitions: Iterable[TopicPartition], *, starts: bool = True,
    stable: bool = False, found: Found | None = None,
) -> Operation[dict[TopicPartition, LogEnds]]:  # fmt: skip
    """Return where each partition's log begins and ends, one round trip per leader.

    The end is the high watermark.

    :param starts: ask for the beginnings too.
    :param stable: ask for the last stable offsets too.
    :param found: called with each leader's good answers as they arrive.
    """
    # The last stable offset is asked for first, so that it is never beyond the end.
    wanted = [(LATEST, READ_COMMITTED)] if stable else []
    wanted += [(LATEST, READ_UNCOMMITTED)]
    wanted += [(EARLIEST, READ_UNCOMMITTED)] if starts else []

    def work(broker: int, parts: list[TopicPartition]) -> Operation[dict[TopicPartition, Any]]:
        answers = yield from ask_offsets(broker, parts, wanted)
        ends = {p: _ends([_offset(p, rows.get(p)) for rows in answers], stable) for p in parts}
        if found is not None:
            found({p: answer for p, answer in ends.items() if isinstance(answer, LogEnds)})
        return ends

    answers = yield from by_leader(cluster, partitions, work)
    return {
        partition: answer if isinstance(answer, LogEnds) else LogEnds(None, answer)
        for partition, answer in answers.items()
    }


def all_topics(cluster: Cluster) -> Operation[list[str]]:
    """Return the names of all topics that may be seen.

    :raises KgError: no broker answered.
    """
    yield from fetch_metadata(cluster, None)
    return sorted(cluster.topics)


def look_anew(cluster: Cluster) -> Operation[None]:
    """Forget what may have changed since the last look, and learn which brokers there are.

    :raises KgError: no broker answered.
    """
    cluster.topics.clear()
    cluster.coordinators.clear()
    yield from fetch_metadata(cluster)


Time = int | Mapping[TopicPartition, int]
"""In ms since the epoch, or one of ListOffsets' special ones; of all partitions, or of each."""


def ask_offsets(
    broker: int, partitions: Sequence[TopicPartition], wanted: Sequence[tuple[Time, int]]
) -> Operation[list[dict[TopicPartition, Any]]]:
    """Ask one broker for the offsets at some times, each with an isolation level, in that order.

    The answer to each has a row or a KgError of every partition that the broker doesn't leave out.
    """
    chunks = cut(partitions, PARTITIONS_PER_REQUEST)
    asked = [(n, chunk) for n in range(len(wanted)) for chunk in chunks]
    replies = yield from pipelined(
        [Call(broker, offsets_request(chunk, *wanted[n])) for n, chunk in asked]
    )
    found: list[dict[TopicPartition, Any]] = [{} for _ in wanted]
    for (n, chunk), reply in zip(asked, replies, strict=True):
        if isinstance(reply, KgError):
            found[n].update(dict.fromkeys(chunk, reply))
        else:
            rows = ((topic.name, row) for topic in reply.topics for row in topic.partitions)
            found[n].update({TopicPartition(name, row.partition): row for name, row in rows})
    return found


def offsets_request(
    partitions: Iterable[TopicPartition], timestamp: Time, isolation: int = 0
) -> list_offsets.Request:
    """Ask for the offsets at a time."""
    topics = grouped(
        (
            partition.topic,
            list_offsets.RequestPartition(
                partition=partition.partition,
                timestamp=timestamp if isinstance(timestamp, int) else timestamp[partition],
            ),
        )
        for partition in partitions
    )
    return list_offsets.Request(
        replica_id=-1,
        isolation_level=isolation,
        topics=[
            list_offsets.RequestTopic(name=name, partitions=rows) for name, rows in topics.items()
        ],
    )


def _offset(partition: TopicPartition, row: Any) -> Any:
    if isinstance(row, KgError):
        return row
    if row is not None and row.error_code:
        error = broker_error(row.error_code)
        return denied.explain(error, denied.DESCRIBE, topic=partition.topic)
    # v0 has a list, of which one was asked for.
    offset = UNKNOWN_OFFSET if row is None else next(iter(row.old_style_offsets), row.offset)
    where = f"{partition.topic}-{partition.partition}"
    return left_out(list_offsets.Request, where) if offset == UNKNOWN_OFFSET else offset


def _ends(answers: list[Any], stable: bool) -> LogEnds | KgError:
    """Put together what was asked for: the last stable offset, the end, the beginning.

    A connection that broke in between is an error of the whole: it is all asked again.
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
