"""Share groups (KIP-932): record types 9 to 15.

``Early…`` are the forms of 3.9's early access, which 4.x changed without a new version number.
Share groups keep no committed offsets in ``__consumer_offsets``.
"""

from __future__ import annotations

from uuid import UUID

from kgtool.protocol.schema import Struct, array, int8, int32, int64, string, uuid
from kgtool.records.consumer_group import TopicPartitions


class TopicPartitionsInfo(Struct):
    topic_id: UUID = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class TopicInfo(Struct):
    topic_id: UUID = uuid()
    topic_name: str = string()


class ShareGroupPartitionMetadataValue(Struct, key=9, versions="0", flexible="0+"):
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: list[TopicInfo] = array(TopicInfo)


class ShareGroupMemberMetadataValue(Struct, key=10, versions="0", flexible="0+"):
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)


class ShareGroupMetadataValue(Struct, key=11, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64()


class EarlyShareGroupMetadataValue(Struct, key=11, versions="0", flexible="0+"):
    epoch: int = int32()


class ShareGroupTargetAssignmentMetadataValue(Struct, key=12, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)


class ShareGroupTargetAssignmentMemberValue(Struct, key=13, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ShareGroupCurrentMemberAssignmentValue(Struct, key=14, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)


class ShareGroupStatePartitionMetadataValue(Struct, key=15, versions="0", flexible="0+"):
    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: list[TopicInfo] = array(TopicInfo)
