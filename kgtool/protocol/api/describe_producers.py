"""DescribeProducers (key 61): the producers that a partition's leader remembers (KIP-664)."""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, int16, int32, int64, string


class ActiveProducer(Struct):
    producer_id: int = int64("0+")
    producer_epoch: int = int32("0+")
    last_sequence: int = int32("0+", default=-1)
    last_timestamp: int = int64("0+", default=-1)
    coordinator_epoch: int = int32("0+")
    # -1: no transaction is open here
    current_txn_start_offset: int = int64("0+", default=-1)


class Partition(Struct):
    partition: int = int32("0+", wire="partitionIndex")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    active_producers: list[ActiveProducer] = array(ActiveProducer, "0+")


class Topic(Struct):
    name: str = string("0+")
    partitions: list[Partition] = array(Partition, "0+")


class Response(Struct, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    topics: list[Topic] = array(Topic, "0+")


class RequestTopic(Struct):
    name: str = string("0+")
    partitions: list[int] = array(int32, "0+", wire="partitionIndexes")


class Request(Struct, key=61, reply=Response, route="leader", changes=False):
    topics: list[RequestTopic] = array(RequestTopic, "0+")
