"""Whether groups are in the log partition that their names belong to.

``GroupMetadataManager.partitionFor``: ``Utils.abs(groupId.hashCode) % partitions``. A group
elsewhere is left over from another partition count, or its folder has another number: its
coordinator has other records of it, or none, so that nothing can be told of it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis.fold.arrays import Bools, Ints, ints
from kgtool.text import counted

_BROKEN = "\ufffd"
"""In names that are not UTF-8; their hash is unknown."""
MOST = 1024
"""Partition counts that are tried where cluster.json does not tell it."""
_SAMPLE = 512
_FEWEST = 5
"""Groups that tell a partition count."""
_TOLD = "of cluster.json", "they have no state, date or cause here"
_LIKELY = (
    "that fit most groups",
    "their dates and causes may be wrong. kgtool export writes the count down",
)


def hashes(names: Any) -> Ints:
    """The absolute value of Java's hash of each name; -1: unknown."""
    words = names.to_pylist()
    units = [word.encode("utf-16-le", "surrogatepass") for word in words]
    data = np.frombuffer(b"".join(units), dtype="<u2").astype(np.uint32)
    size = np.array([len(each) // 2 for each in units], dtype=np.int64)
    start, value = np.cumsum(size) - size, np.zeros(len(words), dtype=np.uint32)
    some = np.arange(len(words))
    for place in range(int(size.max(initial=0))):
        some = some[size[some] > place]
        value[some] = value[some] * np.uint32(31) + data[start[some] + place]
    found = np.abs(value.view(np.int32).astype(np.int64))
    found[found == 2**31] = 0
    found[[at for at, word in enumerate(words) if _BROKEN in word]] = -1
    return np.asarray(found, dtype=np.int64)


def misplaced(names: Any, partition: int, count: int) -> Bools:
    """Which groups of a log partition belong to another one of so many; 0: unknown, so none."""
    if partition < 0 or not count:
        return np.zeros(len(names), dtype=np.bool_)
    found = hashes(names)
    return np.asarray((found >= 0) & (found % count != partition), dtype=np.bool_)


def table(names: Any, partition: int, count: int, elsewhere: Bools) -> pa.Table:
    """How many groups belong here, by partition count: the known one, or each that may be."""
    if partition < 0:
        return _table([], [], 0, partition)
    if count:
        return _table([count], [len(names) - int(elsewhere.sum())], len(names), partition)
    found = hashes(names[:_SAMPLE])
    found = found[found >= 0]
    counts = list(range(1, MOST + 1))
    here = [int((found % each == partition).sum()) for each in counts]
    return _table(counts, here, len(found), partition)


def _table(counts: list[int], here: list[int], groups: int, partition: int) -> pa.Table:
    columns = {"count": counts, "here": here}
    columns |= {"groups": [groups] * len(counts), "partition": [partition] * len(counts)}
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def note(parts: pa.Table, count: int) -> str | None:
    """The sentence about misplaced groups, of ``table`` of all log partitions."""
    sums = parts.group_by("count").aggregate([("here", "sum"), ("groups", "sum")])
    counts, here, groups = (ints(sums[name]) for name in ("count", "here_sum", "groups_sum"))
    total = int(groups.max(initial=0))
    if not len(counts) or (not count and total < _FEWEST):
        return None
    best = int(np.lexsort((counts, here))[-1])
    elsewhere = total - int(here[best])
    if not elsewhere or (not count and _may_be_chance(int(here[best]), total, int(counts[best]))):
        return None
    which, then = _TOLD if count else _LIKELY
    return (
        f"{counted(elsewhere, 'group')} of {total:,} are in a log partition that is not theirs by "
        f"their names' hash and the {counts[best]} partitions {which}. A folder may have another "
        f"partition's number, or the topic had another partition count: {then}."
    )


def _may_be_chance(here: int, total: int, count: int) -> bool:
    """Whether another hash than Kafka's might send as many groups where they are.

    Where a count was raised and the groups went on, half of them are elsewhere, so a share can't
    tell. Chernoff's bound says how likely so many fit one count by chance; each of the counts that
    are tried, of which the best is taken, gets its part of 1 %: 1/count² adds up to less than 2.
    """
    share, by_chance = here / total, 1 / count
    if share <= by_chance:
        return True
    bound = share * math.log(share / by_chance)
    bound += (1 - share) * math.log((1 - share) / (1 - by_chance))
    return total * bound <= math.log(200 * count**2)
