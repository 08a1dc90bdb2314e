"""The partition of ``__consumer_offsets`` that has all records of a group.

``GroupMetadataManager.partitionFor``: ``Utils.abs(groupId.hashCode) % partitions``, with Java's
hash over UTF-16 units, so that characters beyond the Basic Multilingual Plane count as their two
surrogates.
"""

from __future__ import annotations

from array import array
from sys import byteorder

TOPIC = "__consumer_offsets"

_SIGN = 1 << 31
_MASK = (1 << 32) - 1


def java_hash(text: str) -> int:
    """Return ``java.lang.String.hashCode``, a signed number of 32 bits.

    >>> java_hash("polygenelubricants"), java_hash("\\U0001f600")
    (-2147483648, 1772899)
    """
    units = array("H", text.encode("utf-16-be", "surrogatepass"))
    if byteorder == "little":
        units.byteswap()
    value = 0
    for unit in units:
        value = (31 * value + unit) & _MASK
    return value - (1 << 32) if value >= _SIGN else value


def offsets_partition(group: str, partitions: int) -> int:
    """Return a group's partition of ``__consumer_offsets``, which has ``partitions``.

    >>> offsets_partition("polygenelubricants", 50)
    0
    """
    value = java_hash(group)
    # Utils.abs: the one number whose absolute value is no int counts as 0.
    return 0 if value == -_SIGN else abs(value) % partitions
