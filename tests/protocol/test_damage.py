"""Damaged bytes end in a DecodeError or in a message: no hang, no flood of memory, nothing else."""

from __future__ import annotations

import contextlib
import random
import signal
import struct
import time
import tracemalloc
from collections.abc import Iterator

import pytest

from kgtool.errors import DecodeError
from kgtool.protocol import wire
from kgtool.protocol.api import fetch, metadata
from kgtool.protocol.plan import decode, decode_prefix, encode
from tests.protocol.messages import EVERY, Maker, Message
from tests.support import seeds

MUTATIONS = 80
HUGE = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x80\x80",
    b"\x7f\xff",
    b"\x00\xff\xff\xff",
)
"""Lengths and counts that claim far more than there is, in all encodings."""

LATEST = [message for message in EVERY if message.version == message.cls.VERSIONS.high]
CLASSIC = [
    message
    for message in EVERY
    if not message.flexible
    and message.version + 1 in message.cls.FLEXIBLE
    and message.version + 1 in message.cls.VERSIONS
]
"""The last version before the flexible ones."""


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    """Turn a hang into a failure."""

    def ring(*_: object) -> None:
        raise AssertionError("decoding takes longer than 20 s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def sample(message: Message, seed: int, limit: int = 600) -> bytes:
    """A random message, not too long, so that every byte of it can be tried."""
    maker = Maker((message, seed), unknown_tags=True)
    made = [encode(maker.message(message), message.version) for _ in range(6)]
    return min(made, key=lambda raw: (len(raw) > limit, abs(limit - len(raw))))


def damaged(raw: bytes, rng: random.Random) -> bytes:
    """Damage a message in one to three places."""
    out = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(5)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            huge = rng.choice(HUGE)
            out[at : at + len(huge)] = huge
        elif kind == 2:
            out[at:at] = rng.randbytes(rng.randint(1, 8))
        elif kind == 3:
            del out[at : at + rng.randint(1, 8)]
        else:
            out[at : at + 8] = rng.randbytes(8)
    return bytes(out)


@pytest.mark.parametrize("message", EVERY, ids=str)
def test_every_truncation_is_a_decode_error(message: Message) -> None:
    raw = sample(message, 0, limit=300)
    for end in range(len(raw)):
        with pytest.raises(DecodeError):
            decode(message.cls, message.version, raw[:end])
        with pytest.raises(DecodeError):
            decode_prefix(message.cls, message.version, raw[:end])


@pytest.mark.parametrize("message", EVERY, ids=str)
def test_mutations_are_decode_errors_or_messages(message: Message) -> None:
    rng = seeds.rng("damage", message)
    raw = sample(message, 1)
    for _ in range(MUTATIONS):
        bad = damaged(raw, rng)
        try:
            read = decode(message.cls, message.version, bad)
        except DecodeError as error:
            assert f"v{message.version}" in str(error)
            continue
        again = encode(read, message.version)
        assert decode(message.cls, message.version, again) == read


@pytest.mark.parametrize("message", LATEST + CLASSIC, ids=str)
def test_inflated_lengths_do_not_take_memory(message: Message) -> None:
    raw = sample(message, 2, limit=100)[:250]
    tracemalloc.start()
    try:
        for at in range(len(raw)):
            for huge in HUGE[:4]:
                bad = raw[:at] + huge + raw[at + len(huge) :]
                tracemalloc.reset_peak()
                before, _ = tracemalloc.get_traced_memory()
                with contextlib.suppress(DecodeError):
                    decode(message.cls, message.version, bad)
                _, peak = tracemalloc.get_traced_memory()
                assert peak - before < 200_000, f"{huge.hex()} at {at} of {raw.hex()}"
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("filler", [b"\x00", b"\x01", b"\x02"])
@pytest.mark.parametrize("message", LATEST + CLASSIC, ids=str)
def test_memory_stays_in_proportion_to_the_bytes(message: Message, filler: bytes) -> None:
    size = 20_000
    heads = (b"", bytes(4), bytes(6), bytes(8))
    counts = (struct.pack(">i", size // 8), b"\xa0\x1f", struct.pack(">h", 20) + b"x" * 20)
    tracemalloc.start()
    try:
        for head in heads:
            for count in counts:
                raw = head + count + filler * size
                tracemalloc.reset_peak()
                before, _ = tracemalloc.get_traced_memory()
                with contextlib.suppress(DecodeError):
                    decode_prefix(message.cls, message.version, raw)
                _, peak = tracemalloc.get_traced_memory()
                assert peak - before < 100 * size
    finally:
        tracemalloc.stop()


@pytest.mark.timed
def test_a_big_answer_with_tags_in_it_takes_linear_time() -> None:
    moved = fetch.CurrentLeader(leader_id=3, leader_epoch=9)
    partitions = [
        fetch.Partition(partition=at, error_code=6, current_leader=moved, records=bytes(1000))
        for at in range(8000)
    ]
    raw = encode(fetch.Response(topics=[fetch.Topic(partitions=partitions)]), 17)
    began = time.perf_counter()
    read = decode(fetch.Response, 17, raw)
    assert time.perf_counter() - began < 2
    assert read.topics[0].partitions[7999].current_leader == moved


def test_numbers_are_elements_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kind: an array that escapes the budget: 95 million int32 in a frame of 381 MB made 1.9 GB."""
    monkeypatch.setattr(wire, "MAX_ELEMENTS", 100)

    def message(count: int) -> bytes:
        part = metadata.Partition(replicas=[1] * count, isr=[1] * 10)
        return encode(metadata.Response(topics=[metadata.Topic(name="t", partitions=[part])]), 12)

    decode(metadata.Response, 12, message(80))
    with pytest.raises(DecodeError, match="more than 100 elements"):
        decode(metadata.Response, 12, message(100))


@pytest.mark.parametrize("nested", [False, True])
def test_a_message_has_so_many_elements_and_no_more(
    monkeypatch: pytest.MonkeyPatch, nested: bool
) -> None:
    """A frame of 512 MB made objects of 24 GB."""
    parts = [metadata.Partition() for _ in range(60)]
    row = metadata.Topic(name="t", partitions=parts if nested else [])
    small = encode(metadata.Response(topics=[row] * (1 if nested else 60)), 12)
    large = encode(metadata.Response(topics=[row] * (2 if nested else 120)), 12)
    monkeypatch.setattr(wire, "MAX_ELEMENTS", 100)
    for _ in range(3):  # each message has its own
        decode(metadata.Response, 12, small)
    with pytest.raises(DecodeError, match="more than 100 elements"):
        decode(metadata.Response, 12, large)
    with pytest.raises(DecodeError, match="more than 100 elements"):
        decode_prefix(metadata.Response, 12, large)
