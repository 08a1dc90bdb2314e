"""KIP-848 consumer groups: record types 3 to 8, and 16 for resolved regular expressions.

A group lives from its first record until the null value of type 3; a member until that of type 5.
Type 4 was replaced by type 3's hash in 4.1 and is only tombstoned since. A member's regular
expression may be null or ``""``, both mean none.
"""

from __future__ import annotations

from uuid import UUID

from kgtool.protocol.schema import (
    Struct,
    array,
    bytestring,
    int8,
    int32,
    int64,
    string,
    struct,
    uuid,
)


class ConsumerGroupMetadataValue(Struct, key=3, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


class PartitionMetadata(Struct):
    partition: int = int32()
    racks: list[str] = array(string)


class TopicMetadata(Struct):
    topic_id: UUID = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


class ConsumerGroupPartitionMetadataValue(Struct, key=4, versions="0", flexible="0+"):
    topics: list[TopicMetadata] = array(TopicMetadata)


class ClassicProtocol(Struct):
    name: str = string()
    metadata: bytes = bytestring()


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


class ConsumerGroupMemberMetadataValue(Struct, key=5, versions="0", flexible="0+"):
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    # Its default in Kafka's JSON is not null, so brokers write a null explicitly.
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, nullable="0+", tag=0
    )


class ConsumerGroupTargetAssignmentMetadataValue(Struct, key=6, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)


class TopicPartitions(Struct):
    topic_id: UUID = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupTargetAssignmentMemberValue(Struct, key=7, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class CurrentPartitions(Struct):
    topic_id: UUID = uuid()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Struct, key=8, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[CurrentPartitions] = array(CurrentPartitions)
    partitions_pending_revocation: list[CurrentPartitions] = array(CurrentPartitions)


class ConsumerGroupRegularExpressionKey(Struct, key=16, versions="0"):
    group: str = string(wire="groupId")
    regular_expression: str = string()


class ConsumerGroupRegularExpressionValue(Struct, key=16, versions="0", flexible="0+"):
    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()
