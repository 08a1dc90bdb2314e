"""Capabilities that a broker may lack: the commands that need them, the Kafka that brought them.

Brokers of Apache Kafka lack what is newer than they are; others that speak the protocol leave out
what they have no use for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kgtool.errors import UnsupportedVersion

LOG = "__consumer_offsets"


class Capability(NamedTuple):
    """An API that commands need, or (``key`` None) the topic ``__consumer_offsets``.

    ``since``: the Kafka that brought it; empty where 2.1 has it.
    """

    name: str
    key: int | None
    commands: str
    since: str = ""


CAPABILITIES = (
    Capability(
        LOG,
        None,
        "describe --expiry, list --expiring-within, keep, export, analyze, cleanup --idle",
    ),
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
)


def missing_capabilities(offered: Mapping[int, Offered], *, has_log: bool) -> list[Capability]:
    """Return the capabilities that at least one broker of a cluster lacks.

    :param offered: the APIs by broker id.
    :param has_log: whether the topic ``__consumer_offsets`` is there.
    """
    return [
        each
        for each in CAPABILITIES
        if (not has_log if each.key is None else any(each.key not in o for o in offered.values()))
    ]


def not_offered(peer: str, api: str) -> UnsupportedVersion:
    """Return the error for an API that a broker doesn't offer, with its uses and first release."""
    return _unsupported(f"{peer} doesn't offer {api}", api)


def no_broker_offers(api: str) -> UnsupportedVersion:
    """Return the error for an API that no broker of the cluster offers."""
    return _unsupported(f"No broker offers {api}", api)


def _unsupported(sentence: str, api: str) -> UnsupportedVersion:
    known = next((each for each in CAPABILITIES if each.name == api), None)
    since = f" (Kafka does since {known.since})" if known is not None and known.since else ""
    uses = f", used for: {known.commands}" if known is not None else ""
    return UnsupportedVersion(f"{sentence}{since}{uses}.")


# ---------------------------------------------------------------------------------------------
# A broker's release: no API returns it, so it is guessed from the APIs that the broker offers.
#
# The guess is a lower bound: "at least 4.1". The marks are the stable versions in the message JSONs
# of the kafka-clients jars of 2.3 to 4.1; unstable versions are not offered (OffsetFetch v10 in
# 4.1, ConsumerGroupDescribe in 3.7). The guess is as fine as the retention rules need it, whose
# generations are the releases named here (``facts``: KIP-211 in 2.1, KIP-496 in 2.4, the new
# coordinator as a preview in 3.7, its default in 4.0, its last change in 4.1).


Offered = Mapping[int, tuple[int, int]]
"""API key → (lowest, highest version)."""

# (release, API key, lowest version that must be at least, highest that must be at least).
_MARKS: tuple[tuple[tuple[int, int], int, int, int], ...] = (
    ((4, 1), 66, 0, 2),  # ListTransactions v2: a pattern (KIP-1152)
    ((4, 0), 2, 1, 0),  # ListOffsets v0 was taken away (KIP-896)
    ((3, 9), 10, 0, 6),  # FindCoordinator v6: share groups
    ((3, 8), 16, 0, 5),  # ListGroups v5: types (KIP-848)
    ((3, 7), 9, 0, 9),  # OffsetFetch v9: member epoch (KIP-848)
    ((2, 8), 60, 0, 0),  # DescribeCluster
    ((2, 7), 50, 0, 0),  # DescribeUserScramCredentials (KIP-554)
    ((2, 6), 48, 0, 0),  # DescribeClientQuotas (KIP-546)
    ((2, 4), 47, 0, 0),  # OffsetDelete (KIP-496)
    ((2, 3), 44, 0, 0),  # IncrementalAlterConfigs
    ((2, 2), 43, 0, 0),  # ElectPreferredLeaders (KIP-183)
    ((2, 1), 9, 0, 5),  # OffsetFetch v5: leader epoch (KIP-320)
)


def broker_release(offered: Offered) -> tuple[int, int]:
    """Return the release, as (major, minor), that a broker has at least; (0, 0): before 2.1."""
    for number, key, low, high in _MARKS:
        if key in offered and offered[key][0] >= low and offered[key][1] >= high:
            return number
    return (0, 0)


_ALWAYS = frozenset({*range(4), *range(8, 38), 42})
"""Every release from 2.1 to 4.3 offers these, with ZooKeeper and with KRaft."""
_SINCE_4_0 = frozenset({38, 39, 40, 41, 55, 57, 64})
"""KRaft's: delegation tokens (KIP-900), DescribeQuorum, UpdateFeatures, UnregisterBroker."""


def is_kafka(offered: Offered) -> bool:
    """Whether a broker offers all that Apache Kafka of the release it looks like offers.

    Other implementations leave out APIs that they have no use for, and take some of the newest:
    their ``broker_release`` says nothing about how they keep offsets.
    """
    needed = _ALWAYS | (_SINCE_4_0 if broker_release(offered) >= (4, 0) else frozenset())
    return needed <= offered.keys()
