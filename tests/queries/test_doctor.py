"""What ``doctor`` makes of facts that no small broker shows: clocks, versions, transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import pytest

from kgtool.cli.app.root import root
from kgtool.client.cluster import Cluster
from kgtool.errors import ConnectFailed, KgError, WrongAddress
from kgtool.model import (
    Broker,
    GroupDescription,
    GroupOffsets,
    ItemError,
    Member,
    OffsetRow,
    Target,
    TopicPartition,
)
from kgtool.protocol import codes
from kgtool.protocol.api import describe_configs, describe_groups, metadata
from kgtool.protocol.codes import broker_error
from kgtool.queries.cluster.broker_rules import BrokerRules
from kgtool.queries.cluster.offsets_partition import offsets_partition
from kgtool.queries.cluster.transactions import ActiveProducer, Transaction, Transactions
from kgtool.queries.doctor import examine
from kgtool.queries.doctor.broker_facts import BrokerFacts, OffsetsTopic, fetch_broker_facts
from kgtool.queries.doctor.denied import is_denied
from kgtool.queries.doctor.facts import DoctorOptions, Facts
from kgtool.queries.doctor.finding import KINDS, Finding
from kgtool.queries.log.commit_times import CommitTime, CommitTimes
from kgtool.queries.log.expiry import Expiries, Expiry, GroupExpiry
from kgtool.retention import rules as r
from tests.support.script import Script, living

NOW = 1_800_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR
MODERN = BrokerRules(r.RULES_4_1, (4, 1), 7 * DAY, 600_000)
SIZE = 5
"""Partitions of ``__consumer_offsets``."""


def partition(
    leader: int, replicas: Sequence[int], isr: Sequence[int], number: int = 0
) -> metadata.Partition:
    return metadata.Partition(
        partition=number, leader_id=leader, replicas=list(replicas), isr=list(isr)
    )


def brokers(*rules: Any, home: OffsetsTopic | None = None, offered: Any = None) -> BrokerFacts:
    known = dict(enumerate(rules or (MODERN,), 1))
    whole = {n: partition(1, [1], [1]) for n in range(SIZE)}
    apis = offered or dict.fromkeys(known, {3: (0, 13)})
    return BrokerFacts(known, apis, home or OffsetsTopic(whole, SIZE, None, "compact"), True)


def row(
    group: str,
    number: int = 0,
    offset: int | None = 5,
    *,
    topic: str = "orders",
    subscribed: bool | None = False,
    status: str = "ok",
    is_pending: bool = False,
) -> OffsetRow:
    return OffsetRow(
        group,
        topic,
        number,
        offset,
        0,
        10,
        5,
        None,
        "",
        None,
        None,
        None,
        subscribed,
        status,
        is_pending=is_pending,
    )


def group(name: str, *rows: OffsetRow, state: str = "Empty", **more: Any) -> GroupOffsets:
    kind = more.pop("type", "classic")
    members = more.pop("members", ())
    found = GroupDescription(name, kind, state, "consumer", "", None, members, **more)
    return GroupOffsets(found, list(rows or (row(name),)), [])


def family(name: str) -> str | None:
    return "made-*" if name.startswith("made-") else None


def facts(*groups: GroupOffsets, **more: Any) -> Facts:
    given: dict[str, Any] = {
        "options": DoctorOptions(NOW, 2 * DAY, True, family),
        "groups": list(groups),
        "brokers": brokers(),
        "times": {},
        "expiries": Expiries({}, []),
        "transactions": Transactions(),
        "later": {},
        "topic_ids": {"orders": None},
        "errors": [],
        **more,
    }
    return Facts(**given)


def found(*groups: GroupOffsets, **more: Any) -> dict[str, Finding]:
    every = list(examine.find_all(facts(*groups, **more)))
    for finding in every:
        read_command(finding.fix)
    kinds = {finding.kind: finding for finding in every}
    assert len(kinds) == len(every), every
    return kinds


def read_command(fix: Sequence[str]) -> None:
    """Let Click read a command of kgtool, down to the last option."""
    if fix[:1] != ("kgtool",):
        return
    command, rest = root.get_command(click.Context(root), fix[1]), list(fix[2:])
    while isinstance(command, click.Group):
        command, rest = command.get_command(click.Context(command), rest[0]), rest[1:]
    assert command is not None
    command.make_context("kgtool", rest)


def expiring(name: str, **expiries: Expiry) -> Expiries:
    """Offsets of partitions p0, p1, … of ``orders``."""
    offsets = {TopicPartition("orders", int(p[1:])): expiry for p, expiry in expiries.items()}
    return Expiries({name: GroupExpiry(name, MODERN, None, offsets)}, [])


def test_nothing_is_wrong_with_a_quiet_group() -> None:
    assert found(group("quiet")) == {}


# ---------------------------------------------------------------------------------------------
# BrokerFacts


@pytest.mark.parametrize(
    ("rules", "severity"),
    [
        (r.RULES_PRE_2_1, "warning"),
        (r.RULES_2_1, "warning"),
        (r.RULES_2_4, None),
        (r.RULES_3_7_NEW, "warning"),
        (r.RULES_3_8_NEW, "note"),
        (r.RULES_4_1, None),
    ],
)
def test_generations_of_brokers(rules: r.RuleSet, severity: str | None) -> None:
    said = found(brokers=brokers(BrokerRules(rules, (2, 1), 7 * DAY, 600_000)))
    assert {kind: finding.severity for kind, finding in said.items()} == (
        {"broker-old": severity} if severity else {}
    )


def test_an_upgrade_that_was_not_finished() -> None:
    old = BrokerRules(r.RULES_2_4, (3, 9), 7 * DAY, 600_000)
    home = OffsetsTopic({0: partition(1, [1, 2], [1, 2])}, 1, None, "compact")
    offered = {1: {3: (0, 13)}, 2: {3: (0, 12)}}
    said = found(brokers=brokers(MODERN, old, home=home, offered=offered))
    assert list(said) == ["brokers-mixed"]
    assert said["brokers-mixed"].evidence["release_at_least"] == {"1": "4.1", "2": "3.9"}


@pytest.mark.parametrize(
    ("kept", "interval", "kinds"),
    [
        ([7 * DAY], 600_000, []),
        ([3 * DAY], 600_000, []),
        ([DAY], 600_000, ["retention-short"]),
        ([7 * DAY, 8 * DAY], 600_000, ["retention-differs"]),
        ([7 * DAY], DAY, ["check-interval"]),
        ([DAY, 2 * DAY], DAY, ["retention-differs", "retention-short", "check-interval"]),
        ([None], None, []),
    ],
)
def test_retention(kept: list[Any], interval: Any, kinds: list[str]) -> None:
    rules = [BrokerRules(r.RULES_4_1, (4, 1), ms, interval) for ms in kept]
    ids = [*range(1, len(kept) + 1)]
    home = OffsetsTopic({0: partition(1, ids, ids)}, 1, None, "compact")
    assert list(found(brokers=brokers(*rules, home=home))) == kinds


def test_brokers_that_are_down() -> None:
    """One that is known and does not answer, one that is only a replica's id any more."""
    home = OffsetsTopic(
        {0: partition(1, [1, 2, 3], [1, 2]), 1: partition(-1, [3], []), 2: partition(1, [1], [1])},
        3,
        None,
        "compact",
    )
    known = brokers(
        MODERN, ConnectFailed("b2:9092 refuses connections."), home=home, offered={1: {}}
    )
    every = list(examine.find_all(facts(brokers=known)))
    down = {f.broker: f.evidence["offsets_partitions"] for f in every if f.kind == "broker-down"}
    assert down == {2: 1, 3: 2}
    rest = {f.kind: f for f in every if f.kind != "broker-down"}
    assert rest["offsets-no-leader"].partition == 1
    assert rest["offsets-under-replicated"].evidence["partitions"] == [0]
    assert rest["offsets-under-replicated"].evidence["not_in_sync"] == [3]
    assert rest["offsets-replication"].evidence == {"replicas": 1, "brokers": 2}
    assert len(rest) == 3


