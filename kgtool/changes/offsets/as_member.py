"""Committing in a member's name (``--as-member``), fenced by epoch or generation.

The coordinator accepts commits for a group with members from those only. Commits of KIP-848 groups
are fenced by the member epoch, which ConsumerGroupDescribe shows; those of classic groups by the
generation, which only ``__consumer_offsets`` has, in the group's newest metadata record. Once the
group has rebalanced, the broker answers STALE_MEMBER_EPOCH (113) or ILLEGAL_GENERATION (22), and
nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kgtool.changes.offsets.commit import CommitIdentity, Outcomes
from kgtool.changes.offsets.verify import Write, Writes
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.errors import KgError
from kgtool.model import GroupDescription, ItemError, Target, TopicPartition
from kgtool.protocol import codes
from kgtool.queries.cluster.offsets_partition import TOPIC
from kgtool.queries.groups.describe import describe_groups
from kgtool.queries.log.reader import LogReader, Stretch

Identities = dict[str, "CommitIdentity | ItemError"]


def find_identities(cluster: Cluster, groups: Sequence[GroupDescription]) -> Operation[Identities]:
    """Find a member to commit for in each group with members, or the error.

    For classic groups their partitions of ``__consumer_offsets`` are read, which takes READ on it.
    """
    found: Identities = {
        group.group: _modern_member(group) for group in groups if group.type == "consumer"
    }
    classic = {group.group: group for group in groups if group.type != "consumer"}
    if classic:
        names = list(classic)
        reader = LogReader(names, None, wants=lambda _topic: False)
        for name, stretch in (yield from reader.read(cluster, names)).items():
            found[name] = _classic_member(classic[name], stretch)
    return found


def find_identities_again(
    cluster: Cluster, groups: Sequence[str]
) -> Operation[dict[str, CommitIdentity]]:
    """Describe groups again, and return a member of each that has one to commit for."""
    described = yield from describe_groups(cluster, groups)
    living = [group for group in described if group.error is None and not group.is_empty]
    found = yield from find_identities(cluster, living)
    return {group: one for group, one in found.items() if isinstance(one, CommitIdentity)}


def _modern_member(group: GroupDescription) -> CommitIdentity | ItemError:
    able = [m for m in group.members if m.epoch is not None and m.epoch > 0]
    # Members that still speak the classic protocol commit by another rule: the last choice.
    able.sort(key=lambda member: bool(member.is_classic))
    if not able:
        return _no_member(group, f"it is {group.state}, and no member has joined yet")
    return CommitIdentity(able[0].member_id, able[0].epoch or 0, able[0].instance_id)


def _classic_member(
    group: GroupDescription, stretch: Stretch | KgError
) -> CommitIdentity | ItemError:
    """Choose a member that is in the newest GroupMetadataValue: its generation is that one's."""
    try:
        if isinstance(stretch, KgError):
            raise stretch
        value: Any = stretch.log.metadata(group.group)
    except KgError as error:
        return _no_member(group, f"its generation can't be read from {TOPIC}: {error.message}")
    known = {member.member_id for member in value.members} if value is not None else set()
    for member in group.members:
        if member.member_id in known:
            return CommitIdentity(member.member_id, value.generation, member.instance_id)
    return _no_member(group, f"{TOPIC} does not know its members yet")


def _no_member(group: GroupDescription, why: str) -> ItemError:
    message = f"Can't commit in a member's name for group '{group.group}': {why.rstrip('.')}."
    hint = "Stop its members, or wait for it with --wait-empty 60s."
    return ItemError(Target(group=group.group), None, "NO_MEMBER", message, hint)


_FENCED = (
    codes.STALE_MEMBER_EPOCH,
    codes.FENCED_MEMBER_EPOCH,
    codes.UNKNOWN_MEMBER_ID,
    codes.ILLEGAL_GENERATION,
)


def fenced_writes(
    wanted: Mapping[str, Writes], outcomes: Mapping[str, Outcomes]
) -> dict[str, dict[TopicPartition, Write]]:
    """Return the writes that were refused because the group has rebalanced since."""
    found: dict[str, dict[TopicPartition, Write]] = {}
    for group, writes in wanted.items():
        for partition, write in writes.items():
            error = outcomes[group].get(partition)
            if error is not None and error.code in _FENCED:
                found.setdefault(group, {})[partition] = write
    return found
