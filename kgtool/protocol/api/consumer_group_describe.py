"""ConsumerGroupDescribe (key 69): state, members and assignments of KIP-848 consumer groups.

v1 tells classic from consumer members (KIP-1099). Brokers on which the protocol is off advertise
the API all the same and answer UNSUPPORTED_VERSION (35) for each group; a group of another type is
GROUP_ID_NOT_FOUND (69).
"""

from __future__ import annotations

from uuid import UUID

from kgtool.protocol.schema import Struct, array, boolean, int8, int16, int32, string, struct, uuid


class TopicPartitions(Struct):
    topic_id: UUID = uuid("0+")
    topic_name: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")


class Member(Struct):
    member_id: str = string("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array(string, "0+")
    # null or empty: no regex (librdkafka sends the empty one)
    subscribed_topic_regex: str | None = string("0+", nullable="0+", default=None)
    assignment: Assignment = struct(Assignment, "0+")
    target_assignment: Assignment = struct(Assignment, "0+")
    # -1 unknown, 0 classic, 1 consumer
    member_type: int = int8("1+", default=-1, ignorable=True)


class Group(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    group_id: str = string("0+")
    group_state: str = string("0+")
    group_epoch: int = int32("0+")
    assignment_epoch: int = int32("0+")
    assignor_name: str = string("0+")
    members: list[Member] = array(Member, "0+")
    # bit n = AclOperation n is allowed; the default means the broker did not say
    authorized_operations: int = int32("0+", default=-(2**31))


class Response(Struct, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    groups: list[Group] = array(Group, "0+")


class Request(Struct, key=69, reply=Response, route="coordinator", changes=False):
    group_ids: list[str] = array(string, "0+")
    include_authorized_operations: bool = boolean("0+")
