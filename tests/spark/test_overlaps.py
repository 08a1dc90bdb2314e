"""Records that lie in several inputs, as replicas and repeated exports do, count once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.pipeline import Analysis, TableOptions
from tests.analysis.writer import Raw, batch, offset_key, offset_value
from tests.retention.truth import DATA, INTERVAL_MS, RETENTION_MS
from tests.support.tables import Make, dicts

pytestmark = pytest.mark.spark
NOW_MS = 1_795_265_000_000
SEGMENTS = DATA / "retention-truth" / "4.3.1" / "segments"


def tables(engine: Make, *paths: Path) -> dict[str, Any]:
    basis = broker_settings.settings_from(None, "4.1", RETENTION_MS, INTERVAL_MS)
    files = find_inputs([str(path) for path in paths]).files
    analysis = Analysis(engine(), files, basis, None, TableOptions(bucket_ms=10_000))
    names = ("live", "removals", "groups", "metrics", "partitions")
    return {name: sorted(map(str, dicts(analysis, name))) for name in names}


def commits(first: int, count: int) -> list[bytes]:
    """One batch each; two keys take turns, a second apart."""
    return [
        batch(
            at,
            [
                Raw(
                    offset_key(f"g{at % 2}"),
                    offset_value(at, NOW_MS + at * 1000),
                    NOW_MS + at * 1000,
                )
            ],
        )
        for at in range(first, first + count)
    ]


def write(folder: Path, first: int, data: list[bytes]) -> Path:
    place = folder / "__consumer_offsets-3"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{first:020}.log").write_bytes(b"".join(data))
    return folder


def test_replicas_under_one_argument(engine: Make, tmp_path: Path) -> None:
    """Their segments begin at other offsets, so that their names don't tell."""
    one = write(tmp_path / "alone", 0, commits(0, 12))
    for name, cuts in (("broker-1", (0, 12)), ("broker-2", (0, 5, 12)), ("broker-3", (4, 9, 12))):
        for first, end in zip(cuts, cuts[1:], strict=False):
            write(tmp_path / "brokers" / name, first, commits(first, end - first))
    assert tables(engine, tmp_path / "brokers") == tables(engine, one)


def test_an_export_made_twice(engine: Make, tmp_path: Path) -> None:
    older = write(tmp_path / "older", 0, commits(0, 6))
    newer = write(tmp_path / "newer", 0, commits(0, 3))
    write(newer, 3, commits(3, 9))
    found = tables(engine, older, newer)
    assert found == tables(engine, newer)
    assert [row for row in found["groups"] if "'commits': 6" in row] == found["groups"]


def test_removals_of_a_real_broker_are_explained_once(engine: Make, tmp_path: Path) -> None:
    for number in (1, 2):
        folder = tmp_path / f"broker-{number}"
        folder.mkdir()
        for path in SEGMENTS.iterdir():
            # A replica whose first segment was cleaned away to another base offset.
            base = 0 if number == 1 else 1
            name = path.name.replace(f"{0:020}.log", f"{base:020}.log")
            (folder / name).write_bytes(path.read_bytes())
    assert tables(engine, tmp_path) == tables(engine, SEGMENTS)


def test_one_file_that_has_records_twice(engine: Make, tmp_path: Path) -> None:
    """``cat a a > b``, and a later part before an earlier one."""
    some = commits(0, 12)
    one = write(tmp_path / "once", 0, some)
    for number, parts in enumerate(((some, some), (some[6:], some[:9]), (some[:8], some[5:]))):
        again = write(tmp_path / f"again-{number}", 0, [part for each in parts for part in each])
        assert tables(engine, again) == tables(engine, one)
