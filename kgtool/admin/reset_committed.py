"""The committed offsets of chosen partitions (OffsetFetch with topics, KIP-88)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kgtool.admin.committed import Committed, calls_for, finish_fetch
from kgtool.client.cluster import Cluster, by_coordinator, pipelined, version_of
from kgtool.client.ops import Operation
from kgtool.errors import KgError
from kgtool.model import TopicPartition
from kgtool.protocol.api import offset_fetch

Wanted = Mapping[str, Sequence[TopicPartition]]


def fetch_selected(cluster: Cluster, wanted: Wanted) -> Operation[dict[str, Committed | KgError]]:
    """Return what groups have committed for the partitions named, or why it can't be had.

    Unlike the offsets of a whole group (null topics), this shows topics that may not be read (29)
    and a pending transaction that is the first commit of its partition. Groups without partitions
    are left out.
    """

    def work(broker: int, ids: list[str]) -> Operation[dict[str, Any]]:
        version = yield from version_of(cluster, broker, offset_fetch.Request)
        if isinstance(version, KgError):
            return dict.fromkeys(ids, version)
        parts = {group: wanted[group] for group in ids}
        replies = yield from pipelined(calls_for(broker, version, parts, stable=version >= 7))
        return (yield from finish_fetch(broker, version, ids, replies))

    groups = [group for group, partitions in wanted.items() if partitions]
    return (yield from by_coordinator(cluster, groups, work))
