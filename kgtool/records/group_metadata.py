"""Classic groups: record type 2.

A tombstone ends the group. v1 adds the rebalance timeout, v2 the time of the last state
change (KIP-211), v3 static members (KIP-345); v4 is flexible and not written yet (KIP-915).
The state is not stored: a loaded group is Empty without members, else Stable.
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, bytestring, int32, int64, string


class GroupMetadataKey(Struct, key=2, versions="0"):
    group: str = string()


class MemberMetadata(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = bytestring()
    assignment: bytes = bytestring()


class GroupMetadataValue(Struct, key=2, versions="0-4", flexible="4+"):
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata)
