"""InitProducerId (key 22): a producer id; fences older producers of a transactional id (KIP-98).

v3 resumes an id (KIP-360), v4 error PRODUCER_FENCED (KIP-588), v5 error TRANSACTION_ABORTABLE
(KIP-890), v6 two-phase commit (KIP-939; unstable in 4.3). With a transactional id it goes to the
*transaction* coordinator (FindCoordinator key type 1).
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, boolean, int16, int32, int64, string


class Response(Struct, versions="0-6", flexible="2+"):
    throttle_time_ms: int = int32("0+", ignorable=True)
    error_code: int = int16("0+")
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+")
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)


class Request(Struct, key=22, reply=Response, route="coordinator", changes=True):
    # null: an idempotent producer without transactions, any broker will do
    transactional_id: str | None = string("0+", nullable="0+")
    transaction_timeout_ms: int = int32("0+")
    # -1: a new one
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable_2pc: bool = boolean("6+", wire="enable2Pc")
    keep_prepared_txn: bool = boolean("6+")
