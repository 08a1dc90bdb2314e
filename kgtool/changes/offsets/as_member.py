"""Committing in a member's name (``--as-member``): whose, and fenced by what.

The coordinator takes a living group's commits from its members only. Those of KIP-848 groups are
fenced by the member epoch, which ConsumerGroupDescribe shows. Those of classic groups are fenced
by the generation, which nobody but the members is told; it is in ``__consumer_offsets``, in the
group's newest metadata record. So a member can be spoken for until the group rebalances: then the
broker answers STALE_MEMBER_EPOCH (113) or ILLEGAL_GENERATION (22), and nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kgtool.changes.offsets.commit import CommitIdentity, Outcome
from kgtool.changes.offsets.verify import Write, Writes
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.errors import KgError
from kgtool.model import GroupDescription, ItemError, Target, TopicPartition
from kgtool.protocol import codes
from kgtool.queries.cluster.offsets_partition import TOPIC
from kgtool.queries.groups.describe import describe_groups
from kgtool.queries.log.reader import LogReader

Identities = dict[str, "CommitIdentity | ItemError"]


def find_identities(cluster: Cluster, groups: Sequence[GroupDescription]) -> Operation[Identities]:
    """Find a member to speak for in each living group, or say why there is none.

    For classic groups their partitions of ``__consumer_offsets`` are read, which takes READ on it.
    """
    found: Identities = {
        group.group: _modern_member(group) for group in groups if group.type == "consumer"
    }
    classic = {group.group: group for group in groups if group.type != "consumer"}
    values = yield from _metadata(cluster, list(classic))
    for name, value in values.items():
        found[name] = _classic_member(classic[name], value)
    return found


def find_identities_again(
    cluster: Cluster, groups: Sequence[str]
) -> Operation[dict[str, CommitIdentity]]:
    """Describe groups again, and return a member of each that has one to speak for."""
    described = yield from describe_groups(cluster, groups)
    living = [group for group in described if group.error is None and not group.is_empty]
    found = yield from find_identities(cluster, living)
    return {group: who for group, who in found.items() if isinstance(who, CommitIdentity)}


def _modern_member(group: GroupDescription) -> CommitIdentity | ItemError:
    able = [m for m in group.members if m.epoch is not None and m.epoch > 0]
    # Members that still speak the classic protocol commit by another rule: the last choice.
    able.sort(key=lambda member: bool(member.is_classic))
    if not able:
        return _nobody(group, f"it is {group.state}, and no member has joined yet")
    return CommitIdentity(able[0].member_id, able[0].epoch or 0, able[0].instance_id)


def _classic_member(group: GroupDescription, value: Any) -> CommitIdentity | ItemError:
    """Choose a member that the log knows too: then its generation is that of the log."""
    if isinstance(value, KgError):
        return _nobody(group, f"its generation can't be read from {TOPIC}: {value.message}")
    known = {member.member_id for member in value.members} if value is not None else set()
    for member in group.members:
        if member.member_id in known:
            return CommitIdentity(member.member_id, value.generation, member.instance_id)
    return _nobody(group, f"{TOPIC} does not know its members yet")


def _nobody(group: GroupDescription, why: str) -> ItemError:
    return ItemError(
        Target(group=group.group),
        None,
        "NO_MEMBER",
        f"Can't commit in a member's name for group '{group.group}': {why.rstrip('.')}.",
        "Stop its members, or wait for it with --wait-empty 60s.",
    )


# ---------------------------------------------------------------------------------------------
# The generation of classic groups


def _metadata(cluster: Cluster, groups: Sequence[str]) -> Operation[dict[str, Any]]:
    """Read the newest GroupMetadataValue of classic groups (None: there is none), or the error."""
    if not groups:
        return {}
    found = yield from LogReader(groups, None, wants=lambda _topic: False).read(cluster, groups)
    values: dict[str, Any] = {}
    for group, stretch in found.items():
        try:
            values[group] = stretch if isinstance(stretch, KgError) else stretch.log.metadata(group)
        except KgError as error:
            values[group] = error
    return values


# ---------------------------------------------------------------------------------------------


def fenced_writes(
    wanted: Mapping[str, Writes], outcomes: Mapping[str, Outcome]
) -> dict[str, dict[TopicPartition, Write]]:
    """Return what was refused because the member, or its epoch or generation, is another now."""
    moved_on = (
        codes.STALE_MEMBER_EPOCH, codes.FENCED_MEMBER_EPOCH, codes.UNKNOWN_MEMBER_ID,
        codes.ILLEGAL_GENERATION,
    )  # fmt: skip
    found: dict[str, dict[TopicPartition, Write]] = {}
    for group, parts in wanted.items():
        for partition, value in parts.items():
            error = outcomes[group].get(partition)
            if error is not None and error.code in moved_on:
                found.setdefault(group, {})[partition] = value
    return found
