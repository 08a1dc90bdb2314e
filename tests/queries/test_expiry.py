"""Live expiry against whole histories, and how little of the log it reads for it."""

from __future__ import annotations

import gc
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgtool.cli.commands.list import _row
from kgtool.model import GroupDescription, GroupListing, TopicPartition
from kgtool.queries.log.expiry import SLACK_MS, Expiries, Expiry, Question, find_expiries
from kgtool.queries.log.scan import GroupLog
from kgtool.records.consumer_group import ConsumerGroupRegularExpressionValue
from kgtool.records.control import Marker
from kgtool.retention import rules as r
from kgtool.retention.history import History
from kgtool.retention.rules import RULE_SETS
from tests.queries.offsets_log import FakeBroker, RawLog, described, member
from tests.retention import unseen_loads
from tests.retention.lives import Life

R = 3_600_000
FREE = r.GroupSnapshot()
SLACK = 6_000  # a hundredth of the interval
I = 600_000  # noqa: E741 - the name that the notes have for it
T = 1_700_000_000_000
P = TopicPartition("t1", 0)


def ask(broker: FakeBroker, *questions: Question, now_ms: int = T, **options: Any) -> Expiries:
    found = broker.run(find_expiries(broker.cluster, questions, now_ms, **options))
    assert isinstance(found, Expiries)
    return found


def one(broker: FakeBroker, description: GroupDescription, **options: Any) -> Expiry:
    """The expiry of t1-0 of one group, where there is nothing to complain of."""
    found = ask(broker, Question(description, {P: False}), **options)
    assert found.errors == []
    return found.groups[description.group].offsets[P]


# ---------------------------------------------------------------------------------------------
# What it says


@pytest.mark.parametrize("name", RULE_SETS)
@given(seed=st.integers(0, 2**32), retention_h=st.sampled_from([1, 5, 24]))
@settings(max_examples=60, deadline=None)
def test_it_says_what_a_replay_of_the_whole_log_says(
    name: str, seed: int, retention_h: int
) -> None:
    life = Life(random.Random(seed), regexes=False, static=True)
    log = life.log = RawLog()
    life.run(60, longest_pause_ms=R)
    rules = RULE_SETS[name]
    history = History(rules, retention_h * R)
    for entry in log.entries:
        history.feed(entry)
    now_ms = log.entries[-1].timestamp_ms + 1000
    ends = {entry.timestamp_ms for entry in log.entries if isinstance(entry.record, Marker)}
    asked, expected, topologies = _questions(history)
    broker = FakeBroker(log, name, retention_minutes=str(60 * retention_h), topologies=topologies)
    found = ask(broker, *asked, now_ms=now_ms)
    brokers = [each.broker for each in found.groups.values() if each.broker is not None]
    told = unseen_loads.told(log.entries, brokers[0].rules, retention_h * R, slack_ms=SLACK)
    unsure = {key.group for key, (rule, _) in told.items() if rule is None}
    assert {error.target.group for error in found.errors} == unsure & {k.group for k in expected}
    for key, live in expected.items():
        got = found.groups[key.group].offsets[TopicPartition(key.topic, key.partition)]
        if told.get(key) == unseen_loads.DUE:
            assert got.expires_at_ms is not None and got.expires_at_ms <= now_ms
            continue
        if told.get(key) not in (None, (live.verdict.rule, live.expires_at_ms)):
            assert (got.rule, got.expires_at_ms) == told[key]
            continue
        assert got.rule == live.verdict.rule, key
        due = live.expires_at_ms
        if due is None or due >= now_ms:
            assert got.expires_at_ms == due, key
        else:  # overdue: never before what the replay says, nor after now
            assert got.expires_at_ms is not None
            if due in ends and live.verdict.expires_at_ms is not None:
                # A transaction may have held it that began before what was read.
                due = live.verdict.expires_at_ms
            assert due <= got.expires_at_ms <= now_ms
        if got.expires_at_ms is not None or got.committed_at_ms is not None:
            assert got.committed_at_ms == live.stored.committed.commit_timestamp_ms


def _questions(history: History) -> tuple[list[Question], dict[Any, Any], dict[str, Any]]:
    questions, expected, topologies = [], {}, {}
    for group in history.group_names():
        snapshot = history.snapshot(group)
        keys = sorted(history.offsets(group))
        pending = {TopicPartition(k.topic, k.partition): history.is_pending(group, k) for k in keys}
        classic = snapshot is not None and snapshot.type == r.TYPE_CLASSIC
        instance = "static" if classic else None  # so that the log decides
        questions.append(Question(described(group, snapshot, instance=instance), pending))
        expected.update({key: history.live_offset(key) for key in keys})
        if snapshot is not None and snapshot.type == r.TYPE_STREAMS:
            topologies[group] = snapshot.subscribed_topics or frozenset()
    return questions, expected, topologies