def test_a_broker_that_answers_elsewhere_is_not_to_be_started() -> None:
    """Stands for: advice that is right for one cause of a finding, and given for all.

    Siblings: a wrong certificate, a refused login, a firewall, a name without an address.
    """
    wrong = WrongAddress("Nothing listens on b2:9092.", hint="It answers at another address.")
    said = found(brokers=brokers(MODERN, wrong, offered={1: {}}))["broker-down"]
    assert "It answers at another address." in said.detail
    advice = KINDS["broker-down"][1]
    assert "those that are down" in advice and "advertised.listeners" in advice


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_log_that_is_not_only_compacted(policy: str) -> None:
    home = OffsetsTopic({0: partition(1, [1], [1])}, 1, None, policy)
    said = found(brokers=brokers(home=home))["offsets-not-compacted"]
    assert said.severity == "problem"
    assert said.fix[0] == "kafka-configs.sh" and "cleanup.policy=compact" in said.fix


def test_a_coordinator_that_is_loading() -> None:
    """It answers 14 to whatever group; nobody lists the groups of such a partition."""

    def answer(_broker: int, request: Any) -> Any:
        if isinstance(request, metadata.Request):
            rows = [partition(1 + n % 2, [1, 2], [1, 2], n) for n in range(SIZE)]
            topic = metadata.Topic(name="__consumer_offsets", partitions=rows)
            return metadata.Response(brokers=living(1, 2), topics=[topic])
        if isinstance(request, describe_groups.Request):
            return describe_groups.Response(
                groups=[
                    describe_groups.Group(
                        group_id=name, error_code=14 if offsets_partition(name, SIZE) == 3 else 69
                    )
                    for name in request.groups
                ]
            )
        if isinstance(request, describe_configs.Request):
            return describe_configs.Response()
        return broker_error(codes.UNKNOWN_SERVER_ERROR)

    cluster = Cluster()
    cluster.brokers = {1: Broker(1, "b1", 9092), 2: Broker(2, "b2", 9092)}
    script = Script(answer)
    looked = script.run(fetch_broker_facts(cluster, ["billing"], NOW, everywhere=True))
    assert looked.offsets_topic.loading == {2: [3]}
    # Nobody says whether this login may see all groups: that is no "yes".
    assert looked.sees_all is None
    assert [error.name for error in looked.errors] == ["UNKNOWN_SERVER_ERROR"]
    assert sorted(looked.offsets_topic.partitions) == list(range(SIZE))
    probes = [r for _, r in script.calls if isinstance(r, describe_groups.Request)]
    assert "billing" in [name for request in probes for name in request.groups]
    assert len(probes) == 2
    said = found(brokers=looked._replace(rules={1: MODERN, 2: MODERN}, sees_all=True, offered={}))
    assert (said["coordinator-loading"].broker, said["coordinator-loading"].partition) == (2, 3)

    some = script.run(fetch_broker_facts(cluster, ["billing"], NOW, everywhere=False))
    assert list(some.offsets_topic.partitions) == [offsets_partition("billing", SIZE)]


