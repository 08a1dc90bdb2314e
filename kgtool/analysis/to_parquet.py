"""An export's segments as Parquet: the columns of Spark's Kafka source, and decoded columns.

``key, value, topic, partition, offset, timestamp, timestampType`` are those of Spark's Kafka
source, so ``analyze`` and any other reader of such files can read them; the others are decoded from
key and value. As with ``read_committed``, control records and records of aborted or open
transactions are left out: these columns can't tell them from ordinary commits.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as parquet  # type: ignore[import-untyped]

from kgtool.durable import sync
from kgtool.errors import DecodeError
from kgtool.protocol.as_json import to_json
from kgtool.protocol.wire import id_text
from kgtool.records import Record, decode
from kgtool.records.batch import Batch, RawRecord, batches, read_records
from kgtool.records.control import ABORT, COMMIT, decode_marker

FOLDER, SEGMENTS = "parquet", "segments"
ROWS = 50_000
"""Rows of a row group; as many are in memory, plus those of open transactions."""
SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("record_type", pa.int16()),
        pa.field("group", pa.string()),
        pa.field("committed_topic", pa.string()),
        pa.field("committed_partition", pa.int32()),
        pa.field("committed_offset", pa.int64()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("metadata", pa.string()),
        pa.field("commit_timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("expire_timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("topic_id", pa.string()),
        pa.field("json", pa.string()),
    ]
)
"""``json`` is the value of a record that is not a committed offset; null for a null value."""
Row = tuple[Any, ...]


class Written(NamedTuple):
    """The result of a conversion."""

    rows: int
    undecoded: int
    """Records whose decoded columns are null: of an unknown type, or damaged."""
    bytes: int


def write(export: Path, progress: Callable[[int], None] = lambda _bytes: None) -> Written:
    """Turn the segments of a finished export into ``parquet/``, partition by partition.

    An interrupted conversion continues with the first partition that still has segments.

    :param progress: is called with the bytes of each batch read.
    :raises DecodeError: a batch is damaged; its partition's segments are kept.
    """
    target = export / FOLDER
    target.mkdir(exist_ok=True)
    for half in target.glob("*.tmp"):
        half.unlink()
    rows = undecoded = 0
    (export / SEGMENTS).mkdir(exist_ok=True)  # an empty log has none
    for folder in sorted((export / SEGMENTS).iterdir()):
        # Spark and Hive ignore names that begin with an underscore, as the topic's does.
        file = target / f"{folder.name.lstrip('_')}.parquet"
        part = file.with_suffix(".tmp")
        with parquet.ParquetWriter(part, SCHEMA, compression="zstd") as writer:
            found = _Partition(folder, progress)
            rows_of = found.read()
            while some := list(islice(rows_of, ROWS)):
                writer.write_batch(_arrow(some))
        sync(part)
        part.replace(file)
        sync(target)
        for segment in sorted(folder.iterdir()):
            segment.unlink()
        folder.rmdir()
        rows, undecoded = rows + found.rows, undecoded + found.undecoded
    (export / SEGMENTS).rmdir()
    return Written(rows, undecoded, sum(each.stat().st_size for each in target.iterdir()))


def is_unfinished(export: Path) -> bool:
    """Whether a folder holds an export whose conversion was interrupted."""
    return (export / FOLDER).is_dir() and (export / SEGMENTS).is_dir()


def _arrow(rows: list[Row]) -> Any:
    columns = dict(zip(SCHEMA.names, zip(*rows, strict=True), strict=True))
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


class _Partition:
    """The rows of one partition's segments; a transaction's rows come with its end."""

    def __init__(self, folder: Path, progress: Callable[[int], None]) -> None:
        self._folder, self._progress = folder, progress
        self._topic, _, number = folder.name.rpartition("-")
        self._number = int(number)
        self._open: dict[int, list[Row]] = {}
        """Rows of open transactions, by producer id."""
        self.rows = self.undecoded = 0

    def read(self) -> Iterator[Row]:
        """Yield the rows."""
        for path in sorted(self._folder.glob("*.log")):
            if not path.stat().st_size:
                continue
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
                at = 0
                for batch in batches(data):  # type: ignore[arg-type]
                    yield from self._of_batch(data, batch)
                    self._progress(batch.end - at)
                    at = batch.end

    def _of_batch(self, data: Any, batch: Batch) -> Iterator[Row]:
        if batch.is_control:
            for record in read_records(data, batch):
                end = None if record.key is None else decode_marker(record.key, record.value).type
                if end in (ABORT, COMMIT):
                    held = self._open.pop(batch.producer_id, [])
                    yield from self._counted(held if end == COMMIT else [])
            return
        kind = int(batch.is_append_time)
        rows = [self._row(record, kind) for record in read_records(data, batch)]
        if batch.is_transactional:
            self._open.setdefault(batch.producer_id, []).extend(rows)
        else:
            yield from self._counted(rows)

    def _counted(self, rows: list[Row]) -> list[Row]:
        self.rows += len(rows)
        return rows

    def _row(self, record: RawRecord, kind: int) -> Row:
        return (
            record.key,
            record.value,
            self._topic,
            self._number,
            record.offset,
            record.timestamp_ms,
            kind,
            *self._decoded(record),
        )

    def _decoded(self, record: RawRecord) -> Row:
        try:
            found = decode(record.key or b"", record.value)
        except DecodeError:
            found = None
        if not isinstance(found, Record):
            self.undecoded += 1
            return (None,) * 11
        group = getattr(found.key, "group", None)
        if found.type in (0, 1):
            at = (found.key.topic, found.key.partition)
            return (found.type, group, *at, *_commit(found.value), None)
        text = None if found.value is None else json.dumps(to_json(found.value, found.version or 0))
        return (found.type, group, *[None] * 8, text)


def _commit(value: Any) -> Row:
    """Return offset, leader epoch, metadata, both times and the topic id of a committed offset."""
    if value is None:
        return (None,) * 6
    epoch, expires = getattr(value, "leader_epoch", -1), getattr(value, "expire_timestamp", -1)
    topic_id = getattr(value, "topic_id", None)
    return (
        value.offset,
        None if epoch < 0 else epoch,
        value.metadata,
        value.commit_timestamp,
        None if expires < 0 else expires,
        id_text(topic_id) if topic_id is not None else None,
    )
