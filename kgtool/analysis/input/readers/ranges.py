"""Split files into ranges, and read a range of any format: runs in Spark's Python workers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypedDict

import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import schema
from kgtool.analysis.decode.batches import RecordBlock
from kgtool.analysis.decode.decoder import Content
from kgtool.analysis.decode.rows import Split
from kgtool.analysis.decode.segments import Note, chunks, split
from kgtool.analysis.input import formats
from kgtool.analysis.input.input_files import SEGMENT, TOPIC, InputFile
from kgtool.analysis.input.readers import (
    dump_log,
    formatter_json,
    formatter_text,
    json_rows,
    parquet_rows,
)
from kgtool.analysis.input.readers.reencode import PrintedRecords
from kgtool.analysis.input.readers.text_layout import cleaned, from_text
from kgtool.analysis.input.readers.text_ranges import (
    BATCHES,
    GROUP_LINES,
    JSON_OBJECTS,
    OFFSET_LINES,
    ROWS,
    TextRecord,
    sections,
    units,
)

if TYPE_CHECKING:
    from kgtool.config import Settings

SPLIT_BYTES = 64 << 20
"""Segments larger than this are several tasks."""
SPLIT_TEXT_BYTES = 32 << 20
"""The same of text, which takes longer."""
OTHER_TOPIC = "other-topic"
"""Format of the part of a dump that is not of ``__consumer_offsets``."""
REASON_OTHER_TOPIC = f"dump of another topic than {TOPIC}"

ReadBlock = Callable[[list[TextRecord], PrintedRecords], None]
TEXT_READERS: dict[str, tuple[re.Pattern[bytes], ReadBlock]] = {
    formats.OFFSETS_JSON.name: (JSON_OBJECTS, formatter_json.read_units),
    formats.GROUPS_JSON.name: (JSON_OBJECTS, formatter_json.read_units),
    formats.OFFSETS_TEXT.name: (OFFSET_LINES, formatter_text.read_offsets),
    formats.GROUPS_TEXT.name: (GROUP_LINES, formatter_text.read_groups),
    **{kind.name: (BATCHES, dump_log.read_units) for kind in formats.DUMPS},
}
"""By format: the pattern between two records, and the reader of a block of them."""
_DUMPS = tuple(kind.name for kind in formats.DUMPS)


def parts(row: Split, settings: Settings | None = None) -> Iterator[Content]:
    """The content of a row of ``schema.SPLITS``; ``settings`` are those of a live cluster.

    Raises OSError where a file can't be read.
    """
    kind, start, end = row["format"], row["start"], row["end"]
    if kind == formats.SEGMENT.name:
        with _opened(row) as file:
            yield from chunks(file, start, end)
    elif kind == formats.CLUSTER.name:
        from kgtool.analysis.input.readers.cluster import cluster_parts

        assert settings is not None, "a live cluster without settings"
        yield from cluster_parts(row, settings)
    elif kind == formats.PARQUET.name:
        yield from parquet_rows.pieces(row["path"], start, end)
    elif kind == OTHER_TOPIC:
        yield Note(REASON_OTHER_TOPIC, _place(row)[0] + start, end - start)
    elif kind != formats.FRAME.name:  # of rows that Spark reads there is nothing else here
        yield from _text_parts(row)


def _opened(row: Split) -> IO[bytes]:
    content = row.get("content")
    return Path(row["path"]).open("rb") if content is None else BytesIO(content.data)


def _place(row: Split) -> tuple[int, int]:
    """Start of the available bytes in the file, and the file's size."""
    content = row.get("content")
    return (0, Path(row["path"]).stat().st_size) if content is None else content[1:3]


def _text_parts(row: Split) -> Iterator[Content]:
    at, size = _place(row)
    with _text(row) as file:
        is_clean = file.seekable()
        found = units(file, row["start"], row["end"], _between(row["format"]))
        for block, is_last in _with_last(found):
            if not is_clean:
                size = block[-1].position + len(block[-1].data) if is_last else row["end"] + 1
            placed = [TextRecord(at + unit.position, unit.data) for unit in block]
            if row["format"] == formats.ROWS_JSON.name:
                yield from json_rows.blocks(placed, row["path"], row["partition"])
            else:
                yield read_block(placed, row["format"], row["order"], size)


