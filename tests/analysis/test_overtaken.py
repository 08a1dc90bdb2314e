"""What only fresh lives on real brokers showed (``tools/truth.py``), and groups that join first.

The kind: what is in the log in another order, or otherwise, than in the coordinator's memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis, TableOptions
from kgtool.retention import rules as r
from kgtool.retention.audit import audit
from tests.analysis.test_unknown import Rest, _line, write_lines
from tests.retention.logs import Log

T0 = 1_795_712_000_000
RETENTION_MS, INTERVAL_MS = 60_000, 5_000


def analysis(folder: Path, log: Log, rules: str, interval_ms: int = INTERVAL_MS) -> Analysis:
    write_lines(folder, Rest([_line(entry) for entry in log.entries]))
    basis = broker_settings.settings_from(None, rules, RETENTION_MS, interval_ms)
    scenarios = (broker_settings.Scenario(basis.rules, RETENTION_MS, interval_ms),)
    files = find_inputs([str(folder)]).files
    return Analysis(LocalEngine(1), files, basis, None, TableOptions(scenarios))


def causes(folder: Path, log: Log, rules: r.RuleSet) -> dict[Any, str | None]:
    """By topic (None: the group), the same from the analysis and from the audit behind explain."""
    rows = analysis(folder, log, rules.name).rows("removals")
    found = {row["topic"]: row["cause"] for row in rows}
    audited = audit(log.entries, rules, RETENTION_MS, INTERVAL_MS)
    assert {row.topic: row.cause for row in audited} == found
    return found


@pytest.mark.parametrize(
    ("after_ms", "rules", "cause"),
    [(2, r.RULES_2_4, None), (9_000, r.RULES_2_4, "explicit"), (2, r.RULES_4_1, "explicit")],
)
def test_a_group_s_tombstone_may_overtake_those_of_its_offsets(
    tmp_path: Path, after_ms: int, rules: r.RuleSet, cause: str | None
) -> None:
    """Real (2.4.1): a topic was deleted during a check, in another thread."""
    log = Log()
    log.classic(T0, [["t1"]], cst=T0)
    log.commit(T0 + 10, "t2")
    log.classic(T0 + 1_000, [], cst=T0 + 1_000, generation=2)
    log.end_group(T0 + 65_000)
    log.forget(T0 + 65_000 + after_ms, "t2")
    found = causes(tmp_path, log, rules)
    assert found[None] == cause


def test_a_group_s_tombstone_before_other_records_overtakes_nothing(tmp_path: Path) -> None:
    log = Log()
    log.commit(T0, "t2")
    log.classic(T0 + 1_000, [], cst=T0 + 1_000, generation=2)
    log.end_group(T0 + 30_000)
    log.classic(T0 + 30_002, [["t1"]], cst=T0, generation=1)
    log.forget(T0 + 65_000, "t2")
    assert causes(tmp_path, log, r.RULES_2_4)[None] == "explicit"


@pytest.mark.parametrize("is_pending", [True, False])
@pytest.mark.parametrize("rules", [r.RULES_4_1, r.RULES_3_8_NEW, r.RULES_2_4])
def test_an_offset_that_one_write_removes_twice_was_deleted(
    tmp_path: Path, rules: r.RuleSet, is_pending: bool
) -> None:
    """Real (4.3.1): a topic's deletion, while a transaction was open: one tombstone for what was
    committed, one for what was pending.

    The kind: one of two is taken for a removal of something that is not in the log. Siblings: an
    offset that was due, another one of the same write, one that was removed a write before.
    """
    log = Log()
    log.commit(T0, "t1")
    log.commit(T0, "t2")
    if is_pending:
        log.commit(T0 + 30_000, "t1", pid=7)
    for topic in ("t1", "t1", "t2"):
        log.forget(T0 + 61_000, topic)
    log.end_transaction(T0 + 62_000, 7, commit=False)
    log.forget(T0 + 70_000, "t2")
    rows = list(analysis(tmp_path / "a", log, rules.name).rows("removals"))
    audited = audit(log.entries, rules, RETENTION_MS, INTERVAL_MS)
    told = [(row["topic"], row["removed_at_ms"] - T0, row["cause"]) for row in rows]
    both = [(row.topic, row.removed_at_ms - T0, row.cause) for row in audited]
    assert sorted(told, key=str) == sorted(both, key=str)
    second = [row.cause for row in audited if row.topic == "t1"][1]
    is_known = is_pending or rules.new_coordinator
    assert second == ("explicit" if is_known else None), "up to 3.9 there is one tombstone only"
    assert both[-1][2] is None, "nothing was there, and no write has removed it just then"


def joined(folder: Path, later_ms: int, members: list[list[str]]) -> list[int]:
    """Groups and offsets that a check each second would have removed of a group that joins."""
    log = Log()
    log.classic(T0, [], protocol_type="", protocol=None, cst=T0, generation=0)
    log.classic(T0 + later_ms, members, cst=T0 + later_ms, generation=1)
    log.commit(T0 + later_ms + 10_000, "t1", group="last")
    (row,) = analysis(folder, log, "4.1", 1_000).rows("whatif")
    return [row["removed_groups"], row["removed_offsets"]]


def test_a_group_that_is_joined_for_the_first_time_is_not_empty(tmp_path: Path) -> None:
    """The new coordinator's first record, and 3 s of group.initial.rebalance.delay.ms."""
    assert joined(tmp_path / "joins", 3_000, [["t1"]]) == [0, 0]
    assert joined(tmp_path / "late", 400_000, [["t1"]]) == [1, 0]
    assert joined(tmp_path / "never", 3_000, []) == [2, 0]


