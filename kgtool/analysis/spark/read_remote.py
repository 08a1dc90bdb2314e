"""Reads segments and texts on other file systems with Spark; executors decode them.

A segment is read whole (``binaryFile``). A text is read in Spark's own splits, one row a record:
the text source's line separator is what every record begins with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, groupby
from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kgtool.analysis.decode.rows import DecodeOptions, RemoteRange, Split
from kgtool.analysis.input import formats
from kgtool.analysis.input.input_files import InputFile, unquoted
from kgtool.analysis.input.readers.ranges import parts, ranges, split_of
from kgtool.analysis.input.readers.text_ranges import SECTION
from kgtool.analysis.spark.blob_rows import BLOBS, Batches, split_blobs
from kgtool.analysis.spark.remote import Links

DUMPS = tuple(kind.name for kind in formats.DUMPS)


class Job(NamedTuple):
    """What the workers need to know about their files."""

    files: dict[str, InputFile]
    """By the name under which Spark reads them."""
    separator: str
    headings: dict[str, dict[int, str]]
    """The last ``Dumping`` heading in each split, by file and position of the split."""


def read_remote(
    session: SparkSession, files: Sequence[InputFile], options: DecodeOptions
) -> list[DataFrame]:
    """One DataFrame of blobs for each kind of file."""
    place = F.expr("_metadata.file_path AS path"), F.expr("_metadata.file_block_start AS start")
    groups: dict[str, list[InputFile]] = {}
    for file in files:
        groups.setdefault(file.separator, []).append(file)
    frames = []
    for separator, some in groups.items():
        links = Links(session, some)
        source = session.read.options(**links.options)
        headings = {}
        if separator:
            rows = source.option("lineSep", separator).text(links.paths)
            rows = rows.select(*place, F.col("value").cast("binary"))
            headings = _headings(rows) if some[0].format in DUMPS else {}
        else:
            rows = source.format("binaryFile").load(links.paths).select(*place, "content")
        job = Job(links.files, separator, headings)
        decode = partial(decode_remote, job=job, options=options)
        frames.append(rows.mapInArrow(decode, BLOBS))
    return frames


def _headings(rows: DataFrame) -> dict[str, dict[int, str]]:
    pattern = F.lit(f"(?m){SECTION.pattern.decode()}")
    name = F.explode(F.regexp_extract_all(F.col("value").cast("string"), pattern, 1))
    found: dict[str, dict[int, str]] = {}
    # Rows are in file order, so the last heading of each split stays.
    for path, start, heading in rows.select("path", "start", name).collect():
        found.setdefault(unquoted(path), {})[start] = heading
    return found


def decode_remote(tables: Batches, job: Job, options: DecodeOptions) -> Iterator[pa.RecordBatch]:
    """Decode splits of files into rows of BLOBS."""
    rows = chain.from_iterable(map(ranges, _splits(tables, job)))
    return split_blobs(rows, options, parts)


def _splits(tables: Batches, job: Job) -> Iterator[Split]:
    """A row of ``schema.SPLITS``, with its bytes, for each part of a file that Spark has read."""
    values = (
        (unquoted(path.as_py()), start.as_py(), value.as_py())
        for table in tables
        for path, start, value in zip(*table.columns, strict=True)
    )
    for (name, start), some in groupby(values, lambda row: row[:2]):
        file, separator = job.files[name], job.separator.encode()
        # Spark removes separators: put them back, without the newline at the start of a split.
        data = (separator.lstrip(b"\n") if start else b"") + separator.join(row[2] for row in some)
        data += separator if separator == b"\n" else b""
        headings = job.headings.get(name, {})
        before = max((at for at in headings if at < start), default=None)
        heading = "" if before is None else headings[before]
        yield {
            **split_of(file),
            "start": 0,
            "end": len(data),
            "content": RemoteRange(data, start, file.size, heading),
        }
