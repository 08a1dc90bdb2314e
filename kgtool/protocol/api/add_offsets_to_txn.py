"""AddOffsetsToTxn (key 25): offsets of a group will be part of a transaction (KIP-98).

v2 error PRODUCER_FENCED (KIP-588), v4 error TRANSACTION_ABORTABLE (KIP-890). It goes to the
*transaction* coordinator (FindCoordinator key type 1).
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, int16, int32, int64, string


class Response(Struct, versions="0-4", flexible="3+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")


class Request(Struct, key=25, reply=Response, route="coordinator", changes=True):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")
