"""ListConfigResources (key 74): what has configs of its own, groups too (KIP-1142, Kafka 4.1).

v0 is ListClientMetricsResources (KIP-714): client metrics only.
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, int8, int16, int32, string


class ConfigResource(Struct):
    resource_name: str = string("0+")
    # 16 client metrics, 32 group
    resource_type: int = int8("1+", default=16, ignorable=True)


class Response(Struct, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    config_resources: list[ConfigResource] = array(ConfigResource, "0+")


class Request(Struct, key=74, reply=Response, route="any", changes=False):
    # empty: all types
    resource_types: list[int] = array(int8, "1+")
