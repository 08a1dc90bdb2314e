"""DeleteRecords (key 21): delete the records before an offset (KIP-107)."""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, int16, int32, int64, string


class Partition(Struct):
    partition: int = int32("0+", wire="partitionIndex")
    low_watermark: int = int64("0+")
    error_code: int = int16("0+")


class Topic(Struct):
    name: str = string("0+")
    partitions: list[Partition] = array(Partition, "0+")


class Response(Struct, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32("0+")
    topics: list[Topic] = array(Topic, "0+")


class RequestPartition(Struct):
    partition: int = int32("0+", wire="partitionIndex")
    # the records before it are deleted; -1: everything up to the high watermark
    offset: int = int64("0+")


class RequestTopic(Struct):
    name: str = string("0+")
    partitions: list[RequestPartition] = array(RequestPartition, "0+")


class Request(Struct, key=21, reply=Response, route="leader", changes=True):
    topics: list[RequestTopic] = array(RequestTopic, "0+")
    timeout_ms: int = int32("0+")
