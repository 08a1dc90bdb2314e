"""Reading segments: against recorded logs, hand-written batches, and damage of every kind."""

from __future__ import annotations

import random
import struct
import time
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgtool.analysis.decode import segments
from kgtool.analysis.decode.batches import (
    PLAIN_BYTES,
    REASON_BOMB,
    REASON_CODEC,
    REASON_CRC,
    REASON_RECORDS,
    LogRecords,
    read_chunk,
)
from kgtool.analysis.decode.crc32c import crc32c
from kgtool.analysis.decode.decoder import decode_split
from kgtool.analysis.decode.rows import DecodeOptions
from kgtool.analysis.decode.segments import (
    REASON_NO_BATCH,
    REASON_OLD_FORMAT,
    REASON_TRUNCATED,
    Chunk,
    Note,
)
from kgtool.analysis.input.readers.ranges import parts
from tests.analysis import writer
from tests.analysis.writer import Raw
from tests.retention.truth import RULES, raw, truth
from tests.support import seeds

TRUTH = Path(__file__).parents[1] / "data" / "retention-truth"


def read(path: Path) -> tuple[list[dict[str, Any]], list[Note]]:
    """Every record as a dictionary, and every note."""
    found, notes = [], []
    for part in segments.chunks(BytesIO(path.read_bytes()), 0, path.stat().st_size):
        if isinstance(part, Note):
            notes.append(part)
            continue
        for block in read_chunk(part):
            notes += block.notes
            found += rows(block.records)
    return found, notes


def rows(decoded: LogRecords) -> list[dict[str, Any]]:
    found = []
    data = decoded.view.bytes.tobytes()
    for i in range(len(decoded.log_offset)):
        key_at, key_size = int(decoded.key_at[i]), int(decoded.key_size[i])
        at, size = int(decoded.value_at[i]), int(decoded.value_size[i])
        found.append(
            {
                "offset": int(decoded.log_offset[i]),
                "timestamp": int(decoded.timestamp_ms[i]),
                "producerId": int(decoded.producer_id[i]),
                "transactional": bool(decoded.transactional[i]),
                "control": bool(decoded.control[i]),
                "key": None if key_size < 0 else data[key_at : key_at + key_size],
                "value": None if size < 0 else data[at : at + size],
            }
        )
    return found


@pytest.mark.parametrize("run", RULES)
@pytest.mark.parametrize("chunk_bytes", [1, 1000, 32 << 20])
def test_every_record_of_a_real_log(
    run: str, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "CHUNK_BYTES", chunk_bytes)
    recorded = truth(run).records
    for path in sorted((TRUTH / run / "segments").glob("*.log")):
        partition = int(path.name.split("-")[1].split(".")[0])
        found, notes = read(path)
        assert notes == []
        expected = [
            {
                **{name: row[name] for name in found[0]},
                "key": raw(row, "key"),
                "value": raw(row, "value"),
            }
            for row in recorded
            if row["partition"] == partition
        ]
        assert found == expected


@cache
def _records(count: int) -> tuple[Raw, ...]:
    key, value = writer.offset_key, writer.offset_value
    return tuple(Raw(key("g", "t", n), value(n, n), 5000 + 3 * n) for n in range(count))


@pytest.mark.parametrize("codec", writer.CODECS)
@pytest.mark.parametrize("count", [1, 40])
def test_codecs(tmp_path: Path, codec: str, count: int) -> None:
    data = writer.batch(100, _records(count), codec=codec) + writer.commits(100 + count, 2)
    found, notes = read(writer.segment(tmp_path, data))
    assert notes == []
    assert [(row["key"], row["value"], row["timestamp"]) for row in found[:count]] == list(
        _records(count)
    )
    assert [row["offset"] for row in found] == list(range(100, 100 + count + 2))


def test_many_batches_of_very_different_sizes(tmp_path: Path) -> None:
    rng = seeds.rng("sizes")
    data, expected, at = b"", [], 0
    for _ in range(150):
        rows = [
            Raw(
                rng.choice([None, rng.randbytes(rng.choice([0, 5, 70, 300]))]),
                rng.choice([None, rng.randbytes(rng.choice([0, 9, 90, 9000]))]),
                10**12 + rng.randint(-(10**6), 10**6),
            )
            for _ in range(rng.choice([1, 1, 2, 3, 40]))
        ]
        data += writer.batch(at, rows, codec=rng.choice(list(writer.CODECS)))
        expected += [(at + i, row) for i, row in enumerate(rows)]
        at += len(rows) + rng.choice([0, 0, 7])
    found, notes = read(writer.segment(tmp_path, data))
    assert notes == []
    assert [(r["offset"], Raw(r["key"], r["value"], r["timestamp"])) for r in found] == expected


