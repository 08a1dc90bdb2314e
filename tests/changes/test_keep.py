"""What keep decides for each kind of offset, and what it does when things change meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from kgtool.changes.cleanup.plan_file import PlannedOffset
from kgtool.changes.driver import apply_part
from kgtool.changes.kinds import keep
from kgtool.changes.kinds.keep import GroupKeep, Keep, KeepRow
from kgtool.changes.kinds.keep_planned import KeepPlanned
from kgtool.changes.offsets.verify import Write
from kgtool.changes.snapshot import GroupChange, GroupImage, OffsetImage
from kgtool.model import CommittedOffset, GroupDescription, TopicPartition
from kgtool.protocol.codes import broker_error
from kgtool.queries.cluster.broker_rules import BrokerRules
from kgtool.queries.log.expiry import Expiries, Expiry, GroupExpiry
from kgtool.retention.rules import RULES_2_4, RULES_4_1, RULES_PRE_2_1, GroupSnapshot, RuleSet
from tests.queries.offsets_log import member
from tests.support.script import Script

T = 1_700_000_000_000
R = 7 * 86_400_000
P = TopicPartition("t", 0)
VALUE = CommittedOffset(5, 2, "note")
AFTER = T + 1000
"""When it is done."""


class World:
    """What the cluster answers; ``committed`` and ``described`` may change between two looks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.described = GroupDescription("g", "classic", "Empty", "", "", None, ())
        self.committed = VALUE
        self.expiry = Expiry(T - 5000, T - 5000 + R, "commit")
        self.expiry_after = Expiry(AFTER, AFTER + R, "commit")
        self.rules: RuleSet = RULES_4_1
        self.broker: BrokerRules | None = BrokerRules(self.rules, (4, 1), R, 600_000)
        self.since: int | None = None
        self.written: list[Any] = []
        self.announced: list[GroupChange] = []
        self.error: Any = None
        self.looks = 0
        for name in (
            "describe_with_type",
            "fetch_committed",
            "find_expiries",
            "take_images",
            "write_offsets",
            "restart_clocks",
        ):
            monkeypatch.setattr(keep, name, getattr(self, f"_{name}"))

    def run(self, operation: Any) -> Any:
        return Script(lambda _broker, _request: None).run(operation)

    def plan(self, *, join: bool = False) -> KeepRow:
        (group,) = self.run(Keep(lambda: T, join=join).look(None, ["g"]))  # type: ignore[arg-type]
        (row,) = group.rows
        self.group: GroupKeep = group
        return row

    def planned(self, offset: PlannedOffset) -> KeepRow:
        """What becomes of one offset of a plan, which counted from 7 before."""
        kind = KeepPlanned(lambda: T, {"g": {offset.at: offset}}, {("g", P): 7})
        ((row,),) = (group.rows for group in self.run(kind.look(None, ["g"])))  # type: ignore[arg-type]
        return row  # type: ignore[no-any-return]

    def execute(self) -> KeepRow:
        kind = Keep(lambda: AFTER)
        announce: Any = lambda wave: self.announced.extend(wave.groups)  # noqa: E731
        (group,) = self.run(apply_part(None, kind, [self.group], announce))  # type: ignore[arg-type]
        (row,) = group.rows
        return row

    def _describe_with_type(self, _cluster: Any, groups: Sequence[str]) -> Iterator[Any]:
        yield from ()
        return [self.described for _ in groups]

    def _fetch_committed(self, _cluster: Any, groups: Sequence[str]) -> Iterator[Any]:
        yield from ()
        return {group: {P: self.committed} for group in groups}

    def _find_expiries(self, _cluster: Any, questions: Any, now_ms: int) -> Iterator[Any]:
        yield from ()
        broker = self.broker and self.broker._replace(rules=self.rules)
        snapshot = GroupSnapshot(state_since_ms=self.since)
        expiry = self.expiry if now_ms == T else self.expiry_after
        found = {
            q.description.group: GroupExpiry("g", broker, snapshot, {P: expiry}) for q in questions
        }
        return Expiries(found, [])

    def _take_images(self, _cluster: Any, groups: Any) -> Iterator[Any]:
        yield from ()
        return [
            GroupImage(
                "g",
                "classic",
                "Empty",
                "",
                True,
                {p: OffsetImage(value) for p, value in values.items()},
            )
            for _, values in groups
        ]

    def _write_offsets(self, _cluster: Any, offsets: Any, **_options: Any) -> Iterator[Any]:
        yield from ()
        assert self.announced or not offsets, "the journal comes first"
        self.written += [("commit", group, values) for group, values in offsets.items()]
        return {group: dict.fromkeys(values, self.error) for group, values in offsets.items()}

    def _restart_clocks(self, _cluster: Any, groups: Any) -> Iterator[Any]:
        yield from ()
        self.written += [("join", group, set(topics)) for group, topics in groups.items()]
        return dict.fromkeys(groups, self.error)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_standalone_commit_is_made_again_as_it_is(world: World) -> None:
    row = world.plan()
    assert (row.status, row.how, row.new_expires_at_ms) == ("would-keep", "commit", T + R)
    done = world.execute()
    assert (done.status, done.new_expires_at_ms) == ("kept", AFTER + R)
    assert world.written == [("commit", "g", {P: Write(VALUE, VALUE)})]
    (change,) = world.announced
    assert (change.after, change.image.offsets[P].committed) == ({P: VALUE}, VALUE)


