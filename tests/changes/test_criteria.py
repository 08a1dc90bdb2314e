"""Which groups and offsets a plan takes: decided by hand-made facts."""

from __future__ import annotations

from typing import Any

import pytest

from kgtool.changes.cleanup.criteria import Criteria, Decision, decide
from kgtool.changes.cleanup.facts import GroupFacts, OffsetFacts
from kgtool.errors import KgError
from kgtool.model import CommittedOffset, GroupDescription, Member, TopicPartition
from kgtool.queries.log.commit_times import CommitTime
from kgtool.queries.log.expiry import Expiry
from kgtool.retention.generated_names import family

DAY = 86_400_000
NOW = 1_000 * DAY


def offset(
    days: float | None = 10, lag: int | None = 0, problem: str | None = None, **more: Any
) -> OffsetFacts:
    at = None if days is None else CommitTime(int(NOW - days * DAY))
    expiry = Expiry(None, NOW + DAY, "commit", is_pending=more.get("is_held", False))
    committed = CommittedOffset(5, None, "", is_pending=more.get("is_pending", False))
    return OffsetFacts(committed, "id", lag, problem, at, expiry)


def facts(
    *found: OffsetFacts,
    state: str = "Empty",
    subscribed: tuple[str, ...] | None = (),
    name: str = "g",
    protocol: str = "consumer",
    kind: str = "classic",
    **more: Any,
) -> GroupFacts:
    """A group whose offsets are those of t0-0, t1-0, …"""
    members = ()
    if state != "Empty":
        members = (Member("m", None, "c", "/h", (), subscribed),)
    protocol = kind if kind in ("share", "streams") else protocol
    description = GroupDescription(name, kind, state, protocol, "range", None, members)
    offsets = {TopicPartition(f"t{number}", 0): each for number, each in enumerate(found)}
    return GroupFacts(description, offsets, **more)


def judge(found: GroupFacts, **criteria: Any) -> Decision:
    return decide(found, Criteria(**criteria), NOW)


def action(found: GroupFacts, **criteria: Any) -> str:
    """The only item's action, ``left`` where the group was left out aloud, else ``not``."""
    decision = judge(found, **criteria)
    if decision.items:
        return "+".join(item.action for item in decision.items)
    return "left" if decision.left_out else "not"


IDLE = {"idle_ms": 5 * DAY}


@pytest.mark.parametrize(
    ("found", "criteria", "expected"),
    [
        (facts(offset(10)), IDLE, "delete-group"),
        (facts(offset(5)), IDLE, "delete-group"),
        (facts(offset(4.9)), IDLE, "not"),
        (facts(offset(10), offset(1)), IDLE, "not"),
        # A commit that nobody knows of is never guessed; one that is known to be young decides.
        (facts(offset(None)), IDLE, "left"),
        (facts(offset(10), offset(None)), IDLE, "left"),
        (facts(offset(1), offset(None)), IDLE, "not"),
        (facts(offset(None), committed_before_ms=NOW - 6 * DAY), IDLE, "delete-group"),
        (facts(offset(None), committed_before_ms=NOW - 4 * DAY), IDLE, "left"),
        (facts(offset(None), times_error=KgError("denied")), IDLE, "left"),
        (facts(offset(10), changed_ms=NOW - 4 * DAY), IDLE, "not"),
        (facts(offset(10), changed_ms=NOW - 6 * DAY), IDLE, "delete-group"),
        (facts(offset(None), changed_ms=NOW - 4 * DAY), IDLE, "not"),
        (facts(), IDLE, "left"),
        (facts(), {}, "delete-group"),
        (facts(offset(10), state="Stable"), IDLE, "not"),
        (facts(offset(10), state="PreparingRebalance"), {}, "not"),
        (facts(offset(10), error=KgError("denied")), IDLE, "left"),
        (facts(offset(10), protocol="connect"), IDLE, "left"),
        (facts(offset(10, is_pending=True)), IDLE, "left"),
        (facts(offset(1, is_pending=True)), IDLE, "not"),
        (facts(offset(10), offset(10, is_held=True)), IDLE, "left"),
        (facts(offset(lag=0)), {"no_lag": True}, "delete-group"),
        (facts(offset(lag=1), offset(lag=None)), {"no_lag": True}, "not"),
        (facts(offset(lag=None)), {"no_lag": True}, "left"),
        (facts(offset(lag=0), name="console-consumer-1"), {"generated": True}, "delete-group"),
        (facts(offset(lag=0), name="billing-1"), {"generated": True}, "not"),
        (facts(offset(1), name="console-consumer-1"), {"generated": True, **IDLE}, "not"),
    ],
)
def test_whole_groups(found: GroupFacts, criteria: dict[str, Any], expected: str) -> None:
    assert action(found, **criteria) == expected


