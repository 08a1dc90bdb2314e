"""Tables held to what real brokers did, by an independent decoder's reading of their logs."""

from __future__ import annotations

import base64
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.pipeline import Analysis, TableOptions
from kgtool.analysis.tables.totals import growth
from tests.retention.truth import INTERVAL_MS, RETENTION_MS, RULES, Truth, truth
from tests.support.tables import Make, rows_of

pytestmark = pytest.mark.spark
DATA = Path(__file__).parents[1] / "data" / "retention-truth"
BUCKET_MS = 10_000
LOADED_BY_NONE = 3
"""The partition that 2.0.1 could not load, for an unknown key type."""


@pytest.fixture(scope="module", params=RULES)
def run(request: pytest.FixtureRequest, engine: Make) -> tuple[str, Analysis, Truth]:
    name = request.param
    found = find_inputs([str(DATA / name / "segments")])
    basis = broker_settings.settings_from(None, RULES[name], RETENTION_MS, INTERVAL_MS)
    recorded = truth(name)
    # The broker ran on after its last record, so everything due until then has to be gone.
    options = TableOptions(bucket_ms=BUCKET_MS)
    return name, Analysis(engine(), found.files, basis, recorded.stop_ms, options), recorded


def test_nothing_is_overdue_but_where_the_broker_could_not_load(
    run: tuple[str, Analysis, Truth],
) -> None:
    name, analysis, recorded = run
    rows = rows_of(analysis, "overdue")
    assert {row.log_partition for row in rows} == ({LOADED_BY_NONE} if name == "2.0.1" else set())
    if name == "2.0.1":
        offsets = [row for row in rows if row.topic is not None]
        assert len(offsets) == 5  # facts, section 4
        assert all(
            row.overdue_ms == recorded.stop_ms - row.expires_at_ms - INTERVAL_MS for row in offsets
        )
        assert {row.group for row in offsets} == {"inj-emptyproto", "inj-gm1-empty"}


def test_metrics_count_what_the_log_shows(run: tuple[str, Analysis, Truth]) -> None:
    name, analysis, recorded = run
    rows = rows_of(analysis, "metrics")
    commits = Counter(
        row["timestamp"] // BUCKET_MS
        for row in recorded.records
        if not row["control"] and row["value"] is not None and key_type(row) in (0, 1)
    )
    found = {row.bucket_start_ms // BUCKET_MS: row.offset_commits for row in rows}
    assert {bucket: count for bucket, count in found.items() if count} == commits
    assert {row.bucket_ms for row in rows} == {BUCKET_MS}
    causes = Counter(row["cause"] for row in recorded.tombstones)
    assert sum(row.offset_expirations for row in rows) == causes["expired"]
    # OffsetDelete alone counts: not DeleteGroups, not the deleted topic.
    assert sum(row.offset_deletions for row in rows) == causes["offset_delete"]
    assert causes["offset_delete"] == (0 if name == "2.0.1" else 1)
    assert causes["delete_groups"] and causes["topic_deleted"]


def test_rebalances_are_new_generations_with_members(run: tuple[str, Analysis, Truth]) -> None:
    _, analysis, recorded = run
    generations: dict[str, int] = {}
    expected: Counter[str] = Counter()
    for row in sorted(recorded.records, key=lambda row: (row["partition"], row["offset"])):
        if row["control"] or key_type(row) != 2 or row["value"] is None:
            continue
        value, group = row["decoded"]["value"], group_of(row)
        if value["members"] and generations.get(group) != value["generation"]:
            expected[group] += 1
        generations[group] = value["generation"]
    rows = {row.group: row for row in rows_of(analysis, "groups")}
    assert {name: row.rebalances for name, row in rows.items() if row.rebalances} == expected
    assert sum(expected.values()) == sum(
        row.group_completed_rebalances for row in rows_of(analysis, "metrics")
    )


def test_groups_are_all_there_with_their_commits_and_their_size(
    run: tuple[str, Analysis, Truth],
) -> None:
    _, analysis, recorded = run
    rows = {row.group: row for row in rows_of(analysis, "groups")}
    mine = [row for row in recorded.records if not row["control"]]
    commits = Counter(
        group_of(row) for row in mine if key_type(row) in (0, 1) and row["value"] is not None
    )
    assert {name: row.commits for name, row in rows.items() if row.commits} == commits
    seen: dict[str, list[int]] = {}
    for row in mine:
        if key_type(row) in (0, 1, 2, 3, 5, 8, 16) and row["value"] is not None:
            seen.setdefault(group_of(row), []).append(row["timestamp"])
    for name, times in seen.items():
        assert (rows[name].first_seen_ms, rows[name].last_seen_ms) == (min(times), max(times))
    live = Counter(row.group for row in rows_of(analysis, "live"))
    assert {name: row.live_offsets for name, row in rows.items() if row.live_offsets} == live
    states = {row.group: row.group_state for row in rows_of(analysis, "live")}
    assert all(rows[name].group_state == (state or "Dead") for name, state in states.items())
    assert all(rows[name].bytes > 20 for name in live)


def test_growth_ends_with_what_is_live(run: tuple[str, Analysis, Truth]) -> None:
    _, analysis, recorded = run
    curve = growth(analysis.small("growth"), recorded.stop_ms)
    live = rows_of(analysis, "live")
    assert curve[0]["offsets"] == curve[0]["groups"] == 0
    assert curve[-1] == {
        "at_ms": recorded.stop_ms,
        "offsets": len(live),
        "groups": len({r.group for r in live}),
    }
    assert max(point["offsets"] for point in curve) > len(live)
    assert all(a["at_ms"] < b["at_ms"] for a, b in zip(curve, curve[1:], strict=False))


def key_type(row: dict[str, Any]) -> int:
    number: int = row["decoded"]["keyVersion"]
    return number


def group_of(row: dict[str, Any]) -> str:
    """Every key is its type, an int16, and then the group with its length, another."""
    key = base64.b64decode(row["key"])
    return key[4 : 4 + int.from_bytes(key[2:4], "big")].decode()
