"""OffsetForLeaderEpoch (key 23): where a leader epoch ended, to find truncated logs (KIP-101).

v1 leader epoch in the reply, v2 current leader epoch and throttle time (KIP-320), v3 replica id
(KIP-392). Kafka 4 removed v0 and v1.
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, int16, int32, int64, string


class Partition(Struct):
    error_code: int = int16("0+")
    partition: int = int32("0+")
    leader_epoch: int = int32("1+", default=-1, ignorable=True)
    end_offset: int = int64("0+", default=-1)


class Topic(Struct):
    topic: str = string("0+")
    partitions: list[Partition] = array(Partition, "0+")


class Response(Struct, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+")


class RequestPartition(Struct):
    partition: int = int32("0+")
    current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    leader_epoch: int = int32("0+")


class RequestTopic(Struct):
    topic: str = string("0+")
    partitions: list[RequestPartition] = array(RequestPartition, "0+")


class Request(Struct, key=23, reply=Response, route="leader", changes=False):
    # -1 consumer, -2 debugging consumer that may see beyond the high watermark
    replica_id: int = int32("3+", default=-2, ignorable=True)
    topics: list[RequestTopic] = array(RequestTopic, "0+")
