"""A group's life: what each kind of coordinator makes of the same records."""

from __future__ import annotations

import pytest

from kgtool.protocol.api.streams_group_describe import TopicInfo
from kgtool.records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
)
from kgtool.records.offset_commit import OffsetCommitValue
from kgtool.records.streams import (
    StreamsGroupMemberMetadataValue,
    StreamsGroupTopologyValue,
    Subtopology,
)
from kgtool.retention import rules as r
from kgtool.retention.history import Entry, History, Key, LiveOffset, read_entry
from kgtool.retention.rules import RULE_SETS, GroupSnapshot
from tests.retention.logs import GROUP, Log

R = 60_000
OLD = ("pre-2.1", "2.1", "2.4")
NEW = ("3.7-new", "3.8-new", "4.1")
T1 = Key(GROUP, "t1", 0)


def after(log: Log, name: str = "4.1") -> History:
    history = History(RULE_SETS[name], R)
    for entry in log.entries:
        history.feed(entry)
    return history


def offset(history: History, key: Key = T1) -> LiveOffset:
    live = history.live_offset(key)
    assert live is not None
    return live


@pytest.mark.parametrize("name", RULE_SETS)
def test_a_commit_alone_makes_a_simple_group(name: str) -> None:
    log = Log()
    log.commit(5, offset=42, cts=3)
    history = after(log, name)
    assert history.group_names() == [GROUP]
    assert (history.snapshot(GROUP) or GroupSnapshot()) == GroupSnapshot()
    live = offset(history)
    assert (live.stored.value.offset, live.stored.committed.commit_timestamp_ms) == (42, 3)
    late = 1 if name == "pre-2.1" else 0
    assert live.expires_at_ms == 3 + R + late


@pytest.mark.parametrize("name", OLD)
def test_a_simple_group_is_gone_with_its_last_offset(name: str) -> None:
    log = Log()
    log.commit(1)
    log.commit(2, "t2")
    log.forget(3)
    assert after(log, name).group_names() == [GROUP]
    log.forget(4, "t2")
    assert after(log, name).group_names() == []


def test_the_last_record_of_a_classic_group_is_all_of_it() -> None:
    log = Log()
    log.classic(10, [["t1"], ["t2", "t3"]], cst=8)
    snapshot = after(log).snapshot(GROUP)
    assert snapshot == GroupSnapshot(
        "classic", "Stable", "consumer", 8, frozenset({"t1", "t2", "t3"}), 1
    )
    log.classic(20, [], cst=19, generation=2)
    empty = GroupSnapshot("classic", "Empty", "consumer", 19, frozenset(), 2)
    assert after(log).snapshot(GROUP) == empty
    log.classic(30, [], generation=3)
    assert after(log).snapshot(GROUP) == empty._replace(state_since_ms=None, generation=3)


@pytest.mark.parametrize(
    ("members", "options"),
    [
        ([["t1"], b"\x00"], {}),
        ([["t1"]], {"protocol_type": "connect"}),
        ([["t1"]], {"protocol": None}),
    ],
)
def test_subscriptions_that_nobody_can_read(
    members: list[list[str] | bytes], options: dict[str, str | None]
) -> None:
    log = Log()
    log.classic(1, members, cst=1, **options)  # type: ignore[arg-type]
    snapshot = after(log).snapshot(GROUP)
    assert snapshot is not None
    assert (snapshot.state, snapshot.subscribed_topics) == ("Stable", None)


def test_orphans_exist_only_in_the_new_coordinator_and_a_commit_revives_them() -> None:
    log = Log()
    log.commit(1)
    log.classic(2, cst=2)
    log.end_group(3)
    for name in OLD:
        assert offset(after(log, name)).expires_at_ms is not None
    for name in NEW:
        history = after(log, name)
        assert history.group_names() == []
        assert offset(history).verdict == (None, r.RULE_ORPHAN)
        assert offset(history).group is None
    log.commit(500_000, "t2")
    for name in NEW:
        live = offset(after(log, name))
        assert live.verdict == (1 + R, r.RULE_COMMIT)
        # Its own time is long over, but until the commit the broker could not touch it.
        assert live.expires_at_ms == 500_000


def test_the_scala_coordinator_does_not_see_kip_848() -> None:
    log = Log()
    log.classic(1, [], cst=1)
    log.member(2, "m", ["t1"])
    log.append(3, 3, 0, ConsumerGroupMetadataValue(epoch=1))
    snapshot = after(log, "2.4").snapshot(GROUP)
    assert snapshot is not None
    assert snapshot.type == "classic"


