"""SyncGroup (key 14): the leader of a classic group sends assignments, each member gets its own.

v1 throttle time, v3 static members (KIP-345), v5 protocol type and name (KIP-559).
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, bytestring, int16, int32, string


class Response(Struct, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = bytestring("0+")


class RequestAssignment(Struct):
    member_id: str = string("0+")
    assignment: bytes = bytestring("0+")


class Request(Struct, key=14, reply=Response, route="coordinator", changes=True):
    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[RequestAssignment] = array(RequestAssignment, "0+")
