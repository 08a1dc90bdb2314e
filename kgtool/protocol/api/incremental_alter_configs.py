"""IncrementalAlterConfigs (key 44): change single configuration keys (KIP-339).

Brokers forward it to the controller, except a broker's own settings, which go to that broker.
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, boolean, int8, int16, int32, string


class Result(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")


class Response(Struct, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32("0+")
    results: list[Result] = array(Result, "0+", wire="responses")


class RequestConfig(Struct):
    name: str = string("0+")
    # 0 set, 1 delete, 2 append, 3 subtract (the last two for lists only)
    operation: int = int8("0+", wire="configOperation")
    value: str | None = string("0+", nullable="0+")


class RequestResource(Struct):
    # ConfigResource.Type: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: list[RequestConfig] = array(RequestConfig, "0+")


class Request(
    Struct, key=44, reply=Response, route="any", changes=lambda request: not request.validate_only
):
    resources: list[RequestResource] = array(RequestResource, "0+")
    validate_only: bool = boolean("0+")