def test_a_kip_848_groups_subscriptions_come_and_go() -> None:
    log = Log()
    log.commit(1, "t1")
    log.commit(1, "rx-a")
    log.member(2, "m1", ["t1"], regex="")
    log.member(2, "m2", [], regex="rx-.*")
    resolved = ConsumerGroupRegularExpressionValue(topics=["rx-a", "rx-b"])
    log.append(2, 16, 0, resolved, regular_expression="rx-.*")
    snapshot = after(log).snapshot(GROUP)
    assert snapshot == GroupSnapshot(
        "consumer", "Stable", "", None, frozenset({"t1", "rx-a", "rx-b"})
    )
    log.append(70_000, 16, 0, None, regular_expression="rx-.*")
    assert offset(after(log)).verdict.rule == r.RULE_SUBSCRIBED
    freed = offset(after(log), Key(GROUP, "rx-a", 0))
    assert (freed.verdict.expires_at_ms, freed.expires_at_ms) == (1 + R, 70_000)
    log.member(80_000, "m1", None)
    log.member(80_000, "m2", None)
    history = after(log)
    assert history.snapshot(GROUP) == GroupSnapshot("consumer", "Empty")
    assert history.empty_since_ms(GROUP) == 80_000
    assert offset(history).expires_at_ms == 80_000
    log.end_group(90_000, 3)
    assert offset(after(log)).verdict.rule == r.RULE_ORPHAN


def test_a_member_is_known_by_any_of_its_records() -> None:
    log = Log()
    current = ConsumerGroupCurrentMemberAssignmentValue(member_epoch=1)
    log.append(1, 8, 0, current, member_id="m")
    snapshot = after(log).snapshot(GROUP)
    assert snapshot == GroupSnapshot("consumer", "Stable")
    log.append(2, 8, 0, None, member_id="m")
    assert after(log).snapshot(GROUP) == snapshot
    log.member(3, "m", None)
    assert after(log).snapshot(GROUP) == GroupSnapshot("consumer", "Empty")


def test_a_tombstone_of_another_kind_of_group_changes_nothing() -> None:
    log = Log()
    log.classic(1, [["t1"]], cst=1)
    before = after(log).snapshot(GROUP)
    log.member(2, "m", None)
    log.end_group(2, 3)
    log.end_group(2, 17)
    assert after(log).snapshot(GROUP) == before


def test_a_streams_group_reads_its_sources_while_it_has_members() -> None:
    log = Log()
    topology = StreamsGroupTopologyValue(
        subtopologies=[
            Subtopology(source_topics=["in"], repartition_sink_topics=["re"]),
            Subtopology(
                repartition_source_topics=[TopicInfo(name="re")],
                state_changelog_topics=[TopicInfo(name="changelog")],
            ),
        ]
    )
    log.append(1, 23, 0, topology)
    assert after(log).snapshot(GROUP) == GroupSnapshot("streams", "Empty")
    log.append(2, 19, 0, StreamsGroupMemberMetadataValue(), member_id="m")
    snapshot = GroupSnapshot("streams", "Stable", subscribed_topics=frozenset({"in", "re"}))
    assert after(log).snapshot(GROUP) == snapshot


# --- transactions --------------------------------------------------------------------------------


def in_transaction(*, commit: bool) -> Log:
    log = Log()
    log.commit(1, offset=1)
    log.commit(2, offset=2, pid=7)
    log.commit(3, "t2", offset=3, pid=7)
    log.end_transaction(100_000, 7, commit=commit)
    return log


@pytest.mark.parametrize("name", RULE_SETS)
def test_a_transaction_holds_its_offsets_until_it_ends(name: str) -> None:
    log = in_transaction(commit=True)
    *before, _ = log.entries
    history = History(RULE_SETS[name], R)
    for entry in before:
        history.feed(entry)
    assert offset(history).stored.value.offset == 1
    assert offset(history).is_pending
    assert history.pending_keys(GROUP) == [T1, Key(GROUP, "t2", 0)]
    done = after(log, name)
    assert [(live.key.topic, live.stored.value.offset) for live in done.live()] == [
        ("t1", 2),
        ("t2", 3),
    ]
    assert not done.is_pending(GROUP)
    # The timestamp is that of the commit, but only the marker made it count.
    assert offset(done).stored.committed.commit_timestamp_ms == 2
    assert offset(done).expires_at_ms == 100_000


@pytest.mark.parametrize("name", RULE_SETS)
def test_an_aborted_transaction_leaves_what_was(name: str) -> None:
    history = after(in_transaction(commit=False), name)
    assert [live.stored.value.offset for live in history.live()] == [1]
    assert not history.is_pending(GROUP)


def test_another_producer_and_another_partition_end_nothing() -> None:
    log = in_transaction(commit=True)
    *before, marker = log.entries
    history = History(RULE_SETS["4.1"], R)
    for entry in [*before, marker._replace(producer_id=8), marker._replace(partition=1)]:
        history.feed(entry)
    assert history.is_pending(GROUP)


