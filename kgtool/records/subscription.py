"""``ConsumerProtocol``: the subscription and assignment of a classic ``consumer`` member.

Both start with an int16 version; a newer version only adds fields at the end. So a coordinator
parses the prefix that is v0, topics and user data, in any version
(``ClassicGroup.computeSubscribedTopics``), and so does ``subscribed_topics``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from kgtool.errors import DecodeError
from kgtool.protocol.plan import decode_prefix, encode
from kgtool.protocol.schema import Struct, array, bytestring, int32, string

NEWEST = 3


class OwnedPartitions(Struct):
    topic: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class ConsumerProtocolSubscription(Struct, versions="0-3"):
    topics: list[str] = array(string)
    user_data: bytes | None = bytestring(nullable="0+", default=None)
    owned_partitions: list[OwnedPartitions] = array(OwnedPartitions, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Struct, versions="0-3"):
    assigned_partitions: list[OwnedPartitions] = array(OwnedPartitions)
    user_data: bytes | None = bytestring(nullable="0+", default=None)


class _Topics(Struct, versions="0"):
    topics: list[str] = array(string)


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return the union of the members' subscriptions, as a coordinator reads them.

    ``None`` when one of them can't be parsed: the whole group's subscription is then unknown.
    """
    topics: set[str] = set()
    for subscription in subscriptions:
        try:
            _version(subscription)
            head, end = decode_prefix(_Topics, 0, subscription, 2)
        except DecodeError:
            return None
        # To Kafka's readers every negative length is null, not only -1.
        length = int.from_bytes(subscription[end : end + 4], "big", signed=True)
        if len(subscription) < end + 4 + max(length, 0):
            return None
        topics.update(head.topics)
    return frozenset(topics)


def rack_of(subscription: bytes) -> str | None:
    """Return the member's ``client.rack`` (KIP-881); None: it gave none, or it can't be read."""
    try:
        has_rack = _version(subscription) >= NEWEST
        return decode_subscription(subscription).rack_id if has_rack else None
    except DecodeError:
        return None


def encode_topics(topics: Iterable[str]) -> bytes:
    """Write a subscription to topics, in its first version."""
    return b"\0\0" + encode(ConsumerProtocolSubscription(topics=list(topics)), 0)


def decode_subscription(buf: bytes) -> ConsumerProtocolSubscription:
    """Read a whole subscription; a version that is too new is read as the newest one known.

    :raises DecodeError: it isn't one.
    """
    return _decode(ConsumerProtocolSubscription, buf)


def decode_assignment(buf: bytes) -> ConsumerProtocolAssignment:
    """Read a whole assignment, as ``decode_subscription`` does; b"" is an empty one.

    :raises DecodeError: it isn't one.
    """
    return _decode(ConsumerProtocolAssignment, buf) if buf else ConsumerProtocolAssignment()


P = TypeVar("P", ConsumerProtocolSubscription, ConsumerProtocolAssignment)


def _decode(cls: type[P], buf: bytes) -> P:
    version = _version(buf)
    if version < 0:
        raise DecodeError(f"{cls.__name__}: version {version} does not exist")
    return decode_prefix(cls, min(version, NEWEST), buf, 2)[0]


def _version(buf: bytes) -> int:
    if len(buf) < 2:
        raise DecodeError(f"{len(buf)} bytes where a version must be")
    return int.from_bytes(buf[:2], "big", signed=True)
