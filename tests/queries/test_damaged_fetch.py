"""Answers to a Fetch that a broker should not give end a copy, with the reason.

Kind: a loop that goes on only if the other side is right. Siblings: negative lengths, batches that
end before they begin, less than a batch's head, partitions that were not asked for; the other
partitions are copied all the same.
"""

from __future__ import annotations

import struct

import pytest

from kgtool.client.ops import Call
from kgtool.errors import DecodeError, KgError
from kgtool.model import TopicPartition
from kgtool.protocol.api import fetch
from kgtool.queries.log.fetch import Range, _Copy, fetch_calls, fetch_request
from tests.support.script import Script

P = TopicPartition("__consumer_offsets", 0)


def batch(base: int, length: int = 49, delta: int = 0, magic: int = 2) -> bytes:
    head = struct.pack(">qiibIhi", base, length, 0, magic, 0, 0, delta)
    return head + bytes(61 - len(head))


def taken(*answers: bytes, end: int = 10, first: bool = True) -> _Copy:
    state = _Copy({P: Range(0, end)}, lambda *_: None)
    for data in answers:
        row = fetch.Partition(partition=0, high_watermark=20, records=data)
        state.take(P, row, first=first)
    return state


@pytest.mark.parametrize(
    "data",
    [batch(0, length) for length in (-1, -12, -13, -(2**31), 2**31 - 1)]
    + [batch(0, delta=-1), batch(0, delta=-(2**31)), b"x", bytes(11), batch(0)[:40]],
)
def test_damage_ends_the_copy(data: bytes) -> None:
    state = taken(data)
    assert not state.is_open(P)
    assert "damaged batch at offset 0" in str(state.outcome(P))


def test_what_is_not_damage() -> None:
    assert taken(batch(0, delta=9)).outcome(P) is None
    assert taken(batch(0), batch(1, delta=8)).outcome(P) is None
    assert taken(batch(12)).outcome(P) is None, "a gap up to the end"
    cut = taken(batch(0)[:40], first=False)
    assert cut.is_open(P) and cut.outcome(P) is None, "the fetch was full"


@pytest.mark.parametrize(("topic", "partition"), [(P.topic, 1), ("other", 0), (P.topic, -1)])
def test_partitions_that_were_not_asked_for(topic: str, partition: int) -> None:
    rows = [fetch.Partition(partition=partition)]
    answer = fetch.Response(topics=[fetch.Topic(topic=topic, partitions=rows)])
    script = Script(lambda _broker, _request: answer)
    (reply,) = script.run(fetch_calls([Call(1, fetch_request({P: 0}, 1, 1))]))
    assert isinstance(reply, DecodeError) and isinstance(reply, KgError)
