"""Guesses a broker's release from what it offers: no API tells it.

The guess is a lower bound: "at least 4.1". The marks are the stable versions in the message JSONs
of the kafka-clients jars of 2.3 to 4.1; what a jar calls unstable is not offered (OffsetFetch v10
in 4.1, ConsumerGroupDescribe in 3.7). The guess is as fine as the retention rules need it, whose
generations are the releases named here (``facts``: KIP-211 in 2.1, KIP-496 in 2.4, the new
coordinator as a preview in 3.7, its default in 4.0, its last change in 4.1).
"""

from __future__ import annotations

from collections.abc import Mapping

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
    ((2, 4), 47, 0, 0),  # OffsetDelete (KIP-496)
    ((2, 3), 44, 0, 0),  # IncrementalAlterConfigs
    ((2, 1), 9, 0, 5),  # OffsetFetch v5: leader epoch (KIP-320)
)


def release(offered: Offered) -> tuple[int, int]:
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

    Others that speak the protocol leave out what they have no use for, and take part of what is
    newest: their ``release`` says nothing about how they keep offsets.
    """
    needed = _ALWAYS | (_SINCE_4_0 if release(offered) >= (4, 0) else frozenset())
    return needed <= offered.keys()
