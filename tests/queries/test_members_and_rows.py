"""Assignments and rows that are odd: not readable, named twice, gone before they were read.

Stands for: what can't be told is null, and nothing counts twice. Siblings: no assignment yet, other
protocols, a topic twice, several members, records gone, a last stable offset.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kgtool.cli.output.rows import member_rows
from kgtool.client.cluster import Cluster
from kgtool.columns.groups import SUBSCRIPTION
from kgtool.model import CommittedOffset, GroupDescription, Member, TopicPartition
from kgtool.protocol.api import consumer_group_describe, describe_groups
from kgtool.protocol.plan import encode
from kgtool.queries.groups.decode import classic_group, consumer_group
from kgtool.queries.offsets.describe import _Group
from kgtool.queries.offsets.lag import Age, LogEnds, offset_row
from kgtool.records.subscription import ConsumerProtocolSubscription, OwnedPartitions, encode_topics

OWNED = OwnedPartitions(topic="t", partitions=[0])


def assignment(*topics: tuple[str, tuple[int, ...]]) -> bytes:
    """ConsumerProtocolAssignment v0."""
    found = struct.pack(">hi", 0, len(topics))
    for topic, numbers in topics:
        found += struct.pack(">h", len(topic)) + topic.encode()
        found += struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return found + struct.pack(">i", -1)


@pytest.mark.parametrize(
    ("raw", "protocol", "partitions", "shown"),
    [
        (assignment(("t", (0, 1))), "consumer", 2, "t:0,1"),
        (assignment(("t", (1, 0, 0)), ("t", (1,))), "consumer", 2, "t:0,1"),
        (b"\x00\x00garbage", "consumer", None, None),
        (b"", "consumer", 0, None),  # a rebalance: none yet
        (b"anything", "connect", None, None),
    ],
)
def test_assignments(raw: bytes, protocol: str, partitions: int | None, shown: str | None) -> None:
    metadata = encode_topics(["t", "u"])
    member = describe_groups.Member(member_id="m", member_assignment=raw, member_metadata=metadata)
    row = describe_groups.Group(
        group_id="g",
        group_state="Stable",
        protocol_type=protocol,
        protocol_data="range",
        members=[member],
    )
    (found,) = member_rows(classic_group(Cluster(), 1, row))
    assert (found["partitions"], found["current_assignment"]) == (partitions, shown)
    assert found["subscribed_topics"] == (["t", "u"] if protocol == "consumer" else None)
    assert (found["assignor"], found["subscribed_regex"], found["rack"]) == ("range", None, None)


def test_what_members_say_of_themselves() -> None:
    """C14: decoded and never printed. Siblings: classic members whose subscription has a rack (from
    version 3 on) or none, with owned partitions before it; a pattern; each type's assignor."""
    said = [
        ConsumerProtocolSubscription(topics=["t"], rack_id="eu-1", owned_partitions=[OWNED]),
        ConsumerProtocolSubscription(topics=["t"]),
    ]
    metadata = [b"\0\3" + encode(each, 3) for each in said] + [encode_topics(["u"]), b""]
    row = describe_groups.Group(
        protocol_type="consumer",
        protocol_data="range",
        members=[describe_groups.Member(member_metadata=each) for each in metadata],
    )
    rows = member_rows(classic_group(Cluster(), 1, row))
    assert [(found["rack"], found["assignor"]) for found in rows] == [
        ("eu-1", "range"),
        (None, "range"),
        (None, "range"),
        (None, "range"),
    ]
    assert [found["subscribed_topics"] for found in rows] == [["t"], ["t"], ["u"], None]
    member = consumer_group_describe.Member(
        rack_id="us-2", subscribed_topic_names=["t"], subscribed_topic_regex="t.*"
    )
    new = consumer_group_describe.Group(assignor_name="uniform", members=[member])
    (found,) = member_rows(consumer_group(Cluster(), 1, new))
    assert [found[name] for name in SUBSCRIPTION] == [["t"], "t.*", "uniform", "us-2"]


@pytest.mark.parametrize(
    ("committed", "ends", "lag", "readable"),
    [
        (5, LogEnds(20, 60), 55, 40),  # Kafka's number, and what still exists
        (20, LogEnds(20, 60), 40, 40),
        (70, LogEnds(20, 60), -10, 0),
        (5, LogEnds(20, 60, 50), 45, 30),  # read_committed
        (5, LogEnds(60, 60), 55, 0),
        (None, LogEnds(20, 60), None, None),
    ],
)
def test_readable(
    committed: int | None, ends: LogEnds, lag: int | None, readable: int | None
) -> None:
    value = CommittedOffset(committed, None, "")
    row = offset_row("g", TopicPartition("t", 0), value, ends, None, None)
    assert (row.lag, row.readable) == (lag, readable)
    marker = offset_row("g", TopicPartition("t", 0), value, ends, None, None, Age(None, True, None))
    assert marker.readable == (None if readable is None else 0), "only markers are left"


@pytest.mark.parametrize(
    ("protocol", "committed", "added"),
    [
        ("consumer", {0}, {1, 2, 3}),
        ("consumer", {2}, {0, 1, 3}),
        ("", {0, 1}, {2, 3}),  # it has grown
        ("", {0}, set()),  # one that somebody chose
        ("", {1, 2}, set()),
        ("", {0, 1, 2, 3}, set()),
    ],
)
def test_partitions_without_a_commit(protocol: str, committed: set[int], added: set[int]) -> None:
    from kgtool.client.cluster import TopicInfo
    from kgtool.queries.offsets.describe import _add_uncommitted
    from tests.support.script import Script

    values: Any = {TopicPartition("t", n): CommittedOffset(1, None, "") for n in committed}
    member = Member("m", None, "c", "/h", (("t", (3,)),), ("t",))
    cluster = Cluster()
    cluster.topics["t"] = TopicInfo("t", None, dict.fromkeys(range(4), 1))
    for members in ((), (member,)):
        described = GroupDescription("g", "classic", "Empty", protocol, "", None, members)
        group = _Group(described, values, None)
        Script(lambda *_: None).run(_add_uncommitted(cluster, [group], None))
        assert group.needed == {
            TopicPartition("t", n) for n in committed | added | ({3} if members else set())
        }
        rest = [at for at, owner in group._order if owner is None]
        assert rest == sorted(rest)
