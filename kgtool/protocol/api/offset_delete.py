"""OffsetDelete (key 47): forget the offsets of single partitions of a group (KIP-496).

An error of the group comes in the top-level ``error_code`` with no topics; everything else is told
partition by partition, and partial success is normal. An offset that was not there counts as
deleted.
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, int16, int32, string


class Partition(Struct):
    partition: int = int32("0+", wire="partitionIndex")
    error_code: int = int16("0+")


class Topic(Struct):
    name: str = string("0+")
    partitions: list[Partition] = array(Partition, "0+")


class Response(Struct, versions="0"):
    error_code: int = int16("0+")
    throttle_time_ms: int = int32("0+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+")


class RequestPartition(Struct):
    partition: int = int32("0+", wire="partitionIndex")


class RequestTopic(Struct):
    name: str = string("0+")
    partitions: list[RequestPartition] = array(RequestPartition, "0+")


class Request(Struct, key=47, reply=Response, route="coordinator", changes=True):
    group_id: str = string("0+")
    topics: list[RequestTopic] = array(RequestTopic, "0+")
