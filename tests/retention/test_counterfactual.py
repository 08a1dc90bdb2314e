"""A log without what the broker itself removed, and another broker playing it."""

from __future__ import annotations

import pytest

from kgtool.retention.rules import RULE_SETS
from tests.retention.counterfactual import without_expiry
from tests.retention.logs import GROUP, Log
from tests.retention.simulation import GroupDeleted, Removed, simulate

R, INTERVAL = 60_000, 5_000
OLD, NEW = RULE_SETS["pre-2.1"], RULE_SETS["4.1"]


def test_expiry_goes_and_what_clients_did_stays() -> None:
    log = Log()
    log.commit(0, "t1")
    log.commit(10_000, "t2")
    early = log.forget(30_000, "t2")  # nobody but a client: it was not due
    due = log.forget(62_000, "t1")
    group = log.end_group(62_000)
    kept = without_expiry(log.entries, NEW, R)
    assert early in kept and due not in kept and group not in kept
    assert simulate(kept, NEW, 2 * R, INTERVAL, 300_000) == [
        Removed(120_000, GROUP, "t1", 0),
        Removed(120_000, GROUP),
    ]


def test_delete_groups_takes_what_another_broker_has_still_got() -> None:
    log = Log()
    log.commit(0, "old")
    log.commit(50_000, "young")
    log.forget(62_000, "old")  # expired
    log.forget(80_000, "young")  # DeleteGroups: both records in one write
    log.end_group(80_000)
    kept = without_expiry(log.entries, NEW, R)
    assert GroupDeleted(80_000, GROUP) in kept
    assert simulate(kept, NEW, 3 * R, INTERVAL, 600_000) == []


def test_a_group_record_that_leaves_offsets_behind_still_does() -> None:
    log = Log()
    log.commit(0, "t1")
    ended = log.end_group(1_000)
    kept = without_expiry(log.entries, NEW, R)
    assert kept[-1] == ended and len(kept) == 2
    assert simulate(kept, NEW, R, INTERVAL, 600_000) == []  # an orphan


@pytest.mark.parametrize(("ets", "gone_ms"), [(R, 125_000), (20_000, 25_000), (150_000, 155_000)])
def test_a_date_that_an_old_broker_filled_in_moves_with_the_retention(
    ets: int, gone_ms: int
) -> None:
    """Up to 2.0 every value has a date; only one that a client asked for is the client's."""
    log = Log()
    log.commit(0, "t1", ets=ets)
    kept = without_expiry(log.entries, OLD, R)
    assert simulate(kept, OLD, 2 * R, INTERVAL, 300_000) == [Removed(gone_ms, GROUP, "t1", 0)]


def test_kip_211_would_have_kept_what_an_old_broker_dropped_from_a_living_group() -> None:
    log = Log()
    log.classic(0, [["t1"]], cst=0)
    log.commit(1_000, "t1", ets=1_000 + R)
    log.forget(65_000, "t1")
    kept = without_expiry(log.entries, OLD, R)
    assert simulate(kept, OLD, R, INTERVAL, 300_000) == [Removed(65_000, GROUP, "t1", 0)]
    assert simulate(kept, RULE_SETS["2.1"], R, INTERVAL, 300_000) == []
