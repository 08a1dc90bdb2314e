"""DescribeTransactions (key 65): the state of transactional ids (KIP-664).

It goes to the *transaction* coordinator (FindCoordinator key type 1).
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, int16, int32, int64, string


class Topic(Struct):
    topic: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class TransactionState(Struct):
    error_code: int = int16("0+")
    transactional_id: str = string("0+")
    transaction_state: str = string("0+")
    transaction_timeout_ms: int = int32("0+")
    # -1: none is open
    transaction_start_time_ms: int = int64("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    topics: list[Topic] = array(Topic, "0+")


class Response(Struct, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    transaction_states: list[TransactionState] = array(TransactionState, "0+")


class Request(Struct, key=65, reply=Response, route="coordinator", changes=False):
    transactional_ids: list[str] = array(string, "0+")
