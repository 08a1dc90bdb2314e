"""Every table on a log of three weeks that is small enough to work all of it out by hand.

A 4.1 broker with a retention of seven days and a check every hour wrote it; its own removals are in
it. Days count back from NOW, a noon: ``day(2)`` is two days ago.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.broker_settings import Scenario
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.pipeline import Analysis, TableOptions
from kgtool.retention.history import Entry
from kgtool.retention.rules import RULE_SETS
from tests.analysis.writer import Raw, batch, segment
from tests.retention.logs import Log
from tests.support.tables import Make, rows_of

pytestmark = pytest.mark.spark
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOW = 20_000 * DAY_MS + DAY_MS // 2
HORIZON_DAYS = 30
LATE_MS = 2_500
"""From when an offset is due to its tombstone, wherever it is due at a check."""
MANIFEST = {
    "taken_at_ms": NOW,
    "brokers": [{"id": 1, "host": "h", "port": 1, "version": "4.1"}],
    "coordinator": "new",
    "configs": {
        "offsets.retention.minutes": str(7 * 1440),
        "offsets.retention.check.interval.ms": str(HOUR_MS),
    },
    "topics": [
        {
            "name": "t",
            "partitions": [{"partition": 0, "log_start_offset": 40, "log_end_offset": 100}],
        }
    ],
}


def day(days: float) -> int:
    return NOW - round(days * DAY_MS)


class Recorded(Log):
    """Keeps the bytes, too."""

    def __init__(self) -> None:
        super().__init__()
        self.raws: list[Raw] = []

    def _add(
        self,
        at_ms: int,
        key: bytes,
        value: bytes | None,
        *,
        pid: int = -1,
        base: int | None = None,
        is_control: bool = False,
    ) -> Entry:
        self.raws.append(Raw(key, value, at_ms))
        return super()._add(at_ms, key, value, pid=pid, base=base, is_control=is_control)


def write(folder: Path) -> None:
    """The log, in the order in which it happened."""
    log = Recorded()
    events: list[tuple[int, Callable[[int], Any]]] = []

    def at(when: int, event: Callable[..., Any], *arguments: Any, **fields: Any) -> None:
        events.append((when, lambda now: event(now, *arguments, **fields)))

    # living: a member that reads t; its offset of t2 is nobody's.
    at(day(20), log.classic, [["t"]], cst=day(20), group="living")
    at(day(20), log.commit, "t", group="living", offset=60)
    at(day(20), log.commit, "t2", group="living")
    at(day(13) + LATE_MS, log.forget, "t2", group="living")
    # Two nightly jobs that ended, each two days after its only commit.
    for name in ("nightly-1001", "nightly-1002"):
        at(day(12), log.classic, [["t"]], cst=day(12), group=name)
        at(day(12), log.commit, "t", group=name)
        at(day(10), log.classic, [], cst=day(10), generation=2, group=name)
        at(day(3) + LATE_MS, log.forget, "t", group=name)
        at(day(3) + LATE_MS, log.end_group, group=name)
    # A KIP-848 group whose last member leaves between two checks.
    at(day(18), log.member, "m", ["t"], group="orders-848")
    at(day(15), log.commit, "t", group="orders-848")
    at(day(2) + HOUR_MS // 2, log.member, "m", None, group="orders-848")
    at(day(2) + HOUR_MS, log.forget, "t", group="orders-848")
    at(day(2) + HOUR_MS, log.end_group, 3, group="orders-848")
    # Three of a kind; and one that came back after ten days.
    for age, number in ((6, 11111), (5, 22222), (4, 33333)):
        at(day(age), log.commit, "t", group=f"console-consumer-{number}", offset=60)
    at(day(16), log.commit, "t", group="paused", offset=10)
    at(day(9) + LATE_MS, log.forget, "t", group="paused")
    at(day(9) + LATE_MS, log.end_group, group="paused")
    at(day(6), log.commit, "t", group="paused", offset=20)
    # What the broker forgot to remove.
    at(day(8), log.commit, "t", group="late")
    # By hand: OffsetDelete, DeleteGroups, a topic.
    at(day(5), log.classic, [["t2"]], cst=day(5), group="cleared")
    at(day(4), log.commit, "t", group="cleared")
    at(day(3) + 1000, log.forget, "t", group="cleared")
    for number in (0, 1):
        at(day(4), log.commit, "t", number, group="dropped")
        at(day(3) + 2000, log.forget, "t", number, group="dropped")
    at(day(3) + 2000, log.end_group, group="dropped")
    for name in ("living", "cleared"):
        at(day(4), log.commit, "doomed", group=name)
        at(day(2), log.forget, "doomed", group=name)
    for when, event in sorted(events, key=lambda each: each[0]):
        event(when)
    data = b"".join(batch(offset, [raw]) for offset, raw in enumerate(log.raws))
    segment(folder, data)


AS_IT_WAS = ("4.1", 7, 1)
SCENARIOS = {
    AS_IT_WAS: {
        ("living", "t2"): [13],
        ("nightly-1001", "t"): [3],
        ("nightly-1002", "t"): [3],
        ("orders-848", "t"): [2 - 1 / 24],
        ("console-consumer-11111", "t"): [-1],
        ("console-consumer-22222", "t"): [-2],
        ("console-consumer-33333", "t"): [-3],
        ("paused", "t"): [9, -1],
        ("late", "t"): [1],
    },
    ("4.1", 3, 1): {
        ("living", "t2"): [17],
        ("nightly-1001", "t"): [7],
        ("nightly-1002", "t"): [7],
        ("orders-848", "t"): [2 - 1 / 24],
        ("console-consumer-11111", "t"): [3],
        ("console-consumer-22222", "t"): [2],
        ("console-consumer-33333", "t"): [1],
        ("paused", "t"): [13, 3],
        ("late", "t"): [5],
    },
    # A check a day comes at midnight, twelve hours after the noons.
    ("4.1", 7, 24): {
        ("living", "t2"): [12.5],
        ("nightly-1001", "t"): [2.5],
        ("nightly-1002", "t"): [2.5],
        ("orders-848", "t"): [1.5],
        ("console-consumer-11111", "t"): [-1.5],
        ("console-consumer-22222", "t"): [-2.5],
        ("console-consumer-33333", "t"): [-3.5],
        ("paused", "t"): [8.5, -1.5],
        ("late", "t"): [0.5],
    },
    # Up to 2.0 it is the commit that counts, whoever is there; "older than", not "as old as".
    ("pre-2.1", 7, 1): {
        ("living", "t"): [13 - 1 / 24],
        ("living", "t2"): [13 - 1 / 24],
        ("nightly-1001", "t"): [5 - 1 / 24],
        ("nightly-1002", "t"): [5 - 1 / 24],
        ("orders-848", "t"): [8 - 1 / 24],
        ("console-consumer-11111", "t"): [-1 - 1 / 24],
        ("console-consumer-22222", "t"): [-2 - 1 / 24],
        ("console-consumer-33333", "t"): [-3 - 1 / 24],
        ("paused", "t"): [9 - 1 / 24, -1 - 1 / 24],
        ("late", "t"): [1 - 1 / 24],
    },
    # KIP-211: a group with members keeps all it has. (It does not see the KIP-848 group at all.)
    ("2.1", 7, 1): {
        ("nightly-1001", "t"): [3],
        ("nightly-1002", "t"): [3],
        ("orders-848", "t"): [8],
        ("console-consumer-11111", "t"): [-1],
        ("console-consumer-22222", "t"): [-2],
        ("console-consumer-33333", "t"): [-3],
        ("paused", "t"): [9, -1],
        ("late", "t"): [1],
    },
}
"""What each loses and when, in days before NOW."""
Key = tuple[str, int, int]
Tables = dict[str, list[Any]]


@pytest.fixture(scope="module")
def tables(engine: Make, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    folder = tmp_path_factory.mktemp("log")
    write(folder)
    basis = broker_settings.settings_from(MANIFEST, "auto", None, None)
    assert (basis.rules.name, basis.assumed) == ("4.1", [])
    scenarios = tuple(
        Scenario(RULE_SETS[rules], retention * DAY_MS, interval * HOUR_MS)
        for rules, retention, interval in SCENARIOS
    )
    options = TableOptions(scenarios, HORIZON_DAYS * DAY_MS, DAY_MS)
    analysis = Analysis(engine(), find_inputs([str(folder)]).files, basis, None, options)
    names = [name for name in analysis.names() if name != "quality"]
    return {name: rows_of(analysis, name) for name in names}


def scenario_of(row: Any) -> Key:
    return row.rules, row.retention_ms // DAY_MS, row.check_interval_ms // HOUR_MS


# --- what if -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_scenario_loses_exactly_this(tables: Tables, scenario: Key) -> None:
    found: dict[tuple[str, str], list[int]] = {}
    mine = [row for row in tables["losses"] if scenario_of(row) == scenario]
    for row in sorted(mine, key=lambda row: row.lost_at_ms):
        found.setdefault((row.group, row.topic), []).append(row.lost_at_ms)
    expected = {key: [day(age) for age in ages] for key, ages in SCENARIOS[scenario].items()}
    assert found == expected
    assert all(row.ahead == (row.lost_at_ms > NOW) for row in mine)
    again = {(row.group, row.offset): row.committed_again_ms for row in mine}
    assert {key: at for key, at in again.items() if at is not None} == {("paused", 10): day(6)}


def test_losses_ahead_say_what_a_reset_costs(tables: Tables) -> None:
    rows = [row for row in tables["losses"] if scenario_of(row) == AS_IT_WAS]
    costs = {
        (row.group, row.offset): (row.lag, row.skipped_records, row.replayed_records)
        for row in rows
    }
    # The log of t-0 has 40 to 100; what is past is past, and nobody knows what there was then.
    assert costs["paused", 20] == (80, 80, 0)
    assert costs["console-consumer-11111", 60] == (40, 40, 20)
    assert costs["paused", 10] == costs["late", 1] == (None, None, None)
    assert {row.rule for row in rows if row.group.startswith("nightly")} == {"empty-since"}
    assert {row.rule for row in rows if row.group == "orders-848"} == {"commit"}


def test_whatif_counts_them(tables: Tables) -> None:
    rows = {scenario_of(row): row for row in tables["whatif"]}
    found = {
        key: (
            row.removed_offsets,
            row.missed_offsets,
            row.missed_groups,
            row.removed_groups,
            row.live_offsets,
            row.live_groups,
            row.next_offsets,
            row.next_groups,
        )
        for key, row in rows.items()
    }
    assert found == {
        AS_IT_WAS: (6, 1, 1, 5, 5, 5, 4, 4),
        ("4.1", 3, 1): (10, 1, 1, 9, 1, 1, 0, 0),
        ("4.1", 7, 24): (6, 1, 1, 5, 5, 5, 4, 4),
        # The Scala coordinator leaves a tombstone of groups that had members only.
        ("pre-2.1", 7, 1): (7, 1, 1, 2, 4, 4, 4, 4),
        ("2.1", 7, 1): (5, 1, 1, 2, 6, 5, 4, 4),
    }
    assert {key: (row.first_removal_ms, row.last_removal_ms) for key, row in rows.items()} == {
        AS_IT_WAS: (day(13), day(1)),
        ("4.1", 3, 1): (day(17), day(1)),
        ("4.1", 7, 24): (day(12.5), day(0.5)),
        ("pre-2.1", 7, 1): (day(13 - 1 / 24), day(1 - 1 / 24)),
        ("2.1", 7, 1): (day(9), day(1)),
    }


COMMITS = (
    (20, "living", "t"),
    (20, "living", "t2"),
    (16, "paused", "t"),
    (15, "orders-848", "t"),
    (12, "nightly-1001", "t"),
    (12, "nightly-1002", "t"),
    (8, "late", "t"),
    (6, "console-consumer-11111", "t"),
    (6, "paused", "t"),
    (5, "console-consumer-22222", "t"),
    (4, "console-consumer-33333", "t"),
    (4, "cleared", "t"),
    (4, "dropped", "t"),
    (4, "dropped", "t"),
    (4, "living", "doomed"),
    (4, "cleared", "doomed"),
)
BY_HAND = {
    ("cleared", "t"): 3,
    ("dropped", "t"): 3,
    ("living", "doomed"): 2,
    ("cleared", "doomed"): 2,
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_days_add_up(tables: Tables, scenario: Key) -> None:
    """Day by day, from the commits, the losses and what went by hand."""
    row = next(row for row in tables["whatif"] if scenario_of(row) == scenario)
    lives: list[tuple[float, float]] = []
    gone = {key: list(ages) for key, ages in SCENARIOS[scenario].items()}
    for age, group, topic in COMMITS:
        ends = [at for at in gone.get((group, topic), []) if at < age]
        end = max(ends, default=BY_HAND.get((group, topic), float("-inf")))
        lives.append((age, end))
    # Days are those of the calendar: from 12 hours before a noon to 12 hours after it.
    expected = {
        day(noon + 0.5): (
            sum(
                noon - 0.5 < age <= noon + 0.5 for ages in gone.values() for age in ages if age >= 0
            ),
            sum(start > noon - 0.5 >= end for start, end in lives)
            if noon
            else sum(start > 0 >= end for start, end in lives),
        )
        for noon in range(20, -1, -1)
    }
    found = {each.day_ms: (each.removed_offsets, each.live_offsets) for each in row.days}
    assert found == expected


def test_families_have_their_share(tables: Tables) -> None:
    rows = [row for row in tables["whatif_families"] if scenario_of(row) == AS_IT_WAS]
    found = {
        row.family: (
            row.removed_offsets,
            row.removed_groups,
            row.missed_offsets,
            row.live_offsets,
            row.live_groups,
        )
        for row in rows
    }
    assert {family: counts for family, counts in found.items() if any(counts)} == {
        "living": (1, 0, 0, 1, 1),
        "nightly-*": (2, 2, 0, 0, 0),
        "orders-848": (1, 1, 0, 0, 0),
        "console-consumer-*": (0, 0, 0, 3, 3),
        "paused": (1, 1, 1, 1, 1),
        "late": (1, 1, 0, 0, 0),
    }


# --- what was ------------------------------------------------------------------------------------


def test_every_removal_has_its_cause(tables: Tables) -> None:
    found = sorted(
        (row.group, row.topic or "", row.cause, row.removed_at_ms, row.latency_ms)
        for row in tables["removals"]
    )
    assert found == sorted(
        [
            ("living", "t2", "expired", day(13) + LATE_MS, LATE_MS),
            *[
                row
                for name in ("nightly-1001", "nightly-1002")
                for row in (
                    (name, "t", "expired", day(3) + LATE_MS, LATE_MS),
                    (name, "", "group-empty", day(3) + LATE_MS, LATE_MS),
                )
            ],
            # It was due when the member left, half an hour before the check.
            ("orders-848", "t", "expired", day(2) + HOUR_MS, HOUR_MS // 2),
            ("orders-848", "", "group-empty", day(2) + HOUR_MS, HOUR_MS // 2),
            ("paused", "t", "expired", day(9) + LATE_MS, LATE_MS),
            ("paused", "", "group-empty", day(9) + LATE_MS, LATE_MS),
            # All of these would have been due on day -3.
            ("cleared", "t", "explicit", day(3) + 1000, 1000 - 6 * DAY_MS),
            ("dropped", "t", "explicit", day(3) + 2000, 2000 - 6 * DAY_MS),
            ("dropped", "t", "explicit", day(3) + 2000, 2000 - 6 * DAY_MS),
            ("dropped", "", "explicit", day(3) + 2000, None),
            ("living", "doomed", "explicit", day(2), -5 * DAY_MS),
            ("cleared", "doomed", "explicit", day(2), -5 * DAY_MS),
        ]
    )


def test_overdue_is_what_the_broker_forgot(tables: Tables) -> None:
    rows = tables["overdue"]
    assert [(row.group, row.topic, row.partition, row.expires_at_ms) for row in rows] == [
        ("late", "t", 0, day(1))
    ]
    # A check may take its interval.
    assert rows[0].overdue_ms == DAY_MS - HOUR_MS


def test_live_is_what_is_left(tables: Tables) -> None:
    found = {
        (row.group, row.topic): (row.offset, row.rule, row.expires_at_ms) for row in tables["live"]
    }
    assert found == {
        ("living", "t"): (60, "subscribed", None),
        ("console-consumer-11111", "t"): (60, "commit", day(-1)),
        ("console-consumer-22222", "t"): (60, "commit", day(-2)),
        ("console-consumer-33333", "t"): (60, "commit", day(-3)),
        ("paused", "t"): (20, "commit", day(-1)),
        ("late", "t"): (1, "commit", day(1)),
    }


def test_groups_tell_their_lives(tables: Tables) -> None:
    found = {
        row.group: (
            row.family,
            row.group_type,
            row.group_state,
            row.members,
            row.commits,
            row.rebalances,
            row.live_offsets,
            row.expired_offsets,
        )
        for row in tables["groups"]
    }
    nightly = ("nightly-*", "classic", "Dead", 0, 1, 1, 0, 1)
    console = ("console-consumer-*", "classic", "Empty", 0, 1, 0, 1, 0)
    assert found == {
        "living": ("living", "classic", "Stable", 1, 3, 1, 1, 1),
        "nightly-1001": nightly,
        "nightly-1002": nightly,
        "orders-848": ("orders-848", "consumer", "Dead", 0, 1, 0, 0, 1),
        "console-consumer-11111": console,
        "console-consumer-22222": console,
        "console-consumer-33333": console,
        "paused": ("paused", "classic", "Empty", 0, 2, 0, 1, 1),
        "late": ("late", "classic", "Empty", 0, 1, 0, 1, 0),
        "cleared": ("cleared", "classic", "Stable", 1, 2, 1, 0, 0),
        "dropped": ("dropped", "classic", "Dead", 0, 2, 0, 0, 0),
    }
    seen = {
        row.group: (row.first_seen_ms, row.last_seen_ms, row.last_commit_ms, row.next_expiry_ms)
        for row in tables["groups"]
    }
    assert seen["paused"] == (day(16), day(6), day(6), day(-1))
    assert seen["nightly-1001"] == (day(12), day(10), day(12), None)


def test_metrics_are_those_of_kip_496(tables: Tables) -> None:
    found = {
        (row.bucket_start_ms - day(0.5)) // -DAY_MS: (
            row.offset_commits,
            row.offset_expirations,
            row.offset_deletions,
            row.group_completed_rebalances,
        )
        for row in tables["metrics"]
    }
    assert found == {
        20: (2, 0, 0, 1),
        16: (1, 0, 0, 0),
        15: (1, 0, 0, 0),
        13: (0, 1, 0, 0),
        12: (2, 0, 0, 2),
        9: (0, 1, 0, 0),
        8: (1, 0, 0, 0),
        6: (2, 0, 0, 0),
        5: (1, 0, 0, 1),
        4: (6, 0, 0, 0),
        # DeleteGroups counts nothing, nor does a topic's deletion.
        3: (0, 2, 1, 0),
        2: (0, 1, 0, 0),
    }
