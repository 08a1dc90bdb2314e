"""Removing members from a group as an administrator (LeaveGroup v3+, KIP-345 and KIP-571).

For stuck members, and static ones whose session lasts for many more minutes. A running client
rejoins by itself. Brokers before 2.4 remove one member a request, and no static ones. Members of
KIP-848 groups are removed by the same request on 4.3; where a broker doesn't know such a member,
as 3.9, kgtool sends the heartbeat with which its client would leave (ConsumerGroupHeartbeat with
member epoch −1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kgtool.changes.doubt import is_unsettled
from kgtool.client import denied
from kgtool.client.answers import left_out
from kgtool.client.cluster import Cluster, find_unsupported, version_of
from kgtool.client.ops import Operation, call
from kgtool.client.routing import by_coordinator
from kgtool.errors import KgError, OutcomeUnknown
from kgtool.model import GroupDescription, ItemError, Member, Target
from kgtool.protocol import codes
from kgtool.protocol.api import consumer_group_heartbeat, leave_group
from kgtool.protocol.codes import broker_error
from kgtool.queries.groups.describe import UNKNOWN_TYPES, describe_with_type

SEVERAL_VERSION = 3
_GONE = (codes.UNKNOWN_MEMBER_ID, codes.FENCED_INSTANCE_ID)
LEAVE_EPOCH = -1
"""``ConsumerGroupHeartbeatRequest.LEAVE_GROUP_MEMBER_EPOCH``."""


class MemberChoice(NamedTuple):
    """Chosen members: by instance id, member id or client id, or all of them."""

    instance_ids: tuple[str, ...] = ()
    member_ids: tuple[str, ...] = ()
    client_ids: tuple[str, ...] = ()
    all_members: bool = False

    def fits(self, member: Member) -> bool:
        """Whether a member is chosen."""
        return (
            self.all_members
            or member.instance_id in self.instance_ids
            or member.member_id in self.member_ids
            or member.client_id in self.client_ids
        )


class MemberRemoval(NamedTuple):
    """One member: status ``removed``, ``would-remove``, ``failed``, ``unknown`` or ``skipped``
    (others failed, and all or nothing was asked for); member is None where a chosen one is not in
    the group."""

    group: str
    member: Member | None
    status: str
    error: ItemError | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is still to be done."""
        return self.status == "would-remove"


class GroupRemovals(NamedTuple):
    """One group: its chosen members, or the reason why none of them can be removed."""

    description: GroupDescription
    rows: list[MemberRemoval]
    error: ItemError | None = None

    @property
    def group(self) -> str:
        """The group's name."""
        return self.description.group


def recorded(row: MemberRemoval) -> dict[str, Any]:
    """Return the journal's fields of a member that is going to be removed."""
    member = row.member
    assert member is not None
    return {
        "group": row.group,
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
    }


def refusals(
    cluster: Cluster, groups: Sequence[GroupDescription]
) -> Operation[dict[str, ItemError]]:
    """Return the groups whose members can't be removed, and why."""
    refused = {d.group: problem for d in groups if (problem := _refusal(d)) is not None}
    homes = {d.group: d.coordinator.id for d in groups if d.coordinator and d.group not in refused}
    too_old = yield from find_unsupported(cluster, homes, leave_group.Request)
    return refused | {g: ItemError.of(error, Target(group=g)) for g, error in too_old.items()}


def _refusal(description: GroupDescription) -> ItemError | None:
    if description.error is not None:
        return description.error
    tool = UNKNOWN_TYPES.get(description.type or "")
    if tool is None:
        return None
    return ItemError(
        Target(group=description.group),
        None,
        "WRONG_GROUP_TYPE",
        f"Group '{description.group}' is a {description.type} group: its members can't be removed "
        "by a request.",
        "Stop its clients.",
    )


def missing(description: GroupDescription, choice: MemberChoice) -> list[ItemError]:
    """Return an error for each chosen name that is not a member's."""
    group, known = description.group, description.members
    asked = [
        ("instance id", set(choice.instance_ids) - {m.instance_id for m in known}),
        ("member id", set(choice.member_ids) - {m.member_id for m in known}),
        ("client id", set(choice.client_ids) - {m.client_id for m in known}),
    ]
    return [no_member(group, kind, name) for kind, names in asked for name in sorted(names)]


