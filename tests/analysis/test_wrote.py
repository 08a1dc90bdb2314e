"""Which retention the brokers had while the log was written, also where it changed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.rules_columns import Wrote
from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.broker_settings import BEGINNING
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis
from kgtool.retention import rules as r
from tests.analysis import writer
from tests.analysis.test_rules_columns import GROUP, OFFSET, ROWS
from tests.analysis.writer import Raw, offset_key, offset_value
from tests.support.tables import dicts

DAY_MS = 86_400_000
T0, T1 = 19_000 * DAY_MS, 19_020 * DAY_MS
"""The retention is a day from T0 on, and seven from T1 on."""
CHANGED = ((T0, DAY_MS), (T1, 7 * DAY_MS))
MANIFEST = {"configs": {"offsets.retention.minutes": str(10 * 1440)}}
WEEK = (3 * DAY_MS, 7 * DAY_MS)


def removals(folder: Path, wrote: Any) -> dict[str, tuple[str, int | None]]:
    """Two offsets: one expired a day after its commit, the other, later, after a week."""
    rows = []
    for name, at, age in (("before", T0 + DAY_MS, 1), ("after", T1 + DAY_MS, 7)):
        rows.append((at, offset_key(name), offset_value(5, at)))
        rows.append((at + age * DAY_MS + 2000, offset_key(name), None))
    rows.append((T1 + 30 * DAY_MS, offset_key("last"), offset_value(5, T1 + 30 * DAY_MS)))
    batches = (
        writer.batch(number, [Raw(key, value, at)]) for number, (at, key, value) in enumerate(rows)
    )
    path = writer.segment(folder, b"".join(batches))
    basis, _ = broker_settings.choose_scenarios(None, ["4.1"], (), (), wrote)
    analysis = Analysis(LocalEngine(), find_inputs([str(path)]).files, basis)
    return {row["group"]: (row["cause"], row["latency_ms"]) for row in dicts(analysis, "removals")}


def test_a_removal_is_judged_by_the_retention_of_its_time(tmp_path: Path) -> None:
    both = ("expired", 2000)
    assert removals(tmp_path, CHANGED) == {"before": both, "after": both}
    wrong = removals(tmp_path, ((BEGINNING, 7 * DAY_MS),))
    assert wrong["before"][0] == "explicit" and wrong["after"] == both


def test_every_verdict_is_that_of_a_broker_that_looks_all_the_time() -> None:
    """Scalar, phase by phase: due in the first one in which its time comes."""
    phases = ((0, 60_000), (100_000, 10_000), (10**12 + 5, 10**6), (10**12 + 10**5, 7))
    rng = random.Random(5)
    for rules in (r.RULES_4_1, r.RULES_2_4):
        at_ms, _ = Wrote(phases).verdict(rules, GROUP, OFFSET)
        for at in rng.sample(range(len(ROWS)), 2000):
            known, kind, state, protocol, since, topics, topic, commit, own, pending = ROWS[at]
            names = None if topics is None else frozenset(topics)
            group = r.GroupSnapshot(kind, state, protocol, since, names) if known else None
            expected = None
            for number, (start, retention) in enumerate(phases):
                offset = r.CommittedOffset(commit, own)
                due = r.verdict(rules, group, offset, topic, retention, pending).expires_at_ms
                end = phases[number + 1][0] if number + 1 < len(phases) else r.MAX_TIMESTAMP_MS + 1
                if due is not None and max(due, start) < end:
                    expected = due if number == 0 else max(due, start)
                    break
            found = int(at_ms[at])
            assert (None if found == rc.NONE else found) == expected, ROWS[at]


@pytest.mark.parametrize(
    ("manifest", "retentions", "wrote", "expected"),
    [
        (MANIFEST, WEEK, (), 10 * DAY_MS),
        (MANIFEST, (3 * DAY_MS,), (), 10 * DAY_MS),
        (MANIFEST, WEEK, ((BEGINNING, 5 * DAY_MS),), 5 * DAY_MS),
        (None, (3 * DAY_MS,), (), 3 * DAY_MS),
        (None, WEEK, (), 7 * DAY_MS),
        (None, (), CHANGED, 7 * DAY_MS),
    ],
)
def test_the_order_of_options_never_matters(
    manifest: Any, retentions: tuple[int, ...], wrote: Any, expected: int
) -> None:
    for some in (retentions, retentions[::-1]):
        basis, played = broker_settings.choose_scenarios(manifest, ["auto"], some, (), wrote)
        assert basis.retention_ms == expected
        assert {each.retention_ms for each in played} == set(retentions or (expected,))
    for some_rules in (["2.4", "4.1"], ["4.1", "2.4"]):
        assert broker_settings.choose_scenarios(None, some_rules, (), ())[0].rules.name == "4.1"


def early(folder: Path, ages_ms: list[int], apart_ms: int) -> Any:
    """The analysis of offsets that were removed at these ages, one after the other."""
    rows = []
    for number, age_ms in enumerate(ages_ms):
        at, key = T0 + number * apart_ms, offset_key(f"g{number}")
        rows += [(at, key, offset_value(5, at)), (at + age_ms, key, None)]
    ordered = enumerate(sorted(rows, key=lambda row: row[0]))
    batches = (writer.batch(at, [Raw(key, value, ms)]) for at, (ms, key, value) in ordered)
    path = writer.segment(folder, b"".join(batches))
    basis, _ = broker_settings.choose_scenarios(None, ["4.1"], (), (), ((BEGINNING, 7 * DAY_MS),))
    return Analysis(LocalEngine(), find_inputs([str(path)]).files, basis)


def checks(retention_ms: int, count: int) -> list[int]:
    """Ages at which checks remove offsets."""
    return [retention_ms + 599_999 - 37_000 * (number % 16) for number in range(count)]


def by_hand(count: int) -> list[int]:
    """Ages at which people delete offsets."""
    rng = random.Random(count)
    return [rng.randrange(1000, 7 * DAY_MS) for _ in range(count)]


def test_early_removals_of_one_age_show_another_retention(tmp_path: Path) -> None:
    ages = [*checks(DAY_MS, 16), 1_000, 3 * DAY_MS, 5 * DAY_MS]
    ((count, total, age_ms, _),) = early(tmp_path, ages, 3_600_000).shared_ages
    assert (count, total, age_ms) == (16, 19, min(checks(DAY_MS, 16)))


def test_an_age_stands_out_of_many_deletions_by_hand_and_its_causes_are_unknown(
    tmp_path: Path,
) -> None:
    """Two retentions that the brokers had before, among three times as many deletions."""
    expired = [*checks(DAY_MS, 40), *checks(3 * DAY_MS, 30)]
    ages = [*expired, *by_hand(210)]
    random.Random(1).shuffle(ages)
    analysis = early(tmp_path, ages, 700_000)
    first, second = (each.removals for each in analysis.shared_ages)
    assert first in (40, 41) and second in (30, 31, 32)
    rows = [row for row in analysis.rows("removals") if row["topic"] is not None]
    unknown = {row["group"] for row in rows if row["cause"] is None}
    assert unknown >= {f"g{at}" for at, age in enumerate(ages) if age in expired}
    assert len(unknown) <= len(expired) + 5
    assert {row["cause"] for row in rows} == {None, "explicit"}


def test_what_else_such_a_check_removes_is_unknown_too(tmp_path: Path) -> None:
    """Groups that went in the same write; nothing of a write that removed a young offset."""
    rows = []
    for number in range(30):
        at = T0 + number * 3_600_000
        old, young = offset_key(f"g{number}"), offset_key(f"g{number}", "young")
        rows += [(at, old, offset_value(5, at))]
        gone = [(at + DAY_MS, old, None), (at + DAY_MS, b"\0\2" + writer.text(f"g{number}"), None)]
        if number >= 20:
            rows += [(at + DAY_MS // 2, young, offset_value(5, at + DAY_MS // 2))]
            gone += [(at + DAY_MS, young, None)]
        rows += gone
    rows.sort(key=lambda row: row[0])
    batches = (writer.batch(at, [Raw(key, value, ms)]) for at, (ms, key, value) in enumerate(rows))
    path = writer.segment(tmp_path, b"".join(batches))
    basis, _ = broker_settings.choose_scenarios(None, ["4.1"], (), (), ((BEGINNING, 7 * DAY_MS),))
    analysis = Analysis(LocalEngine(), find_inputs([str(path)]).files, basis)
    found: dict[str, set[Any]] = {}
    for row in analysis.rows("removals"):
        found.setdefault(row["group"], set()).add(row["cause"])
    assert found == {f"g{n}": {None} if n < 20 else {"explicit"} for n in range(30)}


@pytest.mark.parametrize(
    ("ages_ms", "apart_ms"),
    [
        # Somebody deletes a group that had committed everything at once.
        ([DAY_MS] * 16, 0),
        # Somebody deletes now and then.
        ([number * DAY_MS // 3 for number in range(16)], 3_600_000),
        (by_hand(2000), 600_000),
        # A job deletes what is older than three days, once a day.
        ([3 * DAY_MS + 86_400 * number for number in range(1000)], 600_000),
        # Somebody deletes right after the commits: no broker's retention is under a minute.
        ([59_999 + 1_000 * number for number in range(16)], 3_600_000),
        # What expired after a week.
        ([7 * DAY_MS + 1] * 16, 3_600_000),
    ],
)
def test_early_removals_by_hand_show_nothing(
    tmp_path: Path, ages_ms: list[int], apart_ms: int
) -> None:
    analysis = early(tmp_path, ages_ms, apart_ms)
    assert analysis.shared_ages == []
    causes = {row["cause"] for row in analysis.rows("removals")}
    assert None not in causes
