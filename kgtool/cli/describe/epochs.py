"""Notes on a group's epochs: members behind the target assignment, classic members (KIP-848).

A member is behind while its epoch is older than that of the target assignment, or while its
assignment is not the target. Such a group is reconciling.
"""

from __future__ import annotations

from kgtool.cli.output.output import Output
from kgtool.model import GroupDescription, Member
from kgtool.text import escape, listed

_NAMES = 5


def members_behind(group: GroupDescription) -> list[Member]:
    """Return the members that have not reached the target assignment."""
    target = group.assignment_epoch
    if target is None:
        return []
    return [
        member
        for member in group.members
        if (member.epoch is not None and member.epoch < target)
        or (member.target is not None and member.target != member.assignment)
    ]


def classic_members(group: GroupDescription) -> list[Member]:
    """Return the members of a KIP-848 group that still speak the classic protocol."""
    if group.type == "classic":
        return []
    return [member for member in group.members if member.is_classic]


def sentences(group: GroupDescription) -> list[str]:
    """Return a sentence for each unfinished rebalance or migration."""
    name = escape(group.group)
    notes = []
    # An empty group has no member to assign anything to.
    if group.members and (group.group_epoch or 0) > (group.assignment_epoch or 0):
        notes.append(
            f"Group {name}: epoch {group.group_epoch}, but the target assignment is still that of "
            f"epoch {group.assignment_epoch}."
        )
    behind = members_behind(group)
    if behind:
        notes.append(
            f"Group {name}: {len(behind)} of {len(group.members)} members are behind the target "
            f"assignment (epoch {group.assignment_epoch}): {_listed(behind)}."
        )
    classic = classic_members(group)
    if classic:
        notes.append(
            f"Group {name} is being migrated: {len(classic)} of {len(group.members)} members still "
            f"speak the classic protocol: {_listed(classic)}."
        )
    return notes


def _listed(members: list[Member]) -> str:
    names = []
    for member in members:
        epoch = "" if member.epoch is None else f" (epoch {member.epoch})"
        names.append(escape(f"{member.client_id} on {member.host}{epoch}"))
    return listed(names, _NAMES, " and {} more")


def note(output: Output, group: GroupDescription) -> None:
    """Print the sentences on stderr, in the text format only."""
    for sentence in sentences(group) if output.is_text else ():
        output.note(sentence)
