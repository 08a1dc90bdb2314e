"""What-if, losses and --fail-on as a user runs them, on a log whose answers are worked out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.analysis import writer
from tests.analysis.writer import Raw
from tests.cli.run import call
from tests.spark.test_analyze_command import HOUR_MS, NOW_MS, Analyze, rows_of

pytestmark = pytest.mark.spark
DAY_MS = 24 * HOUR_MS
NOW = NOW_MS - NOW_MS % DAY_MS + 12 * HOUR_MS
"""Noon, so that the days of the log are days."""


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster that keeps offsets for ten days, three groups, their commits days before NOW.

    ``steady`` commits every day; ``weekly`` has a pause of five days; ``gone`` stopped eight days
    ago. The log of the topic reaches to 1000 and starts at 100.
    """
    commits = sorted(
        [(day, "steady", 990 - day) for day in range(9, -1, -1)]
        + [(9, "weekly", 200), (8, "weekly", 300), (3, "weekly", 400), (2, "weekly", 450)]
        + [(8, "gone", 50)],
        reverse=True,
    )
    data = b"".join(
        writer.batch(
            at,
            [
                Raw(
                    writer.offset_key(group),
                    writer.offset_value(offset, NOW - day * DAY_MS),
                    NOW - day * DAY_MS,
                )
            ],
        )
        for at, (day, group, offset) in enumerate(commits)
    )
    folder = tmp_path_factory.mktemp("export")
    writer.segment(folder / "segments", data, partition=7)
    ends = {"partition": 0, "log_start_offset": 100, "log_end_offset": 1000}
    manifest = {
        "kgtool_export": 1,
        "cluster_id": "abc",
        "taken_at_ms": NOW,
        "brokers": [{"id": 1, "host": "h", "port": 1, "version": "4.3"}],
        "coordinator": "new",
        "configs": {
            "offsets.retention.minutes": str(10 * 1440),
            "offsets.retention.check.interval.ms": str(HOUR_MS),
        },
        "topics": [{"name": "t", "topic_id": None, "partitions": [ends]}],
    }
    (folder / "cluster.json").write_text(json.dumps(manifest))
    return folder


def scenarios(rows: list[dict[str, Any]], *names: str) -> dict[int, tuple[Any, ...]]:
    return {row["retention_ms"] // DAY_MS: tuple(row[name] for name in names) for row in rows}


def test_every_retention_has_its_row_and_the_basis_is_the_clusters(
    analyze: Analyze, export: Path
) -> None:
    result = analyze(
        export,
        "--retention",
        "10d",
        "--retention",
        "7d",
        "--retention",
        "3d",
        "--retention",
        "1h",
        "--table",
        "whatif",
        "-o",
        "json",
        "--horizon",
        "5d",
    )
    assert result.status == 0, result.err
    rows = rows_of(result)
    assert [row["check_interval_ms"] for row in rows] == [HOUR_MS] * 4
    assert scenarios(
        rows,
        "removed_offsets",
        "missed_offsets",
        "removed_groups",
        "live_offsets",
        "live_groups",
        "next_offsets",
    ) == {
        10: (0, 0, 0, 3, 3, 1),
        7: (1, 0, 1, 2, 2, 1),
        3: (2, 1, 2, 2, 2, 2),
        0: (14, 12, 14, 1, 1, 1),
    }
    days = {
        (day["day_ms"] - NOW) // DAY_MS + 1: (day["removed_offsets"], day["live_offsets"])
        for day in next(row for row in rows if row["retention_ms"] == 3 * DAY_MS)["days"]
    }
    # Removed three days after the commit; weekly comes back two days later.
    assert days == {
        -9: (0, 2),
        -8: (0, 3),
        -7: (0, 3),
        -6: (0, 3),
        -5: (2, 1),
        -4: (0, 1),
        -3: (0, 2),
        -2: (0, 2),
        -1: (0, 2),
        0: (0, 2),
    }


def test_losses_say_who_and_what_a_reset_costs(analyze: Analyze, export: Path) -> None:
    result = analyze(
        export,
        "--retention",
        "10d",
        "--retention",
        "3d",
        "--table",
        "losses",
        "-o",
        "ndjson",
        "--horizon",
        "2d",
    )
    assert result.status == 0, result.err
    rows = [json.loads(line) for line in result.out.splitlines()]
    found = {
        (row["retention_ms"] // DAY_MS, row["group"], (row["lost_at_ms"] - NOW) / DAY_MS): (
            row["offset"],
            row["ahead"],
            row["committed_again_ms"],
            row["lag"],
            row["replayed_records"],
            row["skipped_records"],
        )
        for row in rows
    }
    assert found == {
        # A reset goes to the log's start or end: what lies before the start can't be read again.
        (10, "gone", 2.0): (50, True, None, 950, 0, 950),
        (3, "gone", -5.0): (50, False, None, None, None, None),
        (3, "weekly", -5.0): (300, False, NOW - 3 * DAY_MS, None, None, None),
        (3, "weekly", 1.0): (450, True, None, 550, 350, 550),
    }
    assert {row["rule"] for row in rows} == {"commit"}


def test_fail_on_ends_with_5_and_says_how_many(analyze: Analyze, export: Path) -> None:
    result = analyze(
        export,
        "--retention",
        "10d",
        "--retention",
        "3d",
        "--fail-on",
        "losses",
        "--fail-on",
        "expiring-within=48h",
        "--fail-on",
        "overdue",
    )
    assert result.status == 5
    assert result.err.splitlines() == [
        "--fail-on losses: 1 would have been missed: removed, and committed again later "
        "(--table losses)",
        "--fail-on expiring-within=2d: 1 may expire within that time (--table live)",
    ]
    lines = result.out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("What if"))
    assert [line.split() for line in lines[at + 2 : at + 4]] == [
        ["4.1,", "10d,", "1h", "0", "0", "0", "3", "3"],
        ["4.1,", "3d,", "1h", "2", "1", "2", "2", "2"],
    ]
    # By 3 days, weekly's offset of day 8 would have been gone for long: the broker keeps 10 days.
    quiet = analyze(export, "--fail-on", "overdue", "-o", "json", "--wrote", "3d")
    assert quiet.status == 5
    assert rows_of(quiet)[0]["overdue"] == 1 and rows_of(quiet)[0]["whatif"] == []


def test_too_many_scenarios_are_refused(export: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = [f"--retention={number}d" for number in range(1, 12)]
    result = call(
        capsys,
        "analyze",
        str(export),
        *many,
        *[f"--rules={name}" for name in ("pre-2.1", "2.1", "2.4", "3.7-new", "3.8-new", "4.1")],
    )
    assert result.status == 2
    assert "make 66 scenarios" in result.err and result.err.count("\n") == 1