def _between(kind: str) -> re.Pattern[bytes]:
    return ROWS if kind == formats.ROWS_JSON.name else TEXT_READERS[kind][0]


def _with_last(blocks: Iterator[list[TextRecord]]) -> Iterator[tuple[list[TextRecord], bool]]:
    """Each block, and whether it is the last one."""
    before = next(blocks, None)
    for block in blocks:
        assert before is not None
        yield before, False
        before = block
    if before is not None:
        yield before, True


@contextmanager
def _text(row: Split) -> Iterator[IO[bytes]]:
    """The text as the tool printed it; not seekable if it had to be cleaned."""
    layout = from_text(row.get("layout") or "")
    with _opened(row) as file:
        yield file if layout is None else cleaned(file, layout)


def read_block(block: list[TextRecord], kind: str, order: int, end: int) -> RecordBlock:
    """The records of a block of a text of that format, which is ``end`` bytes long."""
    into = PrintedRecords(order, end)
    _, read = TEXT_READERS[kind]
    read(block, into)
    return into.block(block[0].position, sum(len(unit.data) for unit in block))


class Section(TypedDict, total=False):
    """What the name of a dumped file decides of a row."""

    format: str
    partition: int


# --- ranges --------------------------------------------------------------------------------------


def split_rows(tables: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """``mapInArrow`` function: one row a file in, one row a range out."""
    for table in tables:
        rows = [piece for row in table.to_pylist() for piece in ranges(row)]
        yield pa.RecordBatch.from_pylist(rows, schema=schema.arrow(schema.SPLITS))


def split_of(file: InputFile) -> Split:
    """The row of ``schema.SPLITS`` of a whole file."""
    is_cluster = file.format == formats.CLUSTER.name
    return {
        "path": file.path,
        "partition": file.partition,
        "start": file.base_offset if is_cluster else 0,
        "end": file.size,
        "format": file.format,
        "missing": file.missing,
        "order": file.order,
        "layout": file.layout,
    }


def ranges(row: Split) -> list[Split]:
    """The ranges of a file; one range where it can't be read, and its reader says why."""
    try:
        return list(_ranges_of(row)) or [row.copy()]
    except OSError:
        return [row.copy()]


def _ranges_of(row: Split) -> Iterator[Split]:
    if row["format"] == formats.SEGMENT.name:
        with _opened(row) as file:
            for start, end in split(file, row["end"], SPLIT_BYTES):
                yield {**row, "start": start, "end": end}
    elif row["format"] in _DUMPS:
        heading = row["content"].heading if "content" in row else ""
        with _text(row) as file:
            is_clean = file.seekable()
            size = row["end"] if is_clean else _most(row)
            for start, end, name in sections(file, size, heading):
                part: Split = {**row, **section(name), "start": start, "end": end}
                yield from _even(part, start, end) if is_clean else [part]
    elif row.get("layout"):
        yield {**row, "end": _most(row)}
    elif row["format"] in (formats.CLUSTER.name, formats.FRAME.name):
        yield row.copy()
    else:
        yield from _even(row, row["start"], row["end"])


def _most(row: Split) -> int:
    """As long as a text may be once it is cleaned: UTF-16 takes three bytes for two."""
    return 2 * int(row["end"]) + 16


def _even(row: Split, start: int, end: int) -> Iterator[Split]:
    for at in range(start, end, SPLIT_TEXT_BYTES):
        yield {**row, "start": at, "end": min(at + SPLIT_TEXT_BYTES, end)}


def section(name: str) -> Section:
    """Read the name of a dumped file."""
    found = SEGMENT.search(name)
    if found is None:
        return {}
    if found["topic"] != TOPIC:
        return {"format": OTHER_TOPIC}
    return {"partition": int(found["partition"])}
