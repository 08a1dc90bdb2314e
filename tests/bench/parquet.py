"""Raw segments of ``tests.support.biglog`` as Parquet with the columns of Spark's Kafka source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kgtool.records.batch import batches as batches_of
from kgtool.records.batch import read_records
from tests.support.biglog import PER_BATCH


def convert(segments: Path, out: Path) -> None:
    """Write a file for each segment."""
    out.mkdir(parents=True)
    for path in sorted(segments.rglob("*.log")):
        partition = int(path.parent.name.rpartition("-")[2])
        raw = np.fromfile(path, dtype=np.uint8)
        starts = _starts(raw)
        sizes = np.diff(np.append(starts, len(raw)))
        tables = [
            _table(raw[starts[sizes == size][:, None] + np.arange(size)], partition)
            for size in np.unique(sizes)
        ]
        pq.write_table(pa.concat_tables(tables), out / f"{partition}-{path.stem}.parquet")


def _starts(raw: Any) -> Any:
    data, at, found = raw.tobytes(), 0, []
    while at < len(data):
        found.append(at)
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return np.array(found)


def _table(batches: Any, partition: int) -> pa.Table:
    """Batches of one size have all their keys and values at the same places."""
    first = batches[0].tobytes()
    records = [record for batch in batches_of(first) for record in read_records(first, batch)]
    at = 61
    keys, values = [], []
    for record in records:
        at = first.index(record.key, at)
        keys.append(batches[:, at : at + len(record.key)])
        at += len(record.key)
        if record.value is not None:
            at = first.index(record.value, at)
            values.append(batches[:, at : at + len(record.value)])
    count = len(batches) * PER_BATCH
    base = batches[:, :8].copy().view(">i8").reshape(-1).astype(np.int64)
    times = batches[:, 27:35].copy().view(">i8").reshape(-1).astype(np.int64)
    offsets = (base[:, None] + np.arange(PER_BATCH)).reshape(-1)
    nothing = pa.nulls(count, pa.binary())
    return pa.table(
        {
            "key": _binary(keys),
            "value": _binary(values) if values else nothing,
            "topic": pa.array(["__consumer_offsets"] * count),
            "partition": pa.array(np.full(count, partition, dtype=np.int32)),
            "offset": pa.array(offsets),
            "timestamp": pa.array(np.repeat(times, PER_BATCH) * 1000, pa.timestamp("us", "UTC")),
            "timestampType": pa.array(np.zeros(count, dtype=np.int32)),
        }
    )


def _binary(columns: list[Any]) -> pa.Array:
    """Columns of one record each, as one array in the records' order."""
    cells = np.stack(columns, axis=1)
    count, size = cells.shape[0] * cells.shape[1], cells.shape[2]
    ends = np.arange(0, (count + 1) * size, size, dtype=np.int32)
    data = pa.py_buffer(np.ascontiguousarray(cells).tobytes())
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends.tobytes()), data])
