"""The offsets of listed groups, of whatever type."""

from __future__ import annotations

from collections.abc import Mapping

from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.model import GroupOffsets
from kgtool.queries.groups.share_and_streams import (
    OtherGroup,
    describe_other_groups,
    describe_other_offsets,
)
from kgtool.queries.offsets.describe import describe_offsets

OTHERS = ("share", "streams")


def describe_listed(cluster: Cluster, kinds: Mapping[str, str]) -> Operation[list[GroupOffsets]]:
    """Describe the offsets of groups.

    :param kinds: their types by their names, "" where unknown.
    """
    plain = [name for name, kind in kinds.items() if kind not in OTHERS]
    others = [name for name, kind in kinds.items() if kind in OTHERS]
    found: list[GroupOffsets] = []
    if plain:
        found += yield from describe_offsets(cluster, plain, kinds=dict(kinds))
    if others:
        described = yield from describe_other_groups(cluster, others)
        known = [one for one in described.values() if isinstance(one, OtherGroup)]
        found += yield from describe_other_offsets(cluster, known)
    return found
