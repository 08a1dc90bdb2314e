"""Window functions, as-of joins and group-bys in numpy.

Windows are over the rows of a key: the rows are sorted by key, an integer, and by order within it.
A missing integer is ``NONE``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = Any
"""``NDArray[np.bool_]``; numpy's own types lose that in every other expression."""
NONE = -(2**63)
MAX = 2**63 - 1


class Runs:
    """Windows over rows that are sorted by key."""

    def __init__(self, key: Ints) -> None:
        self.size = len(key)
        self.is_first = np.ones(self.size, dtype=np.bool_)
        self.is_first[1:] = key[1:] != key[:-1]
        self.is_last = np.ones(self.size, dtype=np.bool_)
        self.is_last[:-1] = self.is_first[1:]
        self.index = np.arange(self.size, dtype=np.int64)
        self.start: Ints = np.maximum.accumulate(np.where(self.is_first, self.index, 0))

    def lag(self, values: NDArray[Any], default: Any) -> NDArray[Any]:
        """The value of the row before."""
        moved = np.empty_like(values)
        moved[1:] = values[:-1]
        moved[self.is_first] = default
        return moved

    def lead(self, values: NDArray[Any], default: Any) -> NDArray[Any]:
        """The value of the next row."""
        moved = np.empty_like(values)
        moved[:-1] = values[1:]
        moved[self.is_last] = default
        return moved

    def sum_before(self, values: NDArray[Any]) -> Ints:
        """The sum over all rows before."""
        total = np.cumsum(values, dtype=np.int64) - values
        return np.asarray(total - total[self.start] if self.size else total, dtype=np.int64)

    def last_so_far(self, which: Bools) -> Ints:
        """Index of the last row, up to this one, for which ``which`` is set; -1: none."""
        seen = np.maximum.accumulate(np.where(which, self.index, -1))
        return np.where(seen >= self.start, seen, -1)

    def last_before(self, which: Bools) -> Ints:
        """``last_so_far`` of the row before."""
        return self.lag(self.last_so_far(which), -1)

    def first_behind(self, which: Bools, none: int = -1) -> Ints:
        """Index of the first later row for which ``which`` is set, or ``none``."""
        nearest = np.minimum.accumulate(np.where(which, self.index, self.size)[::-1])[::-1]
        after = np.append(nearest, self.size)[1:]
        inside = after < self.size
        inside[inside] = self.start[after[inside]] == self.start[inside]
        return np.where(inside, after, none)


def stacked(parts: Iterable[Iterable[NDArray[Any]]]) -> Iterator[Any]:
    """The concatenated columns of these parts, which go as theirs come."""
    columns = list(map(list, zip(*parts, strict=True)))
    while columns:
        yield np.concatenate(columns.pop(0))


def lean(column: NDArray[Any]) -> NDArray[Any]:
    """The same numbers; one of them in memory where all are equal, as in most columns of most logs.

    It can't be written to then.
    """
    if len(column) < 2 or column[0] != column[-1] or (column != column[0]).any():
        return column
    return np.broadcast_to(column[0], len(column))


SLAB = 1 << 17
"""Rows that are processed at once where keys are independent of each other."""


def pieces(rows: int) -> Iterator[slice]:
    """The places of SLAB rows at a time, in order; of no rows once."""
    return (slice(at, at + SLAB) for at in range(0, max(rows, 1), SLAB))


def slabs(key: Ints) -> Iterator[Ints]:
    """Indices of the rows of some keys at a time: about SLAB, or one key's."""
    if len(key) <= SLAB:
        yield np.arange(len(key))
        return
    number = (np.cumsum(np.bincount(key)) - 1) // SLAB
    of = number[key]
    order = np.argsort(of.astype(np.min_scalar_type(number[-1])), kind="stable")
    counts = np.bincount(of)
    yield from np.split(order, np.cumsum(counts[counts > 0])[:-1])


def highest_so_far(key: Ints, values: Ints) -> Ints:
    """The running maximum of each key; rows are sorted by key."""
    if not ((values[1:] < values[:-1]) & (key[1:] == key[:-1])).any():
        return values
    distinct, rank = np.unique(values, return_inverse=True)
    base = key * len(distinct)
    return np.asarray(distinct[np.maximum.accumulate(base + rank) - base], dtype=np.int64)


def greatest_so_far(which: Bools, start: Ints, *order: Ints) -> Ints:
    """Index of the greatest row so far of those with ``which``, of the same key; -1: none.

    ``order`` are the columns that are compared, the most important one first.
    """
    some = np.flatnonzero(which)
    best = np.full(len(which), -1, dtype=np.int64)
    if not some.size:
        return best
    columns = [column[some] for column in reversed(order)]
    sorted_rows = some[np.lexsort((*columns, start[some]))]
    rank = np.full(len(which), -1, dtype=np.int64)
    rank[sorted_rows] = np.arange(len(sorted_rows))
    top = np.maximum.accumulate(rank)
    found = sorted_rows[np.maximum(top, 0)]
    same = (top >= 0) & (start[found] == start)
    best[same] = found[same]
    return best


