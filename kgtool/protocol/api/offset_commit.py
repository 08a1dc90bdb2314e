"""OffsetCommit (key 8): store offsets for a group.

v1 generation, member and timestamp, v2 retention time instead of the timestamp, v3 throttle time,
v5 no retention any more (KIP-211), v6 leader epoch (KIP-320), v7 static members (KIP-345), v9
member epochs (KIP-848), v10 topic ids instead of names (KIP-848). The broker does not look at the
log's range: any offset is accepted. Kafka 4 removed v0 and v1.
"""

from __future__ import annotations

from uuid import UUID

from kgtool.protocol.schema import Struct, array, int16, int32, int64, string, uuid


class Partition(Struct):
    partition: int = int32("0+", wire="partitionIndex")
    error_code: int = int16("0+")


class Topic(Struct):
    name: str = string("0-9", ignorable=True)
    topic_id: UUID = uuid("10+", ignorable=True)
    partitions: list[Partition] = array(Partition, "0+")


class Response(Struct, versions="0-10", flexible="8+"):
    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+")


class RequestPartition(Struct):
    partition: int = int32("0+", wire="partitionIndex")
    offset: int = int64("0+", wire="committedOffset")
    # -1: unknown
    leader_epoch: int = int32("6+", default=-1, ignorable=True, wire="committedLeaderEpoch")
    # -1: now
    commit_timestamp: int = int64("1", default=-1)
    metadata: str | None = string("0+", nullable="0+", wire="committedMetadata")


class RequestTopic(Struct):
    name: str = string("0-9", ignorable=True)
    topic_id: UUID = uuid("10+", ignorable=True)
    partitions: list[RequestPartition] = array(RequestPartition, "0+")


class Request(Struct, key=8, reply=Response, route="coordinator", changes=True):
    group_id: str = string("0+")
    # -1: not a member, as an administrator commits
    generation_id_or_member_epoch: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("1+", ignorable=True)
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    # -1: the broker's own retention
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: list[RequestTopic] = array(RequestTopic, "0+")
