"""Groups that the next check removes: what holds them, and what an input can't tell of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis import missing_data
from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis
from kgtool.retention import rules as r
from tests.analysis import writer
from tests.analysis.test_lives import write
from tests.analysis.writer import TRANSACTIONAL, Raw
from tests.retention.logs import Log
from tests.support.tables import dicts

NOW_MS = 1_795_265_000_000
HOUR_MS = 3_600_000
PRODUCER = 7


def commit(at: int, group: str, partition: int, *, producer: int = -1) -> bytes:
    key = writer.offset_key(group, "t", partition)
    attributes = TRANSACTIONAL if producer >= 0 else 0
    raw = Raw(key, writer.offset_value(at, NOW_MS + at), NOW_MS + at)
    return writer.batch(at, [raw], attributes=attributes, producer_id=producer)


def forget(at: int, group: str, *partitions: int) -> bytes:
    raws = [Raw(writer.offset_key(group, "t", each), None, NOW_MS + at) for each in partitions]
    return writer.batch(at, raws)


def analysis(folder: Path, rules: str, missing: int = 0) -> Analysis:
    """An hour later nothing else has happened."""
    basis = broker_settings.settings_from(None, rules, 60_000, 5_000)
    files = [file._replace(missing=missing) for file in find_inputs([str(folder)]).files]
    return Analysis(LocalEngine(1), files, basis, NOW_MS + HOUR_MS)


def late(found: Analysis) -> list[tuple[Any, ...]]:
    return [(row["group"], row["partition"], row["rule"]) for row in dicts(found, "overdue")]


@pytest.mark.parametrize(
    ("rules", "gone", "goes"),
    [
        # A tombstone drops the pending offset too: nothing holds the group any more.
        ("4.1", (0, 1), True),
        ("4.1", (1,), False),
        # Before 3.8 it does not, but there the group goes whatever is pending.
        ("3.7-new", (0, 1), True),
    ],
)
def test_a_pending_transaction_that_a_tombstone_has_dropped(
    tmp_path: Path, rules: str, gone: tuple[int, ...], goes: bool
) -> None:
    data = commit(0, "g", 1) + commit(1, "g", 0, producer=PRODUCER) + forget(2, "g", *gone)
    writer.segment(tmp_path, data)
    assert late(analysis(tmp_path, rules)) == ([("g", None, "group-empty")] if goes else [])
    # Its removal is one by itself exactly where it was to be expected.
    end = Raw(b"\0\2" + writer.text("g"), None, NOW_MS + 5_000)
    writer.segment(tmp_path, data + writer.batch(2 + len(gone), [end]))
    causes = {
        row["cause"] for row in dicts(analysis(tmp_path, rules), "removals") if row["topic"] is None
    }
    assert causes == {"group-empty" if goes else "explicit"}


def test_groups_that_may_be_others_than_the_input_shows(tmp_path: Path) -> None:
    """Without the records of KIP-848 what looks empty may have members."""
    data = [commit(0, "has", 0), commit(1, "had", 0), forget(2, "had", 0)]
    writer.segment(tmp_path, b"".join(data))
    assert late(analysis(tmp_path, "4.1")) == [("has", 0, "commit"), ("had", None, "group-empty")]
    told = analysis(tmp_path, "4.1", missing_data.NEW_GROUPS)
    assert [row["expires_at_ms"] for row in dicts(told, "live")] == [None]
    assert late(told) == []


@pytest.mark.parametrize(
    ("rules", "late_ms", "goes"),
    [
        # By the group's date: R and an interval, and what a check takes, after it became Empty.
        (r.RULES_3_2, 66_500, False),
        (r.RULES_3_2, 67_000, True),
        # A restart may have lost that date, or not: then the commit counts, 0.9 s older.
        (r.RULES_2_5, 66_500, False),
        (r.RULES_2_5, 67_000, True),
    ],
)
def test_what_is_overdue_is_so_by_both_dates(
    tmp_path: Path, rules: r.RuleSet, late_ms: int, goes: bool
) -> None:
    """T3: of an Empty group on 2.3.0 to 2.6.0 either date may hold."""
    log = Log()
    log.commit(NOW_MS)
    log.classic(NOW_MS + 900, [], cst=NOW_MS + 900)
    found = emptied(tmp_path, log, rules, NOW_MS + late_ms)
    assert bool(late(found)) is goes


def test_the_next_expiry_of_a_group_is_unknown_where_one_of_its_offsets_is(tmp_path: Path) -> None:
    """T3: the offset whose date a restart decides may be the next that goes."""
    log = Log()
    log.commit(NOW_MS, partition=0)
    log.commit(NOW_MS + 8_900, partition=1)
    log.classic(NOW_MS + 9_000, [], cst=NOW_MS + 9_000)
    for rules, dates, following in [
        (r.RULES_2_5, [None, NOW_MS + 68_900], None),
        (r.RULES_2_6, [NOW_MS + 69_000] * 2, NOW_MS + 69_000),
    ]:
        found = emptied(tmp_path / str(rules.forgets_date_on_load), log, rules, NOW_MS + 10_000)
        assert [row["expires_at_ms"] for row in dicts(found, "live")] == dates
        assert [row["next_expiry_ms"] for row in dicts(found, "groups")] == [following]


def emptied(folder: Path, log: Log, rules: r.RuleSet, as_of_ms: int) -> Analysis:
    """The analysis of a log by exactly these rules, with a retention of a minute."""
    folder.mkdir(exist_ok=True)
    write(folder / "__consumer_offsets-0", log.entries, 0, random.Random(1))
    basis = broker_settings.settings_from(None, "auto", 60_000, 5_000)
    basis = basis._replace(rules=rules, rules_given=True)
    return Analysis(LocalEngine(1), find_inputs([str(folder)]).files, basis, as_of_ms)
