"""ListOffsets (key 2): where a partition's log starts and ends, and offsets by time.

v0 a list of offsets (segment starts), v1 one offset with its timestamp (KIP-79), v2 isolation
level (KIP-98), v4 leader epochs (KIP-320), v7 max timestamp (KIP-734), v8 local log start
(KIP-405), v9 last tiered offset (KIP-1005), v10 timeout for remote storage (KIP-1075), v11
earliest pending upload (KIP-1023). A special timestamp below its version is UNSUPPORTED_VERSION
(35) for the partition. Kafka 4 removed v0.
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, int8, int16, int32, int64, string


class Partition(Struct):
    partition: int = int32("0+", wire="partitionIndex")
    error_code: int = int16("0+")
    old_style_offsets: list[int] = array(int64, "0")
    timestamp: int = int64("1+", default=-1)
    # -1: no record is that young
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


class Topic(Struct):
    name: str = string("0+")
    partitions: list[Partition] = array(Partition, "0+")


class Response(Struct, versions="0-11", flexible="6+"):
    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+")


class RequestPartition(Struct):
    partition: int = int32("0+", wire="partitionIndex")
    # -1: do not check
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    # milliseconds, or -1 latest, -2 earliest, -3 max timestamp (v7+), -4 earliest local (v8+),
    # -5 latest tiered (v9+), -6 earliest pending upload (v11+)
    timestamp: int = int64("0+")
    max_num_offsets: int = int32("0", default=1)


class RequestTopic(Struct):
    name: str = string("0+")
    partitions: list[RequestPartition] = array(RequestPartition, "0+")


class Request(Struct, key=2, reply=Response, route="leader", changes=False):
    # -1: a client (the protocol's default is 0, so say it)
    replica_id: int = int32("0+")
    # 0 read_uncommitted, 1 read_committed (the end is then the last stable offset)
    isolation_level: int = int8("2+")
    topics: list[RequestTopic] = array(RequestTopic, "0+")
    timeout_ms: int = int32("10+", ignorable=True)
