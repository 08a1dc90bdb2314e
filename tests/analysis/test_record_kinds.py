"""What is decoded: each kind has the columns of its own schema, under their own names.

Kind: a column that means one thing for one kind of row and another thing for the next.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa

from kgtool.analysis import schema
from kgtool.analysis.decode.blobs import COLUMNS, empty, from_bytes, pack
from kgtool.analysis.decode.decoder import decode_split
from kgtool.analysis.decode.rows import Decoded, DecodeOptions
from kgtool.analysis.decode.written_by import REASON, VERSIONS
from kgtool.analysis.input.readers.ranges import parts
from kgtool.protocol.plan import encode
from kgtool.records import record_types
from tests.analysis import writer
from tests.analysis.writer import Raw, offset_key, offset_value

HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000
FUTURE_MS = NOW_MS + 400 * 86_400_000
CONTROL, TRANSACTIONAL = 0x20, 0x10
SHARED = {"path", "partition", "group", "bytes", "records", "commits"}
"""Names of more than one kind that mean the same in each."""


def log() -> bytes:
    """A commit in each of two leader epochs, one of the future, a group, a marker, and damage."""
    group_key = struct.pack(">h", 2) + encode(record_types()[2].key(group="g"), 0)
    marker = Raw(struct.pack(">hh", 0, 1), bytes(6), NOW_MS + 4)
    return b"".join(
        [
            writer.batch(
                7, [Raw(offset_key("g"), offset_value(5, NOW_MS), NOW_MS)], leader_epoch=3
            ),
            writer.batch(
                8, [Raw(offset_key("g"), offset_value(6, NOW_MS + 1), NOW_MS + 1)], leader_epoch=4
            ),
            writer.batch(9, [Raw(offset_key("h"), offset_value(7, FUTURE_MS), FUTURE_MS)]),
            writer.batch(10, [Raw(group_key, None, NOW_MS + 3)]),
            writer.batch(11, [marker], attributes=CONTROL | TRANSACTIONAL, producer_id=44),
            writer.batch(12, [Raw(b"", b"", NOW_MS + 5)]),
        ]
    )


def decoded(folder: Path) -> list[Decoded]:
    path = writer.segment(folder, log(), base=7, partition=2)
    row = {"path": str(path), "partition": 2, "start": 0, "end": path.stat().st_size}
    options = DecodeOptions(bucket_ms=HOUR_MS, now_ms=NOW_MS + 10, keep_all=True)
    return list(decode_split({**row, "format": "segment"}, options, parts))


def of_kind(found: list[Decoded], kind: str) -> list[dict[str, Any]]:
    return [row for each in found if each.kind == kind for row in each.rows.to_pylist()]


def test_each_kind_has_its_own_columns(tmp_path: Path) -> None:
    found = decoded(tmp_path)
    assert {each.kind for each in found} == set(schema.RECORDS)
    for each in found:
        assert each.rows.schema == schema.arrow(schema.RECORDS[each.kind])
        assert each.partition == 2
    for kind in schema.RECORDS:
        rows = of_kind(found, kind)
        filled = {name for row in rows for name, value in row.items() if value is not None}
        assert filled == {*schema.names(schema.RECORDS[kind])} - NEVER.get(kind, set()), kind


NEVER = {
    # Of this log: no transaction, no expiry in the value, no topic id, no subscription.
    schema.KIND_OFFSET: {"producer_id", "producer_epoch", "expire_timestamp_ms", "topic_id"}
}


def test_a_name_means_one_thing(tmp_path: Path) -> None:
    """The numbers, each where its name says; the wide row had the epochs under ``commits``."""
    found = decoded(tmp_path)
    epochs = of_kind(found, schema.KIND_EPOCH)
    assert [(row["leader_epoch"], row["log_offset"]) for row in epochs if row["leader_epoch"]] == [
        (3, 7),
        (4, 8),
    ]
    bucket_ms = NOW_MS // HOUR_MS * HOUR_MS
    counts = [row for row in of_kind(found, schema.KIND_COUNT) if row["group"] == "g"]
    assert counts[0]["bucket_start_ms"] == bucket_ms
    assert sum(row["commits"] for row in counts) == 2
    assert sum(row["records"] for row in counts) == 3
    read = [row for row in of_kind(found, schema.KIND_QUALITY) if row["first_offset"] is not None]
    assert (min(row["first_offset"] for row in read), max(row["last_offset"] for row in read)) == (
        7,
        12,
    )
    assert max(row["newest_ms"] for row in read if row["newest_ms"]) == NOW_MS + 5
    assert sum(row["future_records"] for row in read) == 1
    assert [row["newest_future_ms"] for row in read if row["newest_future_ms"]] == [FUTURE_MS]
    kinds = [row for row in of_kind(found, schema.KIND_QUALITY) if row["reason"] == REASON]
    assert {row["value_kind"] for row in kinds} == {1 * VERSIONS + 3}
    assert min(row["oldest_ms"] for row in kinds) == NOW_MS
    (marker,) = of_kind(found, schema.KIND_MARKER)
    assert marker == {
        "log_offset": 11,
        "timestamp_ms": NOW_MS + 4,
        "producer_id": 44,
        "committed": True,
    }


def test_blobs_move_what_the_fold_needs(tmp_path: Path) -> None:
    blobs = list(pack(decoded(tmp_path)))
    assert {blob.kind for blob in blobs} == set(schema.RECORDS)
    for blob in blobs:
        assert from_bytes(blob.data).column_names == COLUMNS[blob.kind]
        assert empty(blob.kind).column_names == COLUMNS[blob.kind]
        assert pa.concat_tables([empty(blob.kind), from_bytes(blob.data)]).num_rows > 0


def test_what_two_kinds_name_alike_is_alike() -> None:
    """A type, at least, that does not depend on the kind."""
    types: dict[str, set[str]] = {}
    for columns in schema.RECORDS.values():
        for name, kind in columns:
            types.setdefault(name, set()).add(kind)
    assert {name for name, kinds in types.items() if len(kinds) > 1} == set()
