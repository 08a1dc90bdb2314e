"""How large the worlds of the benchmark are."""

from __future__ import annotations

from typing import NamedTuple


class Sizes(NamedTuple):
    """Groups and partitions of each world; those of ``make bench``."""

    groups: int = 2000
    offsets: int = 50
    many: tuple[int, int] = (10_000, 100)
    """What the growth of ``describe`` and the export are measured with."""
    streams: tuple[int, int, int] = (100, 20, 50)
    """Groups, topics, partitions of each: with metadata and leader epochs, as Streams commits."""
    deleted: tuple[int, int] = (2000, 10)
    sample: int = 20
    """Runs of Kafka's tool that stand for one a group."""
    changed: tuple[int, int] = (10_000, 200)
    pairs: int = 15
    """Of what takes a tenth of a second."""
    records: int = 8_000_000
    """Of the log that ``analyze`` reads."""
    lost_records: int = 1_000_000
    """Of the partition of the log that ``recover`` reads."""
    living: tuple[int, int, float] = (10_000, 3, 30)
    """Groups and partitions on ``top``'s screen; the seconds of each look at it."""


SMOKE = Sizes(20, 3, (40, 6), (3, 2, 2), (20, 3), 1, (30, 3), 1, 20_000, 200, (20, 3, 2))
"""As small as can be: does every row still do its work?"""
