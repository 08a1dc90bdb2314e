from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kgtool.analysis.decode.crc32c import BLOCK, crc32c
from tests.analysis import writer


def of(data: bytes, *ranges: tuple[int, int]) -> list[int]:
    starts, ends = (np.array(side, dtype=np.int64) for side in zip(*ranges, strict=True))
    return crc32c(np.frombuffer(data, dtype=np.uint8), starts, ends).tolist()


def test_check_value_of_the_standard() -> None:
    # RFC 3720, B.4, and the check value of the CRC catalogue.
    assert of(b"123456789", (0, 9)) == [0xE3069283]
    assert of(bytes(32), (0, 32)) == [0x8A9136AA]
    assert of(b"\xff" * 32, (0, 32)) == [0x62A8AB43]


@given(st.binary(max_size=300), st.data())
def test_every_range_as_bit_by_bit(data: bytes, draw: st.DataObject) -> None:
    place = st.integers(0, len(data))
    pairs = draw.draw(st.lists(st.tuples(place, place), min_size=1, max_size=12))
    ranges = [(min(pair), max(pair)) for pair in pairs]
    assert of(data, *ranges) == [writer.crc32c(data[a:b]) for a, b in ranges]


def test_more_ranges_than_one_block() -> None:
    data = bytes(range(256)) * 80
    ranges = [(i, i + i % 23) for i in range(2 * BLOCK + 5)]
    expected = {pair: writer.crc32c(data[pair[0] : pair[1]]) for pair in ranges[:200]}
    found = of(data, *ranges)
    assert found[:200] == [expected[pair] for pair in ranges[:200]]
    assert found[-1] == writer.crc32c(data[ranges[-1][0] : ranges[-1][1]])
