"""Members that hold a topic, so that its offsets can't be deleted."""

from __future__ import annotations

from kgtool.model import GroupDescription, Member
from kgtool.queries.groups.describe import is_subscribed


def is_held(member: Member, topic: str) -> bool:
    """Foresee whether the coordinator takes a member for a subscriber of a topic.

    What a KIP-848 regex stands for is only in the coordinator's memory and log. But it hands out
    every partition of every topic that matches, so one that nobody has or is about to get no
    longer matches; and where that is not so yet, the coordinator still refuses by itself. A
    classic subscription that can't be read counts as one to everything
    (``ClassicGroup.isSubscribedToTopic``).
    """
    if any(name == topic for name, _ in member.target or ()):
        return True
    subscribed = is_subscribed([member], topic)
    if subscribed is None and member.subscribed is not None:
        return False
    return subscribed is not False


def holders_hint(description: GroupDescription, topic: str) -> str:
    """Name who is in the way: members that hold the topic or subscribe to it."""
    holders = [m for m in description.members if is_held(m, topic)]
    # A static member by the name that its owner gave it: that is what remove-members takes.
    names = sorted(f"{m.client_id} on {m.host} ({m.instance_id or m.member_id})" for m in holders)
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"Subscribed to {topic}: {shown}." if names else "Stop the group's members first."