# ---------------------------------------------------------------------------------------------
# Time


def test_nobody_misses_what_nobody_reads() -> None:
    soon = Expiry(NOW - 7 * DAY, NOW + HOUR, r.RULE_COMMIT)
    member = Member("m", None, "c", "/h", (), ("payments",))
    ghost = group("ghost", row("ghost"), state="Stable", members=(member,))
    made = group("made-1")
    gone = group("gone", row("gone", status="unknown-topic"))
    for each in (ghost, made, gone):
        name = each.description.group
        assert "expiring" not in found(each, expiries=expiring(name, p0=soon))
    said = found(group("missed"), expiries=expiring("missed", p0=soon))
    assert said["expiring"].fix == ("kgtool", "keep", "--group", "missed")


def test_nobody_comes_back_to_a_generated_name() -> None:
    """Hundreds of dead console consumers are one finding, not one for each of their offsets."""
    for status in ("beyond-end", "before-start", "unknown-topic"):
        made, named = (group(n, row(n, status=status)) for n in ("made-1", "billing"))
        assert found(made) == {}
        assert len(found(named)) == 1


def test_what_expires_with_its_group_takes_a_join() -> None:
    soon = Expiry(NOW - 9 * DAY, NOW + HOUR, r.RULE_EMPTY_SINCE)
    late = Expiry(NOW, NOW + 3 * DAY, r.RULE_COMMIT)
    each = group("billing", row("billing", 0), row("billing", 1))
    said = found(each, expiries=expiring("billing", p0=soon, p1=late))["expiring"]
    assert said.fix[-1] == "--join"
    assert (said.evidence["offsets"], said.evidence["of"]) == (1, 2)
    assert said.evidence["first_expires_at_ms"] == NOW + HOUR


