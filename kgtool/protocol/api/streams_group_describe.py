"""StreamsGroupDescribe (key 89): topology, members and tasks of streams groups (KIP-1071).

v1 names the assignor (KIP-1357) and, where the broker stores it, what the topology is made of
(KIP-1331).
"""

from __future__ import annotations

from kgtool.protocol.schema import (
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    struct,
    uint16,
)


class KeyValue(Struct):
    key: str = string("0+")
    value: str = string("0+")


class TopicInfo(Struct):
    name: str = string("0+")
    partitions: int = int32("0+")
    replication_factor: int = int16("0+")
    topic_configs: list[KeyValue] = array(KeyValue, "0+")


class Subtopology(Struct):
    subtopology_id: str = string("0+")
    source_topics: list[str] = array(string, "0+")
    repartition_sink_topics: list[str] = array(string, "0+")
    state_changelog_topics: list[TopicInfo] = array(TopicInfo, "0+")
    repartition_source_topics: list[TopicInfo] = array(TopicInfo, "0+")


class Topology(Struct):
    epoch: int = int32("0+")
    subtopologies: list[Subtopology] | None = array(Subtopology, "0+", nullable="0+", default=None)


class Endpoint(Struct):
    host: str = string("0+")
    port: int = uint16("0+")


class TaskOffset(Struct):
    subtopology_id: str = string("0+")
    partition: int = int32("0+")
    offset: int = int64("0+")


class TaskIds(Struct):
    subtopology_id: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class Assignment(Struct):
    active_tasks: list[TaskIds] = array(TaskIds, "0+")
    standby_tasks: list[TaskIds] = array(TaskIds, "0+")
    warmup_tasks: list[TaskIds] = array(TaskIds, "0+")


class Member(Struct):
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    client_id: str = string("0+")
    client_host: str = string("0+")
    topology_epoch: int = int32("0+")
    process_id: str = string("0+")
    user_endpoint: Endpoint | None = struct(Endpoint, "0+", nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue, "0+")
    task_offsets: list[TaskOffset] = array(TaskOffset, "0+")
    task_end_offsets: list[TaskOffset] = array(TaskOffset, "0+")
    assignment: Assignment = struct(Assignment, "0+")
    target_assignment: Assignment = struct(Assignment, "0+")
    is_classic: bool = boolean("0+")


class Node(Struct):
    name: str = string("1+")
    # 1 source, 2 processor, 3 sink
    node_type: int = int8("1+")
    source_topics: list[str] = array(string, "1+")
    # null: not a sink, or its topic is chosen at run time
    sink_topic: str | None = string("1+", nullable="1+", default=None)
    stores: list[str] = array(string, "1+")
    successors: list[str] = array(string, "1+")


class DescribedSubtopology(Struct):
    subtopology_id: str = string("1+")
    nodes: list[Node] = array(Node, "1+")


class GlobalStore(Struct):
    source: Node = struct(Node, "1+")
    processor: Node = struct(Node, "1+")


class TopologyDescription(Struct):
    subtopologies: list[DescribedSubtopology] = array(DescribedSubtopology, "1+")
    global_stores: list[GlobalStore] = array(GlobalStore, "1+")


class Group(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    group_id: str = string("0+")
    group_state: str = string("0+")
    group_epoch: int = int32("0+")
    assignment_epoch: int = int32("0+")
    topology: Topology | None = struct(Topology, "0+", nullable="0+", default=None)
    members: list[Member] = array(Member, "0+")
    # bit n = AclOperation n is allowed; the default means the broker did not say
    authorized_operations: int = int32("0+", default=-(2**31))
    topology_description: TopologyDescription | None = struct(
        TopologyDescription, "1+", nullable="1+", default=None
    )
    # 0 not asked for, 1 none is stored, 2 the broker could not read it, 3 it is there
    topology_description_status: int = int8("1+")
    # of the next assignment; the current one may be another's
    assignor_name: str | None = string("1+", nullable="1+", default=None, ignorable=True)


class Response(Struct, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    groups: list[Group] = array(Group, "0+")


class Request(Struct, key=89, reply=Response, route="coordinator", changes=False):
    group_ids: list[str] = array(string, "0+")
    include_authorized_operations: bool = boolean("0+")
    include_topology_description: bool = boolean("1+")
