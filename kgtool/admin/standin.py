"""Committing in a member's name (``--as-member``): whose, and with which epoch.

The coordinator takes a living group's commits from its members only, and fences them by the
member epoch (KIP-848). So a member that is described now can be spoken for, until its epoch
moves on: then the broker answers STALE_MEMBER_EPOCH (113) and nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgtool.admin.commit import Identity, Outcome
from kgtool.admin.groups import describe_groups
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.model import CommittedOffset, GroupDescription, ItemError, Target, TopicPartition
from kgtool.protocol import codes


def member_of(description: GroupDescription) -> Identity | ItemError:
    """Return a member to speak for, or why there is none."""
    if description.type != "consumer":
        return ItemError(
            Target(group=description.group), None, "NO_MEMBER_EPOCH",
            f"Group '{description.group}' is a {description.type} group: its generation is not "
            "shown to anybody but its members, so nothing can be committed in their name.",
            "Stop its members, or wait for it with --wait-empty 60s.",
        )  # fmt: skip
    able = [m for m in description.members if m.epoch is not None and m.epoch > 0]
    # Members that still speak the classic protocol commit by another rule: the last choice.
    able.sort(key=lambda member: bool(member.is_classic))
    if not able:
        return ItemError(
            Target(group=description.group), None, "NO_MEMBER_EPOCH",
            f"Group '{description.group}' has no member that could commit now: it is "
            f"{description.state}.",
            "Try again when it is Stable.",
        )  # fmt: skip
    chosen = able[0]
    return Identity(chosen.member_id, chosen.epoch or 0, chosen.instance_id)


def speak_for(cluster: Cluster, groups: Sequence[str]) -> Operation[dict[str, Identity]]:
    """Describe groups, and find a member for each that has one to speak for."""
    described = yield from describe_groups(cluster, groups)
    found = {}
    for description in described:
        who = member_of(description) if description.error is None else None
        if isinstance(who, Identity):
            found[description.group] = who
    return found


def fenced(
    wanted: Mapping[str, Mapping[TopicPartition, CommittedOffset | None]],
    outcomes: Mapping[str, Outcome],
) -> dict[str, dict[TopicPartition, CommittedOffset | None]]:
    """Return what was refused because the member's epoch, or the member, is another one now."""
    moved_on = (codes.STALE_MEMBER_EPOCH, codes.FENCED_MEMBER_EPOCH, codes.UNKNOWN_MEMBER_ID)
    found = {}
    for group, parts in wanted.items():
        again = {}
        for partition, value in parts.items():
            error = outcomes[group].get(partition)
            if error is not None and error.code in moved_on:
                again[partition] = value
        if again:
            found[group] = again
    return found
