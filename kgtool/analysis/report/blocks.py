"""The rows of a table in the report: blocks of columns, compressed, as text.

A block is base64 of gzip of a JSON list with one entry a column: for texts, the distinct values and
each row's index into them (or null); for all others, the values. Workers build the blocks, so the
driver never holds a table.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

ROWS: Final = 10_000
"""Maximum rows of a block."""
TABLE_BYTES: Final = 16 << 20
"""Maximum size of a table: some 800,000 rows, which a browser searches in a second or two."""
LONGEST: Final = 300
"""Maximum characters of a name; Kafka allows 32,767 bytes for a group's."""
EXACT: Final = 1 << 53
"""JavaScript's integers are exact up to here."""


def blocks(names: Sequence[str], batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Blocks of these columns of Arrow batches or tables, in their order."""
    for batch in batches:
        for at in range(0, len(batch), ROWS):
            rows = batch.slice(at, ROWS)
            text = json.dumps([_column(rows[name]) for name in names], separators=(",", ":"))
            yield base64.b64encode(gzip.compress(text.encode(), 6, mtime=0))


def bounded(found: Iterable[bytes], most: int = TABLE_BYTES) -> Iterator[bytes]:
    """The first blocks, up to ``most`` bytes, and at least one."""
    size = 0
    for block in found:
        size += len(block)
        if size > max(most, len(block)):
            return
        yield block


def _column(column: Any) -> list[Any]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_nested(column.type):
        lists = (None if each is None else ", ".join(map(str, each)) for each in column.to_pylist())
        column = pa.array(lists, pa.string())
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        coded = column.dictionary_encode()
        coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
        return [[cut(text) for text in coded.dictionary.to_pylist()], coded.indices.to_pylist()]
    values: list[Any] = column.to_pylist()
    return [str(each) if isinstance(each, int) and abs(each) > EXACT else each for each in values]


def cut(text: str) -> str:
    """A name, cut off with an ellipsis if it is too long."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
