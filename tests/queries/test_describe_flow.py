"""Who waits for whom when offsets are described: scripts, without a broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kgtool.client.cluster import Cluster
from kgtool.errors import ConnectionLost
from kgtool.model import Broker, GroupOffsets
from kgtool.protocol.api import (
    consumer_group_describe,
    describe_groups,
    find_coordinator,
    list_offsets,
    metadata,
    offset_fetch,
)
from kgtool.protocol.api import list_groups as list_groups_api
from kgtool.queries.groups.list import list_groups
from kgtool.queries.offsets.describe import describe_offsets
from tests.support.script import ALL_VERSIONS, Script, living

COORDINATORS = {"a": 1, "b": 2}
LEADERS = {"ta": 1, "tb": 2}
CLASSIC = {"a": "classic", "b": "classic"}


def two_brokers() -> Cluster:
    cluster = Cluster()
    cluster.brokers = {1: Broker(1, "one", 9092), 2: Broker(2, "two", 9092)}
    return cluster


def _coordinators(request: Any) -> Any:
    return find_coordinator.Response(
        coordinators=[
            find_coordinator.Coordinator(key=key, node_id=COORDINATORS[key], host="h", port=1)
            for key in request.coordinator_keys
        ]
    )


def _topics(request: Any) -> Any:
    return metadata.Response(
        brokers=living(1, 2),
        topics=[
            metadata.Topic(
                name=row.name,
                partitions=[metadata.Partition(partition=0, leader_id=LEADERS[row.name])],
            )
            for row in request.topics
            if row.name in LEADERS
        ],
    )


def _groups(request: Any) -> Any:
    return describe_groups.Response(
        groups=[
            describe_groups.Group(group_id=name, group_state="Empty", protocol_type="consumer")
            for name in request.groups
        ]
    )


def _offsets(request: Any) -> Any:
    def topics(group: str) -> list[Any]:
        part = offset_fetch.GroupPartition(partition=0, offset=5)
        return [offset_fetch.GroupTopic(name=f"t{group}", partitions=[part])]

    return offset_fetch.Response(
        groups=[
            offset_fetch.Group(group_id=row.group_id, topics=topics(row.group_id))
            for row in request.groups
        ]
    )


def _ends(request: Any) -> Any:
    row = list_offsets.Partition(partition=0, offset=9)
    return list_offsets.Response(
        topics=[list_offsets.Topic(name=topic.name, partitions=[row]) for topic in request.topics]
    )


ANSWERS: dict[type, Callable[[Any], Any]] = {
    find_coordinator.Request: _coordinators,
    metadata.Request: _topics,
    describe_groups.Request: _groups,
    offset_fetch.Request: _offsets,
    list_offsets.Request: _ends,
}


def test_each_coordinator_and_leader_is_asked_once() -> None:
    script = Script(lambda _to, request: ANSWERS[type(request)](request))
    found = script.run(describe_offsets(two_brokers(), ["b", "a"], kinds=CLASSIC))
    assert [(g.description.group, g.rows[0].lag) for g in found] == [("b", 4), ("a", 4)]
    asked = [(to, type(request)) for to, request in script.calls]
    for api in (describe_groups.Request, offset_fetch.Request):
        assert sorted(to for to, kind in asked if kind is api) == [1, 2]
    ends = [to for to, kind in asked if kind is list_offsets.Request]
    assert sorted(ends) == [1, 1, 2, 2]  # the end and the beginning, in one round trip
    assert sum(kind is find_coordinator.Request for _, kind in asked) == 1


def test_a_leader_that_does_not_answer_holds_up_only_what_it_leads() -> None:
    """The healthy group's rows leave before the dead broker has been given up."""
    emitted: list[GroupOffsets] = []
    before_retry: list[int] = []

    def answer(to: int, request: Any) -> Any:
        if to == 2 and isinstance(request, list_offsets.Request):
            before_retry.append(len(emitted))
            if len(before_retry) < 5:
                return ConnectionLost("two went away")
        return ANSWERS[type(request)](request)

    cluster = two_brokers()
    cluster.coordinators = {"a": 1, "b": 1}
    kept = Script(answer).run(
        describe_offsets(cluster, ["a", "b"], emit=emitted.append, kinds=CLASSIC)
    )
    assert before_retry[2:] == [1] * 4
    assert [group.description.group for group in emitted] == ["a", "b"]
    assert [group.rows[0].lag for group in emitted] == [4, 4]
    assert kept == []


def test_old_brokers_are_asked_for_the_states_of_the_groups_they_list() -> None:
    """ListGroups before v4 has no states: filtering must not let everything through."""

    def answer(_to: int, request: Any) -> Any:
        if isinstance(request, list_groups_api.Request):
            assert request.states_filter == []
            rows = [list_groups_api.Group(group_id=name, protocol_type="consumer") for name in "ab"]
            return list_groups_api.Response(groups=rows if _to == 1 else [])
        if isinstance(request, describe_groups.Request):
            return describe_groups.Response(
                groups=[
                    describe_groups.Group(
                        group_id=name,
                        group_state="Empty" if name == "a" else "Stable",
                        protocol_type="consumer",
                    )
                    for name in request.groups
                ]
            )
        return ANSWERS[type(request)](request)

    versions = {**ALL_VERSIONS, list_groups_api.Request.KEY: (0, 3)}
    del versions[consumer_group_describe.Request.KEY]
    script = Script(answer, versions)
    listing = script.run(list_groups(two_brokers(), ["empty"]))
    assert [(row.group, row.state) for row in listing.groups] == [("a", "Empty")]
    assert script.run(list_groups(two_brokers(), ["Dead"])).groups == []
