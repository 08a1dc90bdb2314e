"""JoinGroup (key 11): a member joins a classic group and waits for the rebalance.

v1 rebalance timeout, v2 throttle time, v4 MEMBER_ID_REQUIRED (79) hands out the member id first
(KIP-394), v5 static members (KIP-345), v7 protocol type in the reply (KIP-559), v8 reason
(KIP-800), v9 the leader may skip the assignment (KIP-814).
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, boolean, bytestring, int16, int32, string


class Member(Struct):
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = bytestring("0+")


class Response(Struct, versions="0-9", flexible="6+"):
    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16("0+")
    generation_id: int = int32("0+", default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string("0+", nullable="7+")
    # the member id of the leader, who alone gets the members
    leader: str = string("0+")
    skip_assignment: bool = boolean("9+")
    member_id: str = string("0+")
    members: list[Member] = array(Member, "0+")


class RequestProtocol(Struct):
    name: str = string("0+")
    metadata: bytes = bytestring("0+")


class Request(Struct, key=11, reply=Response, route="coordinator", changes=True):
    group_id: str = string("0+")
    session_timeout_ms: int = int32("0+")
    # -1: the session timeout counts
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string("0+")
    protocols: list[RequestProtocol] = array(RequestProtocol, "0+")
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)
