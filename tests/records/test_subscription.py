"""Embedded subscriptions, as a coordinator reads them: held to Kafka's own ConsumerProtocol."""

from __future__ import annotations

import struct

import pytest

from kgtool.errors import DecodeError
from kgtool.protocol.plan import encode
from kgtool.records.subscription import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
    decode_assignment,
    decode_subscription,
    subscribed_topics,
)
from tests.records.conftest import Coordinator
from tests.support import seeds


def subscription(version: int, *topics: str, user_data: bytes | None = None) -> bytes:
    made = ConsumerProtocolSubscription(topics=list(topics), user_data=user_data)
    return struct.pack(">h", version) + encode(made, min(max(version, 0), 3))


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 99])
def test_any_version_is_read_by_its_oldest_prefix(version: int) -> None:
    assert subscribed_topics([subscription(version, "b", "a", user_data=b"u")]) == frozenset("ab")


def test_members_add_up() -> None:
    members = [subscription(0, "a"), subscription(3, "b", "a"), subscription(1)]
    assert subscribed_topics(members) == frozenset("ab")
    assert subscribed_topics([]) == frozenset()


@pytest.mark.parametrize(
    "bad",
    [b"", b"\x00", b"\x00\x00", b"\x00\x00\x00\x00\x00\x01", subscription(0, "a")[:-1], b"garbage"],
)
def test_one_unreadable_member_makes_the_whole_unknown(bad: bytes) -> None:
    assert subscribed_topics([subscription(0, "a"), bad]) is None


def test_a_whole_subscription_and_assignment() -> None:
    owned = [OwnedPartitions(topic="a", partitions=[0, 2])]
    made = ConsumerProtocolSubscription(
        topics=["a"], owned_partitions=owned, generation_id=4, rack_id="r"
    )
    assert decode_subscription(b"\x00\x03" + encode(made, 3)) == made
    newer = b"\x00\x09" + encode(made, 3) + b"future"
    assert decode_subscription(newer) == made
    assigned = ConsumerProtocolAssignment(assigned_partitions=owned)
    assert decode_assignment(b"\x00\x01" + encode(assigned, 1)) == assigned
    assert decode_assignment(b"").assigned_partitions == []
    for bad in (b"\x00", b"\xff\xff\x00\x00\x00\x00"):
        with pytest.raises(DecodeError):
            decode_subscription(bad)


def test_kafka_reads_the_same_topics(coordinator: Coordinator) -> None:
    """As ClassicGroup.computeSubscribedTopics does, on good bytes and on damaged ones."""
    rng = seeds.rng("subscription")
    readable = 0
    for _ in range(600):
        topics = [rng.choice(("t", "orders", "größe", "")) for _ in range(rng.randint(0, 3))]
        raw = bytearray(subscription(rng.randint(0, 5), *topics, user_data=b"xy"))
        if rng.random() < 0.7:
            raw[rng.randrange(len(raw))] = rng.choice((0, 1, 2, 0x7F, 0xFF))
        if rng.random() < 0.3:
            del raw[rng.randrange(len(raw)) :]
        ours = subscribed_topics([bytes(raw)])
        theirs = coordinator.subscribed_topics(bytes(raw))
        if theirs is not None and any("\ufffd" in topic for topic in theirs):
            assert ours is not None
            continue
        assert ours == theirs, bytes(raw).hex()
        readable += theirs is not None
    assert 100 < readable < 590
