"""When an offset may go: the table of the six generations, and what must hold for any offset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgtool.retention import rules as r
from kgtool.retention.rules import (
    RULE_SETS,
    CommittedOffset,
    GroupSnapshot,
    RuleSet,
    Verdict,
    group_leaves_tombstone,
    group_may_go,
    rules_for_broker,
    verdict,
)

R = 60_000
CTS = 1_000_000
SINCE = 1_030_000
ETS = 1_010_000

BY_COMMIT = Verdict(CTS + R, r.RULE_COMMIT)
BY_EMPTY = Verdict(SINCE + R, r.RULE_EMPTY_SINCE)
BY_RECORD = Verdict(ETS, r.RULE_EXPLICIT)
LIVE = Verdict(None, r.RULE_LIVE_GROUP)
SUBSCRIBED = Verdict(None, r.RULE_SUBSCRIBED)
REBALANCING = Verdict(None, r.RULE_REBALANCING)
ORPHAN = Verdict(None, r.RULE_ORPHAN)
SHARE = Verdict(None, r.RULE_SHARE)

SIMPLE = GroupSnapshot()


def classic(
    state: str, protocol: str = "consumer", topics: frozenset[str] | None = frozenset({"t1"})
) -> GroupSnapshot:
    since = SINCE if state == "Empty" else None
    return GroupSnapshot("classic", state, protocol, since, topics, generation=3)


EMPTY_V1 = classic("Empty")._replace(state_since_ms=None)
CONSUMER = GroupSnapshot("consumer", "Stable", subscribed_topics=frozenset({"t1"}))
STREAMS = GroupSnapshot("streams", "Stable", subscribed_topics=frozenset({"t1"}))

GENERATIONS = {"2.1": ("2.1",), "2.4": ("2.4",), "new": ("3.7-new", "3.8-new", "4.1")}

TABLE = [
    # group, topic,                                     2.1          2.4          new coordinator
    ("simple", SIMPLE, "t1", BY_COMMIT, BY_COMMIT, BY_COMMIT),
    ("unknown", None, "t1", BY_COMMIT, BY_COMMIT, ORPHAN),
    ("dead", classic("Dead"), "t1", BY_COMMIT, BY_COMMIT, ORPHAN),
    ("empty", classic("Empty"), "t1", BY_EMPTY, BY_EMPTY, BY_EMPTY),
    ("empty connect", classic("Empty", "connect"), "t1", BY_EMPTY, BY_EMPTY, BY_EMPTY),
    ("empty before 2.1", EMPTY_V1, "t1", BY_COMMIT, BY_COMMIT, BY_COMMIT),
    ("stable, subscribed", classic("Stable"), "t1", LIVE, SUBSCRIBED, SUBSCRIBED),
    ("stable, dropped", classic("Stable"), "t2", LIVE, BY_COMMIT, BY_COMMIT),
    ("stable, unreadable", classic("Stable", topics=None), "t2", LIVE, LIVE, LIVE),
    ("stable connect", classic("Stable", "connect"), "t2", LIVE, LIVE, LIVE),
    ("joining", classic("PreparingRebalance"), "t2", REBALANCING, REBALANCING, REBALANCING),
    ("syncing", classic("CompletingRebalance"), "t2", REBALANCING, REBALANCING, REBALANCING),
    ("kip-848, subscribed", CONSUMER, "t1", BY_COMMIT, BY_COMMIT, SUBSCRIBED),
    ("kip-848, dropped", CONSUMER, "t2", BY_COMMIT, BY_COMMIT, BY_COMMIT),
    (
        "kip-848, assigning",
        CONSUMER._replace(state="Assigning"),
        "t1",
        BY_COMMIT,
        BY_COMMIT,
        SUBSCRIBED,
    ),
    ("kip-848, empty", CONSUMER._replace(state="Empty"), "t1", BY_COMMIT, BY_COMMIT, BY_COMMIT),
    ("streams, source", STREAMS, "t1", BY_COMMIT, BY_COMMIT, SUBSCRIBED),
    ("streams, other", STREAMS, "t2", BY_COMMIT, BY_COMMIT, BY_COMMIT),
    ("streams, empty", STREAMS._replace(state="Empty"), "t1", BY_COMMIT, BY_COMMIT, BY_COMMIT),
    ("share", GroupSnapshot("share"), "t1", BY_COMMIT, BY_COMMIT, SHARE),
]
CELLS = [
    pytest.param(RULE_SETS[name], group, topic, expected, id=f"{label}-{name}")
    for label, group, topic, *row in TABLE
    for expected, names in zip(row, GENERATIONS.values(), strict=True)
    for name in names
]


@pytest.mark.parametrize(("rules", "group", "topic", "expected"), CELLS)
def test_the_table(
    rules: RuleSet, group: GroupSnapshot | None, topic: str, expected: Verdict
) -> None:
    assert verdict(rules, group, CommittedOffset(CTS), topic, R) == expected


@pytest.mark.parametrize(("rules", "group", "topic", "expected"), CELLS)
def test_an_expire_timestamp_of_its_own_replaces_the_time_but_no_protection(
    rules: RuleSet, group: GroupSnapshot | None, topic: str, expected: Verdict
) -> None:
    own = verdict(rules, group, CommittedOffset(CTS, ETS), topic, R)
    assert own == (expected if expected.expires_at_ms is None else BY_RECORD)


@pytest.mark.parametrize(("label", "group", "topic"), [row[:3] for row in TABLE])
def test_up_to_2_0_the_group_does_not_matter(
    label: str, group: GroupSnapshot | None, topic: str
) -> None:
    rules = RULE_SETS["pre-2.1"]
    for pending in (False, True):
        stored = verdict(rules, group, CommittedOffset(CTS, ETS), topic, R, pending)
        # Strictly before now: at the timestamp itself it still stays.
        assert stored == Verdict(ETS + 1, r.RULE_EXPLICIT)
        filled_in = Verdict(CTS + R + 1, r.RULE_COMMIT)
        assert verdict(rules, group, CommittedOffset(CTS), topic, R, pending) == filled_in
        assert verdict(rules, group, CommittedOffset(CTS, -1), topic, R, pending) == filled_in


def test_none_in_a_v1_value_is_none_except_to_2_1() -> None:
    none = CommittedOffset(CTS, -1)
    for name in ("2.1", "2.4", "3.7-new", "3.8-new", "4.1"):
        assert verdict(RULE_SETS[name], SIMPLE, none, "t1", R) == BY_COMMIT
    assert verdict(r.RULES_2_1_X, SIMPLE, none, "t1", R) == Verdict(-1, r.RULE_EXPLICIT)
    assert verdict(r.RULES_2_1_X, SIMPLE, CommittedOffset(CTS), "t1", R) == BY_COMMIT
    assert verdict(r.RULES_2_1_X, classic("Stable"), none, "t1", R) == LIVE


@pytest.mark.parametrize("rules", RULE_SETS.values(), ids=RULE_SETS)
def test_an_open_transaction_protects_since_3_8_only(rules: RuleSet) -> None:
    found = verdict(rules, SIMPLE, CommittedOffset(CTS), "t1", R, pending=True)
    if rules.name in ("3.8-new", "4.1"):
        assert found == Verdict(None, r.RULE_PENDING)
    else:
        assert found == verdict(rules, SIMPLE, CommittedOffset(CTS), "t1", R)


@pytest.mark.parametrize(
    ("version", "new", "name"),
    [
        ((0, 9, 0, 1), False, "pre-2.1"),
        ((2, 0, 1), False, "pre-2.1"),
        ((2, 2), False, "2.1"),
        ((2, 3, 1), False, "2.1"),
        ((2, 8, 2), False, "2.4"),
        ((3, 6, 0), True, "2.4"),
        ((3, 7, 0), True, "3.7-new"),
        ((3, 7, 0), False, "2.4"),
        ((3, 8, 1), True, "3.8-new"),
        ((3, 9, 1), False, "2.4"),
        ((3, 9, 1), True, "3.8-new"),
        ((4, 0, 0), False, "3.8-new"),
        ((4, 1, 0), False, "4.1"),
        ((4, 3, 1), True, "4.1"),
        ((5,), False, "4.1"),
    ],
)
def test_a_brokers_version_tells_its_rules(version: tuple[int, ...], new: bool, name: str) -> None:
    assert rules_for_broker(version, new_coordinator=new).name == RULE_SETS[name].name


def test_2_1_itself_has_its_quirk() -> None:
    found = rules_for_broker((2, 1, 1), new_coordinator=False)
    assert found == r.RULES_2_1_X and found.minus_one_is_past


@pytest.mark.parametrize(
    ("version", "forgets"),
    [
        ((2, 1, 1), False),
        ((2, 2, 2), False),
        ((2, 3, 0), True),
        ((2, 4, 1), True),
        ((2, 5, 1), True),
        ((2, 6), None),
    ]
    + [((2, 6, 0), True), ((2, 6, 1), False), ((2, 8, 2), False), ((3, 9, 1), False)],
)
def test_brokers_that_write_version_3_and_read_the_date_of_version_2(
    version: tuple[int, ...], forgets: bool | None
) -> None:
    """By the tags of Kafka's GroupMetadataManager.readGroupMessageValue."""
    assert rules_for_broker(version, new_coordinator=False).forgets_date_on_load is forgets


