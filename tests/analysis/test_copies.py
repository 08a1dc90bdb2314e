"""Several copies of a log partition: only the newest one is the log, as Kafka decides."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis
from tests.analysis.writer import Raw, batch, offset_key, offset_value

CASES = Path(__file__).parents[1] / "data" / "truth-cases"
NOW_MS = 1_795_265_000_000


def live(*paths: Path) -> tuple[dict[Any, int], list[str]]:
    inputs = find_inputs([str(path) for path in paths])
    basis = broker_settings.settings_from(None, "auto", None, None)
    rows = Analysis(LocalEngine(1), inputs.files, basis).rows("live")
    found = {(row["group"], row["topic"], row["partition"]): row["offset"] for row in rows}
    return found, [note for note in inputs.notes if "opies" in note or "opy" in note]


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (3, 1)])
def test_the_tail_of_a_dead_leader_is_no_truth(order: tuple[int, ...]) -> None:
    """Kind: a longer copy of an older leader epoch (DumpLogSegments of broker3, OffsetFetch)."""
    case = CASES / "divergent-replica"
    found, notes = live(*(case / f"broker{number}" for number in order))
    assert found == {
        ("g-div", "t1", 0): 3,
        ("g-div", "t1", 2): 4,
        ("g-other", "t1", 0): 8,
        **{(f"late-{number}", "t1", 0): number for number in range(4)},
    }
    assert [note for note in notes if "broker3 from offset 3" in note and "epochs part" in note]


def test_an_older_copy_brings_no_key_back() -> None:
    """Kind: commits whose tombstones were cleaned away in the newer copy, which is smaller."""
    case = CASES / "stale-replica-compacted"
    alone, none = live(case / "live")
    assert len(alone) == 8 and none == []
    for paths in ((case,), (case / "live", case / "stale"), (case / "stale", case / "live")):
        found, notes = live(*paths)
        assert found == alone
        assert ["ends at 184" in note and "at 315" in note for note in notes] == [True]


def log(folder: Path, base: int, *epochs: tuple[int, int, int]) -> Path:
    """A segment: (leader epoch, first offset, end) of its batches, a group for each epoch."""
    place = folder / "__consumer_offsets-3"
    place.mkdir(parents=True, exist_ok=True)
    data = b"".join(
        batch(
            at, [Raw(offset_key(f"g{epoch}"), offset_value(at, NOW_MS), NOW_MS)], leader_epoch=epoch
        )
        for epoch, start, end in epochs
        for at in range(start, end)
    )
    (place / f"{base:020}.log").write_bytes(data)
    return folder


def test_epoch_before_end_before_size(tmp_path: Path) -> None:
    old = log(tmp_path / "old", 0, (1, 0, 40))
    new = log(tmp_path / "new", 0, (1, 0, 10), (4, 10, 12))
    found, (note,) = live(old, new)
    assert found == {("g1", "t", 0): 9, ("g4", "t", 0): 11}
    assert "/old from offset 10, " in note and note.endswith("/new is read).")
    behind = log(tmp_path / "behind", 0, (1, 0, 10), (4, 10, 11))
    found, notes = live(behind, old, new)
    assert found == {("g1", "t", 0): 9, ("g4", "t", 0): 11}
    assert len(notes) == 2


def test_earlier_segments_in_a_folder_of_their_own_are_no_copy(tmp_path: Path) -> None:
    one = log(tmp_path / "one", 0, (1, 0, 10))
    two = log(tmp_path / "two", 10, (2, 10, 12))
    found, notes = live(one, two)
    assert found == {("g1", "t", 0): 9, ("g2", "t", 0): 11} and notes == []


def test_many_partitions_are_one_note(tmp_path: Path) -> None:
    for number in range(30):
        for copy in ("a", "b"):
            log(tmp_path / copy / str(number), 0, (0, 0, 3))
            place = tmp_path / copy / str(number) / "__consumer_offsets-3"
            place.rename(place.with_name(f"__consumer_offsets-{number}"))
    inputs = find_inputs([str(tmp_path)])
    assert len(inputs.files) == 30
    (note,) = inputs.notes
    assert "and 27 more" in note


def test_damage_does_not_win(tmp_path: Path) -> None:
    sound = log(tmp_path / "sound", 0, (0, 0, 9))
    torn = tmp_path / "torn"
    shutil.copytree(sound, torn)
    path = next(torn.rglob("*.log"))
    data = path.read_bytes()
    path.write_bytes(data[:100] + b"\xff" * 500 + data[100:])
    found, _ = live(torn, sound)
    assert found == {("g0", "t", 0): 8}
    assert [file.path for file in find_inputs([str(torn), str(sound)]).files] == [
        str(next(sound.rglob("*.log")))
    ]


def test_an_earlier_part_that_overlaps_is_read_as_far_as_it_is_missing(tmp_path: Path) -> None:
    """Kind: copies of a growing log that begin at different places; none of them has all."""
    early = log(tmp_path / "early", 0, (1, 0, 10))
    late = log(tmp_path / "late", 6, (1, 6, 8), (2, 8, 20))
    later = log(tmp_path / "later", 6, (1, 6, 10), (2, 10, 20))
    found, notes = live(early, later)
    assert found == {("g1", "t", 0): 9, ("g2", "t", 0): 19} and notes == []
    (cut,) = (file for file in find_inputs([str(early), str(later)]).files if "early" in file.path)
    assert 0 < cut.size < (tmp_path / "early/__consumer_offsets-3" / f"{0:020}.log").stat().st_size
    found, (note,) = live(early, late)
    assert found == {("g1", "t", 0): 7, ("g2", "t", 0): 19} and "epochs part" in note


def test_an_earlier_part_is_not_read_where_the_newest_copy_was_cleaned(tmp_path: Path) -> None:
    """Its keys may have been deleted since: an export of a cleaned log begins where records do."""
    early = log(tmp_path / "early", 0, (1, 0, 10))
    cleaned = log(tmp_path / "cleaned", 6, (1, 6, 7), (1, 9, 10), (2, 10, 20))
    found, (note,) = live(early, cleaned)
    assert found == {("g1", "t", 0): 9, ("g2", "t", 0): 19}
    assert [f.path for f in find_inputs([str(early), str(cleaned)]).files] == [
        str(next(cleaned.rglob("*.log")))
    ]
    assert "/early" in note
