"""DescribeGroups (key 15): state and members of classic groups.

v1 throttle time, v3 authorized operations (KIP-430), v4 static members (KIP-345), v6 error
GROUP_ID_NOT_FOUND instead of only the state ``Dead`` (KIP-1043). Groups of other protocols look
dead here.
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, boolean, bytestring, int16, int32, string


class Member(Struct):
    member_id: str = string("0+")
    group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
    client_id: str = string("0+")
    client_host: str = string("0+")
    # ConsumerProtocolSubscription if protocol_type is consumer; the chosen protocol's only
    member_metadata: bytes = bytestring("0+")
    # ConsumerProtocolAssignment; empty: none
    member_assignment: bytes = bytestring("0+")


class Group(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string("0+")
    group_state: str = string("0+")
    protocol_type: str = string("0+")
    protocol_data: str = string("0+")
    members: list[Member] = array(Member, "0+")
    # bit n = AclOperation n is allowed; the default means the broker did not say
    authorized_operations: int = int32("3+", default=-(2**31))


class Response(Struct, versions="0-6", flexible="5+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[Group] = array(Group, "0+")


class Request(Struct, key=15, reply=Response, route="coordinator", changes=False):
    groups: list[str] = array(string, "0+")
    include_authorized_operations: bool = boolean("3+")
