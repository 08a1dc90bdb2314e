"""The cause of every removal: held to what real brokers did, then to the cases in between."""

from __future__ import annotations

from functools import cache

import pytest

from kgtool.records.consumer_group import ConsumerGroupMetadataValue
from kgtool.retention import rules as r
from kgtool.retention.audit import Removal, audit
from kgtool.retention.history import Entry, History, read_entry
from kgtool.retention.rules import RULE_SETS
from tests.retention.lives import START_MS, Life
from tests.retention.logs import Log
from tests.retention.simulation import Removed, simulate
from tests.retention.truth import INTERVAL_MS, RETENTION_MS, RULES, raw, truth
from tests.support import seeds

CAUSES = {
    "expired": "expired",
    "empty": "group-empty",
    "converted_or_other": "converted",
    "offset_delete": "explicit",
    "delete_groups": "explicit",
    "topic_deleted": "explicit",
}
R = 60_000


@cache
def entries(run: str) -> list[Entry]:
    found = []
    for line in truth(run).records:
        key = raw(line, "key")
        assert key is not None
        found.append(
            read_entry(
                line["partition"],
                line["offset"],
                line["timestamp"],
                key,
                raw(line, "value"),
                producer_id=line["producerId"],
                transactional=line["transactional"],
                is_control=line["control"],
                base_offset=line["baseOffset"],
            )
        )
    return found


def audited(run: str) -> list[Removal]:
    rules = RULE_SETS[RULES[run]]
    return since_restart(run, audit(entries(run), rules, RETENTION_MS))


def since_restart(run: str, found: list[Removal]) -> list[Removal]:
    return [row for row in found if row.removed_at_ms >= truth(run).restart_ms]


@pytest.mark.parametrize("run", RULES)
def test_every_removal_of_a_real_broker_gets_its_cause(run: str) -> None:
    found = {(row.log_partition, row.log_offset): row for row in audited(run)}
    expected = {(line["partition"], line["offset"]): line for line in truth(run).tombstones}
    assert found.keys() == expected.keys()
    for at, line in expected.items():
        row = found[at]
        assert (row.group, row.topic, row.partition, row.removed_at_ms) == (
            line["group"],
            line.get("topic"),
            line.get("tp"),
            line["ts"],
        )
        assert row.cause == CAUSES[line["cause"]], line
        if "eligibleAt" in line:
            assert (row.expires_at_ms, row.latency_ms) == (line["eligibleAt"], line["latencyMs"])


@pytest.mark.parametrize("run", RULES)
def test_a_broker_is_never_early_and_a_check_never_misses(run: str) -> None:
    loaded_by = truth(run).restart_ms + 2 * INTERVAL_MS
    groups = 0
    for row in audited(run):
        if row.cause not in (r.CAUSE_EXPIRED, r.CAUSE_GROUP_EMPTY):
            continue
        assert row.expires_at_ms is not None
        assert row.latency_ms is not None
        assert row.latency_ms >= 0
        due = max(row.expires_at_ms, loaded_by)
        assert row.removed_at_ms <= due + INTERVAL_MS + 100
        groups += row.topic is None
    assert groups >= 15


@pytest.mark.parametrize("run", RULES)
def test_nothing_that_was_due_is_left_at_the_end(run: str) -> None:
    history = History(RULE_SETS[RULES[run]], RETENTION_MS)
    for entry in entries(run):
        history.feed(entry)
    last_check = truth(run).stop_ms - INTERVAL_MS - 1_000
    left = {
        live.key.group
        for live in history.live()
        if live.expires_at_ms is not None and live.expires_at_ms <= last_check
    }
    # An unknown key type made 2.0.1 stop loading partition 3: what was injected there stays.
    assert left == ({"inj-gm1-empty", "inj-emptyproto"} if run == "2.0.1" else set())


@pytest.mark.parametrize(
    ("run", "wrong"), [("2.0.1", "2.1"), ("2.0.1", "2.4"), ("3.9.1-old", "2.1"), ("4.3.1", "2.4")]
)
def test_another_generation_does_not_explain_the_log(run: str, wrong: str) -> None:
    other = since_restart(run, audit(entries(run), RULE_SETS[wrong], RETENTION_MS))
    assert [row.cause for row in other] != [row.cause for row in audited(run)]


