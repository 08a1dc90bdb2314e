"""A group that its coordinator does not know (69), although a listing has it.

Stands for: an answer "not found" against a listing that has it. Siblings: deleted in between,
created in between, a broker that does not answer the second listing, brokers that say Dead.
"""

from __future__ import annotations

from typing import Any

import pytest

from kgtool.client.cluster import Cluster
from kgtool.client.ops import DeadlineExceeded
from kgtool.errors import ConnectionLost
from kgtool.model import Broker, GroupDescription
from kgtool.protocol import codes
from kgtool.protocol.api import (
    consumer_group_describe,
    describe_groups,
    find_coordinator,
    list_groups,
    metadata,
)
from kgtool.queries.groups import describe
from tests.support.script import ALL_VERSIONS, Script, living


class World:
    """Broker 1 coordinates ``g``; broker 2 lists what it has loaded."""

    def __init__(self, listed: list[str], *, known_from: int = 99, silent: bool = False) -> None:
        self.listed, self.known_from, self.silent = listed, known_from, silent
        self.asked = 0

    def __call__(self, broker: int, request: Any) -> Any:
        if isinstance(request, metadata.Request):
            return metadata.Response(brokers=living(1, 2))
        if isinstance(request, find_coordinator.Request):
            rows = [
                find_coordinator.Coordinator(key=key, node_id=1, host="one", port=9092)
                for key in request.coordinator_keys
            ]
            return find_coordinator.Response(coordinators=rows)
        if isinstance(request, list_groups.Request):
            if self.silent and broker == 1:
                return ConnectionLost("one:9092 closed the connection.")
            groups = [list_groups.Group(group_id=g, group_type="classic") for g in self.listed]
            return list_groups.Response(groups=groups if broker == 2 else [])
        if isinstance(request, consumer_group_describe.Request):
            gone = [
                consumer_group_describe.Group(group_id=g, error_code=codes.GROUP_ID_NOT_FOUND)
                for g in request.group_ids
            ]
            return consumer_group_describe.Response(groups=gone)
        self.asked += 1
        state = "Empty" if self.asked >= self.known_from else "Dead"
        rows_ = [describe_groups.Group(group_id=g, group_state=state) for g in request.groups]
        return describe_groups.Response(groups=rows_)


def look(world: World, kinds: dict[str, str] | None) -> tuple[GroupDescription, list[str]]:
    cluster = Cluster()
    cluster.brokers = {1: Broker(1, "one", 9092), 2: Broker(2, "two", 9092)}
    script = Script(world, ALL_VERSIONS)
    if kinds is None:
        (found,) = script.run(describe.describe_with_type(cluster, ["g"]))
    else:
        (found,) = script.run(describe.describe_groups(cluster, ["g"], kinds))
    return found, [request.NAME for _, request in script.calls]


@pytest.mark.parametrize("kinds", [{"g": "classic"}, {"g": ""}, None], ids=str)
def test_what_is_still_listed_is_an_error(kinds: dict[str, str] | None) -> None:
    found, _ = look(World(["g"]), kinds)
    assert found.error is not None
    assert (found.error.name, found.error.code) == ("UNKNOWN_TO_COORDINATOR", None)
    assert "Broker 2 lists the group" in found.error.message
    assert "broker 1, does not know it" in found.error.message


@pytest.mark.parametrize("kinds", [{"g": "classic"}, None], ids=str)
def test_what_is_no_longer_listed_was_deleted(kinds: dict[str, str] | None) -> None:
    found, _ = look(World(["other"]), kinds)
    assert found.error is not None and found.error.code == codes.GROUP_ID_NOT_FOUND


def test_what_was_created_in_between_is_known() -> None:
    found, _ = look(World(["g"], known_from=2), None)
    assert (found.error, found.state) == (None, "Empty")


@pytest.mark.parametrize("kinds", [{"g": "classic"}, None], ids=str)
def test_a_coordinator_that_does_not_list_leaves_it_open(kinds: dict[str, str] | None) -> None:
    found, _ = look(World([], silent=True), kinds)
    assert found.error is not None and found.error.name == "CONNECTION_LOST"


def test_without_a_doubt_there_is_no_second_listing() -> None:
    _, asked = look(World(["g"], known_from=1), {"g": "classic"})
    assert "ListGroups" not in asked
    _, asked = look(World([]), {})  # not listed: a name that somebody typed
    assert "ListGroups" not in asked


def test_a_partition_without_a_leader_is_named() -> None:
    """Stands for: a coordinator that is not there, and why. Sibling: the reason is not known."""
    for leader, said in ((-1, "partition 0 of __consumer_offsets has no leader"), (1, "FindCoord")):
        left = 4

        def answer(_broker: int, request: Any, leader: int = leader) -> Any:
            nonlocal left
            if isinstance(request, metadata.Request):
                parts = [metadata.Partition(partition=0, leader_id=leader)]
                topics = [metadata.Topic(name="__consumer_offsets", partitions=parts)]
                return metadata.Response(brokers=living(1, 2), topics=topics)
            left -= 1
            if left < 0:
                return DeadlineExceeded("the time is over")
            code = codes.COORDINATOR_NOT_AVAILABLE
            rows = [
                find_coordinator.Coordinator(key=key, error_code=code)
                for key in request.coordinator_keys
            ]
            return find_coordinator.Response(coordinators=rows)

        cluster = Cluster()
        cluster.brokers = {1: Broker(1, "one", 9092)}
        (found,) = Script(answer).run(describe.describe_groups(cluster, ["g"]))
        assert found.error is not None and found.error.code == codes.COORDINATOR_NOT_AVAILABLE
        assert said in found.error.message


def test_what_fails_as_a_whole_is_asked_again_in_halves() -> None:
    """Stands for: one group that spoils an answer. Siblings: several, none, and all of them."""
    names = [f"g{number}" for number in range(8)]
    for bad in ([], ["g5"], ["g0", "g7"], names):
        asked: list[list[str]] = []

        def answer(_broker: int, request: Any, bad: list[str] = bad, asked: Any = asked) -> Any:
            asked.append(request.groups)
            is_bad = bool(set(bad) & set(request.groups))
            code = codes.UNKNOWN_SERVER_ERROR if is_bad else 0
            rows = [describe_groups.Group(group_id=g, error_code=code) for g in request.groups]
            return describe_groups.Response(groups=rows)

        sent = [(lambda ids: describe_groups.Request(groups=ids), names)]
        rows = Script(answer).run(describe.rows_by_group(1, sent))
        assert {g for g, (row,) in rows.items() if row.error_code} == set(bad)
        assert list(rows) == names or sorted(rows) == names
        assert len(asked) == {0: 1, 1: 7, 2: 11, 8: 15}[len(bad)]
