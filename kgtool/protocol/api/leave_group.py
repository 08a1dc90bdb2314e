"""LeaveGroup (key 13): members leave a classic group, or are removed by an administrator.

v1 throttle time, v3 several members, static ones by instance id (KIP-345), v5 reason (KIP-800).
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, int16, int32, string


class Member(Struct):
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    error_code: int = int16("3+")


class Response(Struct, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    members: list[Member] = array(Member, "3+")


class RequestMember(Struct):
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)


class Request(Struct, key=13, reply=Response, route="coordinator", changes=True):
    group_id: str = string("0+")
    member_id: str = string("0-2")
    members: list[RequestMember] = array(RequestMember, "3+")
