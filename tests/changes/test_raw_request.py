"""To whom a raw request goes: parts for three brokers that are not there."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kgtool.changes.raw_request import RoutedRequest, route, send_parts
from kgtool.client.cluster import Cluster
from kgtool.client.ops import ANY
from kgtool.errors import UnsupportedVersion
from kgtool.model import Broker
from kgtool.protocol import api
from kgtool.protocol.api import (
    create_topics,
    describe_configs,
    describe_groups,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_groups,
    list_offsets,
    metadata,
    offset_fetch,
)
from kgtool.protocol.schema import Struct, changes
from tests.support.script import Script

HOMES = {"a": 1, "b": 2, "c": 1, "tx": 3}
LEADERS = {"t": [1, 2, 1, -1]}
TOPIC_ID = UUID(int=5)


def answer(_to: int, request: Any) -> Any:
    if isinstance(request, find_coordinator.Request):
        if request.key_type == 1:
            return find_coordinator.Response(node_id=HOMES[request.key], host="h", port=1)
        rows = [
            find_coordinator.Coordinator(key=key, node_id=HOMES[key], host="h", port=1)
            for key in request.coordinator_keys
        ]
        return find_coordinator.Response(coordinators=rows)
    assert isinstance(request, metadata.Request), request
    rows = [metadata.Broker(node_id=node, host="h", port=node) for node in (1, 2, 3)]
    topics = [
        metadata.Topic(
            name=name,
            topic_id=TOPIC_ID,
            partitions=[
                metadata.Partition(partition=number, leader_id=leader)
                for number, leader in enumerate(leaders)
            ],
        )
        for name, leaders in LEADERS.items()
        if request.topics is None or name in [row.name for row in request.topics]
    ]
    return metadata.Response(brokers=rows, controller_id=3, topics=topics)


def routed(request: Any) -> dict[int, Any]:
    parts = Script(answer).run(route(Cluster(), request))
    assert len({part.to for part in parts}) == len(parts)
    return {part.to: part.request for part in parts}


def test_groups_go_to_their_coordinators() -> None:
    found = routed(describe_groups.Request(groups=["a", "b", "c"]))
    assert {to: request.groups for to, request in found.items()} == {1: ["a", "c"], 2: ["b"]}
    groups = [offset_fetch.RequestGroup(group_id=name) for name in ("b", "a")]
    found = routed(offset_fetch.Request(groups=groups, require_stable=True))
    assert {to: [g.group_id for g in r.groups] for to, r in found.items()} == {2: ["b"], 1: ["a"]}
    assert all(request.require_stable for request in found.values())
    assert list(routed(offset_fetch.Request(group_id="b"))) == [2]


def test_transactions_go_to_theirs() -> None:
    assert list(routed(init_producer_id.Request(transactional_id="tx"))) == [3]
    assert list(routed(init_producer_id.Request(transactional_id=None))) == [ANY]


def test_partitions_go_to_their_leaders_and_the_rest_to_any() -> None:
    rows = [list_offsets.RequestPartition(partition=number) for number in (0, 1, 2, 3, 9)]
    request = list_offsets.Request(topics=[list_offsets.RequestTopic(name="t", partitions=rows)])
    found = {
        to: [row.partition for row in part.topics[0].partitions]
        for to, part in routed(request).items()
    }
    assert found == {1: [0, 2], 2: [1], ANY: [3, 9]}


def test_topics_may_be_given_by_id() -> None:
    rows = [fetch.RequestPartition(partition=1)]
    by_id = fetch.RequestTopic(topic_id=TOPIC_ID, partitions=rows)
    unknown = fetch.RequestTopic(topic_id=UUID(int=6), partitions=rows)
    assert set(routed(fetch.Request(topics=[by_id, unknown]))) == {2, ANY}


def test_all_brokers_the_controller_and_a_brokers_own_settings() -> None:
    assert set(routed(list_groups.Request())) == {1, 2, 3}
    assert set(routed(create_topics.Request())) == {3}
    rows = [
        describe_configs.RequestResource(resource_type=4, resource_name="2"),
        describe_configs.RequestResource(resource_type=32, resource_name="g"),
    ]
    found = routed(describe_configs.Request(resources=rows))
    assert {to: part.resources[0].resource_name for to, part in found.items()} == {2: "2", ANY: "g"}


def test_a_version_is_sent_exactly_or_not_at_all() -> None:
    def reply(_to: int, request: Any) -> Any:
        return request.REPLY()

    known = Cluster()
    known.brokers = {1: Broker(1, "one", 9092)}
    script = Script(reply, versions={16: (3, 5)})
    parts = [RoutedRequest(1, list_groups.Request())]
    (good,) = script.run(send_parts(known, parts, 4))
    (bad,) = script.run(send_parts(known, parts, 2))
    assert isinstance(good.reply, list_groups.Response)
    assert isinstance(bad.reply, UnsupportedVersion)
    assert bad.reply.message == "one:9092 speaks ListGroups 3 to 5, and this is version 2."
    assert len(script.calls) == 1


def test_what_changes_something_is_known_of_every_api() -> None:
    """Against Kafka's own words: what only looks is called so, but for these."""
    looks = ("Describe", "List", "Find", "Fetch", "ApiVersions", "Metadata", "Sasl", "LeaderEpoch")
    for name in api.names():
        request = api.load(name).Request
        assert name == request.NAME
        assert changes(request()) != any(word in name for word in looks), name
    assert not changes(incremental_alter_configs.Request(validate_only=True))
    topics = [metadata.RequestTopic(name="t")]
    assert changes(metadata.Request(topics=topics))
    assert not changes(metadata.Request(topics=topics, allow_auto_topic_creation=False))


def test_a_request_that_does_not_say_is_refused() -> None:
    with pytest.raises(TypeError, match="say whether the request changes the cluster"):
        type(metadata.Request)("Request", (Struct,), {"__module__": "x.y"}, reply=Struct)
