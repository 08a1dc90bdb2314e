"""ConsumerGroupHeartbeat (key 68): join, stay in and leave a KIP-848 consumer group.

v1 regular expressions and member ids that the client makes itself (KIP-1082).
"""

from __future__ import annotations

from uuid import UUID

from kgtool.protocol.schema import Struct, array, int16, int32, string, struct, uuid


class TopicPartitions(Struct):
    topic_id: UUID = uuid("0+")
    partitions: list[int] = array(int32, "0+")


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")


class Response(Struct, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    # null: as before
    assignment: Assignment | None = struct(Assignment, "0+", nullable="0+", default=None)


class Request(Struct, key=68, reply=Response, route="coordinator", changes=True):
    group_id: str = string("0+")
    member_id: str = string("0+")
    # 0 join, -1 leave, -2 leave for a while (static members)
    member_epoch: int = int32("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    # -1: as before
    rebalance_timeout_ms: int = int32("0+", default=-1)
    # null, here and below: as before
    subscribed_topic_names: list[str] | None = array(string, "0+", nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string("0+", nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(
        TopicPartitions, "0+", nullable="0+", default=None
    )
