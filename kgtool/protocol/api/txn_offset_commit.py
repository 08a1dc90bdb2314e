"""TxnOffsetCommit (key 28): store offsets for a group when a transaction commits (KIP-98).

v2 leader epoch (KIP-320), v3 member, instance and generation (KIP-447), v4 error
TRANSACTION_ABORTABLE, v5 adds the offsets to the transaction by itself (both KIP-890), v6 topic
ids instead of names (KIP-1319). It goes to the coordinator of the *group*, unlike the rest of a
transaction.
"""

from __future__ import annotations

from uuid import UUID

from kgtool.protocol.schema import Struct, array, int16, int32, int64, string, uuid


class Partition(Struct):
    partition: int = int32("0+", wire="partitionIndex")
    error_code: int = int16("0+")


class Topic(Struct):
    name: str = string("0-5", ignorable=True)
    topic_id: UUID = uuid("6+", ignorable=True)
    partitions: list[Partition] = array(Partition, "0+")


class Response(Struct, versions="0-6", flexible="3+"):
    throttle_time_ms: int = int32("0+")
    topics: list[Topic] = array(Topic, "0+")


class RequestPartition(Struct):
    partition: int = int32("0+", wire="partitionIndex")
    offset: int = int64("0+", wire="committedOffset")
    # -1: unknown
    leader_epoch: int = int32("2+", default=-1, ignorable=True, wire="committedLeaderEpoch")
    metadata: str | None = string("0+", nullable="0+", wire="committedMetadata")


class RequestTopic(Struct):
    name: str = string("0-5", ignorable=True)
    topic_id: UUID = uuid("6+", ignorable=True)
    partitions: list[RequestPartition] = array(RequestPartition, "0+")


class Request(Struct, key=28, reply=Response, route="coordinator", changes=True):
    transactional_id: str = string("0+")
    group_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    # -1: not a member
    generation_id: int = int32("3+", default=-1, wire="generationIdOrMemberEpoch")
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[RequestTopic] = array(RequestTopic, "0+")