@pytest.mark.parametrize("version", [(2, 4), (2, 7, 2), (2, 8, 1), (3, 0, 0), (3, 1, 0)])
def test_kafka_13636_takes_a_rebalance_for_stable(version: tuple[int, ...]) -> None:
    rules = rules_for_broker(version, new_coordinator=False)
    assert rules.rebalancing_is_stable and rules.name == "2.4"
    for state in ("PreparingRebalance", "CompletingRebalance"):
        group = classic(state)
        assert verdict(rules, group, CommittedOffset(CTS), "t1", R) == verdict(
            rules, classic("Stable"), CommittedOffset(CTS), "t1", R
        )
        assert verdict(RULE_SETS["2.4"], group, CommittedOffset(CTS), "t1", R) == Verdict(
            None, r.RULE_REBALANCING
        )


def _goes(name: str, *, before: bool, pending: bool, state: str = "Empty") -> bool:
    snapshot = classic("Empty")._replace(state=state)
    return group_may_go(
        RULE_SETS[name], snapshot, offsets_before=before, offsets_left=False, pending=pending
    )


def test_an_empty_group_without_offsets_goes_unless_a_transaction_is_open() -> None:
    for name in RULE_SETS:
        assert _goes(name, before=True, pending=False)
        assert _goes(name, before=False, pending=False)
        assert not _goes(name, before=False, pending=False, state="Stable")
    held = {
        name: (_goes(name, before=True, pending=True), _goes(name, before=False, pending=True))
        for name in RULE_SETS
    }
    assert held == {
        "pre-2.1": (False, False),
        "2.1": (False, False),
        "2.4": (False, False),
        "3.7-new": (True, True),
        "3.8-new": (False, True),
        "4.1": (False, False),
    }