def test_a_share_group_has_nothing_to_keep(world: World) -> None:
    """Was: "has no committed offset", and the exit status of a success."""
    world.described = world.described._replace(type="share", protocol_type="share")
    (group,) = world.run(Keep(lambda: T).look(None, ["g"]))  # type: ignore[arg-type]
    assert group.rows == []
    assert group.error is not None and group.error.name == "WRONG_GROUP_TYPE"


@pytest.mark.parametrize(
    ("type_", "protocol", "rules", "rule", "since", "how"),
    [
        ("consumer", "consumer", RULES_4_1, "commit", None, "commit"),
        ("streams", "streams", RULES_4_1, "commit", None, "commit"),
        ("classic", "consumer", RULES_2_4, "empty-since", T - 9000, "join"),
        # Its record has no time: brokers go by the commit then.
        ("classic", "consumer", RULES_2_4, "commit", None, "commit"),
        # Before KIP-211 the time was fixed when it was committed.
        ("classic", "consumer", RULES_PRE_2_1, "explicit", T - 9000, "commit"),
    ],
)
def test_what_helps_depends_on_what_counts(
    world: World, type_: str, protocol: str, rules: RuleSet, rule: str, since: int | None, how: str
) -> None:
    world.described = world.described._replace(type=type_, protocol_type=protocol)
    world.rules, world.since = rules, since
    world.expiry = world.expiry._replace(rule=rule)
    assert world.plan(join=True).how == how
    assert world.execute().status == "kept"
    assert [entry[0] for entry in world.written] == [how]


def test_joining_is_only_done_when_asked_for(world: World) -> None:
    world.described = world.described._replace(protocol_type="consumer")
    world.since = T - 9000
    row = world.plan()
    assert row.error is not None
    assert (row.status, row.error.name) == ("failed", "NEEDS_JOIN")
    assert world.execute() == row
    assert world.written == []
    world.described = world.described._replace(protocol_type="connect")
    row = world.plan(join=True)
    assert row.error is not None
    assert row.error.name == "WRONG_GROUP_TYPE"


@pytest.mark.parametrize(
    "expiry",
    [
        Expiry(T, None, "subscribed"),
        Expiry(None, None, "live-group"),
        Expiry(T, None, "pending-transaction"),
        # A retention of its own that lasts longer than a new commit would.
        Expiry(T, T + R + 1, "explicit"),
    ],
    ids=str,
)
def test_what_lives_longer_anyway_is_left_alone(world: World, expiry: Expiry) -> None:
    world.expiry = expiry
    row = world.plan(join=True)
    assert (row.status, row.how) == ("not-needed", None)
    world.execute()
    assert world.written == []


def test_where_the_rule_is_unknown_a_commit_can_only_help(world: World) -> None:
    world.expiry = world.expiry_after = Expiry()
    assert world.plan().status == "would-keep"
    assert world.execute().status == "kept"


@pytest.mark.parametrize("when", ["before", "meanwhile", "in the log"])
def test_what_a_transaction_is_about_to_change_is_left_alone(world: World, when: str) -> None:
    """Was: committed again, and the coordinator drops the transaction's commit for it."""
    if when == "before":
        world.committed = VALUE._replace(is_pending=True)
    if when == "in the log":
        world.expiry = world.expiry._replace(is_pending=True)
    row = world.plan()
    if when == "meanwhile":
        assert row.is_open
        world.committed = VALUE._replace(is_pending=True)
        row = world.execute()
    assert row.status == "failed"
    assert row.error is not None
    assert (row.error.name, row.error.hint) == (
        "UNSTABLE_OFFSET_COMMIT",
        "Wait until it has ended: its commit restarts the clock.",
    )
    assert world.written == []


