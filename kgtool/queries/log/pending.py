"""Pending transactions by the log of groups: brokers before 2.5 (KIP-447) do not tell of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kgtool.client.cluster import Cluster, find_coordinators, version_of
from kgtool.client.ops import READING_SHARE, Operation, within
from kgtool.errors import KgError
from kgtool.model import CommittedOffset
from kgtool.protocol.api import offset_fetch
from kgtool.queries.log.reader import LogReader
from kgtool.queries.offsets.fetch import STABLE, Committed


def pending_in_log(cluster: Cluster, groups: Collection[str]) -> Operation[dict[str, Committed]]:
    """Return what open transactions are about to change of groups whose coordinator can't tell.

    All others are left out, and so are those whose log can't be read.
    """
    located = yield from find_coordinators(cluster, list(groups))
    old = set[int]()
    for node in {node for node in located.values() if isinstance(node, int)}:
        version = yield from version_of(cluster, node, offset_fetch.Request)
        if isinstance(version, int) and version < STABLE:
            old.add(node)
    names = [group for group, node in located.items() if node in old]
    if not names:
        return {}
    try:
        found = yield from within(LogReader(names, None).read(cluster, names), READING_SHARE)
    except KgError:
        return {}
    pending = CommittedOffset(None, None, None, is_pending=True)
    logs = {name: s.log for name, s in found.items() if not isinstance(s, KgError)}
    return {name: dict.fromkeys(log.pending(name), pending) for name, log in logs.items()}


def mark_pending(cluster: Cluster, committed: Mapping[str, Committed | KgError]) -> Operation[None]:
    """Mark the offsets that a transaction is about to change, where OffsetFetch does not."""
    for group, pending in (yield from pending_in_log(cluster, committed)).items():
        values = committed[group]
        if isinstance(values, KgError):
            continue
        for partition in pending:
            value = values.get(partition)
            if isinstance(value, CommittedOffset):
                values[partition] = value._replace(is_pending=True)
