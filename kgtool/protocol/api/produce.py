"""Produce (key 0): append record batches.

v1 throttle time, v2 time of appending, v3 transactional id and record batches (KIP-98), v5 log
start, v7 zstd (KIP-110), v8 errors of single records (KIP-467), v10 leader discovery (KIP-951),
v11 error TRANSACTION_ABORTABLE, v12 adds the partition to the transaction by itself (both
KIP-890), v13 topic ids instead of names (KIP-516). Kafka 4 removed v0 to v2.
"""

from __future__ import annotations

from uuid import UUID

from kgtool.protocol.schema import Struct, array, int16, int32, int64, records, string, struct, uuid


class RecordError(Struct):
    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


class CurrentLeader(Struct):
    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


class Partition(Struct):
    partition: int = int32("0+", wire="index")
    error_code: int = int16("0+")
    base_offset: int = int64("0+")
    # -1 unless the topic keeps the time of appending
    log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: list[RecordError] = array(RecordError, "8+", ignorable=True)
    error_message: str | None = string("8+", nullable="8+", default=None, ignorable=True)
    current_leader: CurrentLeader = struct(CurrentLeader, "10+", tag=0)


class Topic(Struct):
    name: str = string("0-12", ignorable=True)
    topic_id: UUID = uuid("13+", ignorable=True)
    partitions: list[Partition] = array(Partition, "0+", wire="partitionResponses")


class NodeEndpoint(Struct):
    node_id: int = int32("10+")
    host: str = string("10+")
    port: int = int32("10+")
    rack: str | None = string("10+", nullable="10+", default=None)


class Response(Struct, versions="0-13", flexible="9+"):
    topics: list[Topic] = array(Topic, "0+", wire="responses")
    throttle_time_ms: int = int32("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)


class RequestPartition(Struct):
    partition: int = int32("0+", wire="index")
    records: bytes | None = records("0+", nullable="0+")


class RequestTopic(Struct):
    name: str = string("0-12", ignorable=True)
    topic_id: UUID = uuid("13+", ignorable=True)
    partitions: list[RequestPartition] = array(RequestPartition, "0+", wire="partitionData")


class Request(Struct, key=0, reply=Response, route="leader", changes=True):
    transactional_id: str | None = string("3+", nullable="3+", default=None)
    # 0 none (the broker sends no reply at all), 1 leader, -1 all in sync
    acks: int = int16("0+")
    timeout_ms: int = int32("0+")
    topics: list[RequestTopic] = array(RequestTopic, "0+", wire="topicData")
