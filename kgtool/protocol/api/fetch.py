"""Fetch (key 1): record batches, byte for byte as the log has them.

v1 throttle time, v3 ``max_bytes``, v4 isolation level and aborted transactions (KIP-98), v5 log
start, v7 sessions (KIP-227), v9 leader epoch (KIP-320), v10 zstd (KIP-110), v11 rack and preferred
replica (KIP-392), v12 last fetched epoch and leader discovery (KIP-595), v13 topic ids instead of
names (KIP-516), v14 tiered storage errors (KIP-405), v15 replica state (KIP-903), v16 node
endpoints (KIP-951), v17 directory ids (KIP-853), v18 high watermark of followers (KIP-1166). Kafka
4 removed v0 to v3, which carry the message formats before record batches.
"""

from __future__ import annotations

from uuid import UUID

from kgtool.protocol.schema import (
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uuid,
)


class DivergingEpoch(Struct):
    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


class CurrentLeader(Struct):
    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


class SnapshotId(Struct):
    end_offset: int = int64("0+", default=-1)
    epoch: int = int32("0+", default=-1)


class AbortedTransaction(Struct):
    producer_id: int = int64("4+")
    first_offset: int = int64("4+")


class Partition(Struct):
    partition: int = int32("0+", wire="partitionIndex")
    error_code: int = int16("0+")
    high_watermark: int = int64("0+")
    # -1: unknown
    last_stable_offset: int = int64("4+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    diverging_epoch: DivergingEpoch = struct(DivergingEpoch, "12+", tag=0)
    current_leader: CurrentLeader = struct(CurrentLeader, "12+", tag=1)
    snapshot_id: SnapshotId = struct(SnapshotId, "12+", tag=2)
    # null unless read_committed was asked for
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, "4+", nullable="4+", ignorable=True
    )
    # -1: go on reading here (KIP-392)
    preferred_read_replica: int = int32("11+", default=-1)
    # whole record batches; the last one may be cut off by the size limits
    records: bytes | None = records("0+", nullable="0+")


class Topic(Struct):
    topic: str = string("0-12", ignorable=True)
    topic_id: UUID = uuid("13+", ignorable=True)
    partitions: list[Partition] = array(Partition, "0+")


class NodeEndpoint(Struct):
    node_id: int = int32("16+")
    host: str = string("16+")
    port: int = int32("16+")
    rack: str | None = string("16+", nullable="16+", default=None)


class Response(Struct, versions="0-18", flexible="12+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+")
    topics: list[Topic] = array(Topic, "0+", wire="responses")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)


class RequestReplicaState(Struct):
    # -1: a client
    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


class RequestPartition(Struct):
    partition: int = int32("0+")
    # -1: do not check
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
    fetch_offset: int = int64("0+")
    last_fetched_epoch: int = int32("12+", default=-1)
    # only followers know it
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32("0+")
    replica_directory_id: UUID = uuid("17+", tag=0, ignorable=True)
    high_watermark: int = int64("18+", default=2**63 - 1, tag=1, ignorable=True)


class RequestTopic(Struct):
    topic: str = string("0-12", ignorable=True)
    topic_id: UUID = uuid("13+", ignorable=True)
    partitions: list[RequestPartition] = array(RequestPartition, "0+")


class RequestForgottenTopic(Struct):
    topic: str = string("7-12", ignorable=True)
    topic_id: UUID = uuid("13+", ignorable=True)
    partitions: list[int] = array(int32, "7+")


class Request(Struct, key=1, reply=Response, route="leader", changes=False):
    cluster_id: str | None = string("12+", nullable="12+", default=None, tag=0, ignorable=True)
    # -1: a client
    replica_id: int = int32("0-14", default=-1)
    replica_state: RequestReplicaState = struct(RequestReplicaState, "15+", tag=1)
    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")
    max_bytes: int = int32("3+", default=2**31 - 1, ignorable=True)
    # 0 read_uncommitted (aborted records too), 1 read_committed
    isolation_level: int = int8("4+", ignorable=True)
    # 0 and epoch -1: a full fetch outside of any session (KIP-227)
    session_id: int = int32("7+", ignorable=True)
    session_epoch: int = int32("7+", default=-1, ignorable=True)
    topics: list[RequestTopic] = array(RequestTopic, "0+")
    forgotten_topics: list[RequestForgottenTopic] = array(
        RequestForgottenTopic, "7+", wire="forgottenTopicsData"
    )
    rack_id: str = string("11+", ignorable=True)
