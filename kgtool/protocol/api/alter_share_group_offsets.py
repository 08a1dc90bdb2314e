"""AlterShareGroupOffsets (key 91): set start offsets of an empty share group (KIP-932)."""

from __future__ import annotations

from uuid import UUID

from kgtool.protocol.schema import Struct, array, int16, int32, int64, string, uuid


class Partition(Struct):
    partition: int = int32("0+", wire="partitionIndex")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


class Topic(Struct):
    topic_name: str = string("0+")
    topic_id: UUID = uuid("0+")
    partitions: list[Partition] = array(Partition, "0+")


class Response(Struct, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    topics: list[Topic] = array(Topic, "0+", wire="responses")


class RequestPartition(Struct):
    partition: int = int32("0+", wire="partitionIndex")
    start_offset: int = int64("0+")


class RequestTopic(Struct):
    topic_name: str = string("0+")
    partitions: list[RequestPartition] = array(RequestPartition, "0+")


class Request(Struct, key=91, reply=Response, route="coordinator", changes=True):
    group_id: str = string("0+")
    topics: list[RequestTopic] = array(RequestTopic, "0+")
