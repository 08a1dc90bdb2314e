"""Offsets that were read before: left out of what is read now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kgtool.analysis.decode.batches import LogRecords, read_headers
from kgtool.analysis.decode.segments import Chunk
from kgtool.analysis.decode.vector_reader import View
from kgtool.records.batch import PREFIX_SIZE

Spans = Sequence[tuple[int, int]]
"""From the first offset to behind the last one, in order, apart from each other."""
Seen = Mapping[int, Spans]
"""By partition of ``__consumer_offsets``."""


def merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same offsets in as few spans as can be.

    >>> merged([(5, 7), (0, 3), (3, 5), (9, 10)])
    [(0, 7), (9, 10)]
    """
    found: list[tuple[int, int]] = []
    for first, end in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((first, end))
    return found


def without_batches(chunk: Chunk, spans: Spans) -> tuple[Chunk, int]:
    """The chunk without the batches all of whose offsets are among those; bytes of the others."""
    at = np.array(chunk.starts, dtype=np.int64)
    headers = read_headers(View(chunk.data), at)
    first = headers["base_offset"]
    last = first + headers["last_offset_delta"]
    known = np.zeros(len(at), dtype=np.bool_)
    for start, end in spans:
        known |= (start <= first) & (last < end)
    size = headers["length"][~known] + PREFIX_SIZE
    return chunk._replace(starts=at[~known].tolist()), int(size.sum())


def without_records(records: LogRecords, spans: Spans) -> LogRecords:
    """The records whose offsets are not among those."""
    known = np.zeros(len(records.log_offset), dtype=np.bool_)
    for start, end in spans:
        known |= (start <= records.log_offset) & (records.log_offset < end)
    return records.only(~known) if known.any() else records
