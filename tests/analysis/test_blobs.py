"""What was decoded, as bytes that can be moved."""

from __future__ import annotations

import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis.decode.blobs import TOGETHER, from_bytes, from_many, pack
from kgtool.analysis.decode.rows import Source, file_row, note_rows
from kgtool.analysis.decode.segments import Note


def _noted(count: int) -> list[bytes]:
    """What is noted of so many files, each a stream as its task has made it."""
    data = []
    for number in range(count):
        source = Source(f"/logs/{number}.log", number % 50, 0)
        notes = note_rows(source, [Note("is damaged", 0, 10)])
        data += [blob.data for blob in pack([file_row(source), *notes])]
    return data


def test_notes_of_thousands_of_files_are_few_tables() -> None:
    """A table for each range of a file was 17 kB: half a gigabyte for a log of a terabyte."""
    data = _noted(3 * TOGETHER + 1)
    tables = from_many(data)
    assert [table["path"].num_chunks for table in tables] == [1] * 4
    alone = pa.concat_tables(map(from_bytes, data))
    assert pa.concat_tables(tables).to_pylist() == alone.to_pylist()
    paths = set(alone["path"].to_pylist())
    assert len(paths) == 3 * TOGETHER + 1
    assert from_many([]) == []
