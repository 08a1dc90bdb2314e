"""DescribeCluster (key 60): cluster id, controller and brokers (KIP-700).

v1 asks controllers (KIP-919), v2 fenced brokers (KIP-1073).
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, boolean, int8, int16, int32, string


class Broker(Struct):
    broker_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("0+", nullable="0+", default=None)
    is_fenced: bool = boolean("2+")


class Response(Struct, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string("0+")
    controller_id: int = int32("0+", default=-1)
    brokers: list[Broker] = array(Broker, "0+")
    # bit n = AclOperation n is allowed; the default means the broker did not say
    cluster_authorized_operations: int = int32("0+", default=-(2**31))


class Request(Struct, key=60, reply=Response, route="any", changes=False):
    include_cluster_authorized_operations: bool = boolean("0+")
    # 1 brokers, 2 controllers
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")