# --- damage --------------------------------------------------------------------------------------


def test_cut_off_anywhere_the_whole_batches_are_read(tmp_path: Path) -> None:
    whole = writer.commits(0, 4)
    sizes = [len(writer.commits(0, n)) for n in range(5)]
    for size in range(len(whole) + 1):
        found, notes = read(writer.segment(tmp_path, whole[:size]))
        complete = sum(end <= size for end in sizes[1:])
        assert len(found) == complete
        if size in sizes:
            assert notes == []
        elif any(whole[sizes[complete] : size]) and complete:
            assert [note.reason for note in notes] == [REASON_TRUNCATED]
            assert not notes[0].damage
            assert (notes[0].position, notes[0].size) == (sizes[complete], size - sizes[complete])


def test_zero_padding_is_no_problem(tmp_path: Path) -> None:
    found, notes = read(writer.segment(tmp_path, writer.commits(0, 2) + bytes(5000)))
    assert (len(found), notes) == (2, [])


def test_garbage_between_batches_costs_only_itself(tmp_path: Path) -> None:
    junk = random.Random(1).randbytes(5000)
    data = writer.commits(0, 3) + junk + writer.commits(3, 3)
    found, notes = read(writer.segment(tmp_path, data))
    assert [row["offset"] for row in found] == list(range(6))
    assert [(n.reason, n.size, n.damage) for n in notes] == [(REASON_NO_BATCH, 5000, True)]


@pytest.mark.parametrize("junk", [b"x", b"not a segment\n" * 40, b"\x00\x01" * 300])
def test_garbage_only(tmp_path: Path, junk: bytes) -> None:
    found, notes = read(writer.segment(tmp_path, junk))
    assert found == []
    assert [(note.reason, note.damage) for note in notes] == [(REASON_NO_BATCH, True)]


def test_messages_from_before_0_11_are_named(tmp_path: Path) -> None:
    # Message format v1: offset, size, crc, magic, attributes, timestamp, key, value.

    body = struct.pack(">Ibbqii", 0, 1, 0, 1000, -1, -1)
    old = struct.pack(">qi", 0, len(body)) + body
    found, notes = read(writer.segment(tmp_path, old + writer.commits(1, 1)))
    assert [row["offset"] for row in found] == [1]
    assert [note.reason for note in notes] == [REASON_OLD_FORMAT]


def test_a_flipped_bit_anywhere_never_hides_the_other_batches(tmp_path: Path) -> None:
    whole = writer.commits(0, 5)
    start, end = len(writer.commits(0, 2)), len(writer.commits(0, 3))
    rng = seeds.rng("bits")
    for at in range(start, end):
        data = bytearray(whole)
        data[at] ^= 1 << rng.randrange(8)
        found, notes = read(writer.segment(tmp_path, bytes(data)))
        offsets = [row["offset"] for row in found]
        if at - start < 8:  # the base offset is outside the CRC
            assert len(offsets) == 5
        elif 12 <= at - start < 16:  # so is the leader epoch
            assert offsets == [0, 1, 2, 3, 4]
        else:
            assert offsets == [0, 1, 3, 4]
            assert [note.damage for note in notes] == [True]


def test_right_crc_but_wrong_inside(tmp_path: Path) -> None:
    lies = writer.batch(0, _records(3))

    body = bytearray(lies)
    struct.pack_into(">i", body, 57, 2)  # three records, the header says two
    struct.pack_into(">I", body, 17, writer.crc32c(bytes(body[21:])))
    broken = bytearray(writer.batch(3, _records(30), codec="gzip"))
    broken[80] ^= 0xFF
    struct.pack_into(">I", broken, 17, writer.crc32c(bytes(broken[21:])))
    data = bytes(body) + bytes(broken) + writer.commits(33, 1)
    found, notes = read(writer.segment(tmp_path, data))
    assert [row["offset"] for row in found] == [33]
    assert {note.reason for note in notes} == {REASON_RECORDS, REASON_CODEC}
    assert sorted(note.records for note in notes) == [2, 30]


def test_wrong_crc_is_named(tmp_path: Path) -> None:
    data = bytearray(writer.commits(0, 1))
    data[-3] ^= 1
    found, notes = read(writer.segment(tmp_path, bytes(data) + writer.commits(1, 1)))
    assert [row["offset"] for row in found] == [1]
    assert [(n.reason, n.position, n.size, n.records) for n in notes] == [
        (REASON_CRC, 0, len(data), 1)
    ]