def test_a_group_that_lost_its_protection_just_now_was_not_due_before() -> None:
    log = RawLog()
    log.commit(T - 3 * R, "t1")
    log.member(T - 2 * R, "m", ["t1"])
    log.member(T - 700, "m", None)  # the last member leaves
    answer = one(FakeBroker(log), described("g", r.GroupSnapshot("consumer", "Empty")))
    assert answer == Expiry(T - 3 * R, T - 700, "commit", None)


@pytest.mark.parametrize("deleted", [(17, 23), (23, 17)])
def test_offsets_of_a_deleted_streams_group_are_due_once_a_commit_makes_it_again(
    deleted: tuple[int, ...],
) -> None:
    """Was: due when the group was deleted, where its topology's tombstone came last."""
    log = RawLog()
    log.commit(T - 5 * R, "t1")
    for number in deleted:
        log.append(T - 3 * R, number, 0, None)
    log.commit(T - 2000, "t2")
    answer = one(FakeBroker(log), described("g", r.GroupSnapshot("classic", "Empty")))
    assert answer == Expiry(T - 5 * R, T - 2000, "commit", None)


def test_a_regular_expression_is_looked_up_in_the_log() -> None:
    log = RawLog()
    log.append(
        T - 50 * R,
        16,
        0,
        ConsumerGroupRegularExpressionValue(topics=["t1"]),
        regular_expression="t.*",
    )
    log.commit(T - 40 * R, "t1")
    log.commit(T - 100, "other")
    group = described("g", r.GroupSnapshot("consumer", "Stable"))
    group = group._replace(members=(member([], "t.*"),))
    assert one(FakeBroker(log), group).rule == "subscribed"
    # One that was never resolved stands for nothing.
    group = group._replace(members=(member([], "u.*"),))
    assert one(FakeBroker(log), group) == Expiry(T - 40 * R, T - 40 * R + R, "commit", None)
    # What was handed out on the strength of it says enough.
    holder = member([], "u.*")._replace(assignment=(("t1", (0,)),))
    broker = FakeBroker(log)
    assert one(broker, group._replace(members=(holder,)), all_times=False).rule == "subscribed"
    assert broker.fetched == []


# ---------------------------------------------------------------------------------------------
# What it reads


