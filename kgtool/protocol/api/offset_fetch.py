"""OffsetFetch (key 9): the committed offsets of groups.

v2 null topics mean all (KIP-88), v7 ``require_stable`` (KIP-447), v8 many groups in one request
(KIP-709), v9 member id and epoch (KIP-848), v10 topic ids instead of names (KIP-848).
"""

from __future__ import annotations

from uuid import UUID

from kgtool.protocol.schema import Struct, array, boolean, int16, int32, int64, string, uuid


class Partition(Struct):
    partition: int = int32("0-7", wire="partitionIndex")
    offset: int = int64("0-7", wire="committedOffset")
    leader_epoch: int = int32("5-7", default=-1, ignorable=True, wire="committedLeaderEpoch")
    metadata: str | None = string("0-7", nullable="0-7")
    error_code: int = int16("0-7")


class Topic(Struct):
    name: str = string("0-7")
    partitions: list[Partition] = array(Partition, "0-7")


class GroupPartition(Struct):
    partition: int = int32("8+", wire="partitionIndex")
    offset: int = int64("8+", wire="committedOffset")
    leader_epoch: int = int32("8+", default=-1, ignorable=True, wire="committedLeaderEpoch")
    metadata: str | None = string("8+", nullable="8+")
    error_code: int = int16("8+")


class GroupTopic(Struct):
    name: str = string("8-9", ignorable=True)
    topic_id: UUID = uuid("10+", ignorable=True)
    partitions: list[GroupPartition] = array(GroupPartition, "8+")


class Group(Struct):
    group_id: str = string("8+")
    topics: list[GroupTopic] = array(GroupTopic, "8+")
    error_code: int = int16("8+")


class Response(Struct, versions="0-10", flexible="6+"):
    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[Topic] = array(Topic, "0-7")
    error_code: int = int16("2-7", ignorable=True)
    groups: list[Group] = array(Group, "8+")


class RequestTopic(Struct):
    name: str = string("0-7")
    partitions: list[int] = array(int32, "0-7", wire="partitionIndexes")


class RequestGroupTopic(Struct):
    name: str = string("8-9", ignorable=True)
    topic_id: UUID = uuid("10+", ignorable=True)
    partitions: list[int] = array(int32, "8+", wire="partitionIndexes")


class RequestGroup(Struct):
    group_id: str = string("8+")
    member_id: str | None = string("9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = int32("9+", default=-1, ignorable=True)
    topics: list[RequestGroupTopic] | None = array(RequestGroupTopic, "8+", nullable="8+")


class Request(Struct, key=9, reply=Response, route="coordinator", changes=False):
    group_id: str = string("0-7")
    topics: list[RequestTopic] | None = array(RequestTopic, "0-7", nullable="2-7")
    groups: list[RequestGroup] = array(RequestGroup, "8+")
    # ignorable is ours: Kafka's client clears the field before v7 by hand (OffsetFetchRequest)
    require_stable: bool = boolean("7+", default=False, ignorable=True)
