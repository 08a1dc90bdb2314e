"""Let Spark read segments and texts that are not on this machine; executors decode them.

A segment comes as a whole (``binaryFile``), a text in splits of Spark's own making, record by
record, because the text source takes what a record begins with for its line separator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kgtool.analysis.decode.commits import Detail
from kgtool.analysis.decode.parts import decode_part
from kgtool.analysis.decode.rows import Source, file_row, note_rows
from kgtool.analysis.decode.segments import Note, chunks_of
from kgtool.analysis.input import formats
from kgtool.analysis.input.inputs import InputFile, unquoted
from kgtool.analysis.input.readers.ranges import (
    OTHER_TOPIC,
    REASON_OTHER_TOPIC,
    read_block,
    section,
)
from kgtool.analysis.input.readers.textfile import SECTION, Unit
from kgtool.analysis.spark.packed import BLOBS, packed
from kgtool.analysis.spark.remote import Links

HEADING = r"(?m)^Dumping ([^\r\n]*)"
DUMPS = tuple(kind.name for kind in formats.DUMPS)


class Job(NamedTuple):
    """What a worker must know."""

    files: dict[str, InputFile]
    """By the name that Spark has for them."""
    as_of_ms: int | None
    detail: Detail
    separator: str = ""
    headings: dict[tuple[str, int], str] = {}
    """The last file that was dumped in each split, by file and position of the split."""


def read_remote(
    session: SparkSession, files: Sequence[InputFile], as_of_ms: int | None, detail: Detail
) -> list[DataFrame]:
    """Frames of blobs."""
    groups: dict[str, list[InputFile]] = {}
    for file in files:
        groups.setdefault(file.separator, []).append(file)
    return [
        _texts(session, some, as_of_ms, detail)
        if separator
        else _segments(session, some, as_of_ms, detail)
        for separator, some in groups.items()
    ]


def _segments(
    session: SparkSession, files: list[InputFile], as_of_ms: int | None, detail: Detail
) -> DataFrame:
    links = Links(session, files)
    rows = session.read.format("binaryFile").options(**links.options).load(links.paths)
    decode = partial(decode_segments, job=Job(links.files, as_of_ms, detail))
    return rows.select("path", "content").mapInArrow(packed(decode), BLOBS)


def decode_segments(tables: Iterable[Any], job: Job) -> Iterator[Any]:
    """``mapInArrow`` function: path and content of segments in, rows of ``schema.RECORDS`` out."""
    for table in tables:
        for path, content in zip(table["path"], table["content"], strict=True):
            file = job.files[path.as_py()]
            source = Source(file.path, file.partition, file.lacks)
            yield file_row(source)
            data = content.as_py()
            for part in chunks_of(BytesIO(data), 0, len(data)):
                yield from decode_part(source, part, job.as_of_ms, job.detail)


# --- texts ---------------------------------------------------------------------------------------


def _texts(
    session: SparkSession, files: list[InputFile], as_of_ms: int | None, detail: Detail
) -> DataFrame:
    links = Links(session, files)
    separator = files[0].separator
    lines = session.read.option("lineSep", separator).options(**links.options).text(links.paths)
    rows = lines.select(
        F.col("_metadata.file_path").alias("path"),
        F.col("_metadata.file_block_start").alias("start"),
        F.col("value").cast("binary").alias("value"),
    )
    headings = _headings(rows) if files[0].format in DUMPS else {}
    decode = partial(decode_texts, job=Job(links.files, as_of_ms, detail, separator, headings))
    return rows.mapInArrow(packed(decode), BLOBS)


def _headings(rows: DataFrame) -> dict[tuple[str, int], str]:
    found = rows.select(
        "path",
        "start",
        F.explode(F.regexp_extract_all(F.col("value").cast("string"), F.lit(HEADING), 1)),
    )
    # In the order of the log, so that the last one of each split stays.
    return {(unquoted(row[0]), row[1]): row[2] for row in found.collect()}


def decode_texts(tables: Iterable[Any], job: Job) -> Iterator[Any]:
    """``mapInArrow`` function: records of texts in, rows of ``schema.RECORDS`` out."""
    split: _Split | None = None
    for table in tables:
        for path, start, value in zip(
            table["path"].to_pylist(), table["start"].to_pylist(), table["value"], strict=True
        ):
            name = unquoted(path)
            if split is None or split.place != (name, start):
                if split is not None:
                    yield from split.flush()
                split = _Split(job, name, start)
                if start == 0:
                    yield file_row(split.source)
            split.add(value.as_py())
        if split is not None:
            yield from split.flush(keep_last=True)
    if split is not None:
        yield from split.flush()


class _Split:
    """A part of a text whose records come one after the other."""

    def __init__(self, job: Job, name: str, start: int) -> None:
        self.job = job
        self.file = job.files[name]
        self.place = (name, start)
        self.position = start
        self.units: list[Unit] = []
        self.is_first = start == 0
        self.source = Source(self.file.path, self.file.partition, self.file.lacks)
        self.is_other_topic = False
        before = [at for file, at in job.headings if file == name and at < start]
        if before:
            self._begin_section(job.headings[name, max(before)])

    def add(self, value: bytes) -> None:
        """Take what Spark read up to a separator."""
        separator = self.job.separator.encode()
        if separator == b"\n":
            data = value + b"\n"
            if self.units and self.file.format == formats.OFFSETS_TEXT.name and value[:1] != b"[":
                # Metadata may have line breaks.
                last = self.units.pop()
                self.units.append(Unit(last.position, last.data + data))
                self.position += len(data)
                return
        elif self.is_first:
            data = value
        else:
            data = separator.lstrip(b"\n") + value
        self.is_first = False
        self.units.append(Unit(self.position, data))
        self.position += len(value) + len(separator)

    def flush(self, *, keep_last: bool = False) -> Iterator[Any]:
        """Decode what has come; the last one may go on where ``keep_last``."""
        kept = self.units[-1:] if keep_last else []
        units, self.units = self.units[: len(self.units) - len(kept)], kept
        if not units:
            return
        if self.file.format not in DUMPS:
            yield from self._decode(units)
            return
        block: list[Unit] = []
        for unit in units:
            headings = list(SECTION.finditer(unit.data))
            if not headings:
                block.append(unit)
                continue
            # What stands before a heading is of the file before.
            block.append(Unit(unit.position, unit.data[: headings[0].start()]))
            yield from self._decode(block)
            block = [Unit(unit.position, unit.data[headings[-1].start() :])]
            self._begin_section(headings[-1][1].decode(errors="replace"))
        yield from self._decode(block)

    def _begin_section(self, name: str) -> None:
        told = section({}, name)
        self.is_other_topic = told.get("format") == OTHER_TOPIC
        partition = told.get("partition", self.file.partition)
        self.source = Source(self.file.path, partition, self.file.lacks)

    def _decode(self, units: list[Unit]) -> Iterator[Any]:
        whole = [unit for unit in units if unit.data]
        if not whole:
            return
        if self.is_other_topic:
            size = sum(len(unit.data) for unit in whole)
            yield from note_rows(self.source, [Note(REASON_OTHER_TOPIC, whole[0].position, size)])
            return
        piece = read_block(whole, self.file.format, self.file.order, self.file.size)
        yield from decode_part(self.source, piece, self.job.as_of_ms, self.job.detail)
