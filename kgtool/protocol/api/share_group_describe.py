"""ShareGroupDescribe (key 77): state and members of share groups (KIP-932).

v0 is the early access of Kafka 3.9 and 4.0, v1 the same layout made stable.
"""

from __future__ import annotations

from kgtool.protocol.api.consumer_group_describe import Assignment
from kgtool.protocol.schema import Struct, array, boolean, int16, int32, string, struct


class Member(Struct):
    member_id: str = string("0+")
    rack_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array(string, "0+")
    assignment: Assignment = struct(Assignment, "0+")


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


class Request(Struct, key=77, reply=Response, route="coordinator", changes=False):
    group_ids: list[str] = array(string, "0+")
    include_authorized_operations: bool = boolean("0+")
