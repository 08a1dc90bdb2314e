"""Numbers for keys, and slabs of rows: against numpy's own sorting of whole rows."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kgtool.analysis.fold import arrays
from kgtool.analysis.fold.arrays import MAX, NONE, codes, lean, slabs, stacked

FEW = np.random.default_rng(7).integers(-3, 5, 200)
FAR = np.random.default_rng(8).choice([NONE, -1, 0, 2**40, MAX], 200)


@pytest.mark.parametrize(
    "columns",
    [(FEW,), (FAR,), (FEW, FAR), (FAR, FEW, FEW[::-1]), (FEW[:1], FAR[:1]), (FEW[:0], FAR[:0])],
)
def test_rows_have_one_code_if_they_are_equal_and_codes_have_no_gaps(
    columns: tuple[np.ndarray[tuple[int], np.dtype[np.int64]], ...],
) -> None:
    rows = np.stack(columns, axis=1)
    expected = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    assert codes(*columns).tolist() == expected.tolist()


def test_slabs_hold_keys_whole_in_log_order_and_not_much_more_than_is_worked_on_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrays, "SLAB", 50)
    key = np.random.default_rng(9).permutation(np.repeat(np.arange(40), np.arange(40)))
    found = list(slabs(key))
    assert sorted(np.concatenate(found)) == list(range(len(key)))
    of = [set(key[places].tolist()) for places in found]
    assert sum(map(len, of)) == len(set(key.tolist()))
    assert all((np.diff(places) > 0).all() for places in found)
    assert max(map(len, found)) < 50 + 40
    assert [len(places) for places in slabs(key[:50])] == [50]


def test_a_column_of_equal_numbers_is_one_number_in_memory() -> None:
    for same in (np.full(1000, NONE), np.ones(1000, dtype=np.bool_)):
        found = lean(same)
        assert (found.strides, found.tolist()) == ((0,), same.tolist())
    for other in (np.array([5, 7, 5]), np.arange(3), np.zeros(1), np.zeros(0)):
        assert lean(other) is other


def test_columns_of_parts_go_as_the_whole_ones_come() -> None:
    alive: list[Any] = []

    def parts() -> Iterator[list[Any]]:
        for _ in range(3):
            columns = [np.arange(4), np.arange(4)]
            alive.extend(map(weakref.ref, columns))
            yield columns

    found = stacked(parts())
    assert next(found).tolist() == [*range(4)] * 3
    assert [ref() is None for ref in alive] == [True, False] * 3
    assert next(found).tolist() == [*range(4)] * 3