def share(days: float | None, *found: OffsetFacts, **more: Any) -> GroupFacts:
    """A share group: its start offsets have no times, only its members have."""
    changed_ms = None if days is None else int(NOW - days * DAY)
    found = found or (offset(None, lag=3),)
    return facts(*found, kind="share", changed_ms=changed_ms, **more)


@pytest.mark.parametrize(
    ("found", "criteria", "expected"),
    [
        (share(6), IDLE, "delete-group"),
        (share(5), IDLE, "delete-group"),
        (share(4), IDLE, "not"),
        (share(6, state="Stable"), IDLE, "not"),
        # A last use that is unknown counts as recent.
        (share(None), IDLE, "left"),
        (share(None, committed_before_ms=NOW - 6 * DAY), IDLE, "delete-group"),
        (share(None, committed_before_ms=NOW - 4 * DAY), IDLE, "left"),
        (share(None, times_error=KgError("denied")), IDLE, "left"),
        (facts(kind="share", changed_ms=NOW - 6 * DAY), IDLE, "delete-group"),
        (share(6), {"no_lag": True}, "not"),
        (share(6, offset(None)), {"no_lag": True}, "delete-group"),
        (share(6, offset(None), unread_starts=True), {"no_lag": True}, "left"),
        (share(6, state="Stable"), {"unsubscribed": True}, "left"),
        (share(6, offset(None, problem="topic-gone")), {"orphaned": True}, "left"),
        (facts(offset(6), kind="streams"), IDLE, "delete-group"),
        (facts(offset(4), kind="streams"), IDLE, "not"),
        (facts(offset(6), kind="streams", changed_ms=NOW - DAY), IDLE, "not"),
    ],
)
def test_share_and_streams_groups(
    found: GroupFacts, criteria: dict[str, Any], expected: str
) -> None:
    assert action(found, **criteria) == expected


def test_why_a_share_group_goes_is_its_last_use() -> None:
    (item,) = judge(share(6), **IDLE).items
    assert item.why[1] == "members and topics unchanged for 6d"
    assert (item.last_commit_ms, item.last_change_ms) == (None, NOW - 6 * DAY)


STREAMS: dict[str, Any] = {"kind": "streams"}

GHOST = {"unsubscribed": True}
ORPHAN = {"orphaned": True}
GONE, SHRUNK = offset(problem="topic-gone"), offset(problem="beyond-end")


@pytest.mark.parametrize(
    ("found", "criteria", "expected"),
    [
        (facts(offset(), state="Stable", subscribed=("t1",)), GHOST, "delete-offsets"),
        (facts(offset(), state="Stable", subscribed=("t0",)), GHOST, "not"),
        (facts(offset(), state="Stable", subscribed=None), GHOST, "left"),
        (facts(offset(), state="Stable", subscribed=("t1",), **STREAMS), GHOST, "delete-offsets"),
        (facts(offset(), state="Stable", subscribed=("t0",), **STREAMS), GHOST, "not"),
        # It has no topology, or one that the broker can't use: what it reads is unknown.
        (facts(offset(), state="NotReady", subscribed=(), **STREAMS), GHOST, "left"),
        # Rebuilt, it would be no streams group any more.
        (facts(GONE, offset(), **STREAMS), ORPHAN, "wait"),
        (facts(GONE, **STREAMS), ORPHAN, "delete-group"),
        (facts(offset(), state="PreparingRebalance"), GHOST, "left"),
        (facts(offset()), GHOST, "not"),
        (facts(offset(1), state="Stable"), {**GHOST, **IDLE}, "not"),
        (facts(offset(lag=3), state="Stable"), {**GHOST, "no_lag": True}, "not"),
        (facts(GONE), ORPHAN, "delete-group"),
        (facts(GONE, offset()), ORPHAN, "rebuild-group"),
        (facts(GONE, offset()), {**ORPHAN, "rebuild": False}, "wait"),
        (facts(GONE, offset(), state="Stable", subscribed=("t1",)), ORPHAN, "wait"),
        (facts(GONE, offset(), state="Stable"), {**ORPHAN, **GHOST}, "delete-offsets+wait"),
        (facts(SHRUNK, offset()), ORPHAN, "delete-offsets"),
        (facts(SHRUNK, state="Stable", subscribed=("t0",)), ORPHAN, "left"),
        (facts(SHRUNK, state="Stable", subscribed=()), ORPHAN, "delete-offsets"),
        (facts(offset()), ORPHAN, "not"),
    ],
)
def test_single_offsets(found: GroupFacts, criteria: dict[str, Any], expected: str) -> None:
    assert action(found, **criteria) == expected


