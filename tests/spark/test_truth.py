"""Held to what real brokers did, and to the replay in plain Python, row by row."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.pipeline import Analysis
from kgtool.retention.audit import audit
from kgtool.retention.history import History, read_entry
from kgtool.retention.rules import RULE_SETS
from tests.retention.truth import INTERVAL_MS, RETENTION_MS, RULES, raw, truth
from tests.support.tables import Make, rows_of, shown

pytestmark = pytest.mark.spark
DATA = Path(__file__).parents[1] / "data" / "retention-truth"
CAUSES = {
    "expired": "expired",
    "empty": "group-empty",
    "converted_or_other": "converted",
    "offset_delete": "explicit",
    "delete_groups": "explicit",
    "topic_deleted": "explicit",
}


class Tables(NamedTuple):
    run: str
    live: list[Any]
    removals: list[Any]
    quality: list[Any]


@pytest.fixture(scope="module", params=RULES)
def tables(request: pytest.FixtureRequest, engine: Make) -> Tables:
    run = request.param
    found = find_inputs([str(DATA / run)])
    basis = broker_settings.settings_from(None, RULES[run], RETENTION_MS, INTERVAL_MS)
    analysis = Analysis(engine(), found.files, basis)
    return Tables(run, *[rows_of(analysis, name) for name in ("live", "removals", "quality")])


def test_every_removal_after_the_restart_has_its_cause(tables: Tables) -> None:
    recorded = truth(tables.run)
    expected = Counter(
        (row["group"], row.get("topic"), row.get("tp"), row["ts"], CAUSES[row["cause"]])
        for row in recorded.tombstones
    )
    found = Counter(
        (row.group, row.topic, row.partition, row.removed_at_ms, row.cause)
        for row in tables.removals
        if row.removed_at_ms >= recorded.restart_ms
    )
    assert len(expected) > 90
    assert found == expected


def test_every_offset_was_due_when_the_recorded_run_says(tables: Tables) -> None:
    recorded = truth(tables.run)
    expected = {
        (row["group"], row["topic"], row["tp"], row["ts"]): (row["eligibleAt"], row["latencyMs"])
        for row in recorded.tombstones
        if row.get("eligibleAt") is not None
    }
    found = {
        (row.group, row.topic, row.partition, row.removed_at_ms): (
            row.expires_at_ms,
            row.latency_ms,
        )
        for row in tables.removals
    }
    assert len(expected) > 80
    assert {key: found[key] for key in expected} == expected


def test_removals_and_live_offsets_are_those_of_the_replay(tables: Tables) -> None:
    rules = RULE_SETS[RULES[tables.run]]
    entries = [
        read_entry(
            row["partition"],
            row["offset"],
            row["timestamp"],
            raw(row, "key"),
            raw(row, "value"),
            producer_id=row["producerId"],
            transactional=row["transactional"],
            is_control=row["control"],
            base_offset=row["baseOffset"],
            leader_epoch=row["leaderEpoch"],
        )
        for row in truth(tables.run).records
    ]
    expected = Counter(map(shown, audit(entries, rules, RETENTION_MS, INTERVAL_MS)))
    assert Counter(map(tuple, tables.removals)) == expected
    history = History(rules, RETENTION_MS)
    for entry in sorted(entries, key=lambda entry: (entry.partition, entry.offset)):
        history.feed(entry)
    assert {
        (r.group, r.topic, r.partition, r.offset, r.rule, r.expires_at_ms, r.pending_transaction)
        for r in tables.live
    } == {
        (
            *each.key,
            each.stored.value.offset,
            each.verdict.rule,
            each.expires_at_ms,
            each.is_pending,
        )
        for each in history.live()
    }


def test_quality_counts_every_record(tables: Tables) -> None:
    records = truth(tables.run).records
    by_partition = Counter(row["partition"] for row in records)
    assert {row.partition: row.records for row in tables.quality} == by_partition
    assert all(row.decoded + row.skipped == row.records for row in tables.quality)
    reasons = {problem.reason for row in tables.quality for problem in row.problems}
    assert reasons == {"unknown key type 99"}
    assert not any(row.damaged for row in tables.quality)
