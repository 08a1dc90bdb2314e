"""DeleteShareGroupOffsets (key 92): forget whole topics of an empty share group (KIP-932)."""

from __future__ import annotations

from uuid import UUID

from kgtool.protocol.schema import Struct, array, int16, int32, string, uuid


class Topic(Struct):
    topic_name: str = string("0+")
    topic_id: UUID = uuid("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


class Response(Struct, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    topics: list[Topic] = array(Topic, "0+", wire="responses")


class RequestTopic(Struct):
    topic_name: str = string("0+")


class Request(Struct, key=92, reply=Response, route="coordinator", changes=True):
    group_id: str = string("0+")
    topics: list[RequestTopic] = array(RequestTopic, "0+")
