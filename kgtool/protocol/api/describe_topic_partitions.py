"""DescribeTopicPartitions (key 75): topics page by page, with eligible leaders (KIP-966)."""

from __future__ import annotations

from uuid import UUID

from kgtool.protocol.schema import Struct, array, boolean, int16, int32, string, struct, uuid


class Partition(Struct):
    error_code: int = int16("0+")
    partition: int = int32("0+", wire="partitionIndex")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+", default=-1, ignorable=True)
    replicas: list[int] = array(int32, "0+", wire="replicaNodes")
    isr: list[int] = array(int32, "0+", wire="isrNodes")
    eligible_leader_replicas: list[int] | None = array(int32, "0+", nullable="0+", default=None)
    last_known_elr: list[int] | None = array(int32, "0+", nullable="0+", default=None)
    offline_replicas: list[int] = array(int32, "0+", ignorable=True)


class Topic(Struct):
    error_code: int = int16("0+")
    name: str | None = string("0+", nullable="0+")
    topic_id: UUID = uuid("0+", ignorable=True)
    is_internal: bool = boolean("0+", ignorable=True)
    partitions: list[Partition] = array(Partition, "0+")
    # bit n = AclOperation n is allowed; the default means the broker did not say
    topic_authorized_operations: int = int32("0+", default=-(2**31))


class Cursor(Struct):
    topic_name: str = string("0+")
    partition: int = int32("0+", wire="partitionIndex")


class Response(Struct, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+")
    # null: that was all
    next_cursor: Cursor | None = struct(Cursor, "0+", nullable="0+", default=None)


class RequestTopic(Struct):
    name: str = string("0+")


class Request(Struct, key=75, reply=Response, route="any", changes=False):
    topics: list[RequestTopic] = array(RequestTopic, "0+")
    # partitions in one reply; the broker may allow fewer
    response_partition_limit: int = int32("0+", default=2000)
    # where to go on: next_cursor of the reply before
    cursor: Cursor | None = struct(Cursor, "0+", nullable="0+", default=None)
