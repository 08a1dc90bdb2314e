"""DescribeConfigs (key 32): configuration of topics, brokers and groups with where it comes from.

v1 synonyms and sources instead of ``is_default`` (KIP-226), v3 types and documentation (KIP-569).
Kafka 4 removed v0. A broker's own settings must be asked of that broker.
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, boolean, int8, int16, int32, string


class Synonym(Struct):
    name: str = string("1+")
    value: str | None = string("1+", nullable="0+")
    source: int = int8("1+")


class Config(Struct):
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")
    read_only: bool = boolean("0+")
    is_default: bool = boolean("0")
    # DescribeConfigsResponse.ConfigSource: 1 topic, 2 dynamic broker, 3 dynamic default broker,
    # 4 static broker, 5 default, 6 dynamic broker logger, 7 client metrics, 8 group
    config_source: int = int8("1+", default=-1, ignorable=True)
    is_sensitive: bool = boolean("0+")
    synonyms: list[Synonym] = array(Synonym, "1+", ignorable=True)
    config_type: int = int8("3+", ignorable=True)
    documentation: str | None = string("3+", nullable="0+", ignorable=True)


class Result(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: list[Config] = array(Config, "0+")


class Response(Struct, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("0+")
    results: list[Result] = array(Result, "0+")


class RequestResource(Struct):
    # ConfigResource.Type: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    # null: all
    configuration_keys: list[str] | None = array(string, "0+", nullable="0+")


class Request(Struct, key=32, reply=Response, route="any", changes=False):
    resources: list[RequestResource] = array(RequestResource, "0+")
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")
