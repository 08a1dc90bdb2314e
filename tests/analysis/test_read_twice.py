"""One file that has records twice: ``cat a a > b``, overlapping dumps in one folder or one file.

Kind: what is there twice is read as if it had been written twice (150 of 169 causes were wrong).
Siblings: a segment, printed dumps; the whole, a part, in another order; another log behind it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kgtool.analysis.pipeline import Analysis
from kgtool.errors import ConfigError
from tests.analysis.test_holes import analyzed
from tests.analysis.test_unknown import SETS, Line, lines
from tests.analysis.writer import segment

SAMPLES = Path(__file__).parents[1] / "data" / "export-samples"


def batches(rows: list[Line]) -> list[bytes]:
    return [row.batch for row in rows]


def twice(parts: list[bytes], rng: random.Random) -> list[bytes]:
    return parts + parts


def overlapping(parts: list[bytes], rng: random.Random) -> list[bytes]:
    at, end = sorted(rng.sample(range(1, len(parts)), 2))
    return parts[:end] + parts[at:]


def later_first(parts: list[bytes], rng: random.Random) -> list[bytes]:
    at, end = sorted(rng.sample(range(1, len(parts)), 2))
    return parts[at:] + parts[:end]


WAYS: tuple[Callable[[list[bytes], random.Random], list[bytes]], ...] = (
    twice,
    overlapping,
    later_first,
)


def tables(found: Analysis) -> dict[str, list[str]]:
    names = ("live", "removals", "groups", "overdue", "losses", "metrics", "writers", "partitions")
    return {name: sorted(map(str, found.rows(name))) for name in names if name in found.names()}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", SETS)
def test_what_a_segment_has_twice_is_read_once(
    name: str, way: Callable[[list[bytes], random.Random], list[bytes]], tmp_path: Path
) -> None:
    rng = random.Random(f"{name} {way.__name__}")
    rows = [row for row in lines(rng, name, quiet=False) if row.partition == 0]
    parts = batches(rows)
    segment(tmp_path / "once", b"".join(parts), 0, 0)
    doubled = way(parts, rng)
    segment(tmp_path / "twice", b"".join(doubled), 0, 0)
    end_ms = max(row.at_ms for row in rows) + 1000
    once, again = (analyzed(tmp_path / each, name, end_ms) for each in ("once", "twice"))
    assert tables(again) == tables(once)
    count = len(doubled) - len(parts)
    assert again.twice is not None and f"{count:,} records" in str(again.twice)
    assert once.twice is None


@pytest.mark.parametrize("change", ["another log", "cleaned in between"])
def test_what_differs_is_refused(change: str, tmp_path: Path) -> None:
    rows = [row for row in lines(random.Random(7), "4.1", quiet=True) if row.partition == 0]
    other = batches(rows)[50:]
    if change == "another log":
        other = batches([row._replace(at_ms=row.at_ms + 1) for row in rows[50:]])
    else:
        del other[7]
    segment(tmp_path, b"".join(batches(rows) + other), 0, 0)
    with pytest.raises(ConfigError, match=r"__consumer_offsets-0/0{20}\.log.*offset 5\d"):
        analyzed(tmp_path, "4.1", rows[-1].at_ms).fold()


DUMPS = sorted(SAMPLES.glob("*dump-log-offsets-decoder.txt"))


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: path.name)
@pytest.mark.parametrize("files", [1, 2])
def test_a_dump_that_is_there_twice_is_read_once(path: Path, files: int, tmp_path: Path) -> None:
    """Two files without the partition in their names were two partitions, each key there twice."""
    name = "4.1" if path.name.startswith("4") else "2.1"
    data = path.read_bytes()
    for place, copies in {
        "once": [data],
        "twice": [data * (3 - files)] + [data] * (files - 1),
    }.items():
        (tmp_path / place).mkdir()
        for number, copy in enumerate(copies):
            (tmp_path / place / f"{number}.txt").write_bytes(copy)
    once, again = (analyzed(tmp_path / each, name, 1 << 41) for each in ("once", "twice"))
    found, expected = tables(again), tables(once)
    if path.name.startswith("2"):  # records that the tool could not decode are counted each time
        found, expected = ({**each, "partitions": []} for each in (found, expected))
    assert found == expected
    assert again.twice is not None and once.twice is None
