"""Where the logs of partitions begin and end (ListOffsets)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kgtool.admin.lag import LogEnds
from kgtool.client.cluster import Cluster, by_leader
from kgtool.client.ops import Call, Operation
from kgtool.errors import KgError
from kgtool.model import TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import list_offsets
from kgtool.protocol.codes import broker_error

LATEST, EARLIEST = -1, -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1

PARTITIONS_PER_REQUEST = 20_000


def log_ends(
    cluster: Cluster, partitions: Iterable[TopicPartition], *, starts: bool = True,
    isolation: int = READ_UNCOMMITTED,
) -> Operation[dict[TopicPartition, LogEnds]]:  # fmt: skip
    """Return where each partition's log begins and ends, one round trip per leader.

    The end is the high watermark, or with ``READ_COMMITTED`` the last stable offset.

    :param starts: ask for the beginnings too.
    """
    wanted = (LATEST, EARLIEST) if starts else (LATEST,)

    def work(broker: int, parts: list[TopicPartition]) -> Operation[dict[TopicPartition, Any]]:
        return _ask(broker, parts, wanted, isolation)

    answers = yield from by_leader(cluster, partitions, work)
    return {
        partition: answer if isinstance(answer, LogEnds) else LogEnds(None, answer)
        for partition, answer in answers.items()
    }


def _ask(
    broker: int, partitions: list[TopicPartition], wanted: Sequence[int], isolation: int
) -> Operation[dict[TopicPartition, Any]]:
    chunks = [
        partitions[at : at + PARTITIONS_PER_REQUEST]
        for at in range(0, len(partitions), PARTITIONS_PER_REQUEST)
    ]
    calls = [
        Call(broker, _request(chunk, timestamp, isolation))
        for timestamp in wanted
        for chunk in chunks
    ]
    replies = yield calls
    found: list[dict[TopicPartition, Any]] = []
    for at in range(0, len(replies), len(chunks)):
        merged: dict[TopicPartition, Any] = {}
        for reply, chunk in zip(replies[at : at + len(chunks)], chunks, strict=True):
            merged.update(_offsets(reply, chunk))
        found.append(merged)
    return {partition: _ends(partition, found) for partition in partitions}


def _request(partitions: Iterable[TopicPartition], timestamp: int, isolation: int) -> Any:
    topics: dict[str, list[Any]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(
            list_offsets.RequestPartition(partition=partition.partition, timestamp=timestamp)
        )
    return list_offsets.Request(
        replica_id=-1,
        isolation_level=isolation,
        topics=[
            list_offsets.RequestTopic(name=name, partitions=rows) for name, rows in topics.items()
        ],
    )


def _offsets(reply: Any, asked: list[TopicPartition]) -> dict[TopicPartition, Any]:
    if isinstance(reply, KgError):
        return dict.fromkeys(asked, reply)
    missing = broker_error(codes.UNKNOWN_TOPIC_OR_PARTITION)
    found: dict[TopicPartition, Any] = dict.fromkeys(asked, missing)
    for topic in reply.topics:
        for row in topic.partitions:
            partition = TopicPartition(topic.name, row.partition)
            found[partition] = broker_error(row.error_code) if row.error_code else row.offset
    return found


def _ends(partition: TopicPartition, found: list[dict[TopicPartition, Any]]) -> Any:
    end = found[0][partition]
    if isinstance(end, KgError):
        return end
    start = found[1][partition] if len(found) > 1 else None
    return LogEnds(None if isinstance(start, KgError) else start, end)
