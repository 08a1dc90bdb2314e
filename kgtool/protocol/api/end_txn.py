"""EndTxn (key 26): commit or abort a transaction (KIP-98).

v2 error PRODUCER_FENCED (KIP-588), v4 error TRANSACTION_ABORTABLE, v5 a new epoch after every
transaction (both KIP-890). It goes to the *transaction* coordinator (FindCoordinator key type 1).
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, boolean, int16, int32, int64, string


class Response(Struct, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)


class Request(Struct, key=26, reply=Response, route="coordinator", changes=True):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    committed: bool = boolean("0+")
