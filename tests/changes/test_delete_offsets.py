"""Which committed offsets are deleted, and which groups are left alone: without brokers."""

from __future__ import annotations

from typing import Any

import pytest

from kgtool.changes.kinds.delete_offsets import DeleteOffsets
from kgtool.model import TopicSpec
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


def look(world: World, kind: DeleteOffsets) -> list[Any]:
    [group] = world.run(kind.look(world.cluster(), ["g"]))
    rows: list[Any] = group.rows
    return rows
