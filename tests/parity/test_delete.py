"""38–41, 43–52: ``--delete`` and ``--delete-offsets``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.run import Result
from tests.parity.behaviours import Kg, Offsets, World, behaviour, chosen, lines
from tests.support import clients

pytestmark = pytest.mark.broker

ANY = ("any",)
Empty = Callable[[Offsets], str]

FAILED = "Error: Deletion of some consumer groups failed:"
PARTIAL = "Error: Encountered some partition-level error, see the follow-up details."
ERRORS = "Error: org.apache.kafka.common.errors."
SUBSCRIBED = (
    f"{ERRORS}GroupSubscribedToTopicException: Deleting offsets of a topic is forbidden while "
    "the consumer group is actively subscribed to it."
)
UNKNOWN = (
    f"{ERRORS}UnknownTopicOrPartitionException: This server does not host this topic-partition."
)
MISSING = f"{ERRORS}GroupIdNotFoundException: The group id does not exist."


@behaviour(38, protocols=ANY)
def test_delete_takes_no_topic(kg: Kg, protocol: str) -> None:
    result = kg("--delete", "--group", "g", "--topic", "t")
    assert (result.status, result.out) == (2, "")
    assert result.err.removeprefix("Error: ") == (
        "The consumer does not support topic-specific offset deletion from a consumer group.\n"
    )


@behaviour(39, protocols=ANY)
def test_deleting_a_missing_group(kg: Kg, protocol: str) -> None:
    result = kg("--delete", "--group", "missing.group")
    assert (result.status, result.out) == (1, "")
    assert result.err.splitlines()[0] == FAILED
    assert result.err.splitlines()[1].startswith(
        "* Group 'missing.group' could not be deleted due to: "
        "org.apache.kafka.common.errors.GroupIdNotFoundException: The group id does not exist."
    )


@behaviour(40)
def test_deleting_a_group_with_members(world: World, address: str, kg: Kg, protocol: str) -> None:
    result = kg("--delete", "--group", world.stable)
    assert (result.status, result.out) == (1, "")
    assert (
        f"* Group '{world.stable}' could not be deleted due to: "
        "org.apache.kafka.common.errors.GroupNotEmptyException: The group is not empty."
    ) in result.err
    assert world.stable in clients.group_ids(address)
    assert clients.committed(address, world.stable) == {(world.one, 0): 1}


@behaviour(41)
def test_deleting_an_empty_group(
    world: World, address: str, kg: Kg, empty: Empty, protocol: str
) -> None:
    group = empty({(world.one, 0): 1})
    result = kg("--delete", "--group", group)
    assert result.status == 0
    assert result.out == f"Deletion of requested consumer groups ('{group}') was successful.\n"
    assert group not in clients.group_ids(address)


@behaviour(43)
def test_deleting_a_missing_and_an_empty_group(
    world: World, address: str, kg: Kg, empty: Empty, protocol: str
) -> None:
    group = empty({(world.one, 0): 1})
    result = kg("--delete", *chosen("missing.group", group))
    assert result.status == 3
    assert FAILED in result.err
    assert "* Group 'missing.group' could not be deleted due to: " in result.err
    assert result.out == f"\nThese consumer groups were deleted successfully: '{group}'\n"
    assert group not in clients.group_ids(address)


# ---------------------------------------------------------------------------------------------
# --delete-offsets


def _table(result: Result) -> list[tuple[str, str, str]]:
    """Topic, partition and status of every row."""
    rows = result.out[result.out.index("\nTOPIC ") + 1 :].splitlines()
    assert rows[0].split() == ["TOPIC", "PARTITION", "STATUS"]
    found = [row.split(None, 2) for row in rows[1:]]
    return [(topic, partition, status.rstrip()) for topic, partition, status in found]


@behaviour(44, protocols=ANY)
def test_offsets_of_a_missing_group(worlds: dict[str, World], kg: Kg, protocol: str) -> None:
    topic = worlds["classic"].one
    result = kg("--delete-offsets", "--group", "missing.group", "--topic", topic)
    assert result.status == 1
    assert result.err.startswith("Error: The group id does not exist.")
    assert [row[2] for row in _table(result)] == [MISSING]


@behaviour(45, 46)
@pytest.mark.parametrize("suffix", ["", ":0"])
def test_offsets_of_a_topic_that_is_subscribed(
    world: World, address: str, kg: Kg, suffix: str, protocol: str
) -> None:
    argv = ["--group", world.stable, "--topic", f"{world.one}{suffix}"]
    result = kg("--delete-offsets", *argv)
    assert result.status == 1
    assert PARTIAL in result.err
    assert _table(result) == [(world.one, "0", SUBSCRIBED)]
    assert clients.committed(address, world.stable) == {(world.one, 0): 1}


@behaviour(47)
def test_offsets_of_an_unknown_partition_of_a_living_group(
    world: World, kg: Kg, protocol: str
) -> None:
    result = kg("--delete-offsets", "--group", world.stable, "--topic", "foobar:0")
    assert result.status == 1
    assert PARTIAL in result.err
    assert _table(result) == [("foobar", "0", UNKNOWN)]


@behaviour(48)
def test_offsets_of_an_unknown_topic_of_a_living_group(world: World, kg: Kg, protocol: str) -> None:
    result = kg("--delete-offsets", "--group", world.stable, "--topic", "foobar")
    assert result.status == 1
    assert _table(result) == [("foobar", "-", UNKNOWN)]


@behaviour(49, 50)
@pytest.mark.parametrize("suffix", ["", ":0"])
def test_offsets_of_an_empty_group(
    world: World, address: str, kg: Kg, empty: Empty, suffix: str, protocol: str
) -> None:
    group = empty({(world.two, 0): 1, (world.two, 1): 1, (world.one, 0): 1})
    result = kg("--delete-offsets", "--group", group, "--topic", f"{world.two}{suffix}")
    assert result.status == 0
    assert result.out.startswith(f"Request succeeded for deleting offsets from group {group}.\n")
    partitions = ["0"] if suffix else ["0", "1"]
    assert _table(result) == [(world.two, partition, "Successful") for partition in partitions]
    kept = {(world.two, 1): 1} if suffix else {}
    assert clients.committed(address, group) == {(world.one, 0): 1} | kept


@behaviour(51)
def test_offsets_of_an_unknown_partition(
    world: World, address: str, kg: Kg, empty: Empty, protocol: str
) -> None:
    """What is known is deleted all the same."""
    group = empty({(world.one, 0): 1})
    alone = kg("--delete-offsets", "--group", group, "--topic", "foobar:0")
    assert alone.status == 1
    assert PARTIAL in alone.err
    assert _table(alone) == [("foobar", "0", UNKNOWN)]
    result = kg("--delete-offsets", "--group", group, "--topic", f"{world.one}:0,9")
    assert result.status == 3
    assert _table(result) == [(world.one, "0", "Successful"), (world.one, "9", UNKNOWN)]
    assert clients.committed(address, group) == {}


@behaviour(52)
def test_offsets_of_an_unknown_topic(world: World, kg: Kg, empty: Empty, protocol: str) -> None:
    group = empty({(world.one, 0): 1})
    result = kg("--delete-offsets", "--group", group, "--topic", "foobar")
    assert result.status == 1
    assert _table(result) == [("foobar", "-", UNKNOWN)]
    assert lines(kg("--describe", "--group", group).out)[1][:4] == [group, world.one, "0", "1"]
