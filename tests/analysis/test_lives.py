"""A what-if in arrays: the same lives, row for row, as the replay of every group."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kgtool.analysis.decode.blobs import Kinds, unpack
from kgtool.analysis.fold.folded_log import FoldedLog, FoldPlan
from kgtool.analysis.fold.removals import explain_removals
from kgtool.analysis.fold.whatif import client_events, offset_intervals
from kgtool.analysis.fold.whatif.coupled_groups import ClientHistory, OffsetIntervals, replay_groups
from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.broker_settings import Scenario
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis, TableOptions
from kgtool.analysis.tables import removals
from kgtool.protocol.plan import encode
from kgtool.records import Record, control
from kgtool.retention.audit import audit
from kgtool.retention.history import Entry
from kgtool.retention.rules import RULE_SETS, RULES_2_1_X, RuleSet
from tests.analysis.writer import CONTROL, TRANSACTIONAL, Raw, batch
from tests.retention.lives import ALL_TYPES, Life
from tests.spark.test_random_logs import write_log

SETS = {**RULE_SETS, "2.1.x": RULES_2_1_X}
SCENARIOS = tuple(
    Scenario(rules, retention_ms, interval_ms)
    for rules in SETS.values()
    for retention_ms, interval_ms in ((1_000, 700), (60_000, 31_000), (150_000, 5_000))
)


def some_scenarios(author: str) -> tuple[Scenario, ...]:
    """A third of the rules, and other ones for the next author: each has some of every kind.

    That rules are applied as they are is told by ``check``, with all of them.
    """
    number = list(SETS).index(author)
    names = [name for at, name in enumerate(SETS) if (at + number) % 3 == 0]
    return tuple(each for each in SCENARIOS if each.rules in [SETS[name] for name in names])


def partitions(
    folder: Path, author: RuleSet, scenarios: tuple[Scenario, ...] = ()
) -> Iterator[tuple[int, Kinds, FoldPlan]]:
    """What was decoded of each partition of the log."""
    basis = broker_settings.settings_from(None, "2.4", 60_000, 5000)._replace(rules=author)
    options = TableOptions(scenarios or SCENARIOS, 300_000)
    local = LocalEngine(1)
    analysis = Analysis(local, find_inputs([str(folder)]).files, basis, None, options)
    plan = analysis.plan
    for partition, blobs in local._blobs.items():
        yield partition, unpack(blobs), plan


def scenes(folder: Path, author: RuleSet) -> Iterator[FoldedLog]:
    """What each partition of the log is folded from."""
    return (FoldedLog(*found) for found in partitions(folder, author))


def rows(found: OffsetIntervals) -> Counter[tuple[int, ...]]:
    return Counter(zip(*(column.tolist() for column in found), strict=True))


def check(folded: FoldedLog, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """(rows of groups that were not replayed, rows in all); they are the same either way."""
    gone, replayed = explain_removals(folded), []

    def noted(
        history: ClientHistory, scenario: Scenario, groups: offset_intervals.Bools
    ) -> OffsetIntervals:
        replayed.append((scenario, groups))
        return replay_groups(history, scenario, groups)

    monkeypatch.setattr(offset_intervals, "replay_groups", noted)
    found = list(offset_intervals.intervals_by_scenario(folded, gone))
    # Every transaction as one that a check may find open: as it is in the log.
    monkeypatch.setattr(
        client_events, "_replace_short_transactions", lambda _, events, intervals: events
    )
    history = offset_intervals.build_history(folded, gone, SCENARIOS)
    monkeypatch.undo()
    of_arrays = total = 0
    everybody = np.ones(folded.log.size, dtype=np.bool_)
    for scenario, one in zip(SCENARIOS, found, strict=True):
        expected = rows(replay_groups(history, scenario, everybody))
        assert rows(one) == expected, scenario
        again = next((groups for which, groups in replayed if which == scenario), ~everybody)
        of_arrays += int((~again[one.group]).sum())
        total += expected.total()
    return of_arrays, total


@pytest.mark.parametrize("author", SETS)
def test_dense_logs(author: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits with odd times, several records a batch, groups that end and change their type."""
    rules = SETS[author]
    write_log(tmp_path, 23, kip_848=rules.new_coordinator, groups_in_all=18, plain=9)
    counts = np.sum([check(folded, monkeypatch) for folded in scenes(tmp_path, rules)], axis=0)
    assert counts[0] > counts[1] // 5 > 300, counts


@pytest.mark.parametrize("pause_ms", [500, 8_000, 40_000])
@pytest.mark.parametrize("author", ["2.4", "3.8-new", "4.1"])
def test_logs_of_all_types(
    author: str, pause_ms: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Share and streams groups too; clocks of different brokers that differ a little."""
    rules, rng = SETS[author], random.Random(f"{author} {pause_ms}")
    types = ALL_TYPES if rules.new_coordinator else ("classic",)
    for partition in range(6):
        life = Life(rng, types=types, groups=3)
        entries = life.run(rng.randint(20, 70), pause_ms).entries
        write(tmp_path / f"__consumer_offsets-{partition}", entries, rng.choice([0, 0, 400]), rng)
    counts = np.sum([check(folded, monkeypatch) for folded in scenes(tmp_path, rules)], axis=0)
    assert counts[0] > 50, counts


@pytest.mark.parametrize("author", ["2.4", "3.8-new", "4.1"])
def test_what_was_removed(author: str, tmp_path: Path) -> None:
    """The table has the offset, its commit time and its rule as the audit finds them."""
    rules, expected, found = SETS[author], [], []
    types = ALL_TYPES if rules.new_coordinator else ("classic",)
    for partition in range(6):
        rng = random.Random(f"removed {author} {partition}")
        entries = Life(rng, types=types, groups=3).run(60, 12_000).entries
        entries = [entry._replace(partition=partition) for entry in entries]
        write(tmp_path / f"__consumer_offsets-{partition}", entries, 0, rng)
        for row in audit(entries, rules, 60_000):
            known = row.offset, row.commit_timestamp_ms, row.rule
            expected.append((row.group, row.topic, row.partition, row.removed_at_ms, *known))
    for folded in scenes(tmp_path, rules):
        columns = [
            "group",
            "topic",
            "partition",
            "removed_at_ms",
            "offset",
            "commit_timestamp_ms",
            "rule",
        ]
        table = removals.table(folded, explain_removals(folded)).select(columns)
        found += [tuple(row.values()) for row in table.to_pylist()]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert len({row[-1] for row in found}) > 3


def write(folder: Path, entries: list[Entry], jitter_ms: int, rng: random.Random) -> None:
    """A segment of these, a batch each."""
    folder.mkdir()
    data = b""
    for entry in entries:
        record, is_marker = entry.record, isinstance(entry.record, control.Marker)
        if isinstance(record, Record):
            key = struct.pack(">h", record.type) + encode(record.key, 0)
            value = None
            if record.value is not None:
                assert record.version is not None
                value = struct.pack(">h", record.version) + encode(record.value, record.version)
        else:
            assert isinstance(record, control.Marker)
            key, value = struct.pack(">hh", 0, record.type), bytes(6)
        raw = Raw(key, value, entry.timestamp_ms - rng.randint(0, jitter_ms))
        attributes = CONTROL * is_marker + TRANSACTIONAL * (is_marker or entry.transactional)
        data += batch(entry.offset, [raw], attributes=attributes, producer_id=entry.producer_id)
    (folder / f"{0:020}.log").write_bytes(data)