@pytest.mark.parametrize(
    ("at_ms", "rules", "cause"),
    [
        (65_010, r.RULES_2_6, "expired"),
        (65_010, r.RULES_3_2, "explicit"),
        (64_990, r.RULES_2_6, "explicit"),
    ],
)
def test_a_check_may_see_a_generation_before_its_record(
    tmp_path: Path, at_ms: int, rules: r.RuleSet, cause: str
) -> None:
    """Real (2.4.1, KAFKA-13636): a member left, and its topic lost its offsets 26 ms before."""
    log = Log()
    log.classic(T0, [["t1"], ["t2"]], cst=T0)
    log.commit(T0 + 10, "t2")
    log.forget(T0 + at_ms, "t2")
    log.classic(T0 + 65_030, [["t1"]], cst=T0 + 65_000, generation=2)
    audited = audit(log.entries, rules, RETENTION_MS, INTERVAL_MS)
    assert [row.cause for row in audited] == [cause]
    write_lines(tmp_path, Rest([_line(entry) for entry in log.entries]))
    basis = broker_settings.settings_from(None, "2.4", RETENTION_MS, INTERVAL_MS)
    files = find_inputs([str(tmp_path)]).files
    found = Analysis(LocalEngine(1), files, basis._replace(rules=rules)).rows("removals")
    assert [row["cause"] for row in found] == [cause]


def came_back(*, at_ms: int, moved: bool = False, again: bool = False, other: int = 0) -> Log:
    """A static member is back without t2 (``again``: and then with it); t2's offset goes."""
    log = Log()
    log.classic(T0, [["t1", "t2"]], cst=T0, static=True)
    log.commit(T0 + 5, "t3", group="other")
    log.commit(T0 + 10, "t2")
    log.classic(T0 + 5_000, [["t1"]], cst=T0, static=True)
    if again:
        log.classic(T0 + 6_000, [["t1", "t2"]], cst=T0, static=True)
    log.epoch = int(moved)
    if other:
        log.forget(T0 + other, "t3", group="other")
    log.forget(T0 + at_ms, "t2")
    return log


@pytest.mark.parametrize(
    ("log", "rules", "cause"),
    [
        (came_back(at_ms=65_010), r.RULES_2_4, None),
        (came_back(at_ms=65_010), r.RULES_4_1, None),
        (came_back(at_ms=65_010, again=True), r.RULES_2_4, None),
        (came_back(at_ms=50_000), r.RULES_2_4, "explicit"),
        (came_back(at_ms=65_010, other=60_011), r.RULES_2_4, "expired"),
        (came_back(at_ms=65_010, other=61_511), r.RULES_2_4, None),
        (came_back(at_ms=65_010, other=60_011), r.RULES_4_1, None),
        (came_back(at_ms=65_010, moved=True), r.RULES_2_4, "expired"),
        (came_back(at_ms=65_010, moved=True, again=True), r.RULES_2_4, "explicit"),
    ],
)
def test_a_load_that_the_log_does_not_show_ends_what_a_static_member_held(
    tmp_path: Path, log: Log, rules: r.RuleSet, cause: str | None
) -> None:
    """Real (3.9.1): the restart of the only broker leaves the leader epoch at 0.

    The kind: what a coordinator has in memory only may be gone at any moment.
    """
    write_lines(tmp_path, Rest([_line(entry) for entry in log.entries]))
    audited = audit(log.entries, rules, RETENTION_MS, INTERVAL_MS)
    assert [row.cause for row in audited if row.topic == "t2"] == [cause]
    if log.epoch:
        return  # the written files have no leader epochs
    rows = analysis(tmp_path, log, rules.name).rows("removals")
    assert [row["cause"] for row in rows if row["topic"] == "t2"] == [cause]
