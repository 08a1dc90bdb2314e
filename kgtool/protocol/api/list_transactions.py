"""ListTransactions (key 66): transactions that one broker coordinates (KIP-664); so ask them all.

v1 duration filter (KIP-994), v2 filter by regular expression (KIP-1152).
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, int16, int32, int64, string


class TransactionState(Struct):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    transaction_state: str = string("0+")


class Response(Struct, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    unknown_state_filters: list[str] = array(string, "0+")
    transaction_states: list[TransactionState] = array(TransactionState, "0+")


class Request(Struct, key=66, reply=Response, route="all", changes=False):
    state_filters: list[str] = array(string, "0+")
    producer_id_filters: list[int] = array(int64, "0+")
    # milliseconds; below 0: all
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)