@pytest.mark.parametrize("rules", RULE_SETS.values(), ids=RULE_SETS)
def test_what_never_goes_by_itself(rules: RuleSet) -> None:
    for group in (classic("Empty"), SIMPLE):
        assert not group_may_go(rules, group, offsets_before=True, offsets_left=True, pending=False)
    if rules.new_coordinator:
        share = GroupSnapshot("share")
        assert not group_may_go(
            rules, share, offsets_before=False, offsets_left=False, pending=False
        )


def test_who_writes_a_groups_tombstone() -> None:
    for rules in RULE_SETS.values():
        assert group_leaves_tombstone(rules, classic("Empty"))
        young = classic("Empty")._replace(generation=0)
        assert group_leaves_tombstone(rules, young) == rules.new_coordinator
        assert group_leaves_tombstone(rules, young._replace(generation=1))
        assert group_leaves_tombstone(rules, SIMPLE) == rules.new_coordinator
        assert group_leaves_tombstone(rules, CONSUMER) == rules.new_coordinator


# --- what holds for any offset -------------------------------------------------------------------

TIMES = st.integers(0, 2_000_000_000_000)
RETENTIONS = st.integers(0, 10**11)
TOPICS = ("t1", "t2", "t3")
rule_sets = st.sampled_from([*RULE_SETS.values(), r.RULES_2_1_X])
offsets = st.builds(CommittedOffset, TIMES, st.none() | st.just(-1) | TIMES)
subscriptions = st.none() | st.frozensets(st.sampled_from(TOPICS))
states = st.sampled_from(
    [
        "Empty",
        "Stable",
        "PreparingRebalance",
        "CompletingRebalance",
        "Dead",
        "Assigning",
        "Reconciling",
    ]
)
groups = st.none() | st.builds(
    GroupSnapshot,
    st.sampled_from(["classic", "consumer", "share", "streams"]),
    states,
    st.sampled_from(["", "consumer", "connect"]),
    st.none() | TIMES,
    subscriptions,
    st.integers(0, 3),
)
topics = st.sampled_from(TOPICS)


