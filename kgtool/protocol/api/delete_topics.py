"""DeleteTopics (key 20): delete topics.

v1 throttle time, v3 error TOPIC_DELETION_DISABLED, v5 messages and error THROTTLING_QUOTA_EXCEEDED
(KIP-599), v6 by name or by topic id (KIP-516). Kafka 4 removed v0.
"""

from __future__ import annotations

from uuid import UUID

from kgtool.protocol.schema import Struct, array, int16, int32, string, uuid


class Topic(Struct):
    name: str | None = string("0+", nullable="6+")
    topic_id: UUID = uuid("6+", ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)


class Response(Struct, versions="0-6", flexible="4+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+", wire="responses")


class RequestTopic(Struct):
    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: UUID = uuid("6+")


class Request(Struct, key=20, reply=Response, route="controller", changes=True):
    topics: list[RequestTopic] = array(RequestTopic, "6+")
    topic_names: list[str] = array(string, "0-5", ignorable=True)
    timeout_ms: int = int32("0+")
