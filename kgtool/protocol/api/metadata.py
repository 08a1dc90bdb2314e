"""Metadata (key 3): brokers, topics, partitions and their leaders.

v0 asks for all topics with an empty list, v1 with null; v1 rack, controller, internal, v2 cluster
id (KIP-78), v3 throttle time, v4 ``allow_auto_topic_creation``, v5 offline replicas, v7 leader
epoch (KIP-320), v8 authorized operations (KIP-430), v10 topic ids in the reply, v11 no cluster
operations any more (KIP-700), v12 asks by topic id too (KIP-516), v13 error code for the whole
(KIP-1102).
"""

from __future__ import annotations

from uuid import UUID

from kgtool.protocol.schema import Struct, array, boolean, int16, int32, string, uuid


class Broker(Struct):
    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("1+", nullable="1+", default=None, ignorable=True)


class Partition(Struct):
    error_code: int = int16("0+")
    partition: int = int32("0+", wire="partitionIndex")
    # -1: no leader
    leader_id: int = int32("0+")
    leader_epoch: int = int32("7+", default=-1, ignorable=True)
    replicas: list[int] = array(int32, "0+", wire="replicaNodes")
    isr: list[int] = array(int32, "0+", wire="isrNodes")
    offline_replicas: list[int] = array(int32, "5+", ignorable=True)


class Topic(Struct):
    error_code: int = int16("0+")
    name: str | None = string("0+", nullable="12+")
    topic_id: UUID = uuid("10+", ignorable=True)
    is_internal: bool = boolean("1+", ignorable=True)
    partitions: list[Partition] = array(Partition, "0+")
    # bit n = AclOperation n is allowed; the default means the broker did not say
    topic_authorized_operations: int = int32("8+", default=-(2**31))


class Response(Struct, versions="0-13", flexible="9+"):
    throttle_time_ms: int = int32("3+", ignorable=True)
    brokers: list[Broker] = array(Broker, "0+")
    cluster_id: str | None = string("2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[Topic] = array(Topic, "0+")
    # bit n = AclOperation n is allowed; the default means the broker did not say
    cluster_authorized_operations: int = int32("8-10", default=-(2**31))
    error_code: int = int16("13+", ignorable=True)


class RequestTopic(Struct):
    topic_id: UUID = uuid("10+", ignorable=True)
    name: str | None = string("0+", nullable="10+")


class Request(
    Struct,
    key=3,
    reply=Response,
    route="any",
    changes=lambda request: bool(request.allow_auto_topic_creation and request.topics),
):
    # null: all topics (v0, which has no null: the empty list); empty: none
    topics: list[RequestTopic] | None = array(RequestTopic, "0+", nullable="1+")
    # false always, except for a client that wants topics made; before v4 it can't be said
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")
