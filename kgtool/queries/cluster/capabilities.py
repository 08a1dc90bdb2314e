"""What a broker may lack that is not Apache Kafka, and which commands need it: one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kgtool.protocol.broker_release import Offered

LOG = "__consumer_offsets"


class Capability(NamedTuple):
    """Something that commands need. ``key``: the API's; None: the topic ``__consumer_offsets``."""

    name: str
    key: int | None
    commands: str


CAPABILITIES = (
    Capability(LOG, None, "describe --expiry, list --expiring-within, keep, export, analyze, "
               "cleanup --idle"),
    Capability("ListGroups", 16, "list, and all that chooses groups by pattern"),
    Capability("DeleteGroups", 42, "delete, cleanup"),
    Capability("OffsetDelete", 47, "delete-offsets, cleanup --unsubscribed"),
    Capability("OffsetForLeaderEpoch", 23, "leader epochs of reset-offsets"),
    Capability("ConsumerGroupDescribe", 69, "members of KIP-848 groups"),
    Capability("IncrementalAlterConfigs", 44, "configs --alter"),
    Capability("DescribeConfigs", 32, "configs, retention"),
    Capability("DescribeAcls", 29, "missing ACLs in explain"),
    Capability("DescribeTransactions", 65, "pending transactions in doctor"),
    Capability("ShareGroupDescribe", 77, "share groups"),
    Capability("StreamsGroupDescribe", 89, "streams groups"),
)  # fmt: skip


def lacking(offered: Mapping[int, Offered], *, has_log: bool) -> list[Capability]:
    """Return what at least one broker of a cluster lacks.

    :param offered: the APIs by broker id.
    :param has_log: whether the topic ``__consumer_offsets`` is there.
    """
    return [
        each
        for each in CAPABILITIES
        if (not has_log if each.key is None else any(each.key not in o for o in offered.values()))
    ]