@pytest.mark.parametrize(
    ("at_ms", "before_ms", "is_lost"),
    [
        (NOW - 8 * DAY, None, True),
        (NOW - 6 * DAY, None, False),
        (None, NOW - 8 * DAY, True),  # committed before the stretch that was read
        (None, NOW - 6 * DAY, False),
        (None, None, False),
    ],
)
def test_what_a_modern_group_loses_with_its_last_member(
    at_ms: int | None, before_ms: int | None, is_lost: bool
) -> None:
    place = TopicPartition("orders", 0)
    at = {} if at_ms is None else {place: CommitTime(at_ms)}
    member = Member("m", None, "c", "/h", (), ("orders",))
    each = group(
        "new", row("new", subscribed=True), state="Stable", type="consumer", members=(member,)
    )
    held = expiring("new", p0=Expiry(None, None, r.RULE_SUBSCRIBED))
    times = {"new": CommitTimes(at, before_ms)}
    said = found(each, expiries=held, times=times)
    assert ("loses-when-empty" in said) == is_lost
    # A classic group is given the whole retention from then on.
    classic = GroupOffsets(each.description._replace(type="classic"), each.rows, [])
    assert found(classic, expiries=held, times=times) == {}


# ---------------------------------------------------------------------------------------------
# Transactions

PENDING = group("paid", row("paid", is_pending=True, status="pending-transaction"))
NUMBER = offsets_partition("paid", SIZE)


def pending(transactions: Transactions) -> Finding:
    return found(PENDING, transactions=transactions)["pending-transaction"]


def open_since(ms: int, timeout_ms: int, partitions: Sequence[int] = (NUMBER,)) -> Transaction:
    return Transaction("app", 7, "Ongoing", timeout_ms, NOW - ms, frozenset(partitions))


def seen(*under_way: Transaction, writer: tuple[int, int] | None = None, **more: Any) -> Finding:
    """What is said where everything can be seen; ``writer``: its producer id and its age."""
    found = {} if writer is None else {NUMBER: (ActiveProducer(writer[0], 4711, NOW - writer[1]),)}
    whole: dict[str, Any] = {
        "holders": {"paid": frozenset({7})},
        "is_complete": True,
        "longest_ms": 15 * 60_000,
    }
    return pending(Transactions(under_way, found, **(whole | more)))


def test_a_transaction_at_work_is_only_a_note() -> None:
    said = seen(open_since(50_000, 60_000), writer=(7, 50_000))
    assert (said.severity, said.fix) == ("note", ())
    assert (said.evidence["open_ms"], said.evidence["timeout_ms"]) == (50_000, 60_000)


def test_a_transaction_older_than_its_timeout() -> None:
    """Its coordinator alone may end it: a marker of somebody else's would tear it apart."""
    said = seen(open_since(HOUR, 60_000), writer=(7, HOUR))
    assert said.severity == "warning"
    assert said.fix[1:] == ("forceTerminateTransaction", "--transactionalId", "app")
    old = BrokerRules(r.RULES_2_4, (3, 9), 7 * DAY, 600_000)
    whole = Transactions((open_since(HOUR, 60_000),), {}, {"paid": frozenset({7})}, True, HOUR)
    said = found(PENDING, transactions=whole, brokers=brokers(old))["pending-transaction"]
    assert (said.severity, said.fix) == ("warning", ())


