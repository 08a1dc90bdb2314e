"""Removing members: what is sent to which broker, and what its answers mean."""

from __future__ import annotations

from typing import Any

import pytest

from kgtool.changes.groups.members import MemberChoice, missing, refusals, remove_members
from kgtool.changes.kinds import remove_members as kind_module
from kgtool.changes.kinds.remove_members import RemoveMembers
from kgtool.client.cluster import Cluster
from kgtool.client.ops import DeadlineExceeded
from kgtool.errors import ConnectionLost
from kgtool.model import Broker, GroupDescription, ItemError, Member, Target
from kgtool.protocol import codes
from kgtool.protocol.api import consumer_group_heartbeat, find_coordinator, leave_group
from tests.support.script import ALL_VERSIONS, Script

DYNAMIC = Member("m1", None, "c1", "/h1", (), ())
STATIC = Member("m2", "i2", "c2", "/h2", (), ())
MODERN = Member("m3", None, "c3", "/h3", (), (), epoch=4)
ALL = (DYNAMIC, STATIC, MODERN)


def cluster() -> Cluster:
    found = Cluster()
    found.brokers = {1: Broker(1, "b", 9092)}
    found.coordinators = {"g": 1}
    return found


def run(answer: Any, members: Any = ALL, leave_version: int = 5) -> tuple[Script, Any]:
    versions = {**ALL_VERSIONS, leave_group.Request.KEY: (0, leave_version)}
    script = Script(lambda _, request: answer(request), versions)
    return script, script.run(remove_members(cluster(), "g", members, "why"))


def left(request: Any, code: int = 0) -> Any:
    return leave_group.Response(
        members=[
            leave_group.Member(
                member_id=m.member_id, group_instance_id=m.group_instance_id, error_code=code
            )
            for m in request.members
        ]
    )


def test_one_request_and_static_members_by_both_of_their_ids() -> None:
    """By the instance id alone, whoever has it by then would go."""
    script, rows = run(left)
    ((to, request),) = script.calls
    sent = [(m.member_id, m.group_instance_id, m.reason) for m in request.members]
    assert (to, request.group_id) == (1, "g")
    assert sent == [("m1", None, "why"), ("m2", "i2", "why"), ("m3", None, "why")]
    assert [(row.member, row.status) for row in rows] == [(m, "removed") for m in ALL]


def test_a_coordinator_that_takes_only_heartbeats_from_kip_848_members() -> None:
    def answer(request: Any) -> Any:
        if isinstance(request, leave_group.Request):
            return left(request, 25)
        return consumer_group_heartbeat.Response(member_epoch=-1)

    script, rows = run(answer)
    (_, _), (_, beat) = script.calls
    assert (beat.group_id, beat.member_id, beat.member_epoch) == ("g", "m3", -1)
    assert [row.status for row in rows] == ["failed", "failed", "removed"]
    assert rows[0].error is not None and rows[0].error.name == "UNKNOWN_MEMBER_ID"


def test_old_brokers_remove_one_at_a_time() -> None:
    script, rows = run(
        lambda _: leave_group.Response(),
        (DYNAMIC, DYNAMIC._replace(member_id="x")),
        leave_version=2,
    )
    assert [request.member_id for _, request in script.calls] == ["m1", "x"]
    assert [row.status for row in rows] == ["removed", "removed"]


LOST = ConnectionLost("gone").after_sending()


def again(*replies: Any) -> Any:
    """Remove one member; the answers to LeaveGroup, errors or codes, in turn."""
    left_over = list(replies)

    def answer(request: Any) -> Any:
        if not isinstance(request, leave_group.Request):
            row = find_coordinator.Coordinator(key="g", node_id=1, host="b", port=9092)
            return find_coordinator.Response(coordinators=[row])
        reply = left_over.pop(0)
        if isinstance(reply, Exception):
            return reply
        return leave_group.Response(error_code=reply) if reply in MOVED else left(request, reply)

    _, (row,) = run(answer, (DYNAMIC,))
    return row


MOVED = (codes.COORDINATOR_NOT_AVAILABLE, codes.NOT_COORDINATOR)


