"""Decode the group's own records: rare, so one by one in plain Python.

Only what decides about offsets is read: who is in the group and what it subscribes to. Key types
and layouts are those of the ``*Key.json`` and ``*Value.json`` schemas in kafka-group-coordinator.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kgtool.records.types import (
    CONSUMER_MEMBER,
    CURRENT_ASSIGNMENT_TYPES,
    GROUP_METADATA,
    GROUP_TYPES,
    MEMBER_TYPES,
    REGULAR_EXPRESSION,
    STREAMS_TOPOLOGY,
)

DECODED_TYPES: Final = frozenset(
    (*GROUP_TYPES, *MEMBER_TYPES, *CURRENT_ASSIGNMENT_TYPES, REGULAR_EXPRESSION, STREAMS_TOPOLOGY)
)


class GroupRecord(NamedTuple):
    """One group record; fields that its type does not have are None."""

    group: str
    protocol_type: str | None = None
    generation: int | None = None
    state_since_ms: int | None = None
    members: int | None = None
    member: str | None = None
    topics: list[str] | None = None
    """Of a classic group: the union over its members, None if one can't be read."""
    regex: str | None = None


class _Reader:
    """Kafka's primitive types, read one after the other; ValueError where the bytes end."""

    def __init__(self, data: bytes, *, flexible: bool = False) -> None:
        self.data = data
        self.at = 0
        self.flexible = flexible

    def take(self, size: int) -> bytes:
        piece = self.data[self.at : self.at + size]
        if size < 0 or len(piece) < size:
            raise ValueError("the bytes end too early")
        self.at += size
        return piece

    def number(self, form: str) -> int:
        form = ">" + form
        value: int = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return value

    def unsigned_varint(self) -> int:
        value = shift = 0
        while shift < 35:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise ValueError("a varint of more than five bytes")

    def size(self, form: str) -> int:
        return self.unsigned_varint() - 1 if self.flexible else self.number(form)

    def string(self) -> str | None:
        size = self.size("h")
        return None if size == -1 else self.take(size).decode(errors="replace")

    def text(self) -> str:
        text = self.string()
        if text is None:
            raise ValueError("null where a string must be")
        return text

    def blob(self) -> bytes:
        size = self.size("i")
        return b"" if size == -1 else self.take(size)

    def length(self) -> int:
        size = self.size("i")
        if not 0 <= size <= len(self.data) - self.at:
            raise ValueError("an array of more elements than there are bytes, or null")
        return size

    def strings(self) -> list[str]:
        return [self.text() for _ in range(self.length())]

    def skip_tags(self) -> None:
        if self.flexible:
            for _ in range(self.unsigned_varint()):
                self.unsigned_varint()
                self.take(self.unsigned_varint())


def decode(key_type: int, key: bytes, value: bytes | None) -> GroupRecord:
    """The record of a type in DECODED_TYPES; ValueError if it is damaged."""
    reader = _Reader(key)
    reader.number("h")
    group = reader.text()
    record = GroupRecord(group)
    if key_type in MEMBER_TYPES or key_type in CURRENT_ASSIGNMENT_TYPES:
        record = record._replace(member=reader.text())
    elif key_type == REGULAR_EXPRESSION:
        record = record._replace(regex=reader.text())
    if value is None:
        return record
    body = _Reader(value, flexible=True)
    version = body.number("h")
    if key_type == GROUP_METADATA:
        return _group_metadata(record, body, version)
    if version != 0:
        raise ValueError(f"value version {version} is not known")
    return _kip_848(record, key_type, body)


def _group_metadata(record: GroupRecord, body: _Reader, version: int) -> GroupRecord:
    if not 0 <= version <= 4:
        raise ValueError(f"value version {version} is not known")
    body.flexible = version == 4
    protocol_type = body.text()
    generation = body.number("i")
    chosen = body.string()  # protocol
    body.string()  # leader
    since = body.number("q") if version >= 2 else -1
    members = body.length()
    topics: set[str] | None = set()
    for _ in range(members):
        subscription = _member_subscription(body, version)
        # Without the consumer protocol, or without a chosen protocol, nothing can be read.
        readable = protocol_type == "consumer" and chosen is not None
        found = subscribed_topics(subscription) if readable else None
        topics = None if found is None or topics is None else topics | set(found)
    return record._replace(
        protocol_type=protocol_type,
        generation=generation,
        state_since_ms=None if since == -1 else since,
        members=members,
        topics=None if topics is None else sorted(topics),
    )


def _member_subscription(body: _Reader, version: int) -> bytes:
    body.string()  # member id
    if version >= 3:
        body.string()  # group instance id
    body.string()  # client id
    body.string()  # client host
    body.take(8 if version >= 1 else 4)  # rebalance and session timeout
    subscription = body.blob()
    body.blob()  # assignment
    body.skip_tags()
    return subscription


def subscribed_topics(subscription: bytes) -> list[str] | None:
    """Topics of a ConsumerProtocolSubscription, None where a broker can't parse it.

    A broker reads the version and then topics and userData of version 0, whatever the version.
    """
    reader = _Reader(subscription)
    try:
        reader.number("h")
        topics = reader.strings()
        reader.blob()  # userData
    except ValueError:
        return None
    return topics


def _kip_848(record: GroupRecord, key_type: int, body: _Reader) -> GroupRecord:
    if key_type == CONSUMER_MEMBER:
        for _ in range(4):  # instance id, rack id, client id, client host
            body.string()
        topics = body.strings()
        return record._replace(topics=topics)
    if key_type == REGULAR_EXPRESSION:
        return record._replace(topics=body.strings())
    if key_type == STREAMS_TOPOLOGY:
        return record._replace(topics=_topology_sources(body))
    return record


def _topology_sources(body: _Reader) -> list[str]:
    """Source and repartition-source topics of all subtopologies."""
    topics: set[str] = set()
    body.number("i")
    for _ in range(body.length()):
        body.text()
        topics.update(body.strings())
        body.strings()  # source topic regex
        _topic_infos(body)  # state changelogs
        body.strings()  # repartition sinks
        topics.update(_topic_infos(body))
        for _ in range(body.length()):
            for _ in range(3):
                body.take(2 * body.length())
            body.skip_tags()
        body.skip_tags()
    return sorted(topics)


def _topic_infos(body: _Reader) -> list[str]:
    names = []
    for _ in range(body.length()):
        names.append(body.text())
        body.take(6)  # partitions, replication factor
        for _ in range(body.length()):
            body.text()
            body.text()
            body.skip_tags()
        body.skip_tags()
    return names
