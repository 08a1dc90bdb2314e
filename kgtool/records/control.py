"""Control records: the end of a transaction, as a batch of one record in the same partition."""

from __future__ import annotations

from typing import NamedTuple

from kgtool.errors import DecodeError
from kgtool.protocol.plan import decode_prefix
from kgtool.protocol.schema import Struct, int16, int32

ABORT = 0
COMMIT = 1


class ControlKey(Struct, versions="0"):
    type: int = int16()


class EndTransactionMarker(Struct, versions="0"):
    coordinator_epoch: int = int32()


class Marker(NamedTuple):
    """What a control record says; the producer id is its batch's."""

    type: int
    """ABORT, COMMIT, or a type that means nothing to transactions (leader changes, snapshots)."""
    coordinator_epoch: int | None


def decode_marker(key: bytes, value: bytes | None) -> Marker:
    """Read a control record.

    :raises DecodeError: the bytes are none.
    """
    if len(key) < 2:
        raise DecodeError(f"control record: a key of {len(key)} bytes")
    kind = decode_prefix(ControlKey, 0, key, 2)[0].type
    if kind not in (ABORT, COMMIT) or value is None:
        return Marker(kind, None)
    return Marker(kind, decode_prefix(EndTransactionMarker, 0, value, 2)[0].coordinator_epoch)
