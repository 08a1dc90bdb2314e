"""Unread records that are removed soon, by ``retention.ms`` of their topic.

No record is read to find them: ListOffsets tells where the records begin that are younger than what
goes soon, and who has not read up to there is at risk. Only then the first unread record is fetched
for its time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.model import GroupOffsets, OffsetRow, TopicPartition
from kgtool.queries.offsets.list_offsets import LogRange, log_ranges
from kgtool.queries.offsets.record_retention import record_retentions
from kgtool.queries.offsets.time_lag import Position, first_unread

SHARE = 4
"""Soon is the last quarter of a topic's retention at most: what is kept for an hour is not at risk
a minute after it was written."""


class AtRisk(NamedTuple):
    """When the first unread record may go (ms), and its topic's ``retention.ms``.

    ``lost_at_ms`` None: it goes soon; when is not known without READ on the topic.
    """

    lost_at_ms: int | None
    retention_ms: int


def find_at_risk(
    cluster: Cluster, groups: Iterable[GroupOffsets], now_ms: int, within_ms: int
) -> Operation[dict[tuple[str, TopicPartition], AtRisk]]:
    """Return by group and partition what goes within ``within_ms``, and soon for its topic.

    Needs DESCRIBE_CONFIGS on the topics: of others nothing is known.
    """
    behind = [row for found in groups for row in found.rows if (row.readable or 0) > 0]
    spans = yield from record_retentions(cluster, sorted({row.topic for row in behind}))
    times = {}
    for row in behind:
        span_ms = spans[row.topic]
        if span_ms is not None and now_ms > span_ms:
            times[row.topic_partition] = now_ms - span_ms + soon_ms(span_ms, within_ms)
    if not times:
        return {}
    logs = yield from log_ranges(cluster, sorted(times), times)
    places = {}
    for row in behind:
        log = logs.get(row.topic_partition)
        if isinstance(log, LogRange) and _first(row) < _safe_from(log):
            places[row.group, row.topic_partition] = Position(
                row.topic_partition, max(_first(row), log.start.offset), log.end.offset
            )
    written = yield from first_unread(cluster, places.values())
    found = {}
    for key, place in places.items():
        at_ms, span_ms = written[place], spans[key[1].topic] or 0
        limit_ms = now_ms + soon_ms(span_ms, within_ms)
        lost_at_ms = at_ms + span_ms if isinstance(at_ms, int) and at_ms >= 0 else None
        # Records that were written with older times may lie behind younger ones.
        if lost_at_ms is None or lost_at_ms <= limit_ms:
            found[key] = AtRisk(lost_at_ms, span_ms)
    return found


def soon_ms(retention_ms: int, within_ms: int) -> int:
    """Return the span before the loss in which records are at risk."""
    return min(within_ms, retention_ms // SHARE)


def _first(row: OffsetRow) -> int:
    return max(row.current_offset or 0, row.log_start_offset or 0)


def _safe_from(log: LogRange) -> int:
    """Return the offset of the first record that does not go soon."""
    return log.end.offset if log.at_time is None else log.at_time.offset
