"""Which committed offsets are deleted, and which groups are left alone: without brokers."""

from __future__ import annotations

from typing import Any

import pytest

from kgtool.changes.kinds import delete_offsets
from kgtool.changes.kinds.delete_offsets import DeleteOffsets
from kgtool.model import GroupDescription, Member, TopicSpec
from tests.support.reset_world import Group, Log, World


@pytest.mark.parametrize("asks_broker", [False, True], ids=["own form", "Kafka's form"])
@pytest.mark.parametrize(
    ("protocol_type", "force", "status"),
    [
        ("consumer", False, "would-delete"),
        ("", False, "would-delete"),
        ("connect", False, "failed"),
        ("connect", True, "would-delete"),
    ],
)
def test_groups_of_other_tools_are_left_to_them_unless_forced(
    protocol_type: str, force: bool, status: str, asks_broker: bool
) -> None:
    """With --force their offsets are read like any other's, so that undo has them."""
    world = World({"t": [Log(10)]}, {"g": Group({("t", 0): 4}, protocol_type=protocol_type)})
    [row] = look(world, DeleteOffsets({"g": [TopicSpec("t")]}, force, None, asks_broker))
    assert row.status == status
    if status == "failed":
        assert "--force" in row.error.hint
    else:
        assert row.old.offset == 4


def test_of_a_group_that_is_left_alone_every_topic_has_the_reason() -> None:
    """Also one that there is not, which would have another one."""
    world = World({"t": [Log(10)]}, {"g": Group({("t", 0): 4}, protocol_type="connect")})
    kind = DeleteOffsets({"g": [TopicSpec("t"), TopicSpec("nosuch")]})
    [group] = world.run(kind.look(world.cluster(), ["g"]))
    found = [(row.topic, row.partition, row.status, row.error) for row in group.rows]
    assert group.error is not None
    assert found == [("t", 0, "failed", group.error), ("nosuch", None, "failed", group.error)]


def test_who_holds_a_topic_is_named_and_nobody_else() -> None:
    def member(name: str, subscribed: Any = ("t",), regex: Any = None, target: Any = ()) -> Member:
        return Member("id", None, name, "/h", (), subscribed, regex, target=target)

    def hint(*members: Member) -> str:
        group = GroupDescription("g", "consumer", "Stable", "consumer", "", None, members)
        return delete_offsets._holders_hint(group, "t")

    assigned = member("assigned", ("u",), "t.*", (("t", (0,)),))
    # A regex holds only what is assigned by it; what can't be read may hold anything.
    others = member("matching", (), "t.*"), member("elsewhere", ("u",))
    holding = assigned, member("subscribed"), member("unread", None)
    assert hint(*others) == "Stop the group's members first."
    named = "Subscribed to t: assigned on /h, subscribed on /h, unread on /h"
    assert hint(*others, *holding).startswith(f"{named}. Stop them")
    assert hint(*others, *holding, member("z")).startswith(f"{named} and 1 more. Stop them")


def look(world: World, kind: DeleteOffsets) -> list[Any]:
    [group] = world.run(kind.look(world.cluster(), ["g"]))
    rows: list[Any] = group.rows
    return rows
