"""Divides a large partition of the log into buckets of whole groups that fit into memory.

Groups are independent of each other; every bucket gets the transaction markers and the notes about
files.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import schema
from kgtool.analysis.decode.blobs import Kept, Kinds, as_bytes, empty, from_bytes, unpack
from kgtool.analysis.fold import compact
from kgtool.analysis.fold.arrays import ints
from kgtool.analysis.fold.folded_log import FoldPlan

ROWS = 1 << 17
"""Of a bucket, about: their fold with five scenarios takes some 300 MB."""
_OF_GROUPS = (schema.KIND_OFFSET, schema.KIND_GROUP, schema.KIND_COUNT)


class BucketPart(NamedTuple):
    """The rows of one blob that belong to a bucket."""

    kind: str
    rows: int
    first: int
    """Log offset; -1: the rows have none, or are not in order."""
    last: int
    name: tuple[int, int]
    """Under which they are kept."""


def buckets(blobs: Kept, plan: FoldPlan) -> Iterator[Kinds]:
    """A partition's blobs as tables, some of its groups at a time."""
    count = _count(blobs)
    if count == 1:
        yield unpack(blobs.items())
        return
    shared = unpack(
        (kind, data) for kind in blobs if kind not in _OF_GROUPS for data in blobs.each(kind)
    )
    own: list[list[BucketPart]] = [[] for _ in range(count)]
    kept = Kept()
    for kind in _OF_GROUPS:
        for data in blobs.each(kind):
            table = from_bytes(data)
            for number, some in split(table, "group", count):
                name = number, len(own[number])
                own[number].append(BucketPart(kind, len(some), *_ends(some), name))
                for piece in [data] if some is table else as_bytes(_own_names(some)):
                    kept.add(name, piece)
    for parts in own:
        if parts:
            yield {**shared, **_unpacked(parts, kept, plan)}


def _ends(rows: pa.Table) -> tuple[int, int]:
    place = ints(rows["log_offset"]) if "log_offset" in rows.column_names else np.zeros(0)
    is_sorted = len(place) and (place[1:] > place[:-1]).all()
    return (int(place[0]), int(place[-1])) if is_sorted else (-1, -1)


def _unpacked(parts: list[BucketPart], kept: Kept, plan: FoldPlan) -> Kinds:
    """The tables of a bucket; ``compact`` drops commits of a large group."""
    some = sorted(
        (part for part in parts if part.kind == schema.KIND_OFFSET), key=attrgetter("first")
    )
    in_order = all(-1 < part.first <= part.last for part in some)
    in_order &= all(one.last < other.first for one, other in pairwise(some))
    rows = sum(part.rows for part in some)
    if plan.overlapping or not in_order or rows <= compact.STEP:
        return unpack((part.kind, data) for part in parts for data in kept.each(part.name))
    rest = [part for part in parts if part.kind != schema.KIND_OFFSET]
    found = unpack((part.kind, data) for part in rest for data in kept.each(part.name))
    times = compact.group_record_times(found.get(schema.KIND_GROUP, empty(schema.KIND_GROUP)))
    tables = (table for part in some for table in kept.tables(part.name))
    return {**found, schema.KIND_OFFSET: compact.drop_unneeded(tables, times, plan, rows)}


def _count(blobs: Kept) -> int:
    """Number of buckets, estimated from as many blobs as one bucket takes."""
    rows = 0.0
    for kind in _OF_GROUPS[:2]:
        seen = size = 0
        for data in blobs.each(kind):
            seen, size = seen + len(from_bytes(data)), size + len(data)
            if seen >= ROWS:
                break
        rows += seen * blobs.size(kind) / max(size, 1)
    return int(-(-rows // ROWS)) or 1


def split(table: pa.Table, column: str, count: int) -> Iterator[tuple[int, pa.Table]]:
    """(bucket, its rows in order); rows with the same name in ``column`` share a bucket."""
    if count == 1:
        yield 0, table
        return
    names = table[column].dictionary_encode().unify_dictionaries().combine_chunks()
    of = np.array([crc32(name.encode()) % count for name in names.dictionary.to_pylist()])
    if len(of) and (of == of[0]).all():
        yield int(of[0]), table
        return
    bucket = of[names.indices.to_numpy()]
    order = np.argsort(bucket, kind="stable")
    ends = np.searchsorted(bucket[order], np.arange(count + 1))
    for number in np.flatnonzero(np.diff(ends)).tolist():
        yield number, table.take(pa.array(order[ends[number] : ends[number + 1]]))


def _own_names(rows: pa.Table) -> pa.Table:
    """Rows with a dictionary of their own groups only."""
    names = rows["group"].cast(pa.string()).dictionary_encode()
    return rows.set_column(rows.schema.get_field_index("group"), "group", names)