@pytest.mark.parametrize("name", RULE_SETS)
def test_the_newer_of_two_commits_wins_except_in_3_7(name: str) -> None:
    log = Log()
    log.commit(1, offset=1, pid=7)
    log.commit(2, offset=2)
    log.end_transaction(3, 7, commit=True)
    assert offset(after(log, name)).stored.value.offset == (1 if name == "3.7-new" else 2)


def test_the_scala_coordinator_compares_batches() -> None:
    def replay(base_offset: int | None, name: str) -> int:
        log = Log()
        log.commit(1, offset=1)
        log.commit(1, offset=2, pid=7)
        log.end_transaction(3, 7, commit=True)
        first, second, marker = log.entries
        history = History(RULE_SETS[name], R)
        for entry in (first, second._replace(base_offset=base_offset), marker):
            history.feed(entry)
        return int(offset(history).stored.value.offset)

    assert replay(1, "2.4") == replay(None, "2.4") == 2
    assert replay(0, "2.4") == 1
    assert replay(0, "4.1") == 2


def test_what_a_tombstone_does_to_an_open_transaction() -> None:
    log = Log()
    log.commit(1, pid=7)
    log.forget(2)
    held = {name: after(log, name).is_pending(GROUP, T1) for name in RULE_SETS}
    assert held == {
        "pre-2.1": True,
        "2.1": True,
        "2.4": True,
        "3.7-new": True,
        "3.8-new": False,
        "4.1": False,
    }
    # 3.8 - 4.0 forget the offset, but not that the transaction touched the group.
    assert after(log, "3.8-new").is_pending(GROUP)
    assert not after(log, "4.1").is_pending(GROUP)
    log.end_transaction(3, 7, commit=True)
    assert after(log, "3.8-new").is_pending(GROUP)
    assert not after(log, "2.4").is_pending(GROUP)


def test_a_transactional_tombstone_is_the_producers_own_in_the_scala_coordinator() -> None:
    log = Log()
    log.commit(1)
    log.commit(2, pid=7)
    log.forget(3, pid=7)
    assert not after(log, "2.4").is_pending(GROUP)
    assert offset(after(log, "2.4")).stored.value.offset == 1
    assert after(log, "4.1").live_offset(T1) is None


# --- odds and ends -------------------------------------------------------------------------------


def test_the_old_key_type_is_the_same_offset() -> None:
    log = Log()
    log.commit(1)
    value = OffsetCommitValue(offset=2, commit_timestamp=2)
    log.append(2, 0, 3, value, topic="t1", partition=0)
    history = after(log)
    assert list(history.offsets(GROUP)) == [T1]
    log.forget(3)
    assert list(after(log).live()) == []


def test_only_a_v1_value_has_an_expire_timestamp() -> None:
    log = Log()
    log.commit(1, ets=-1)
    assert offset(after(log)).stored.committed.expire_timestamp_ms == -1
    log.commit(1)
    assert offset(after(log)).stored.committed.expire_timestamp_ms is None


def test_unknown_records_and_other_control_records_are_passed_over() -> None:
    log = Log()
    log.commit(1, pid=7)
    history = after(log)
    for raw in (b"\x00\x63abc", b"\x00\x12abc"):
        history.feed(_entry(raw, is_control=False))
    history.feed(_entry(b"\x00\x00\x00\x02", is_control=True))
    assert history.is_pending(GROUP)


def _entry(key: bytes, *, is_control: bool) -> Entry:
    return read_entry(0, 9, 9, key, b"\x00\x00", producer_id=7, is_control=is_control)


def test_a_new_commit_forgets_how_long_the_old_one_was_free() -> None:
    log = Log()
    log.commit(1)
    log.commit(50_000)
    assert offset(after(log)).expires_at_ms == 50_000 + R


def test_what_was_free_before_stays_free_since_then() -> None:
    log = Log()
    log.commit(0)
    log.member(1, "m", ["t1"])
    log.member(100_000, "m", ["t2"])
    log.member(200_000, "m", ["t3"])
    assert offset(after(log)).expires_at_ms == 100_000


def test_who_is_in_a_transaction() -> None:
    """The new coordinator asks for a producer id, the Scala one for the batch's own bit."""
    log = Log()
    log.commit(0, pid=7)
    plain = log.entries[0]._replace(transactional=False)
    for name, pending in (("2.4", False), ("4.1", True)):
        history = History(RULE_SETS[name], R)
        history.feed(plain)
        assert history.is_pending(GROUP) == pending
        assert bool(history.offsets(GROUP)) != pending
