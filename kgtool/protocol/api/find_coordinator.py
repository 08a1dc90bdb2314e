"""FindCoordinator (key 10): which broker coordinates a group or a transactional id.

v1 ``key_type``, throttle time and messages, v4 many keys in one request (KIP-699), v5 error
TRANSACTION_ABORTABLE (KIP-890), v6 share groups (KIP-932). Any broker answers for any key, whether
such a group exists or not.
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, int8, int16, int32, string


class Coordinator(Struct):
    key: str = string("4+")
    node_id: int = int32("4+")
    host: str = string("4+")
    port: int = int32("4+")
    error_code: int = int16("4+")
    error_message: str | None = string("4+", nullable="4+", ignorable=True)


class Response(Struct, versions="0-6", flexible="3+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")


class Request(Struct, key=10, reply=Response, route="any", changes=False):
    key: str = string("0-3")
    # 0 group, 1 transaction, 2 share (key is then groupId:topicId:partition)
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array(string, "4+")
