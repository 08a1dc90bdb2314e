"""ListGroups (key 16): the groups that one broker coordinates; so every broker must be asked.

v1 throttle time, v4 states in filter and reply (KIP-518), v5 types in filter and reply (KIP-848).
Filters are case-insensitive at the broker and an unknown value matches nothing.
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, int16, int32, string


class Group(Struct):
    group_id: str = string("0+")
    protocol_type: str = string("0+")
    group_state: str = string("4+", ignorable=True)
    group_type: str = string("5+", ignorable=True)


class Response(Struct, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    groups: list[Group] = array(Group, "0+")


class Request(Struct, key=16, reply=Response, route="all", changes=False):
    states_filter: list[str] = array(string, "4+")
    types_filter: list[str] = array(string, "5+")
