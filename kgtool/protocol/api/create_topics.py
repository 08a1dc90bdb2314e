"""CreateTopics (key 19): create topics.

v1 ``validate_only`` and messages, v2 throttle time, v4 defaults for partitions and replication
(KIP-464), v5 the new topic's configuration (KIP-525), v6 error THROTTLING_QUOTA_EXCEEDED
(KIP-599), v7 topic ids (KIP-516). Kafka 4 removed v0 and v1.
"""

from __future__ import annotations

from uuid import UUID

from kgtool.protocol.schema import Struct, array, boolean, int8, int16, int32, string, uuid


class Config(Struct):
    name: str = string("5+")
    value: str | None = string("5+", nullable="5+")
    read_only: bool = boolean("5+")
    config_source: int = int8("5+", default=-1, ignorable=True)
    is_sensitive: bool = boolean("5+")


class Topic(Struct):
    name: str = string("0+")
    topic_id: UUID = uuid("7+", ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("1+", nullable="0+", ignorable=True)
    topic_config_error_code: int = int16("5+", tag=0, ignorable=True)
    num_partitions: int = int32("5+", default=-1, ignorable=True)
    replication_factor: int = int16("5+", default=-1, ignorable=True)
    configs: list[Config] | None = array(Config, "5+", nullable="5+", ignorable=True)


class Response(Struct, versions="0-7", flexible="5+"):
    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+")


class RequestAssignment(Struct):
    partition: int = int32("0+", wire="partitionIndex")
    broker_ids: list[int] = array(int32, "0+")


class RequestConfig(Struct):
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")


class RequestTopic(Struct):
    name: str = string("0+")
    # -1: the broker's default (v4+), or assignments say it
    num_partitions: int = int32("0+")
    # -1: the broker's default (v4+), or assignments say it
    replication_factor: int = int16("0+")
    assignments: list[RequestAssignment] = array(RequestAssignment, "0+")
    configs: list[RequestConfig] = array(RequestConfig, "0+")


class Request(
    Struct,
    key=19,
    reply=Response,
    route="controller",
    changes=lambda request: not request.validate_only,
):
    topics: list[RequestTopic] = array(RequestTopic, "0+")
    timeout_ms: int = int32("0+", default=60000)
    validate_only: bool = boolean("1+")
