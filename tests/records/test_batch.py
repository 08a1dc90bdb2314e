"""Record batches without numpy: the bytes of real brokers, every codec, every kind of damage."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from kgtool.errors import DecodeError
from kgtool.records.batch import RawRecord, batches, batches_containing, read_records
from tests.analysis.writer import CODECS, CONTROL, TRANSACTIONAL, Raw, batch, offset_key
from tests.retention.truth import DATA, RULES, raw, truth
from tests.support import seeds

ROWS = [Raw(b"key", b"x" * 300, 1000), Raw(b"", b"", 990), Raw(None, None, 70_000)]
RECORDS = [
    RawRecord(5, 1000, b"key", b"x" * 300),
    RawRecord(6, 990, b"", b""),
    RawRecord(7, 70_000, None, None),
]


def read(data: bytes) -> list[RawRecord]:
    return [record for found in batches(data) for record in read_records(data, found)]


@pytest.mark.parametrize("run", RULES)
def test_real_segments_are_read_like_their_independent_reading(run: str) -> None:
    expected = {(line["partition"], line["offset"]): line for line in truth(run).records}
    folder = DATA / "retention-truth" / run / "segments"
    seen = 0
    for path in sorted(folder.glob("*.log")):
        partition = int(path.name.split(".")[0].rpartition("-")[2])
        data = path.read_bytes()
        for found in batches(data):
            for record in read_records(data, found):
                line = expected[partition, record.offset]
                assert (record.timestamp_ms, record.key, record.value) == (
                    line["timestamp"],
                    raw(line, "key"),
                    raw(line, "value"),
                )
                assert (found.base_offset, found.producer_id) == (
                    line["baseOffset"],
                    line["producerId"],
                )
                assert (found.is_transactional, found.is_control) == (
                    line["transactional"],
                    line["control"],
                )
                seen += 1
    assert seen == len(expected) > 200


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(codec: str) -> None:
    data = batch(5, ROWS, codec=codec)
    assert read(data) == RECORDS
    (found,) = batches(data)
    assert found.is_compressed == (codec != "none")
    assert (found.base_offset, found.last_offset, found.records) == (5, 7, 3)


def test_log_append_time_is_every_records_time() -> None:
    data = batch(5, ROWS, attributes=0x08)
    assert [record.timestamp_ms for record in read(data)] == [70_000] * 3


def test_a_batch_that_compaction_emptied() -> None:
    data = batch(5, []) + batch(9, ROWS)
    assert [found.records for found in batches(data)] == [0, 3]
    assert len(read(data)) == 3


def test_a_batch_that_is_cut_off_is_left_out() -> None:
    whole = batch(5, ROWS)
    for cut in range(len(whole)):
        assert list(batches(whole[:cut])) == []
        assert [found.base_offset for found in batches(batch(1, ROWS) + whole[:cut])] == [1]


def test_only_what_may_be_about_the_groups_is_looked_into() -> None:
    def about(*needles: bytes) -> list[int]:
        return [found.base_offset for found in batches_containing(data, needles)]

    def commit(at: int, group: str, **options: object) -> bytes:
        return batch(at, [Raw(offset_key(group), b"v")], **options)  # type: ignore[arg-type]

    data = b"".join(
        (
            commit(0, "a"),
            commit(1, "b"),
            commit(2, "a", codec="gzip"),
            commit(3, "c"),
            commit(4, "c", attributes=TRANSACTIONAL | CONTROL),
            commit(5, "b"),
            commit(6, "a"),
            commit(7, "ab"),
        )
    )
    assert about() == list(range(8))
    assert about(b"\0\1a") == [0, 2, 4, 6]
    assert about(b"\0\1b") == [1, 2, 4, 5]
    assert about(b"\0\1a", b"\0\1b") == [0, 1, 2, 4, 5, 6]
    assert about(b"\0\1z") == [2, 4]


def damaged() -> Iterator[bytes]:
    rng = seeds.rng("batch")
    for codec in CODECS:
        whole = batch(5, ROWS, codec=codec)
        for _ in range(400):
            found = bytearray(whole)
            for _ in range(rng.randint(1, 4)):
                # Not the length: that decides where the next batch begins.
                found[rng.choice([*range(8), *range(16, len(found))])] = rng.randrange(256)
            yield bytes(found)


def test_damage_is_a_decode_error_or_other_records_and_nothing_else() -> None:
    refused = 0
    for data in damaged():
        try:
            records = read(data)
        except DecodeError as error:
            refused += 1
            assert "offset" in error.message
        else:
            assert len(records) < 10_000
    assert refused > 300


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_formats_are_named(magic: int) -> None:
    data = bytearray(batch(5, ROWS))
    data[16] = magic
    with pytest.raises(DecodeError, match=f"offset 5: magic {magic}"):
        read(bytes(data))
    with pytest.raises(DecodeError, match=f"magic {magic}"):
        list(batches_containing(bytes(data), [b"nothing"]))


def test_a_length_that_leads_nowhere_ends_in_an_error() -> None:
    for length in (0, -1, -(2**31)):
        data = bytearray(batch(5, ROWS))
        data[8:12] = length.to_bytes(4, "big", signed=True)
        with pytest.raises(DecodeError):
            list(batches(bytes(data)))
        with pytest.raises(DecodeError):
            list(batches_containing(bytes(data), [b"nothing"]))


def test_a_codec_nobody_knows_is_named() -> None:
    with pytest.raises(DecodeError, match="codec 7 is unknown"):
        read(batch(5, ROWS, attributes=7))


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "none"])
def test_a_small_batch_that_would_fill_the_memory_is_refused(
    monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    """zstd and lz4 took no notice of the limit."""
    monkeypatch.setattr("kgtool.records.batch.MAX_PLAIN_BYTES", 200_000)
    big = [Raw(b"k", b"\0" * 190_000)]
    assert len(read(batch(5, big, codec=codec))) == 1
    bomb = batch(5, [Raw(b"k", b"\0" * 5_000_000)], codec=codec)
    tracemalloc.start()
    with pytest.raises(DecodeError, match="more than 200000 bytes"):
        read(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * 200_000
