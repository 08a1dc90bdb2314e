"""WriteTxnMarkers (key 27): write the markers that end transactions in partitions (KIP-98).

Brokers send it to each other; ``kafka-transactions.sh abort`` sends it to end a hanging
transaction. It goes to the leader of each partition, and needs CLUSTER_ACTION on the cluster, or
ALTER from 4.0 on. v2 the transaction's version (KIP-1228). Kafka 4 removed v0.
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, boolean, int8, int16, int32, int64, string


class PartitionResult(Struct):
    partition: int = int32("0+", wire="partitionIndex")
    error_code: int = int16("0+")


class TopicResult(Struct):
    name: str = string("0+")
    partitions: list[PartitionResult] = array(PartitionResult, "0+")


class MarkerResult(Struct):
    producer_id: int = int64("0+")
    topics: list[TopicResult] = array(TopicResult, "0+")


class Response(Struct, versions="0-2", flexible="1+"):
    markers: list[MarkerResult] = array(MarkerResult, "0+")


class MarkerTopic(Struct):
    name: str = string("0+")
    partitions: list[int] = array(int32, "0+", wire="partitionIndexes")


class Marker(Struct):
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    # false: abort
    transaction_result: bool = boolean("0+")
    topics: list[MarkerTopic] = array(MarkerTopic, "0+")
    coordinator_epoch: int = int32("0+")
    # 0 and 1: legacy
    transaction_version: int = int8("2+", default=0, ignorable=True)


class Request(Struct, key=27, reply=Response, route="leader", changes=True):
    markers: list[Marker] = array(Marker, "0+")
