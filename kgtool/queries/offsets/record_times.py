"""When the last record before an offset was written: what a consumer has read last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.errors import KgError
from kgtool.model import TopicPartition
from kgtool.queries.offsets.positions import ranges_at
from kgtool.queries.offsets.time_lag import Position, first_unread

STEPS = (1, 2, 10, 100, 1_000, 10_000)
"""So far back is looked for a record: markers of transactions and compaction leave gaps."""


class Place(NamedTuple):
    """A committed offset, and where its log begins."""

    offset: int
    start: int


def times_before(
    cluster: Cluster, places: Mapping[TopicPartition, Place]
) -> Operation[dict[TopicPartition, int | KgError]]:
    """Return the time (ms) of the last record before each offset; 0 where there is none.

    The log itself is asked whether the first record of that time or later is not beyond the
    offset, which a gap, a compressed batch or unordered times can cause; an earlier record's time
    is taken then. A KgError where the log can't be read, which takes READ on the topic.
    """
    found: dict[TopicPartition, int | KgError] = {}
    for step in STEPS:
        left = {
            p: at for p, at in places.items() if p not in found and at.offset - step >= at.start
        }
        if not left:
            break
        asked = [Position(p, at.offset - step, at.offset) for p, at in left.items()]
        times = yield from first_unread(cluster, asked)
        found.update({at.partition: ms for at, ms in times.items() if isinstance(ms, KgError)})
        told = {at.partition: ms for at, ms in times.items() if isinstance(ms, int)}
        found.update((yield from _confirmed(cluster, told, places)))
    return {partition: found.get(partition, 0) for partition in places}


def _confirmed(
    cluster: Cluster, times: Mapping[TopicPartition, int], places: Mapping[TopicPartition, Place]
) -> Operation[Iterable[tuple[TopicPartition, int | KgError]]]:
    """Return the times that lead to the offset or before it."""
    logs = yield from ranges_at(cluster, times)
    found: list[tuple[TopicPartition, int | KgError]] = []
    for partition, log in logs.items():
        if isinstance(log, KgError):
            found.append((partition, log))
        elif log.at_time is not None and log.at_time.offset <= places[partition].offset:
            found.append((partition, times[partition]))
    return found
