"""DeleteGroups (key 42): delete whole groups with their offsets, of any type (KIP-229).

v1 throttles after the reply, v3 (4.4) has a message a group: why what belongs to a streams group
could not be removed. Only empty groups can go.
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, int16, int32, string


class Result(Struct):
    group_id: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class Response(Struct, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32("0+")
    results: list[Result] = array(Result, "0+")


class Request(Struct, key=42, reply=Response, route="coordinator", changes=True):
    group_ids: list[str] = array(string, "0+", wire="groupsNames")