@pytest.mark.parametrize("state", ["PrepareCommit", "PrepareAbort"])
def test_a_transaction_that_is_decided(state: str) -> None:
    said = seen(open_since(HOUR, 60_000)._replace(state=state), writer=(7, HOUR))
    assert (said.severity, said.fix) == ("warning", ())


def test_a_transaction_of_another_application() -> None:
    """It is older, and holds nothing of this group."""
    other = open_since(HOUR, 60_000)._replace(transactional_id="other", producer_id=9)
    said = seen(other, open_since(1_000, 60_000), writer=(9, HOUR))
    assert (said.severity, said.evidence["transactional_id"]) == ("note", "app")
    assert seen(other, writer=(9, HOUR)).fix == ()


def test_a_transaction_that_nobody_ends() -> None:
    said = seen(writer=(7, HOUR))
    assert (said.severity, said.evidence["producer_id"]) == ("problem", 7)
    assert said.fix == (
        "kafka-transactions.sh",
        "abort",
        "--topic",
        "__consumer_offsets",
        "--partition",
        str(NUMBER),
        "--start-offset",
        "4711",
    )


@pytest.mark.parametrize(
    ("release", "age_ms", "severity", "words"),
    [
        ((2, 8), HOUR, "warning", "brokers before 3.0 do not say"),
        ((2, 8), 600_000, "note", "can't be seen"),
        ((3, 0), HOUR, "note", "can't be seen"),
    ],
)
def test_a_broker_that_lists_no_transactions(
    release: tuple[int, int], age_ms: int, severity: str, words: str
) -> None:
    """Before 3.0 only its age tells of a transaction that nobody ends."""
    active = {NUMBER: (ActiveProducer(7, 4711, NOW - age_ms),)}
    old = brokers(BrokerRules(r.RULES_2_4, release, 7 * DAY, 600_000))
    given = Transactions((), active, {"paid": frozenset({7})}, False, 15 * 60_000)
    said = found(PENDING, transactions=given, brokers=old)["pending-transaction"]
    assert (said.severity, words in said.detail) == (severity, True), said.detail
    assert (said.fix[:2] == ("kafka-transactions.sh", "abort")) == (severity == "warning")


def test_a_broker_that_does_not_say_who_writes() -> None:
    """Before 2.8 the log does; Kafka's tool can't ask by the transaction's start."""
    active = {NUMBER: (ActiveProducer(7, 4711, NOW - HOUR, 3, 2),)}
    old = brokers(BrokerRules(r.RULES_2_4, (2, 7), 7 * DAY, 600_000))
    given = Transactions((), active, {"paid": frozenset({7})}, False, 15 * 60_000)
    said = found(PENDING, transactions=given, brokers=old)["pending-transaction"]
    told = ["--producer-id", "7", "--producer-epoch", "3", "--coordinator-epoch", "2"]
    assert list(said.fix[-6:]) == told, said.fix
    assert said.instead[:3] == ("kgtool", "request", "WriteTxnMarkers")
    assert "--start-offset" not in said.fix


@pytest.mark.parametrize(
    ("writer", "more"),
    [
        ((7, 600_000), {}),  # any client may take 15 minutes
        ((7, HOUR), {"is_complete": False}),  # a broker that knows it may not have answered
        ((7, HOUR), {"longest_ms": None}),  # some clients may take longer
        ((7, HOUR), {"holders": {}}),  # the log can't be read
        ((8, HOUR), {}),  # somebody else's
        (None, {}),  # DescribeProducers takes READ on the topic
    ],
)
def test_what_can_not_be_told_is_no_accusation(
    writer: tuple[int, int] | None, more: dict[str, Any]
) -> None:
    said = seen(writer=writer, **more)
    assert (said.severity, said.fix) == ("note", ())


# ---------------------------------------------------------------------------------------------
# Members and names


def test_a_rebalance_that_goes_on_is_left_alone() -> None:
    member = Member("m", None, "c", "/h", (), (), epoch=3)
    each = group("busy", state="Reconciling", type="consumer", members=(member,), group_epoch=4)
    on = each.description._replace(members=(member._replace(epoch=4),), group_epoch=5)
    stable = each.description._replace(state="Stable", members=(member._replace(epoch=4),))
    for later in (on, stable):
        assert found(each, later={"busy": later}) == {}
    said = found(each, later={"busy": each.description})
    assert list(said) == ["member-behind"]
    assert said["member-behind"].fix == ()


