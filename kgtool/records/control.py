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
    """The content of a control record; the producer id is that of its batch."""

    type: int
    """ABORT, COMMIT, or a type that no transaction has (leader changes, snapshots)."""
    coordinator_epoch: int | None


def decode_marker(key: bytes, value: bytes | None) -> Marker:
    """Read a control record.

    :raises DecodeError: the bytes are not a control record.
    """
    if len(key) < 2:
        raise DecodeError(f"control record: a key of {len(key)} bytes")
    kind = decode_prefix(ControlKey, 0, key, 2)[0].type
    if kind not in (ABORT, COMMIT) or value is None:
        return Marker(kind, None)
    return Marker(kind, decode_prefix(EndTransactionMarker, 0, value, 2)[0].coordinator_epoch)
