"""The committed offsets of chosen partitions (OffsetFetch with topics, KIP-88)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from kgtool.client.cluster import Cluster, by_coordinator, pipelined, version_of
from kgtool.client.ops import Operation
from kgtool.errors import KgError
from kgtool.model import TopicPartition
from kgtool.protocol.api import offset_fetch
from kgtool.queries.offsets.fetch import (
    NAMES_VERSION,
    Committed,
    calls_for,
    fetch_by_id,
    finish_fetch,
)

Wanted = Mapping[str, Sequence[TopicPartition]]


def fetch_selected(cluster: Cluster, wanted: Wanted) -> Operation[dict[str, Committed | KgError]]:
    """Return what groups have committed for the partitions named, or why it can't be had.

    Unlike the offsets of a whole group (null topics), this shows topics that may not be read (29)
    and a pending transaction that is the first commit of its partition. Groups without partitions
    are left out.
    """

    def work(broker: int, groups: list[str]) -> Operation[dict[str, Any]]:
        return selected_on(cluster, broker, {group: wanted[group] for group in groups}, {})

    groups = [group for group, partitions in wanted.items() if partitions]
    return (yield from by_coordinator(cluster, groups, work))


def selected_on(
    cluster: Cluster, broker: int, wanted: Wanted, ids: Mapping[str, UUID | None]
) -> Operation[dict[str, Committed | KgError]]:
    """Return what groups of one coordinator have committed for the partitions named.

    :param ids: topics with an id are asked for by it where the coordinator can (v10).
    """
    version = yield from version_of(cluster, broker, offset_fetch.Request)
    if isinstance(version, KgError):
        return dict.fromkeys(wanted, version)
    usable = ids if version > NAMES_VERSION else {}
    by_id = _where(wanted, lambda partition: bool(usable.get(partition.topic)))
    by_name = _where(wanted, lambda partition: not usable.get(partition.topic))
    found: dict[str, Committed | KgError] = {group: {} for group in wanted}
    if by_id:
        found.update((yield from fetch_by_id(broker, version, by_id, ids)))
    if not by_name:
        return found
    replies = yield from pipelined(calls_for(broker, version, by_name, stable=version >= 7))
    for group, more in (yield from finish_fetch(broker, version, list(by_name), replies)).items():
        known = found[group]
        if isinstance(known, dict):
            found[group] = {**known, **more} if isinstance(more, dict) else more
    return found


def _where(wanted: Wanted, is_meant: Callable[[TopicPartition], bool]) -> Wanted:
    """Return the partitions that are meant; groups without any are left out."""
    chosen = {g: [p for p in parts if is_meant(p)] for g, parts in wanted.items()}
    return {group: parts for group, parts in chosen.items() if parts}