def no_member(group: str, kind: str, name: str | None) -> ItemError:
    """Return the error of a chosen name that is not a member's."""
    message = f"Group '{group}' has no member with the {kind} '{name}'."
    hint = "kgtool describe --members shows who is in it."
    code = codes.UNKNOWN_MEMBER_ID
    return ItemError(Target(group=group), code, "UNKNOWN_MEMBER_ID", message, hint)


def remove_members(
    cluster: Cluster, group: str, members: Sequence[Member], reason: str
) -> Operation[list[MemberRemoval]]:
    """Remove members of one group; each has its own outcome.

    Repeating the request after a lost answer is harmless: a member that has left is unknown then,
    which is not a failure.
    """
    was_sent = False

    def work(broker: int, ids: list[str]) -> Operation[dict[str, Any]]:
        nonlocal was_sent
        outcome = yield from _leave(cluster, broker, group, members, reason)
        if isinstance(outcome, KgError):
            was_sent |= is_unsettled(outcome)
        elif was_sent:
            outcome = {m: 0 if c in _GONE else c for m, c in outcome.items()}
        return {group: outcome}

    answers = yield from by_coordinator(cluster, [group], work)
    return [_removal(group, member, answers[group]) for member in members]


def _removal(group: str, member: Member, answer: Any) -> MemberRemoval:
    error = answer
    if not isinstance(answer, KgError):
        code = answer[member.member_id]
        error = broker_error(code) if code else None
    if error is None:
        return MemberRemoval(group, member, "removed")
    error = denied.explain(error, denied.COMMIT, group=group)
    if is_unsettled(error):
        error = OutcomeUnknown(
            f"{error.message.rstrip('.')}: it is not known whether the member was removed.",
            hint="Check with kgtool describe --members.",
        )
    item = ItemError.of(error, Target(group=group))
    return MemberRemoval(group, member, item.status, item)


def _leave(
    cluster: Cluster, broker: int, group: str, members: Sequence[Member], reason: str
) -> Operation[dict[str, int] | KgError]:
    """Return an error code for each member id, or the error of all of them."""
    version = yield from version_of(broker, leave_group.Request)
    if isinstance(version, KgError):
        return version
    if version < SEVERAL_VERSION:
        single = [(m, leave_group.Request(group_id=group, member_id=m.member_id)) for m in members]
        return (yield from _one_by_one(broker, single))
    identities = [_identity(member, reason) for member in members]
    reply = yield from call(broker, leave_group.Request(group_id=group, members=identities))
    if isinstance(reply, KgError):
        return reply
    if reply.error_code:
        return broker_error(reply.error_code)
    rows = {(row.group_instance_id or row.member_id): row.error_code for row in reply.members}
    found: dict[str, int] = {}
    for member in members:
        name = member.instance_id or member.member_id
        if name not in rows:
            return left_out(leave_group.Request, f"member {member.member_id}")
        found[member.member_id] = rows[name]
    heartbeats = [
        (
            m,
            consumer_group_heartbeat.Request(
                group_id=group,
                member_id=m.member_id,
                instance_id=m.instance_id,
                member_epoch=LEAVE_EPOCH,
            ),
        )
        for m in members
        if found[m.member_id] == codes.UNKNOWN_MEMBER_ID
        and m.epoch is not None
        and not m.is_classic
    ]
    later = yield from _one_by_one(broker, heartbeats)
    return later if isinstance(later, KgError) else {**found, **later}


def _identity(member: Member, reason: str) -> leave_group.RequestMember:
    """Name a member by both of its ids.

    By its instance id alone, as Kafka's AdminClient does it, a client that was restarted meanwhile
    would be removed; with the member id the broker answers FENCED_INSTANCE_ID then.
    """
    return leave_group.RequestMember(
        member_id=member.member_id, group_instance_id=member.instance_id, reason=reason
    )


def _one_by_one(
    broker: int, requests: Sequence[tuple[Member, Any]]
) -> Operation[dict[str, int] | KgError]:
    found: dict[str, int] = {}
    for member, request in requests:
        reply = yield from call(broker, request)
        if isinstance(reply, KgError):
            return reply
        found[member.member_id] = reply.error_code
    return found


def still_busy(cluster: Cluster, groups: Sequence[str]) -> Operation[list[GroupDescription]]:
    """Return the groups that have members, for ``--wait-empty``.

    Groups that can't be described, or do not exist, are not waited for.
    """
    described = yield from describe_with_type(cluster, groups)
    return [one for one in described if one.error is None and not one.is_empty]