def test_an_item_says_why_and_what_would_be_lost() -> None:
    (item,) = judge(facts(offset(10, 7), offset(20, 5)), **IDLE).items
    assert item.why == ("no members", "idle for 10d")
    assert (item.lag, item.last_commit_ms, item.expires_at_ms) == (12, NOW - 10 * DAY, NOW + DAY)
    assert [(each.topic, each.offset, each.lag) for each in item.offsets] == [
        ("t0", 5, 7),
        ("t1", 5, 5),
    ]


def test_a_rebuilt_group_keeps_the_rest() -> None:
    (item,) = judge(facts(GONE, offset(), SHRUNK, offset()), **ORPHAN).items
    assert [each.topic for each in item.offsets] == ["t0", "t2"]
    assert [each.topic for each in item.keep] == ["t1", "t3"]
    assert item.why == (
        "topic t0 does not exist any more",
        "commits beyond the end of t2: truncated or re-created",
    )


def test_what_waits_says_until_when() -> None:
    (item,) = judge(facts(GONE, offset(), state="Stable", subscribed=("t1",)), **ORPHAN).items
    assert item.why[-1] == (
        "OffsetDelete is refused for it, and the group has members: it expires by itself from "
        "1972-09-28T00:00:00Z on"
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("console-consumer-48213", "console-consumer-*"),
        ("perf-consumer-9", "perf-consumer-*"),
        ("anonymous.0b9f6a3e-8f0c-4a8e-9d3b-0f6f1f7f2a11", "anonymous.*"),
        (
            "spark-kafka-source-0b9f6a3e-8f0c-4a8e-9d3b-0f6f1f7f2a11-driver-0",
            "spark-kafka-source-*",
        ),
        ("job_0b9f6a3e8f0c4a8e9d3b0f6f1f7f2a11", None),
        ("tenant-0b9f6a3e-8f0c-4a8e-9d3b-0f6f1f7f2a11", None),
        ("console-consumer", None),
        ("console-consumer-a", None),
        ("my-console-consumer-1", None),
        ("report-2024-11-21", None),
        ("shard-17", None),
        ("deadbeef", None),
        ("", None),
    ],
)
def test_generated_names(name: str, expected: str | None) -> None:
    assert family(name) == expected


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (("commit", "subscribed"), "delete-offsets"),
        (("subscribed", "subscribed"), "not"),
        ((None, "subscribed"), "left"),
    ],
)
def test_a_regular_expression_is_what_the_log_has_it_resolved_to(
    rules: tuple[str | None, ...], said: str
) -> None:
    """Stands for: unknown here, and known to doctor and delete-offsets. Sibling: unknown there."""
    some = [offset()._replace(expiry=Expiry(None, None, rule)) for rule in rules]
    found = facts(*some, state="Stable")
    member = found.description.members[0]._replace(subscribed_regex="^t1$")
    found = found._replace(description=found.description._replace(members=(member,)))
    assert action(found, unsubscribed=True) == said
    assert [o.topic for item in judge(found, unsubscribed=True).items for o in item.offsets] == (
        ["t0"] if said == "delete-offsets" else []
    )