def as_of(keys: Ints, at: Ints, ask_keys: Ints, ask_at: Ints, *, before: bool) -> Ints:
    """As-of join: for each asked key the index of its last row at or (``before``) before a place.

    The rows are sorted by ``keys`` and ``at``. -1: none.
    """
    return _same(keys, ask_keys, _places(keys, at, ask_keys, ask_at, before=before) - 1)


def following(keys: Ints, at: Ints, ask_keys: Ints, ask_at: Ints) -> Ints:
    """Likewise the index of the key's first row after that place."""
    return _same(keys, ask_keys, _places(keys, at, ask_keys, ask_at, before=False))


def _places(keys: Ints, at: Ints, ask_keys: Ints, ask_at: Ints, *, before: bool) -> Ints:
    values, rank = np.unique(np.concatenate([at, ask_at]), return_inverse=True)
    rows = keys * (len(values) + 1) + rank[: len(at)]
    asked = ask_keys * (len(values) + 1) + rank[len(at) :]
    return np.searchsorted(rows, asked, side="left" if before else "right").astype(np.int64)


def _same(keys: Ints, ask_keys: Ints, found: Ints) -> Ints:
    if not len(keys):
        return np.full(len(ask_keys), -1, dtype=np.int64)
    inside = (found >= 0) & (found < len(keys))
    same = inside & (keys[np.where(inside, found, 0)] == ask_keys)
    return np.where(same, found, -1)


def codes(*columns: Ints) -> Ints:
    """One integer a row, equal where all columns are: ranks, so small numbers."""
    code = _ranks(columns[0])
    for column in columns[1:]:
        ranks = _ranks(column)
        code = _ranks(code * (int(ranks.max(initial=0)) + 1) + ranks)
    return code


def _ranks(values: Ints) -> Ints:
    """The rank of each value among the distinct ones."""
    least = int(values.min(initial=0))
    span = int(values.max(initial=0)) - least + 1
    if span > 4 * len(values):
        return np.unique(values, return_inverse=True)[1].astype(np.int64)
    # Values in a small range need no sort.
    place = values - least
    return np.asarray((np.cumsum(np.bincount(place) > 0) - 1)[place], dtype=np.int64)


def any_of(code: Ints, which: Bools) -> Bools:
    """Whether any row with the same code has ``which``; codes are small integers."""
    found = np.bincount(code[which], minlength=int(code.max(initial=0)) + 1) > 0
    return np.asarray(found[code], dtype=np.bool_)


def extreme(size: int, code: Ints, values: Ints, *, least: bool = False) -> Ints:
    """The greatest, or least, value of each code; NONE where a code has no row."""
    result = np.full(size, MAX if least else NONE, dtype=np.int64)
    if least:
        np.minimum.at(result, code, values)
        seen = np.bincount(code, minlength=size) > 0
        return np.where(seen, result, NONE)
    np.maximum.at(result, code, values)
    return result


def plus(values: Ints, duration: int | Ints) -> Ints:
    """The sum, which saturates at the end of int64 as a broker's does."""
    return np.asarray(np.minimum(values, MAX - duration) + duration, dtype=np.int64)


def ints(column: Any) -> Ints:
    """An Arrow column of integers; NONE where it is null."""
    if column.null_count == len(column):
        return np.broadcast_to(np.int64(NONE), len(column))  # one number, however many rows
    if column.null_count:
        column = column.cast(pa.int64()).fill_null(NONE)
    return np.asarray(column.to_numpy(), dtype=np.int64)


def bools(column: Any) -> Bools:
    """An Arrow column of flags; False where it is null."""
    if column.null_count:
        column = column.fill_null(False)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.bool_)


def arrow_ints(values: Ints, kind: Any = None) -> Any:
    """An Arrow array; null where it is NONE."""
    missing = values == NONE
    return pa.array(values, mask=missing if missing.any() else None).cast(kind or pa.int64())


def decode_texts(code: NDArray[Any], texts: Any) -> Any:
    """The text of each code; null for -1."""
    dictionary = texts if isinstance(texts, pa.Array) else pa.array(list(texts), pa.string())
    missing = code < 0
    indices = pa.array(np.maximum(code, 0), mask=missing if missing.any() else None)
    if not len(dictionary):
        return pa.nulls(len(code), pa.string())
    return dictionary.take(indices).cast(pa.string())


def encode_texts(column: Any) -> tuple[Ints, Any]:
    """(code of each text, the texts); -1 for null."""
    if isinstance(column, pa.ChunkedArray):
        if pa.types.is_dictionary(column.type):
            column = column.unify_dictionaries()
        column = column.combine_chunks()
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return ints(encoded.indices.fill_null(-1)), encoded.dictionary


def sum_rows(
    rows: pa.Table, by: Sequence[str], *, max_of: Sequence[str] = (), min_of: Sequence[str] = ()
) -> pa.Table:
    """Group Arrow rows by columns: the sums of all others, or their greatest or smallest values."""
    ways = {
        name: "max" if name in max_of else "min" if name in min_of else "sum"
        for name in rows.column_names
        if name not in by
    }
    found = rows.group_by(list(by)).aggregate(list(ways.items()))
    kept = [f"{name}_{way}" for name, way in ways.items()]
    return found.select([*by, *kept]).rename_columns([*by, *ways])
