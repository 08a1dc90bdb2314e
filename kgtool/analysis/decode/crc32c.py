"""CRC-32C (Castagnoli) of many byte ranges at once, in numpy.

Kafka guards every record batch (magic 2) with CRC-32C from the attributes field on; neither
Python's stdlib nor a package that kgtool lists computes it. Here all ranges advance in lockstep,
eight bytes a step ("slicing by 8", with 16-bit tables: four look-ups a step). Measured: 0.3 to
0.4 GB/s on one core for batches of a few hundred bytes.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

POLYNOMIAL = 0x82F63B78
BLOCK = 8192
"""Ranges worked on at once: their registers and positions then stay in the processor's cache."""


@functools.lru_cache(maxsize=1)
def _tables() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """The table for one byte, and four of 65536 entries: what each pair of 8 bytes adds."""
    step = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        step = (step >> np.uint32(1)) ^ (np.uint32(POLYNOMIAL) * (step & np.uint32(1)))
    by_distance = np.zeros((8, 256), dtype=np.uint32)
    by_distance[0] = step
    for distance in range(1, 8):
        before = by_distance[distance - 1]
        by_distance[distance] = (before >> np.uint32(8)) ^ step[before & np.uint32(0xFF)]
    pairs = np.arange(65536)
    low, high = pairs & 0xFF, pairs >> 8
    table = [by_distance[7 - 2 * i][low] ^ by_distance[6 - 2 * i][high] for i in range(4)]
    return step, np.stack(table)


def crc32c(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """The CRC-32C of ``data[start:end]`` for every pair; ranges must lie within ``data``."""
    if len(starts) > BLOCK:
        cuts = range(0, len(starts), BLOCK)
        parts = [crc32c(data, starts[i : i + BLOCK], ends[i : i + BLOCK]) for i in cuts]
        return np.concatenate(parts)
    lengths = ends - starts
    # Longest first: those still running are then always the first ones, a slice and no copy.
    order = np.argsort(-lengths, kind="stable")
    position = starts[order]
    words = lengths[order] >> 3
    registers = np.full(len(order), 0xFFFFFFFF, dtype=np.uint32)
    _whole_words(data, position, words, registers)
    _rest(data, position + (words << 3), lengths[order] & 7, registers)
    result = np.empty_like(registers)
    result[order] = registers ^ np.uint32(0xFFFFFFFF)
    return result


def _whole_words(
    data: NDArray[np.uint8],
    position: NDArray[np.int64],
    words: NDArray[np.int64],
    registers: NDArray[np.uint32],
) -> None:
    """Take in the ranges' whole 8-byte words; ``words`` counts them and falls."""
    if not len(words) or words[0] == 0:
        return
    _, (first, second, third, fourth) = _tables()
    view: NDArray[np.uint64] = np.ndarray((len(data) - 7,), "<u8", data, 0, (1,))
    mask = np.uint64(0xFFFF)
    running = np.searchsorted(-words, -np.arange(1, int(words[0]) + 1), side="right")
    for index, count in enumerate(running.tolist()):
        word = view[position[:count] + 8 * index] ^ registers[:count]
        registers[:count] = (
            first[(word & mask).astype(np.intp)]
            ^ second[((word >> np.uint64(16)) & mask).astype(np.intp)]
            ^ third[((word >> np.uint64(32)) & mask).astype(np.intp)]
            ^ fourth[(word >> np.uint64(48)).astype(np.intp)]
        )


def _rest(
    data: NDArray[np.uint8],
    position: NDArray[np.int64],
    left: NDArray[np.int64],
    registers: NDArray[np.uint32],
) -> None:
    """Take in the up to seven bytes after the last whole word."""
    step, _ = _tables()
    for index in range(7):
        some = np.flatnonzero(left > index)
        register = registers[some]
        byte = data[position[some] + index]
        registers[some] = (register >> np.uint32(8)) ^ step[(register ^ byte) & np.uint32(0xFF)]