@pytest.mark.parametrize("name", RULE_SETS)
def test_what_a_played_broker_removes_is_never_taken_for_a_hand(name: str) -> None:
    rules, kinds = RULE_SETS[name], set()
    every = {r.CAUSE_EXPIRED, r.CAUSE_GROUP_EMPTY}
    for seed in range(400):
        if seed >= 40 and kinds == every:
            break
        log = Life(seeds.rng("audit", name, seed)).run(30, 12_000)
        end_ms = log.entries[-1].timestamp_ms + 3 * R
        removed = simulate(log.entries, rules, R, 7_000, end_ms, START_MS)
        broker = {_tombstone(row) for row in removed}
        merged = sorted([*log.entries, *map(_entry, removed)], key=lambda e: e.timestamp_ms)
        numbered = [entry._replace(offset=at) for at, entry in enumerate(merged)]
        for row in audit(numbered, rules, R):
            if _tombstone(row) in broker:
                kinds.add(row.cause)
                assert row.cause in every, f"seed {seed}: {row}"
                assert row.latency_ms is not None
                assert 0 <= row.latency_ms < 7_000 or row.topic is None
    assert kinds == every


def _tombstone(row: Removal | Removed) -> tuple[object, ...]:
    at_ms = row.removed_at_ms if isinstance(row, Removal) else row.at_ms
    return at_ms, row.group, row.topic, row.partition


def _entry(removed: Removed) -> Entry:
    """The tombstone that the broker writes; a group's is the one that its audit reads."""
    log = Log()
    if removed.topic is not None and removed.partition is not None:
        return log.forget(removed.at_ms, removed.topic, removed.partition, group=removed.group)
    return log.end_group(removed.at_ms, group=removed.group)


# --- cases in between ----------------------------------------------------------------------------


def rows(log: Log, name: str = "4.1") -> list[tuple[object, ...]]:
    """What a reader sees: offset or GROUP, cause, when it was due, and how late it went."""
    return [
        (
            "GROUP" if row.topic is None else f"{row.topic}-{row.partition}",
            row.cause,
            row.expires_at_ms,
            row.latency_ms,
        )
        for row in audit(log.entries, RULE_SETS[name], R)
    ]


def test_one_millisecond_decides() -> None:
    for at, cause in ((R + 4, "explicit"), (R + 5, "expired")):
        log = Log()
        log.commit(5)
        log.forget(at)
        assert rows(log) == [("t1-0", cause, R + 5, at - R - 5)]
        assert rows(log, "pre-2.1") == [("t1-0", "explicit", R + 6, at - R - 6)]


def test_what_comes_long_after_its_time_has_no_cause() -> None:
    """T9: brokers that stood still, or a retention that changed. Siblings: a group's own removal; a
    move of the coordinator or the end of a rebalance explains the delay; two checks are no sign."""
    log = Log()
    log.commit(0)
    log.forget(50 * R)
    log.end_group(50 * R)
    assert rows(log) == [("t1-0", None, R, 49 * R), ("GROUP", None, None, None)]
    log = Log()
    log.commit(0)
    log.forget(R + 20 * 60_000)
    assert rows(log) == [("t1-0", "expired", R, 20 * 60_000)]
    log = Log()
    log.commit(0)
    log.epoch = 1
    log.commit(50 * R - 1, "t2")
    log.forget(50 * R)
    assert rows(log) == [("t1-0", "expired", R, 49 * R)]


def test_delete_groups_is_seen_by_the_offset_that_was_not_due() -> None:
    log = Log()
    log.commit(0, "due")
    log.commit(70_000, "young")
    log.forget(80_000, "due")
    log.forget(80_000, "young")
    log.end_group(80_000)
    assert rows(log) == [
        ("due-0", "explicit", R, 20_000),
        ("young-0", "explicit", 130_000, -50_000),
        ("GROUP", "explicit", None, None),
    ]


def test_another_group_in_the_same_write_is_another_matter() -> None:
    log = Log()
    log.commit(0, group="a")
    log.commit(70_000, group="b")
    log.forget(80_000, group="b")
    log.forget(80_000, group="a")
    assert [row[1] for row in rows(log)] == ["explicit", "expired"]
    assert [row.group for row in audit(log.entries, RULE_SETS["4.1"], R)] == ["b", "a"]


def test_an_offset_in_the_same_write_does_not_convert_a_group() -> None:
    log = Log()
    log.commit(0)
    log.forget(80_000)
    log.end_group(80_000)
    log.commit(80_000)
    assert rows(log) == [("t1-0", "expired", R, 20_000), ("GROUP", "group-empty", R, 20_000)]


def test_the_check_after_an_offset_delete_finds_an_empty_group() -> None:
    log = Log()
    log.commit(0)
    log.forget(10_000)
    log.end_group(12_000)
    assert rows(log) == [("t1-0", "explicit", R, -50_000), ("GROUP", "group-empty", 10_000, 2_000)]


def test_a_group_goes_when_it_was_empty_and_had_nothing() -> None:
    log = Log()
    log.classic(1_000, [["t1"]], cst=1_000)
    log.classic(20_000, [], cst=19_990)
    log.end_group(23_000)
    for name in RULE_SETS:
        assert rows(log, name) == [("GROUP", "group-empty", 19_990, 3_010)]


