"""Share groups by kio: start offsets are set and read without kgtool, and without members."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from kio.schema.alter_share_group_offsets.v0 import request as alter
from kio.schema.alter_share_group_offsets.v0.response import AlterShareGroupOffsetsResponse
from kio.schema.describe_share_group_offsets.v0 import request as describe
from kio.schema.describe_share_group_offsets.v0.response import DescribeShareGroupOffsetsResponse

from tests.support.kio_connection import KioConnection

Starts = Mapping[tuple[str, int], int]


def set_starts(bootstrap: str, group: str, starts: Starts) -> None:
    """Set start offsets, of a group that may be new."""
    topics: dict[str, list[alter.AlterShareGroupOffsetsRequestPartition]] = {}
    for (topic, number), offset in starts.items():
        row = alter.AlterShareGroupOffsetsRequestPartition(
            partition_index=number,  # type: ignore[arg-type]
            start_offset=offset,  # type: ignore[arg-type]
        )
        topics.setdefault(topic, []).append(row)
    rows = tuple(
        alter.AlterShareGroupOffsetsRequestTopic(
            topic_name=name,  # type: ignore[arg-type]
            partitions=tuple(parts),
        )
        for name, parts in topics.items()
    )
    request = alter.AlterShareGroupOffsetsRequest(group_id=group, topics=rows)  # type: ignore[arg-type]
    with closing(KioConnection(bootstrap)) as broker:
        reply = broker.ask(request, AlterShareGroupOffsetsResponse)
    assert reply.error_code == 0, reply


def get_starts(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """Return the start offsets of a group; -1: none yet."""
    one = describe.DescribeShareGroupOffsetsRequestGroup(
        group_id=group,  # type: ignore[arg-type]
        topics=None,
    )
    request = describe.DescribeShareGroupOffsetsRequest(groups=(one,))
    with closing(KioConnection(bootstrap)) as broker:
        (answer,) = broker.ask(request, DescribeShareGroupOffsetsResponse).groups
    return {
        (topic.topic_name, row.partition_index): row.start_offset
        for topic in answer.topics
        for row in topic.partitions
    }
