"""Groups in a log partition that is not theirs by the hash of their names.

The kind: a folder that tells another partition than its content is from; a partition count that was
raised. Their coordinator has other records of them, or none, so no date and no plan row is right.
Siblings: with and without cluster.json, removals, plans, names that are not UTF-8.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kgtool.analysis.fold import homes
from kgtool.analysis.fold.homes import hashes, misplaced
from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis, TableOptions
from kgtool.analysis.tables.cleanup import decisions
from kgtool.changes.cleanup.plan_file import PlanItem
from kgtool.queries.cluster.offsets_partition import java_hash, offsets_partition
from tests.analysis import writer
from tests.analysis.writer import Raw, offset_key, offset_value
from tests.support.tables import Make, dicts

pytestmark = pytest.mark.spark
T0 = 1_795_000_000_000
COUNT = 10
AT_HOME = {"partitions": [{"partition": n, "start_offset": 0} for n in range(COUNT)]}
NAMES = [f"group-{number}" for number in range(30)]


def analysis(folder: Path, make: Make, count: int, manifest: Any) -> Analysis:
    """Each group in its partition of so many: two offsets, one of which is removed in time."""
    rng = random.Random(7)
    for number in range(count):
        rows = []
        for name in (each for each in NAMES if offsets_partition(each, count) == number):
            rows += [(T0, name, "kept", offset_value(5, T0 + 50_000))]
            rows += [(T0, name, "gone", offset_value(5, T0)), (T0 + 61_000, name, "gone", None)]
        rows.sort(key=lambda row: (row[0], rng.random()))
        data = b"".join(
            writer.batch(at, [Raw(offset_key(name, topic), value, ms)])
            for at, (ms, name, topic, value) in enumerate(rows)
        )
        writer.segment(folder, data, partition=number)
    basis, _ = broker_settings.choose_scenarios(manifest, ["2.4"], (60_000,), (5_000,))
    return Analysis(
        make(), find_inputs([str(folder)]).files, basis, options=TableOptions(plan=True)
    )


def test_nothing_is_told_of_them(tmp_path: Path, engine: Make) -> None:
    found = analysis(tmp_path, engine, 7, AT_HOME)
    away = {name for name in NAMES if offsets_partition(name, 7) != offsets_partition(name, COUNT)}
    assert 20 < len(away) < 30
    live = {row["group"]: (row["rule"], row["expires_at_ms"]) for row in dicts(found, "live")}
    known = ("commit", T0 + 110_000)
    assert live == {name: (None, None) if name in away else known for name in NAMES}
    causes = {row["group"]: row["cause"] for row in dicts(found, "removals")}
    assert causes == {name: None if name in away else "expired" for name in NAMES}
    planned = [each for each in decisions(found.decisions()) if isinstance(each, PlanItem)]
    assert {each.group for each in planned} == set(NAMES) - away
    assert found.misplaced is not None
    assert f"{len(away)} groups of 30 are in a log partition that is not theirs" in found.misplaced


def test_without_cluster_json_the_partition_count_is_the_one_that_fits_most(
    tmp_path: Path, engine: Make
) -> None:
    assert analysis(tmp_path / "right", engine, 7, None).misplaced is None
    assert analysis(tmp_path / "told", engine, COUNT, AT_HOME).misplaced is None
    analysis(tmp_path / "wrong", engine, 7, None)
    segments = sorted((tmp_path / "wrong").glob("__consumer_offsets-*"))
    segments[1].rename(tmp_path / "wrong" / "__consumer_offsets-9")
    basis, _ = broker_settings.choose_scenarios(None, ["2.4"], (60_000,), (5_000,))
    moved = Analysis(engine(), find_inputs([str(tmp_path / "wrong")]).files, basis)
    assert (
        moved.misplaced is not None and "the 7 partitions that fit most groups" in moved.misplaced
    )
    none = Analysis(engine(), find_inputs([str(segments[0])]).files, basis)
    assert none.misplaced is None


@pytest.mark.parametrize(("before", "after"), [(7, 10), (2, 3), (8, 16), (50, 100), (4, 50)])
def test_a_raised_count_where_every_group_went_on(tmp_path: Path, before: int, after: int) -> None:
    """Was: half of the groups fit no count, which was taken for a hash that is not Kafka's."""
    names = [f"orders-{number}-job" for number in range(100)]
    rows: dict[int, list[str]] = {}
    for count in (before, after):
        for name in names:
            rows.setdefault(offsets_partition(name, count), []).append(name)
    for number, here in rows.items():
        told = [
            Raw(offset_key(name, "t"), offset_value(at, T0), T0) for at, name in enumerate(here)
        ]
        data = b"".join(writer.batch(at, [record]) for at, record in enumerate(told))
        writer.segment(tmp_path, data, partition=number)
    basis, _ = broker_settings.choose_scenarios(None, ["2.4"], (60_000,), (5_000,))
    found = Analysis(LocalEngine(1), find_inputs([str(tmp_path)]).files, basis)
    assert found.misplaced is not None and "that fit most groups" in found.misplaced


@pytest.mark.parametrize(("partitions", "groups"), [(50, 5), (50, 20), (10, 8), (3, 5), (16, 640)])
def test_another_hash_than_kafkas_is_not_called_misplaced(partitions: int, groups: int) -> None:
    """Of a thousand counts one always fits some groups by chance."""
    rng = random.Random(partitions)
    for _ in range(5):
        names: dict[int, list[str]] = {number: [] for number in range(partitions)}
        for _ in range(groups):
            names[rng.randrange(partitions)].append(f"{rng.random()}")
        none = np.zeros(0, dtype=np.bool_)
        told = [homes.table(pa.array(some), number, 0, none) for number, some in names.items()]
        assert homes.note(pa.concat_tables(told), 0) is None


def test_the_hash_is_javas() -> None:
    rng = random.Random(1)
    letters = [*map(chr, range(32, 127)), "é", "\u0fff", "\U0001f600"]
    names = ["", "polygenelubricants"]
    names += ["".join(rng.choices(letters, k=rng.randrange(30))) for _ in range(500)]
    expected = [0 if java_hash(each) == -(2**31) else abs(java_hash(each)) for each in names]
    assert hashes(pa.array(names)).tolist() == expected
    assert not misplaced(pa.array(["broken-\ufffd"] * 2), 3, 50).any()
