"""What the epochs of a group say in words: who is behind, and who still is classic (KIP-848).

A member is behind while its epoch is older than that of the target assignment, or while what it
holds is not what it is to hold. While that is so, the group is reconciling.
"""

from __future__ import annotations

from kgtool.cli.output.output import Output
from kgtool.model import GroupDescription, Member
from kgtool.text import escape, listed

_NAMES = 5


def behind(group: GroupDescription) -> list[Member]:
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


def classic(group: GroupDescription) -> list[Member]:
    """Return the members that still speak the classic protocol in a group of the new one."""
    if group.type == "classic":
        return []
    return [member for member in group.members if member.is_classic]


def sentences(group: GroupDescription) -> list[str]:
    """Say what is unfinished about a group; nothing where all is done."""
    name = escape(group.group)
    said = []
    # A group that is empty has nobody to assign anything to.
    if group.members and (group.group_epoch or 0) > (group.assignment_epoch or 0):
        said.append(
            f"Group {name}: epoch {group.group_epoch}, but the target assignment is still that of "
            f"epoch {group.assignment_epoch}."
        )
    late = behind(group)
    if late:
        said.append(
            f"Group {name}: {len(late)} of {len(group.members)} members are behind the target "
            f"assignment (epoch {group.assignment_epoch}): {_listed(late)}."
        )
    old = classic(group)
    if old:
        said.append(
            f"Group {name} is being migrated: {len(old)} of {len(group.members)} members still "
            f"speak the classic protocol: {_listed(old)}."
        )
    return said


def _listed(members: list[Member]) -> str:
    names = []
    for member in members:
        epoch = "" if member.epoch is None else f" (epoch {member.epoch})"
        names.append(escape(f"{member.client_id} on {member.host}{epoch}"))
    return listed(names, _NAMES, " and {} more")


def note(output: Output, group: GroupDescription) -> None:
    """Say it on stderr, for people only."""
    for sentence in sentences(group) if output.is_text else ():
        output.note(sentence)
