"""``coordinator``: where groups really live, by Kafka's own records and its own tool."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

from kgtool.client.cluster import Cluster
from kgtool.model import Broker
from kgtool.protocol import codes
from kgtool.protocol.api import describe_groups, find_coordinator, metadata
from kgtool.queries.cluster.coordinators import TOPIC, locate_groups
from kgtool.sandbox.cluster import Sandbox
from tests.broker.test_authorisation import Guarded
from tests.broker.test_authorisation import guarded as guarded
from tests.broker.test_authorisation import here as here
from tests.cli.run import Result, call
from tests.support import clients
from tests.support.script import Script, living

Kgtool = Callable[..., Result]


@pytest.fixture
def kgtool(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Kgtool:
    return lambda *argv: call(capsys, "--bootstrap-server", bootstrap, *argv)


def homes(bootstrap: str, groups: set[str]) -> dict[str, int]:
    """The partitions in which the groups' commits are, read by a client that isn't ours."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": clients.unique("reader")})
    parts = reader.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
    reader.assign([TopicPartition(TOPIC, number, 0) for number in parts])
    found: dict[str, int] = {}

    def all_there() -> bool:
        for message in reader.consume(5000, 0.5):
            key = message.key()
            if message.error() is None and key and struct.unpack(">h", key[:2])[0] in (0, 1):
                size = struct.unpack(">h", key[2:4])[0]
                name = key[4 : 4 + size].decode()
                if name in groups:
                    found[name] = message.partition()
        return found.keys() == groups

    try:
        clients.wait_for(all_there, "the commits in __consumer_offsets")
    finally:
        reader.close()
    return found


def test_the_partition_is_where_the_records_are(
    bootstrap: str, kgtool: Kgtool, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    names = {clients.unique(n) for n in ("plain", "größe-☃", "😀😀-\U0001d552", "x" * 200)}
    names.add("polygenelubricants")  # its hash is -2**31, the number without an absolute value
    for name in names:
        clients.commit(bootstrap, name, {(topic, 0): 0})
    result = kgtool("coordinator", *names, "-o", "json")
    assert result.status == 0, result.err
    assert {row["group"]: row["partition"] for row in result.json["results"]} == homes(
        bootstrap, names
    )
    assert all(row["loading"] is False for row in result.json["results"])


def test_coordinator_and_leader_as_kafkas_tools_say(
    kafka: Sandbox,
    kgtool: Kgtool,
    kafka_tool: Callable[..., subprocess.CompletedProcess[str]],
    new_topic: Callable[..., str],
) -> None:
    group = clients.unique("found")
    clients.commit(kafka.bootstrap, group, {(new_topic(), 0): 0})
    (row,) = kgtool("coordinator", group, "-o", "json").json["results"]
    said = kafka_tool("--describe", "--group", group, "--state").stdout
    assert f"{row['host']}:{row['port']}  ({row['coordinator']})" in said
    part = clients.admin(kafka.bootstrap).list_topics(TOPIC, timeout=10).topics[TOPIC]
    theirs = part.partitions[row["partition"]]
    assert (row["leader"], row["isr"], row["replicas"]) == (
        theirs.leader,
        theirs.isrs,
        theirs.replicas,
    )


def test_text_has_a_line_a_group_and_needs_no_group_to_exist(kgtool: Kgtool) -> None:
    name = clients.unique("nobody\x1b[31m")
    # As a position it would be a pattern: it has a "[".
    result = kgtool("coordinator", "--group", name, "--group", name, "--group", "other")
    lines = result.out.splitlines()
    assert (result.status, len(lines)) == (0, 3)
    assert lines[0].split() == [
        "GROUP",
        "PARTITION",
        "COORDINATOR",
        "ADDRESS",
        "LEADER",
        "ISR",
        "REPLICAS",
        "LOADING",
    ]
    assert "\x1b" not in result.out
    assert lines[2].endswith("false")


def test_who_may_not_see_the_log_learns_the_coordinator(here: Guarded) -> None:
    group = here.group("DESCRIBE")
    result = here.run("coordinator", group, "-o", "json")
    (row,) = result.json["results"]
    assert (result.status, row["coordinator"], row["partition"]) == (3, 1, None)
    assert f"DESCRIBE on topic {TOPIC}" in result.err
    hidden = here.run("coordinator", here.group(), "-o", "json")
    assert hidden.status == 1
    assert hidden.json["results"][0]["error"]["name"] == "GROUP_AUTHORIZATION_FAILED"


def test_without_a_group_nothing_is_sent(kgtool: Kgtool) -> None:
    result = kgtool("coordinator")
    assert (result.status, result.err.count("\n")) == (2, 1)


def test_loading_moving_and_unknown_partitions_are_told() -> None:
    """What takes a broker in trouble, as answers of two brokers that are not there."""

    def answer(to: int, request: object) -> object:
        if isinstance(request, find_coordinator.Request):
            rows = [
                find_coordinator.Coordinator(key=key, node_id=2, host="two", port=9092)
                for key in request.coordinator_keys
            ]
            return find_coordinator.Response(coordinators=rows)
        if isinstance(request, metadata.Request):
            part = metadata.Partition(leader_id=1, leader_epoch=7, replicas=[1, 2], isr=[1])
            topic = metadata.Topic(name=TOPIC, partitions=[part])
            return metadata.Response(brokers=living(1, 2), topics=[topic])
        assert isinstance(request, describe_groups.Request)
        assert to == 2
        verdict = {"slow": codes.COORDINATOR_LOAD_IN_PROGRESS, "there": 0}
        groups = [
            describe_groups.Group(
                group_id=g, error_code=verdict.get(g, codes.GROUP_AUTHORIZATION_FAILED)
            )
            for g in request.groups
        ]
        return describe_groups.Response(groups=groups)

    known = Cluster()
    known.brokers = {1: Broker(1, "one", 9092), 2: Broker(2, "two", 9092)}
    found = Script(answer).run(locate_groups(known, ["slow", "there", "hidden"]))
    assert [row.is_loading for row in found.placements] == [True, False, None]
    assert {(row.partition, row.leader, row.leader_epoch) for row in found.placements} == {
        (0, 1, 7)
    }
    assert found.placements[0].coordinator == Broker(2, "two", 9092)
    assert found.placements[0].isr == (1,)


def test_a_coordinator_that_is_down_is_told() -> None:
    from kgtool.errors import ConnectFailed

    def answer(to: int, request: object) -> object:
        if isinstance(request, find_coordinator.Request):
            rows = [
                find_coordinator.Coordinator(key=key, node_id=2, host="two", port=9092)
                for key in request.coordinator_keys
            ]
            return find_coordinator.Response(coordinators=rows)
        if isinstance(request, metadata.Request):
            part = metadata.Partition(leader_id=2, replicas=[2], isr=[2])
            topic = metadata.Topic(name=TOPIC, partitions=[part])
            return metadata.Response(brokers=living(2), topics=[topic])
        return ConnectFailed("Nothing listens on two:9092.")

    known = Cluster()
    known.brokers = {2: Broker(2, "two", 9092)}
    found = Script(answer).run(locate_groups(known, ["g"]))
    assert found.placements[0].is_loading is None
    assert [error.target.broker for error in found.errors] == [2]
