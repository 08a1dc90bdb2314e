"""``doubts.certain_checks``: what one partition shows of a check explains removals in another.

The kind: removals right after a restart, whose date or delay says nothing, although the same check
removed something of which it is sure. Real: 40 of 574 removals on 2.4.1, 2.8.2 and 3.9.1.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis
from kgtool.retention import rules as r
from kgtool.retention.audit import audit
from kgtool.retention.doubts import Moment, certain_checks
from kgtool.retention.history import Entry
from tests.analysis.test_lives import write
from tests.retention.logs import Log

T0 = 1_700_000_000_000
SURE, DOUBT, DELETED = r.CAUSE_EXPIRED, None, r.CAUSE_EXPLICIT


@pytest.mark.parametrize(
    ("moments", "found"),
    [
        ([(5, "t1", SURE), (9, "t2", DOUBT)], ((5, 9),)),
        ([(5, "t1", SURE), (25, "t1", DOUBT), (45, "t2", DOUBT)], ((5, 45),)),
        # Another check, or another write.
        ([(5, "t1", SURE), (26, "t2", DOUBT)], ()),
        # The topic may have been deleted, and one of its offsets been due.
        ([(5, "t1", SURE), (9, "t1", DOUBT)], ()),
        # Somebody has deleted something.
        ([(5, "t1", SURE), (9, "t2", DOUBT), (12, "t2", DELETED)], ()),
        ([(5, "t1", DOUBT), (9, "t2", DOUBT)], ()),
        ([(5, "t1", SURE), (9, "t2", SURE)], ()),
        ([], ()),
    ],
)
def test_a_check_is_seen_by_what_it_removed(
    moments: list[tuple[int, str, str | None]], found: tuple[tuple[int, int], ...]
) -> None:
    assert certain_checks(Moment(*each) for each in reversed(moments)) == found


def entries(late_topic: str, *, deleted: bool) -> list[Entry]:
    """Partition 0: an offset that goes 50 s late; 1: one in time, 3 ms before, or a deletion."""
    late, sure = Log(), Log()
    late.commit(T0, late_topic, 0, offset=1, cts=T0, group="late")
    late.forget(T0 + 110_000, late_topic, 0, group="late")
    sure.commit(T0 + 48_000, "t1", 0, offset=1, cts=T0 + 48_000, group="sure")
    sure.forget(T0 + 109_997, "t1", 0, group="sure")
    if deleted:
        sure.commit(T0 + 90_000, "t3", 0, offset=1, cts=T0 + 90_000, group="young")
        sure.forget(T0 + 110_001, "t3", 0, group="young")
    return [*late.entries, *(each._replace(partition=1) for each in sure.entries)]


@pytest.mark.parametrize(
    ("rules", "topic", "deleted", "cause"),
    [
        (r.RULES_3_2, "t2", False, r.CAUSE_EXPIRED),
        (r.RULES_3_2, "t1", False, None),
        (r.RULES_3_2, "t2", True, None),
        (r.RULES_4_1, "t2", False, None),
    ],
)
def test_a_late_removal_in_a_certain_check_is_expired(
    rules: r.RuleSet, topic: str, deleted: bool, cause: str | None, tmp_path: Path
) -> None:
    log = entries(topic, deleted=deleted)
    by_audit = {row.group: row.cause for row in audit(log, rules, 60_000, 5_000)}
    for number in (0, 1):
        some = [each for each in log if each.partition == number]
        write(tmp_path / f"__consumer_offsets-{number}", some, 0, random.Random(1))
    basis = broker_settings.settings_from(None, "2.4", 60_000, 5_000)._replace(rules=rules)
    analysis = Analysis(LocalEngine(1), find_inputs([str(tmp_path)]).files, basis)
    by_analysis = {row["group"]: row["cause"] for row in analysis.rows("removals")}
    assert by_audit == by_analysis
    assert (by_audit["late"], by_audit["sure"]) == (cause, r.CAUSE_EXPIRED)
