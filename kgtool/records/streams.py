"""Streams groups (KIP-1071, 4.1): record types 17 and 19 to 23; 18 was never used.

What such a group reads, and so what protects its offsets, is in the topology: the source and the
repartition-source topics of all subtopologies.
"""

from __future__ import annotations

from kgtool.protocol.api.streams_group_describe import Endpoint, KeyValue, TaskIds, TopicInfo
from kgtool.protocol.schema import Struct, array, int8, int16, int32, int64, string, struct


class StreamsGroupMetadataValue(Struct, key=17, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(tag=0, default=-1)
    last_assignment_configs: list[KeyValue] | None = array(KeyValue, nullable="0+", tag=1)
    # 4.4 (KIP-1331): the topology epoch whose description is stored (-1 none, -2 not sure), and the
    # one whose description the broker's plugin refused for ever
    stored_description_topology_epoch: int = int32(tag=2, default=-1)
    failed_description_topology_epoch: int = int32(tag=3, default=-1)


class StreamsGroupMemberMetadataValue(Struct, key=19, versions="0", flexible="0+"):
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = struct(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue)


class StreamsGroupTargetAssignmentMetadataValue(Struct, key=20, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)


class StreamsGroupTargetAssignmentMemberValue(Struct, key=21, versions="0", flexible="0+"):
    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)


class CurrentTaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", tag=0)


class StreamsGroupCurrentMemberAssignmentValue(Struct, key=22, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    standby_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    warmup_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    active_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)
    standby_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)
    warmup_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)


class CopartitionGroup(Struct):
    source_topics: list[int] = array(int16)
    source_topic_regex: list[int] = array(int16)
    repartition_source_topics: list[int] = array(int16)


class Subtopology(Struct):
    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    source_topic_regex: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array(string)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


class StreamsGroupTopologyValue(Struct, key=23, versions="0", flexible="0+"):
    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)