@pytest.mark.parametrize("first", [LOST, *MOVED])
def test_who_is_gone_after_an_unclear_answer_was_removed(first: Any) -> None:
    """Also where the coordinator had written it and lost its log before that was replicated."""
    assert again(first, codes.UNKNOWN_MEMBER_ID).status == "removed"


def test_what_nobody_has_answered_is_unknown() -> None:
    """Was: failed, of a member that may be gone."""
    row = again(LOST, DeadlineExceeded("late").after_sending())
    assert (row.status, row.error.name) == ("unknown", "OUTCOME_UNKNOWN")


def test_a_refusal_is_every_members_failure_and_names_the_acl() -> None:
    _, rows = run(lambda _: leave_group.Response(error_code=30))
    assert [row.status for row in rows] == ["failed"] * 3
    assert all(row.error is not None and row.error.code == 30 for row in rows)
    assert "READ on group g" in (rows[0].error.hint or "")


def describe(kind: str | None, *members: Member) -> GroupDescription:
    return GroupDescription("g", kind, "Stable", "consumer", "", None, members)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (MemberChoice(all_members=True), ALL),
        (MemberChoice(instance_ids=("i2",)), (STATIC,)),
        (MemberChoice(member_ids=("m1", "m3")), (DYNAMIC, MODERN)),
        (MemberChoice(client_ids=("c2",), member_ids=("m1",)), (DYNAMIC, STATIC)),
        (MemberChoice(member_ids=("nobody",)), ()),
    ],
)
def test_who_is_meant(choice: MemberChoice, expected: tuple[Member, ...]) -> None:
    assert tuple(member for member in ALL if choice.fits(member)) == expected


def test_who_is_not_there_is_named() -> None:
    choice = MemberChoice(("i2", "i9"), ("m9",), ("c1",))
    said = [error.message for error in missing(describe("classic", *ALL), choice)]
    assert [message.split("'")[3] for message in said] == ["i9", "m9"]


@pytest.mark.parametrize("kind", ["share", "streams"])
def test_types_whose_members_cannot_be_removed(kind: str) -> None:
    described = [describe(kind, DYNAMIC), *(describe(k, DYNAMIC) for k in ("classic", "consumer"))]
    groups = [d._replace(group=name) for d, name in zip(described, "abc", strict=True)]
    refused = Script(lambda *_: None).run(refusals(cluster(), groups))
    assert {group: error.name for group, error in refused.items()} == {"a": "WRONG_GROUP_TYPE"}


def test_a_coordinator_without_the_request_is_named_before_anything_is_sent() -> None:
    """So that a dry run says it, too."""
    script = Script(lambda *_: None, versions={})
    group = describe("classic", DYNAMIC)._replace(coordinator=Broker(1, "b", 9092))
    refused = script.run(refusals(cluster(), [group]))
    assert "b:9092 doesn't offer LeaveGroup, used for: remove-members" in refused["g"].message
    assert script.calls == []


def test_who_has_left_since_and_who_may_not_be_removed_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rows that are planned stay open, as long as their members are there."""
    now = GroupDescription("g", "classic", "Stable", "consumer", "", None, ALL)
    refused: dict[str, ItemError] = {}

    def describe(_cluster: Any, groups: Any) -> Any:
        yield from ()
        return [now._replace(group=group) for group in groups]

    def why(_cluster: Any, _described: Any) -> Any:
        yield from ()
        return refused

    monkeypatch.setattr(kind_module, "describe_with_type", describe)
    monkeypatch.setattr(kind_module, "refusals", why)
    kind, script = RemoveMembers(MemberChoice(all_members=True), "why"), Script(lambda *_: None)
    plan = script.run(kind.look(cluster(), ["g"]))
    assert [row.status for row in plan[0].rows] == ["would-remove"] * 3

    def again() -> list[tuple[str, str | None]]:
        (group,) = script.run(kind.look_again(cluster(), plan))
        return [(row.status, row.error and row.error.name) for row in group.rows]

    assert again() == [("would-remove", None)] * 3
    now = now._replace(members=(STATIC, MODERN))
    gone, *others = again()
    assert (gone[0], others) == ("failed", [("would-remove", None)] * 2)
    refused["g"] = ItemError(Target("g"), 30, "GROUP_AUTHORIZATION_FAILED", "no")
    assert again() == [("failed", "GROUP_AUTHORIZATION_FAILED")] * 3
