"""What streams groups read, and so keep the offsets of (``StreamsTopology.sourceTopicMap``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kgtool.client.cluster import Cluster, by_coordinator
from kgtool.client.ops import Operation, call
from kgtool.errors import KgError
from kgtool.protocol.api import streams_group_describe
from kgtool.protocol.codes import broker_error


def streams_topics(
    cluster: Cluster, groups: Sequence[str]
) -> Operation[dict[str, frozenset[str] | None]]:
    """Return the source and repartition-source topics of each group; None where it is unknown."""

    def work(broker: int, ids: list[str]) -> Operation[dict[str, Any]]:
        reply = yield from call(broker, streams_group_describe.Request(group_ids=ids))
        if isinstance(reply, KgError):
            return dict.fromkeys(ids, reply)
        return {
            row.group_id: broker_error(row.error_code) if row.error_code else _topics(row)
            for row in reply.groups
        }

    answers = yield from by_coordinator(cluster, groups, work)
    return {g: None if isinstance(a, KgError) else a for g, a in answers.items()}


def _topics(row: Any) -> frozenset[str] | None:
    if row.topology is None or row.topology.subtopologies is None:
        return None
    topics: set[str] = set()
    for part in row.topology.subtopologies:
        topics.update(part.source_topics)
        topics.update(info.name for info in part.repartition_source_topics)
    return frozenset(topics)