@pytest.mark.parametrize(
    ("name", "count", "severity"),
    [
        ("made-{}", 20, "warning"),
        ("made-{}", 19, None),
        ("report-2026-11-{:02}", 25, "note"),  # nobody knows whether those come back
    ],
)
def test_piles(name: str, count: int, severity: str | None) -> None:
    groups = [group(name.format(number)) for number in range(count)]
    said = found(*groups)
    assert {kind: f.severity for kind, f in said.items()} == (
        {"piling-up": severity} if severity else {}
    )
    if severity:
        assert said["piling-up"].evidence["groups"] == count
    alive = [GroupOffsets(g.description._replace(state="Stable"), g.rows, []) for g in groups]
    assert found(*alive) == {}


def idle_for(groups: Sequence[GroupOffsets], *ms: int) -> dict[str, CommitTimes]:
    """When each group committed last; the times are used in turn."""
    at = TopicPartition("orders", 0)
    return {
        each.description.group: CommitTimes({at: CommitTime(NOW - ms[n % len(ms)])}, None)
        for n, each in enumerate(groups)
    }


@pytest.mark.parametrize(
    ("name", "idle", "said"),
    [
        ("made-{}", (3 * DAY,), ("2d", 20, "")),
        ("made-{}", (3 * DAY, HOUR), ("2d", 10, ", 10 of them idle for 2d")),
        ("made-{}", (50 * 60_000,), ("10m", 20, "")),
        ("made-{}", (90_000, 20_000), ("1m", 10, ", 10 of them idle for 1m")),
        ("made-{}", (2_000,), (None, 0, ", none of them known to be idle for 10s")),
        ("shard-{}", (3 * DAY,), ("2d", 20, "")),
        ("shard-{}", (DAY,), (None, 0, ", none of them known to be idle for 2d")),
        ("made-{}", (), (None, 0, ", none of them known to be idle for 10s")),
    ],
)
def test_the_advice_for_a_pile_finds_what_it_says(
    name: str, idle: tuple[int, ...], said: tuple[str | None, int, str]
) -> None:
    """Stands for: a command whose conditions nothing meets. Siblings: some, none, unknown times."""
    groups = [group(name.format(number)) for number in range(20)]
    pile = found(*groups, times=idle_for(groups, *idle) if idle else {})["piling-up"]
    step, count, end = said
    assert pile.evidence["idle_groups"] == count
    assert pile.detail.endswith(f"20 offsets{end}")
    assert (pile.fix[pile.fix.index("--idle") + 1] if pile.fix else None) == step


def test_a_glob_means_the_family_alone() -> None:
    """What is deleted is what was counted, whatever else the names hold."""
    from fnmatch import fnmatchcase

    groups = [group(f"a[b]?c-{number}") for number in range(20)]
    fix = found(*groups, times=idle_for(groups, 3 * DAY))["piling-up"].fix
    glob = fix[fix.index("--match") + 1]
    assert all(fnmatchcase(g.description.group, glob) for g in groups)
    assert not fnmatchcase("abxc-1", glob)
    assert "/" not in fix[-1]


def test_partitions_that_nobody_leads() -> None:
    waiting = [group(n, row(n, 1, topic="t", status="no-leader")) for n in ("a", "b")]
    said = found(*waiting)["no-leader"]
    assert (said.topic, said.partition, said.evidence) == ("t", 1, {"groups": 2})


@pytest.mark.parametrize("code", [29, 3])
def test_clouds_that_hide_the_log(code: int) -> None:
    """It is said once what that costs, and it is no failure; no ACL makes a topic appear."""
    hidden = broker_error(code)
    groups = [group("a"), group("b")]
    errors = [ItemError.of(hidden, Target(topic="__consumer_offsets"))]
    times = {"a": hidden, "b": hidden}
    said = found(*groups, times=times, errors=errors)["denied"]
    assert (said.severity, bool(said.fix)) == ("note", code == 29)
    assert "topic-recreated" in said.evidence["findings_missing"]
    assert not [e for e in errors if not is_denied(e)]
    assert not is_denied(ItemError.of(hidden, Target("a", "orders", 0)))


