"""The start offsets of share groups (KIP-932): DescribeShareGroupOffsets.

A share group commits no offsets. The share coordinator keeps a start offset of each partition and
the delivery state of the records behind it: which are in flight, which are acknowledged already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kgtool.client import denied
from kgtool.client.answers import left_out
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation, call
from kgtool.client.routing import by_coordinator
from kgtool.errors import KgError
from kgtool.model import CommittedOffset, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import describe_share_group_offsets
from kgtool.protocol.codes import broker_error
from kgtool.queries.offsets.fetch import Committed

Start = tuple["CommittedOffset | KgError | None", "int | None"]
"""The start offset of a partition (None: none yet, or its error), and the lag in records, from
Kafka 4.2 on."""
Starts = Mapping[TopicPartition, Start]

NO_START = CommittedOffset(None, None, None)
"""A partition that a share group has without a start offset yet."""


def fetch_starts(cluster: Cluster, groups: Sequence[str]) -> Operation[dict[str, Starts | KgError]]:
    """Return all start offsets of share groups; a group that does not exist has none."""
    return (yield from by_coordinator(cluster, groups, starts_on))


def fetch_start_offsets(
    cluster: Cluster, groups: Sequence[str]
) -> Operation[dict[str, Committed | KgError]]:
    """Return start offsets in the form of committed offsets (``start_offsets_on``)."""
    return (yield from by_coordinator(cluster, groups, start_offsets_on))


def start_offsets_on(broker: int, groups: list[str]) -> Operation[dict[str, Committed | KgError]]:
    """Return start offsets in the form of committed offsets, from the groups' coordinator.

    Partitions without a start offset yet have ``NO_START``. There are no leader epochs: they are
    the share coordinator's own.
    """
    found = yield from starts_on(broker, groups)
    return {
        group: starts if isinstance(starts, KgError) else _as_committed(starts)
        for group, starts in found.items()
    }


def _as_committed(starts: Starts) -> Committed:
    return {
        at: NO_START
        if value is None
        else value
        if isinstance(value, KgError)
        else value._replace(leader_epoch=None)
        for at, (value, _) in starts.items()
    }


def starts_on(broker: int, groups: list[str]) -> Operation[dict[str, Starts | KgError]]:
    """Fetch start offsets from the groups' coordinator, always of all partitions.

    Brokers never answer a request that names a partition that does not exist, or a group twice
    (4.3.1).
    """
    api = describe_share_group_offsets
    request = api.Request(
        groups=[api.RequestGroup(group_id=one, topics=None) for one in dict.fromkeys(groups)]
    )
    reply = yield from call(broker, request)
    if isinstance(reply, KgError):
        return dict.fromkeys(groups, reply)
    rows = {row.group_id: row for row in reply.groups}
    return {
        group: _starts(rows[group]) if group in rows else left_out(api.Request, f"group {group}")
        for group in groups
    }


def _starts(row: Any) -> Starts | KgError:
    if row.error_code == codes.GROUP_ID_NOT_FOUND:
        return {}
    if row.error_code:
        error = broker_error(row.error_code, row.error_message)
        return denied.explain(error, denied.DESCRIBE, group=row.group_id)
    found: dict[TopicPartition, Start] = {}
    for topic in row.topics:
        for part in topic.partitions:
            value: CommittedOffset | KgError | None = None
            if part.error_code:
                error = broker_error(part.error_code, part.error_message)
                value = denied.explain(error, denied.DESCRIBE, topic=topic.topic_name)
            elif part.start_offset >= 0:
                epoch = part.leader_epoch if part.leader_epoch >= 0 else None
                value = CommittedOffset(part.start_offset, epoch, None)
            at = TopicPartition(topic.topic_name, part.partition)
            found[at] = (value, part.lag if part.lag >= 0 else None)
    return found