@given(rule_sets, groups, offsets, topics, RETENTIONS, RETENTIONS, st.booleans())
def test_more_retention_never_removes_sooner(
    rules: RuleSet,
    group: GroupSnapshot | None,
    offset: CommittedOffset,
    topic: str,
    some: int,
    more: int,
    pending: bool,
) -> None:
    short, long = sorted((some, more))
    sooner = verdict(rules, group, offset, topic, short, pending)
    later = verdict(rules, group, offset, topic, long, pending)
    assert sooner.rule == later.rule
    if (
        sooner.expires_at_ms is None
        or later.expires_at_ms is None
        or sooner.rule == r.RULE_EXPLICIT
    ):
        assert sooner == later
    else:
        assert later.expires_at_ms - sooner.expires_at_ms == long - short


@given(rule_sets, groups, offsets, topics, RETENTIONS, st.booleans())
def test_it_goes_exactly_when_its_base_is_retention_old(
    rules: RuleSet,
    group: GroupSnapshot | None,
    offset: CommittedOffset,
    topic: str,
    retention_ms: int,
    pending: bool,
) -> None:
    """Kafka's own comparisons, one moment at a time."""
    found = verdict(rules, group, offset, topic, retention_ms, pending)
    assert found.rule in r.RULES
    if found.expires_at_ms is None:
        return
    base = {
        r.RULE_COMMIT: offset.commit_timestamp_ms,
        r.RULE_EMPTY_SINCE: group.state_since_ms if group else None,
    }.get(found.rule)
    for now in (found.expires_at_ms - 1, found.expires_at_ms):
        if rules.fixed_at_commit:
            stored = offset.expire_timestamp_ms
            ets = offset.commit_timestamp_ms + retention_ms if stored in (None, -1) else stored
            assert ets is not None
            expired = ets < now
        elif base is None:
            assert offset.expire_timestamp_ms is not None
            expired = now >= offset.expire_timestamp_ms
        else:
            expired = now - base >= retention_ms
        assert expired == (now >= found.expires_at_ms)


@given(rule_sets, groups, offsets, topics, RETENTIONS)
def test_a_subscription_or_a_transaction_only_protects(
    rules: RuleSet,
    group: GroupSnapshot | None,
    offset: CommittedOffset,
    topic: str,
    retention_ms: int,
) -> None:
    plain = verdict(rules, group, offset, topic, retention_ms)
    pending = verdict(rules, group, offset, topic, retention_ms, pending=True)
    assert pending == plain or pending == Verdict(None, r.RULE_PENDING)
    if group is not None and group.subscribed_topics is not None:
        more = group._replace(subscribed_topics=group.subscribed_topics | {topic})
        held = verdict(rules, more, offset, topic, retention_ms)
        assert held in (plain, SUBSCRIBED)


def test_times_stop_where_an_int64_does() -> None:
    far = CommittedOffset(2**63 - 10, None)
    for rules in RULE_SETS.values():
        assert verdict(rules, SIMPLE, far, "t1", R).expires_at_ms == 2**63 - 1