def test_random_mutations_end_in_notes_only(tmp_path: Path) -> None:
    rng = seeds.rng("mutations")
    path = TRUTH / "4.3.1" / "segments" / "__consumer_offsets-5.00000000000000000000.log"
    whole = path.read_bytes()
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 30)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        target = writer.segment(tmp_path, bytes(data))
        row = {
            "path": str(target),
            "partition": 0,
            "start": 0,
            "end": len(data),
            "format": "segment",
        }
        decoded = list(decode_split(row, DecodeOptions(), parts))
        assert sum(each.rows.num_rows for each in decoded) > 0


# --- splitting -----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [1, 200, 1000, 10**9])
def test_ranges_of_a_split_cover_the_file_and_cut_between_batches(
    tmp_path: Path, target: int
) -> None:
    path = writer.segment(tmp_path, writer.commits(0, 30))
    size = path.stat().st_size
    ranges = list(segments.split(BytesIO(path.read_bytes()), size, target))
    assert ranges[0][0] == 0 and ranges[-1][1] == size
    assert [end for _, end in ranges[:-1]] == [start for start, _ in ranges[1:]]
    if target in (200, 1000):
        assert len(ranges) > 3
    offsets = []
    for start, end in ranges:
        for part in segments.chunks(BytesIO(path.read_bytes()), start, end):
            assert isinstance(part, Chunk)
            for block in read_chunk(part):
                offsets += block.records.log_offset.tolist()
    assert offsets == list(range(30))


# --- hostile segments


def bomb(at: int, codec: str, plain: bytes) -> bytes:
    """A batch with the right checksum whose payload is much more than its records."""
    number, compress = writer.CODECS[codec]
    tail = struct.pack(">hiqqqhii", number, 0, 0, 0, -1, 0, -1, 1) + compress(plain)
    body = struct.pack(">ibI", 0, 2, writer_crc(tail)) + tail
    return struct.pack(">qi", at, len(body)) + body


def writer_crc(data: bytes) -> int:
    return int(crc32c(np.frombuffer(data, np.uint8), np.array([0]), np.array([len(data)]))[0])


@pytest.mark.parametrize("codec", ["zstd", "gzip", "lz4"])
def test_bombs_are_named_and_cost_only_themselves(codec: str, tmp_path: Path) -> None:
    """Kind: few bytes that are gigabytes once decompressed, one batch or many together."""
    path = tmp_path / "x.log"
    one = bomb(1, codec, bytes(PLAIN_BYTES + 1))
    path.write_bytes(writer.commits(0, 1) + one + writer.commits(2, 1))
    found, notes = read(path)
    assert [row["offset"] for row in found] == [0, 2]
    assert [note.reason for note in notes] == [REASON_BOMB]


def test_many_batches_are_not_decompressed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    one = bomb(1, "zstd", bytes(PLAIN_BYTES // 4))
    path.write_bytes(one * 30 + writer.commits(2, 3))
    (part,) = segments.chunks(BytesIO(path.read_bytes()), 0, path.stat().st_size)
    assert isinstance(part, Chunk)
    found, sizes, count = [], [], 0
    for block in read_chunk(part):
        sizes.append(block.records.view.size)
        found += block.records.log_offset.tolist()
        count += len(block.notes)
    assert max(sizes) < PLAIN_BYTES * 1.5 and len(sizes) == 8
    assert found == [2, 3, 4] and count == 30


def test_false_headers_end_the_search(tmp_path: Path) -> None:
    """Kind: a checksum over the rest of the file for each of many places (was quadratic)."""
    head = struct.pack(">qiibIhiqqqhii", 5, 0, 0, 2, 7, 0, 0, 1, 1, -1, -1, -1, 1)
    count = 800_000 // len(head)
    false = b"".join(
        head[:8] + struct.pack(">i", (count - at) * len(head) - 12) + head[12:]
        for at in range(count)
    )
    path = tmp_path / "x.log"
    path.write_bytes(writer.commits(0, 1) + b"\0" + false + writer.commits(1, 1))
    start = time.process_time()
    found, notes = read(path)
    assert time.process_time() - start < 20
    assert [row["offset"] for row in found] == [0]
    assert [note.reason for note in notes] == [segments.REASON_FALSE_BATCHES]


def test_a_large_batch_is_checked_in_pieces() -> None:
    """Kind: one range as long as the file: a step for every two bytes took minutes."""
    data = np.random.default_rng(5).integers(0, 256, 50_000_000, dtype=np.uint8)
    start = time.process_time()
    found = crc32c(data, np.array([3]), np.array([len(data)]))
    assert time.process_time() - start < 10
    short = data[: 5 * 8192 + 13]
    assert crc32c(short, np.array([3]), np.array([len(short)]))[0] == writer.crc32c(
        short[3:].tobytes()
    )
    assert len(found) == 1