def test_a_reason_is_said_once_for_a_group() -> None:
    refused = ConnectFailed("b2:9092 refuses connections.")
    rows = [row("a", number) for number in range(3)]
    errors = [ItemError.of(refused, Target("a", "orders", number)) for number in range(3)]
    every = examine._errors(facts(group("a", *rows)._replace(errors=errors)))
    assert every == [ItemError.of(refused, Target("a"))]


def test_clouds_that_do_not_tell_the_retention() -> None:
    untold = KgError("The broker does not tell it.")
    untold.name = "UNKNOWN_RETENTION"
    rules = BrokerRules(r.RULES_4_1, (4, 1), None, None, untold)
    said = found(brokers=brokers(rules))["denied"]
    assert "expiring" in said.evidence["findings_missing"]
    assert is_denied(ItemError.of(untold, Target(broker=1)))


def test_what_a_regular_expression_does_not_stand_for() -> None:
    member = Member("m", None, "c", "/h", (), (), "^held.*")
    each = group(
        "re", row("re", subscribed=None), state="Stable", type="consumer", members=(member,)
    )
    for rule, kinds in ((r.RULE_COMMIT, ["ghost-topic"]), (r.RULE_SUBSCRIBED, []), (None, [])):
        known = expiring("re", p0=Expiry(NOW, NOW + HOUR if kinds else None, rule))
        assert list(found(each, expiries=known)) == kinds


def test_every_kind_is_explained_and_ranked() -> None:
    for kind, (title, meaning) in KINDS.items():
        assert kind == kind.lower() and " " not in kind
        assert title and not title.endswith(".")
        assert meaning.endswith(".")


def with_topic(**topic: Any) -> BrokerFacts:
    whole = {n: partition(1, [1], [1]) for n in range(SIZE)}
    return brokers(home=OffsetsTopic(whole, SIZE, None, "compact")._replace(**topic))


@pytest.mark.parametrize(
    ("segment", "said"),
    [
        (100 * 1024 * 1024, None),
        (None, None),
        (1024 * 1024, "tiny"),
        (1024 * 1024 * 1024, "huge"),
        (16 * 1024 * 1024, None),
    ],
)
def test_segments_of_the_log(segment: int | None, said: str | None) -> None:
    """Stands for: how soon the log is cleaned. Siblings: the cleaner, the policy, the growth."""
    finding = found(group("g"), brokers=with_topic(segment_bytes=segment)).get("offsets-segments")
    assert (finding is None) == (said is None)
    if finding is not None:
        assert said is not None and said in finding.detail
        assert finding.fix[-1] == "segment.bytes=104857600"


def test_a_broker_that_cleans_nothing() -> None:
    off = MODERN._replace(has_cleaner=False)
    finding = found(group("g"), brokers=brokers(MODERN, off))["offsets-not-cleaned"]
    assert (finding.severity, finding.evidence) == ("problem", {"brokers": [2]})


@pytest.mark.parametrize(
    ("records", "offsets", "is_found"),
    [
        (699_004, 1, True),
        (100_000, 0, True),
        (99_999, 1, False),
        (17_280 * 100, 100, False),  # a commit every 5 s
        (90_000 * 10, 10, True),
    ],
)
def test_growth_of_the_log(records: int, offsets: int, is_found: bool) -> None:
    number = offsets_partition("g", SIZE)
    rows = [row("g", n) for n in range(offsets)] or [row("g", 0, None, status="no-commit")]
    said = found(group("g", *rows), brokers=with_topic(daily={number: records}))
    assert ("offsets-growth" in said) == is_found
    if is_found:
        evidence = {"records_in_a_day": records, "live_offsets": offsets}
        growth = said["offsets-growth"]
        assert (growth.partition, growth.evidence) == (number, evidence)
    hidden = with_topic(daily={number: records})._replace(sees_all=False)
    assert "offsets-growth" not in found(group("g", *rows), brokers=hidden)