def test_a_group_with_members_offsets_or_a_transaction_was_deleted() -> None:
    alive = Log()
    alive.classic(1_000, [["t1"]], cst=1_000)
    alive.end_group(100_000)
    offsets_left = Log()
    offsets_left.commit(0)
    offsets_left.end_group(100_000)
    in_transaction = Log()
    in_transaction.commit(0, pid=7)
    in_transaction.end_group(100_000)
    for log in (alive, offsets_left, in_transaction):
        assert rows(log) == [("GROUP", "explicit", None, None)]
    # To 3.8 - 4.0.0 an open transaction did not count where nothing else was committed.
    assert rows(in_transaction, "3.8-new")[0][1] == "group-empty"


def test_pending_offsets_go_only_by_hand() -> None:
    log = Log()
    log.commit(0, pid=7)
    log.forget(100_000)
    assert rows(log) == [("t1-0", "explicit", None, None)]


def test_what_never_expires_went_by_hand() -> None:
    orphan = Log()
    orphan.commit(0)
    orphan.end_group(1)
    orphan.forget(500_000)
    assert rows(orphan)[-1] == ("t1-0", "explicit", None, None)
    subscribed = Log()
    subscribed.member(0, "m", ["t1"])
    subscribed.commit(0)
    subscribed.forget(500_000)
    assert rows(subscribed) == [("t1-0", "explicit", None, None)]


@pytest.mark.parametrize("number", [3, 5])
def test_a_group_that_goes_on_as_another_type_was_converted(number: int) -> None:
    log = Log()
    log.classic(0, [], cst=0)
    log.commit(1_000)
    log.end_group(5_000)
    if number == 5:
        log.member(5_000, "m", ["t1"])
    else:
        log.append(5_000, 3, 0, ConsumerGroupMetadataValue(epoch=1))
    assert rows(log) == [("GROUP", "converted", None, None)]


def test_a_downgrade_is_a_conversion_too() -> None:
    log = Log()
    log.member(0, "m", ["t1"])
    log.end_group(5_000, 3)
    log.classic(5_000, [["t1"]], cst=5_000)
    assert rows(log) == [("GROUP", "converted", None, None)]


def test_a_group_that_is_born_again_later_was_not_converted() -> None:
    log = Log()
    log.classic(0, [], cst=0)
    log.end_group(5_000)
    log.member(5_001, "m", ["t1"])
    assert rows(log) == [("GROUP", "group-empty", 0, 5_000)]


def test_a_group_that_is_born_again_at_once_as_what_it_was_was_not_converted() -> None:
    log = Log()
    log.classic(0, [], cst=0)
    log.end_group(5_000)
    log.classic(5_000, [["t1"]], cst=5_000)
    assert rows(log) == [("GROUP", "group-empty", 0, 5_000)]


@pytest.mark.parametrize("name", ["3.8-new", "4.1"])
def test_a_check_keeps_a_group_whose_transaction_is_open(name: str) -> None:
    log = Log()
    log.commit(0, "t1")
    log.commit(1, "t2", pid=7)
    log.forget(R, "t1")
    log.end_group(R)
    assert [row[:2] for row in rows(log, name)] == [("t1-0", "explicit"), ("GROUP", "explicit")]


def test_what_the_log_does_not_hold_has_no_cause() -> None:
    log = Log()
    log.forget(1)
    log.end_group(1)
    for name in RULE_SETS:
        assert rows(log, name) == [("t1-0", None, None, None), ("GROUP", None, None, None)]


def test_tombstones_of_members_are_no_rows() -> None:
    log = Log()
    log.member(0, "m", ["t1"])
    for number in (8, 7, 5):
        log.append(1_000, number, 0, None, member_id="m")
    for number in (6, 4):
        log.append(3_000, number, 0, None)
    log.end_group(3_000, 3)
    assert rows(log) == [("GROUP", "group-empty", 1_000, 2_000)]


def test_partitions_may_come_in_any_order() -> None:
    first, second = Log(0), Log(1)
    for log, group in ((first, "a"), (second, "b")):
        log.commit(0, group=group)
        log.forget(R, group=group)
    mixed = [*second.entries[:1], *first.entries, *second.entries[1:]]
    found = audit(reversed(mixed), RULE_SETS["4.1"], R)
    assert [(row.group, row.cause) for row in found] == [("a", "expired"), ("b", "expired")]


def test_the_moment_a_member_leaves_is_when_its_topics_are_free() -> None:
    """The largest difference between the protocols: KIP-848 knows no time of emptiness."""
    log = Log()
    log.member(0, "m", ["t1"])
    log.commit(2_000)
    log.append(100_300, 8, 0, None, member_id="m")
    log.member(100_300, "m", None)
    log.forget(101_100)
    log.end_group(101_100, 3)
    assert rows(log) == [("t1-0", "expired", 100_300, 800), ("GROUP", "group-empty", 100_300, 800)]
