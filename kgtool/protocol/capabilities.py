"""What a broker may lack: which commands need it, which Kafka brought it. One table.

Brokers of Apache Kafka lack what is newer than they are; others that speak the protocol leave out
what they have no use for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kgtool.errors import UnsupportedVersion
from kgtool.protocol.broker_release import Offered

LOG = "__consumer_offsets"


class Capability(NamedTuple):
    """Something that commands need. ``key``: the API's; None: the topic ``__consumer_offsets``.

    ``since``: the Kafka that brought it; empty where 2.1 has it.
    """

    name: str
    key: int | None
    commands: str
    since: str = ""


CAPABILITIES = (
    Capability(LOG, None, "describe --expiry, list --expiring-within, keep, export, analyze, "
               "cleanup --idle"),
    Capability("ListGroups", 16, "list, and whatever does not name its groups"),
    Capability("DescribeGroups", 15, "describe, explain, doctor, and every change of a group"),
    Capability("DeleteGroups", 42, "delete, cleanup"),
    Capability("OffsetDelete", 47, "delete-offsets, cleanup --unsubscribed", "2.4"),
    Capability("LeaveGroup", 13, "remove-members"),
    Capability("OffsetForLeaderEpoch", 23, "leader epochs of reset-offsets"),
    Capability("ConsumerGroupDescribe", 69, "members of KIP-848 groups", "3.8"),
    Capability("IncrementalAlterConfigs", 44, "configs --alter", "2.3"),
    Capability("DescribeConfigs", 32, "configs, retention"),
    Capability("DescribeAcls", 29, "missing ACLs in explain"),
    Capability("DescribeCluster", 60, "permissions on the cluster in explain", "2.8"),
    Capability("DescribeTransactions", 65, "pending transactions in doctor", "3.0"),
    Capability("ShareGroupDescribe", 77, "share groups", "4.1"),
    Capability("DescribeShareGroupOffsets", 90, "start offsets and lag of share groups", "4.1"),
    Capability("StreamsGroupDescribe", 89, "streams groups", "4.2"),
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


def not_offered(peer: str, api: str) -> UnsupportedVersion:
    """Say that a broker doesn't offer an API, what uses it, and which Kafka brought it."""
    return _said(f"{peer} doesn't offer {api}", api)


def nobody_offers(api: str) -> UnsupportedVersion:
    """Say the same of all brokers of a cluster."""
    return _said(f"No broker offers {api}", api)


def _said(sentence: str, api: str) -> UnsupportedVersion:
    known = next((each for each in CAPABILITIES if each.name == api), None)
    since = f" (Kafka does since {known.since})" if known is not None and known.since else ""
    uses = f", used for: {known.commands}" if known is not None else ""
    return UnsupportedVersion(f"{sentence}{since}{uses}.")