def old_and_new(count: int = 100) -> RawLog:
    """An old commit and an old metadata record of group g, then other groups' noise."""
    log = RawLog()
    log.commit(T - 30 * R, "t1")
    log.classic(T - 29 * R, [["t1"]])
    for at in range(count):
        log.commit(T - 20 * R + at * R // 5, "t1", group="noise")
    return log


def test_only_the_last_retention_and_check_are_read() -> None:
    log = old_and_new()
    broker = FakeBroker(log)
    stable = r.GroupSnapshot("classic", "Stable", "consumer", None, frozenset({"t1"}))
    answer = one(broker, described("g", stable))
    begin = T - R - I - SLACK_MS
    assert broker.times_asked == [begin]
    assert log.entries[broker.fetched[0]].timestamp_ms >= begin
    # When it was committed was not read, because nothing hangs on it.
    assert answer == Expiry(None, None, "subscribed", begin)


def test_nothing_is_read_where_nothing_can_expire_and_no_times_are_wanted() -> None:
    broker = FakeBroker(old_and_new())
    stable = r.GroupSnapshot("classic", "Stable", "consumer", None, frozenset({"t1"}))
    assert one(broker, described("g", stable), all_times=False).rule == "subscribed"
    assert broker.fetched == []


def test_what_was_read_is_let_go_at_once() -> None:
    """The collector of cycles hardly ever runs in kgtool: a cycle would hold a wave of the log."""
    broker = FakeBroker(old_and_new())
    empty = r.GroupSnapshot("classic", "Empty", "consumer")
    gc.collect()
    gc.disable()
    try:
        one(broker, described("g", empty))
        assert [each for each in gc.get_objects() if isinstance(each, GroupLog)] == []
    finally:
        gc.enable()


def test_what_has_lost_its_protection_is_looked_for_further_back() -> None:
    log = old_and_new()
    broker = FakeBroker(log)
    left = r.GroupSnapshot("classic", "Stable", "consumer", None, frozenset({"t2"}))
    answer = one(broker, described("g", left))
    assert (answer.committed_at_ms, answer.rule) == (T - 30 * R, "commit")
    assert answer.expires_at_ms == T - 29 * R  # since then nothing has changed
    assert broker.fetched[-1] > 90
    assert 0 in broker.fetched


def test_an_empty_groups_clock_is_found_however_old_its_record() -> None:
    log = old_and_new()
    log.classic(T - 100, [], cst=T - 105)
    empty = r.GroupSnapshot("classic", "Empty", "consumer")
    # The commit is far back: it may have a retention of its own, so it is looked for.
    assert one(FakeBroker(log), described("g", empty)) == Expiry(
        T - 30 * R, T - 105 + R, "empty-since", None
    )


def test_groups_of_one_partition_share_one_reading() -> None:
    log = RawLog()
    groups = [f"g{number}" for number in range(30)]
    for at, group in enumerate(groups):
        log.commit(T - 1000 + at, "t1", group=group)
    broker = FakeBroker(log)
    questions = [Question(described(group, None), {P: False}) for group in groups]
    found = ask(broker, *questions)
    times = [found.groups[group].offsets[P].committed_at_ms for group in groups]
    assert times == [T - 1000 + at for at in range(30)]
    assert broker.fetched == sorted(set(broker.fetched))


def test_a_group_that_came_to_life_meanwhile_is_taken_as_the_log_has_it() -> None:
    log = RawLog()
    log.commit(T - 2000, "t1")
    log.classic(T - 1000, [["t1"]], cst=T - 1000)
    empty = r.GroupSnapshot("classic", "Empty", "consumer")
    assert one(FakeBroker(log), described("g", empty)).rule == "subscribed"


# ---------------------------------------------------------------------------------------------
# What can't be known


DENIED = 29
QUESTIONS = [
    Question(described("simple", None), {P: False}),
    Question(
        described("live", r.GroupSnapshot("classic", "Stable", "connect", None, None)), {P: False}
    ),
]


@pytest.mark.parametrize("api", [1, 2, 3], ids=["Fetch", "ListOffsets", "Metadata"])
def test_a_log_that_may_not_be_read_is_named_once(api: int) -> None:
    log = RawLog()
    log.commit(T - 1000, "t1", group="simple")
    found = ask(FakeBroker(log, errors={api: DENIED}), *QUESTIONS)
    (error,) = found.errors
    assert (error.code, error.target.topic) == (DENIED, "__consumer_offsets")
    assert "unknown" in error.message
    assert error.hint == "It needs the ACL operation READ on topic __consumer_offsets."
    assert found.groups["simple"].offsets[P] == Expiry()
    # What needs no log is said all the same.
    assert found.groups["live"].offsets[P].rule == "live-group"


def test_a_configuration_that_may_not_be_read_leaves_the_commit_times() -> None:
    log = RawLog()
    log.commit(T - 1000, "t1", group="simple")
    log.commit(T - 900, "t2", group="simple", ets=T + 50)
    pending = {P: False, TopicPartition("t2", 0): False}
    question = Question(described("simple", None), pending)
    found = ask(FakeBroker(log, errors={32: 31}), question)
    (error,) = found.errors
    assert error.name == "CLUSTER_AUTHORIZATION_FAILED"
    assert "DESCRIBE_CONFIGS" in (error.hint or "")
    assert found.groups["simple"].offsets == {
        P: Expiry(T - 1000, None, None),
        # Its own expire timestamp needs no configuration.
        TopicPartition("t2", 0): Expiry(T - 900, T + 50, "explicit"),
    }


def test_errors_that_cost_nothing_but_times_are_no_failures() -> None:
    found = ask(FakeBroker(RawLog(), errors={1: DENIED, 2: DENIED}), QUESTIONS[1])
    assert found.errors == []


def test_a_log_that_does_not_have_it_is_said_so() -> None:
    found = ask(FakeBroker(RawLog()), QUESTIONS[0])
    (error,) = found.errors
    assert (error.name, error.target.group) == ("INCOMPLETE_LOG", "simple")


@pytest.mark.parametrize(("before_ms", "is_told"), [(5_900, True), (6_100, False)])
# FakeBroker's are 2.3, 2.4 to 2.5, and a 2.6 that may be 2.6.0.
@pytest.mark.parametrize("version", ["2.1", "2.4", "2.6"])
def test_a_date_that_a_restart_may_have_lost_is_not_told(
    version: str, before_ms: int, is_told: bool
) -> None:
    """T3 where no log shows the load: the restart of a single broker (seen on 2.4.1, live).

    Siblings: dates that a check takes for one (a hundredth of its interval); both in the past; the
    same by the analysis (``test_one_history``).
    """
    log = RawLog()
    log.commit(T - 1000 - before_ms, "t1")
    log.classic(T - 1000, [], cst=T - 1000)
    question = Question(described("g", r.GroupSnapshot("classic", "Empty", "consumer")), {P: False})
    found = ask(FakeBroker(log, version), question)
    answer = found.groups["g"].offsets[P]
    if is_told:
        assert (found.errors, answer[1:3]) == ([], (T - 1000 - before_ms + R, "commit"))
        return
    assert answer == Expiry(T - 1000 - before_ms, latest_ms=T - 1000 + R)
    # Lost within a time it is that has both dates: such a group was left out.
    listed = GroupListing("g", "classic", "Empty", "consumer", 0)
    (row,) = _row(listed, found.groups["g"], T - 1000 + R)
    assert (row["expiring_offsets"], row["expires_at_ms"], row["rule"]) == (1, None, None)
    assert not [*_row(listed, found.groups["g"], T - 1001 + R)]
    (error,) = found.errors
    assert (error.name, error.target.group) == ("UNSEEN_RESTART", "g")
    assert error.message == (
        "When 1 offset of group g may expire is unknown: from 2023-11-14T23:13:12Z on if its "
        "broker has restarted since the group changed, else from 2023-11-14T23:13:19Z on."
    )


NEVER, COMMIT, UNKNOWN = (None, "subscribed"), (T - 1000 + R, "commit"), (None, None)


@pytest.mark.parametrize(
    ("version", "epoch", "said"),
    [
        # ZooKeeper leaves the epoch of a single broker's restart as it is.
        ("2.7", -1, (UNKNOWN, NEVER, UNKNOWN)),
        ("2.7", 0, (UNKNOWN, NEVER, UNKNOWN)),
        ("2.7", 1, (COMMIT, NEVER, NEVER)),
        ("3.8-new", 0, (UNKNOWN, NEVER, UNKNOWN)),
        ("4.1", 0, (NEVER, NEVER, COMMIT)),
        # The broker has restarted, and nothing was written since.
        ("4.1", 2, (COMMIT, NEVER, NEVER)),
    ],
)
def test_a_load_that_no_record_shows_decides_the_topics_of_a_static_member_that_is_back(
    version: str, epoch: int, said: tuple[tuple[int | None, str | None], ...]
) -> None:
    """Was a date of what such a restart had protected (seen on 2.8.2, live: kept), and "never" of
    what it had freed. Sibling: by the analysis (``test_one_history``)."""
    log = RawLog()
    log.classic(T - 3000, [["t1", "t2"]], cst=T - 3000, static=True)
    partitions = [TopicPartition(topic, 0) for topic in ("t1", "t2", "t3")]
    for partition in partitions:
        log.commit(T - 1000, partition.topic)
    log.classic(T - 500, [["t2", "t3"]], cst=T - 3000, static=True)
    stable = r.GroupSnapshot("classic", "Stable", "consumer", None, frozenset(["t2", "t3"]))
    question = Question(described("g", stable, instance="i"), dict.fromkeys(partitions, False))
    found = ask(FakeBroker(log, version, epoch=epoch), question)
    answers = found.groups["g"].offsets
    assert tuple(answers[partition][1:3] for partition in partitions) == said
    messages = [error.message for error in found.errors]
    assert messages == (
        [
            "Whether 2 offsets of group g may expire is unknown: a static member is back with "
            "other topics. They count if the group's broker has restarted since, else those before."
        ]
        if UNKNOWN in said
        else []
    )


def test_a_broker_of_2_7_keeps_the_date() -> None:
    log = RawLog()
    log.commit(T - 7_100, "t1")
    log.classic(T - 1000, [], cst=T - 1000)
    question = Question(described("g", r.GroupSnapshot("classic", "Empty", "consumer")), {P: False})
    found = ask(FakeBroker(log, "2.7"), question)
    assert found.groups["g"].offsets[P][1:3] == (T - 1000 + R, "empty-since")


def test_a_log_that_can_not_be_decoded_is_named() -> None:
    log = RawLog()
    log.commit(T - 1000, "t1", group="simple")
    at = log.raw[0].index(b"simple") - 5  # where the record says how long its key is
    log.raw[0] = log.raw[0][:at] + b"\x7e" + log.raw[0][at + 1 :]
    (error,) = ask(FakeBroker(log), QUESTIONS[0]).errors
    assert error.name == "DECODE"


def test_an_offset_deleted_in_between_is_no_longer_judged() -> None:
    log = RawLog()
    log.commit(T - 1000, "t1", group="simple")
    log.forget(T - 900, "t1", group="simple")
    found = ask(FakeBroker(log), QUESTIONS[0])
    assert found.errors == []
    assert found.groups["simple"].offsets == {}
