"""Numbers for keys, and slabs of rows: against numpy's own sorting of whole rows."""

from __future__ import annotations

import numpy as np
import pytest

from kgtool.analysis.fold import arrays
from kgtool.analysis.fold.arrays import MAX, NONE, codes, slabs

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
