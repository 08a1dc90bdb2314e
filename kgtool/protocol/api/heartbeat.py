"""Heartbeat (key 12): a member of a classic group is alive.

v1 throttle time, v3 static members (KIP-345).
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, int16, int32, string


class Response(Struct, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")


class Request(Struct, key=12, reply=Response, route="coordinator", changes=True):
    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
