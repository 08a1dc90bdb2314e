"""What-if: Spark removes and leaves what the simulation does, on random logs, in every scenario."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kgtool.analysis.decode.blobs import unpack
from kgtool.analysis.fold.arrays import NONE
from kgtool.analysis.fold.folded_log import FoldedLog
from kgtool.analysis.fold.removals import explain_removals
from kgtool.analysis.fold.whatif.offset_intervals import intervals_by_scenario
from kgtool.analysis.fold.whatif.replay import OFFSET, TOMBSTONE
from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.broker_settings import Scenario
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis, TableOptions
from kgtool.retention.rules import RULE_SETS
from tests.analysis.replayed import play
from tests.retention.counterfactual import without_expiry
from tests.retention.simulation import Removed, simulate
from tests.spark.test_random_logs import RETENTION_MS, START_MS, write_log
from tests.support.tables import Make, rows_of

pytestmark = pytest.mark.spark
HORIZON_MS = 300_000
SCENARIOS = tuple(
    Scenario(RULE_SETS[name], retention, interval)
    for name, retention, interval in (
        ("pre-2.1", 60_000, 5_000),
        ("2.1", 150_000, 7_000),
        ("2.4", 20_000, 5_000),
        ("3.7-new", 60_000, 5_000),
        ("3.8-new", 60_000, 7_000),
        ("4.1", 60_000, 5_000),
        ("4.1", 400_000, 5_000),
    )
)


class Played(NamedTuple):
    """A life, with names."""

    scenario: int
    role: int
    group: str
    topic: str | None
    partition: int | None
    from_ms: int
    until_ms: int | None
    expired: bool
    offset: int


def played(analysis: Analysis) -> Iterator[Played]:
    """Everything that the fold plays."""
    local = LocalEngine()
    local.read(analysis.files, analysis.options.decode_options(5000))
    for partition, blobs in local._blobs.items():
        folded = FoldedLog(partition, unpack(blobs), analysis.plan)
        groups = folded.log.groups.to_pylist()
        for number, found in enumerate(intervals_by_scenario(folded, explain_removals(folded))):
            columns = folded.key_columns(found.key)
            for at, key in enumerate(found.key.tolist()):
                until = int(found.until_ms[at])
                yield Played(
                    number,
                    int(found.role[at]),
                    groups[found.group[at]],
                    columns["topic"][at].as_py(),
                    None if key < 0 else int(columns["partition"][at]),
                    int(found.from_ms[at]),
                    None if until == NONE else until,
                    bool(found.expired[at]),
                    int(found.offset[at]),
                )


@pytest.mark.parametrize("written_by", ["2.4", "4.1"])
def test_spark_removes_what_the_simulation_does(
    engine: Make, tmp_path: Path, written_by: str
) -> None:
    author = RULE_SETS[written_by]
    entries = write_log(tmp_path, 11, kip_848=author.new_coordinator, groups_in_all=45)
    basis = broker_settings.settings_from(None, written_by, RETENTION_MS, 5000)
    options = TableOptions(SCENARIOS, HORIZON_MS)
    analysis = Analysis(engine(), find_inputs([str(tmp_path)]).files, basis, None, options)
    found_lives = list(played(analysis))
    end = analysis.end_ms
    assert end == max(entry.timestamp_ms for entry in entries)
    rows = {(row.rules, row.retention_ms): row for row in rows_of(analysis, "whatif")}
    lost = Counter((row.rules, row.retention_ms) for row in rows_of(analysis, "losses"))
    partitions = {
        number: without_expiry(
            [e for e in entries if e.partition == number], author, RETENTION_MS, 5000
        )
        for number in {entry.partition for entry in entries}
    }
    for number, scenario in enumerate(SCENARIOS):
        start = START_MS // scenario.interval_ms * scenario.interval_ms
        expected: list[Removed] = []
        left: list[tuple[Any, ...]] = []
        for events in partitions.values():
            expected += simulate(events, *scenario, end + HORIZON_MS, start)
            left += [
                (group, *life.key, life.from_ms, life.offset)
                for group, life in play(events, scenario, end)
                if life.key is not None and life.until_ms is None
            ]
        found = Counter(
            Removed(row.until_ms, row.group, row.topic, row.partition)
            for row in found_lives
            if row.scenario == number
            and (row.role == TOMBSTONE or (row.role == OFFSET and row.expired))
        )
        assert found == Counter(expected), scenario
        row = rows[scenario.rules.name, scenario.retention_ms]
        offsets = [each for each in expected if each.topic is not None]
        assert row.removed_offsets == sum(each.at_ms <= end for each in offsets)
        assert row.next_offsets == sum(each.at_ms > end for each in offsets)
        assert row.removed_groups == sum(
            each.at_ms <= end for each in expected if each.topic is None
        )
        assert lost[scenario.rules.name, scenario.retention_ms] == len(offsets)
        assert row.live_offsets == len(left) == row.days[-1].live_offsets
        assert row.live_groups == len({each[0] for each in left}) == row.days[-1].live_groups
        assert sum(day.removed_offsets for day in row.days) == row.removed_offsets > 50
        there = {
            (row.group, row.topic, row.partition, row.from_ms, row.offset)
            for row in found_lives
            if row.scenario == number
            and row.role == OFFSET
            and row.from_ms <= end
            and (row.until_ms is None or row.until_ms > end)
        }
        assert {each[:3] + each[4:] for each in there} == {each[:3] + each[4:] for each in left}
