"""DescribeShareGroupOffsets (key 90): share-partition start offsets of share groups (KIP-932).

v1 lag (KIP-1226).
"""

from __future__ import annotations

from uuid import UUID

from kgtool.protocol.schema import Struct, array, int16, int32, int64, string, uuid


class Partition(Struct):
    partition: int = int32("0+", wire="partitionIndex")
    # -1: none
    start_offset: int = int64("0+")
    leader_epoch: int = int32("0+")
    # -1: unknown
    lag: int = int64("1+", default=-1, ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


class Topic(Struct):
    topic_name: str = string("0+")
    topic_id: UUID = uuid("0+")
    partitions: list[Partition] = array(Partition, "0+")


class Group(Struct):
    group_id: str = string("0+")
    topics: list[Topic] = array(Topic, "0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


class Response(Struct, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    groups: list[Group] = array(Group, "0+")


class RequestTopic(Struct):
    topic_name: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class RequestGroup(Struct):
    group_id: str = string("0+")
    # null: all topics the group has
    topics: list[RequestTopic] | None = array(RequestTopic, "0+", nullable="0+")


class Request(Struct, key=90, reply=Response, route="coordinator", changes=False):
    groups: list[RequestGroup] = array(RequestGroup, "0+")
