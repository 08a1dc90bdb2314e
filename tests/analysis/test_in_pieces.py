"""A large log partition is folded some groups at a time, and keys some at a time: to the same."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis.decode import blobs
from kgtool.analysis.fold import arrays, buckets
from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.broker_settings import Scenario
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis, TableOptions
from kgtool.analysis.report.summary import summary
from kgtool.analysis.tables import live
from kgtool.protocol.plan import encode
from kgtool.records import record_types
from kgtool.records.group_metadata import GroupMetadataValue
from tests.analysis.test_lives import SCENARIOS, SETS, some_scenarios
from tests.analysis.writer import Raw, batch, offset_key, offset_value, segment
from tests.spark.test_random_logs import write_log


def tables(
    folder: Path, author: str, scenarios: tuple[Scenario, ...] = SCENARIOS, *, gaps: bool = True
) -> dict[str, Counter[str]]:
    basis = broker_settings.settings_from(None, "2.4", 60_000, 5000)._replace(rules=SETS[author])
    options = TableOptions(scenarios, 300_000, 10_000, gaps=gaps, plan=True, idle_ms=1000)
    analysis = Analysis(LocalEngine(1), find_inputs([str(folder)]).files, basis, None, options)
    found = {name: Counter(map(str, analysis.rows(name))) for name in analysis.names()}
    found["decisions"] = Counter(map(str, analysis.decisions()))
    found["summary"] = Counter(map(str, summary(analysis).items()))
    return found


@pytest.mark.parametrize("author", SETS)
def test_the_tables_are_the_same(
    author: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path, 7, kip_848=SETS[author].new_coordinator, groups_in_all=16, plain=8)
    scenarios = some_scenarios(author)
    expected = tables(tmp_path, author, scenarios)
    assert expected["losses"].total() > 300
    monkeypatch.setattr(buckets, "ROWS", 100)
    monkeypatch.setattr(arrays, "SLAB", 7)
    monkeypatch.setattr(blobs, "IN_MEMORY_BYTES", 1000)
    found = tables(tmp_path, author, scenarios)
    for name, rows in expected.items():
        assert found[name] == rows, name


def test_committed_offsets_have_tables_of_some_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group of 2 M offsets took 330 MB more with all of them in one."""
    write_log(tmp_path, 7, kip_848=False, groups_in_all=16, plain=8)
    sizes, whole = [], live.table

    def table(folded: Any, found: live.LiveOffsets) -> Any:
        sizes.append(len(found.key))
        return whole(folded, found)

    monkeypatch.setattr(live, "table", table)
    monkeypatch.setattr(arrays, "SLAB", 7)
    basis = broker_settings.settings_from(None, "2.4", 60_000, 5000)
    analysis = Analysis(LocalEngine(1), find_inputs([str(tmp_path)]).files, basis, None)
    rows = [*analysis.rows("live")]
    assert len(rows) == sum(sizes) > max(sizes) == 7


def test_a_group_with_more_records_of_its_own_than_offsets(tmp_path: Path) -> None:
    """Was: an IndexError, where somebody has deleted the group."""
    key = struct.pack(">h", 2) + encode(record_types()[2].key(group="g"), 0)
    value = b"\0\3" + encode(GroupMetadataValue(protocol_type="consumer", generation=1), 3)
    raws = [Raw(key, value, at) for at in range(1000, 1030)]
    raws.append(Raw(offset_key("g"), offset_value(7, 2000), 2000))
    deleted = [Raw(offset_key("g"), None, 3000), Raw(key, None, 3000)]  # in one batch
    segment(tmp_path, batch(0, raws) + batch(len(raws), deleted))
    found = tables(tmp_path, "2.4")
    assert found["gaps"].total() == 0  # nobody commits twice
    assert found["partitions"].total() == 1
