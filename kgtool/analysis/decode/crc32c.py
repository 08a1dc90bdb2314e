"""CRC-32C (Castagnoli) of many byte ranges at once, in numpy.

Kafka guards every record batch (magic 2) with CRC-32C from the attributes field on; neither
Python's stdlib nor a package that kgtool lists computes it. Here all ranges advance in lockstep,
two bytes a step, with a table of what each pair of bytes adds.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

POLYNOMIAL = 0x82F63B78
ONES = np.uint32(0xFFFFFFFF)
PIECE = 4096
LONG = 8 * PIECE
"""Longer ranges are cut into pieces: one alone would take a step for every two bytes."""
BLOCK = 8192
"""Ranges worked on at once: their registers and positions then stay in the processor's cache."""


@cache
def _table() -> NDArray[np.uint32]:
    """The registers after two bytes, by the lower half of what they were, xor the bytes."""
    table = np.arange(65536, dtype=np.uint32)
    for _ in range(16):
        table = (table >> np.uint32(1)) ^ (np.uint32(POLYNOMIAL) * (table & np.uint32(1)))
    return table


def crc32c(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """The CRC-32C of ``data[start:end]`` for every pair; ranges must lie within ``data``."""
    registers: NDArray[np.uint32] = np.full(len(starts), ONES, dtype=np.uint32)
    is_long = ends - starts > LONG
    for at in np.flatnonzero(is_long).tolist():
        registers[at] = _long(data, int(starts[at]), int(ends[at]))
    some = np.flatnonzero(~is_long)
    for cut in range(0, len(some), BLOCK):
        part = some[cut : cut + BLOCK]
        registers[part] = _advanced(data, starts[part], ends[part], registers[part])
    registers ^= ONES
    return registers


def _long(data: NDArray[np.uint8], start: int, end: int) -> int:
    """The register behind a long range: its pieces advance side by side, then are put together.

    A register is linear in what it was before, so that of a piece is what the piece makes of
    zero, xor what as many zero bytes make of the register before it.
    """
    heads = np.arange(start, end - PIECE + 1, PIECE, dtype=np.int64)
    pieces = np.zeros(len(heads), dtype=np.uint32)
    for cut in range(0, len(heads), BLOCK):
        part = slice(cut, cut + BLOCK)
        pieces[part] = _advanced(data, heads[part], heads[part] + PIECE, pieces[part])
    register, (zero, one, two, three) = int(ONES), _over_zeros()
    for piece in pieces.tolist():
        register = (
            zero[register & 0xFF]
            ^ one[register >> 8 & 0xFF]
            ^ two[register >> 16 & 0xFF]
            ^ three[register >> 24]
            ^ piece
        )
    rest = np.array([start + PIECE * len(heads)]), np.array([end])
    return int(_advanced(data, *rest, np.array([register], dtype=np.uint32))[0])


@cache
def _over_zeros() -> tuple[list[int], ...]:
    """What ``PIECE`` zero bytes make of each byte of a register, the lowest first."""
    values = np.arange(256, dtype=np.uint32)
    first = np.zeros(256, dtype=np.int64)
    nothing = np.zeros(PIECE, dtype=np.uint8)
    return tuple(
        _advanced(nothing, first, first + PIECE, values << np.uint32(shift)).tolist()
        for shift in (0, 8, 16, 24)
    )


def _advanced(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    before: NDArray[np.uint32],
) -> NDArray[np.uint32]:
    """The registers behind these ranges, given those before them."""
    table, lengths = _table(), ends - starts
    # Longest first: those still running are then always the first ones, a slice and no copy.
    order = np.argsort(-lengths, kind="stable")
    position, lengths = starts[order], lengths[order]
    pairs: NDArray[np.uint16] = np.ndarray((max(len(data) - 1, 0),), "<u2", data, 0, (1,))
    steps = np.arange(1, lengths.max(initial=0) // 2 + 1)
    running = np.searchsorted(-(lengths // 2), -steps, side="right")
    registers = before[order]
    for index, count in enumerate(running.tolist()):
        some = registers[:count]
        pair = some.astype(np.uint16) ^ pairs[2 * index :][position[:count]]
        some[:] = table.take(pair) ^ (some >> np.uint32(16))
    odd = np.flatnonzero(lengths & 1)
    some, byte = registers[odd], data[(position + lengths)[odd] - 1]
    # One byte is a pair whose first one is taken in already.
    half = ((some ^ byte) & np.uint32(0xFF)) << np.uint32(8)
    registers[odd] = table[half] ^ (some >> np.uint32(8))
    result = np.empty_like(registers)
    result[order] = registers
    return result