def test_an_offset_that_moved_is_left_alone(world: World) -> None:
    world.plan()
    world.committed = VALUE._replace(offset=6)
    done = world.execute()
    assert done.error is not None
    assert (done.status, done.error.name) == ("changed-meanwhile", "CHANGED_MEANWHILE")
    assert world.written == []
    assert world.announced == []


@pytest.mark.parametrize(("kind", "is_urgent"), [("classic", False), ("consumer", True)])
def test_a_group_that_woke_up_is_left_alone(world: World, kind: str, is_urgent: bool) -> None:
    """Once a KIP-848 group is Empty, its offsets have no other time than their commit's."""
    world.plan()
    world.described = world.described._replace(
        type=kind, state="Stable", protocol_type="consumer", members=(member(["t"]),)
    )
    done = world.execute()
    assert done.error is not None
    assert (done.status, done.error.name) == ("failed", "NON_EMPTY_GROUP")
    assert ("be quick" in (done.error.hint or "")) is is_urgent
    assert world.written == []


def test_what_the_coordinator_refuses_is_said(world: World) -> None:
    world.plan()
    world.error = broker_error(25)
    done = world.execute()
    assert done.error is not None
    assert (done.status, done.error.name) == ("failed", "UNKNOWN_MEMBER_ID")
    assert done.new_expires_at_ms == done.old_expires_at_ms


def test_a_success_that_changed_nothing_is_none(world: World) -> None:
    world.plan()
    world.expiry_after = world.expiry
    done = world.execute()
    assert done.error is not None
    assert (done.status, done.error.name) == ("failed", "NOT_VERIFIED")


def test_nothing_is_written_where_the_journal_can_not_be(world: World) -> None:
    world.plan()

    def refuse(_changes: Any) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        world.run(apply_part(None, Keep(lambda: AFTER), [world.group], refuse))  # type: ignore[arg-type]
    assert world.written == []


@pytest.mark.parametrize(
    ("expiry", "retention_ms", "clock"),
    [
        (Expiry(T, T + R + 9, "commit"), R, T),
        (Expiry(T, T + R + 9, "empty-since"), R, T + 9),
        (Expiry(T, T + R + 9, "empty-since"), None, None),
        (Expiry(T, None, "empty-since"), R, None),
    ],
)
def test_the_time_from_which_the_broker_counts(
    expiry: Expiry, retention_ms: int | None, clock: int | None
) -> None:
    """Where half of it is unknown, the journal notes none rather than a wrong one."""
    assert keep.clock_ms(expiry, retention_ms) == clock


def test_what_a_join_has_moved_is_journaled(world: World) -> None:
    """The next run of kgtool retention finds there from when the offset counted before."""
    world.described = world.described._replace(protocol_type="consumer")
    world.since = T - 9000
    world.expiry = Expiry(T - 20_000, T - 9000 + R, "empty-since")
    world.expiry_after = Expiry(T - 20_000, AFTER + R, "empty-since")
    world.plan(join=True)
    done = world.execute()
    assert done.clock == (T - 9000, AFTER)
    assert done.noted == {"offset": 5, "clock_ms": AFTER, "first_ms": T - 9000}


def test_what_a_broker_without_configs_keeps(world: World) -> None:
    """A login that may not read them: then when it expires is as unknown as before."""
    world.broker = None
    world.expiry, world.expiry_after = Expiry(T - 5000, None, None), Expiry(AFTER, None, None)
    assert world.plan().new_expires_at_ms is None
    done = world.execute()
    assert (done.status, done.clock) == ("kept", (T - 5000, AFTER))


SAME = PlannedOffset(*P, 5, 2, "note")


@pytest.mark.parametrize(
    ("planned", "ends_ms", "status"),
    [
        (SAME, T + R // 2 - 1, "would-keep"),
        (SAME, T + R // 2, "not-needed"),
        (SAME._replace(offset=4), T, "changed-meanwhile"),
        (SAME._replace(topic="gone"), T, "changed-meanwhile"),
    ],
)
def test_a_plan_keeps_what_is_due_and_as_it_was(
    world: World, planned: PlannedOffset, ends_ms: int, status: str
) -> None:
    world.expiry = Expiry(T - 5000, ends_ms, "commit")
    row = world.planned(planned)
    assert row.status == status
    assert row.first_ms == (7 if status == "would-keep" else None)


def test_a_plan_keeps_what_may_be_due(world: World) -> None:
    """When it expires is not known any more: a commit can only help."""
    world.expiry = Expiry()
    assert world.planned(SAME).status == "would-keep"
    world.expiry, world.broker = Expiry(T, T + R, "commit"), None
    assert world.planned(SAME).status == "would-keep"
