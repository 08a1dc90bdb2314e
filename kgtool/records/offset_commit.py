"""Committed offsets: record types 0 (before 0.9) and 1.

Value v1 carries an expire timestamp (every commit of 0.9 - 2.0; later only with an explicit
retention time), v3 the leader epoch (KIP-320), v4 the topic id (KIP-848, absent from every
transactional commit). Timestamps are milliseconds since the epoch. Type 0 has a schema of its own
since 4.1; older brokers read its values with that of type 1, and so does ``records.decode``.
"""

from __future__ import annotations

from uuid import UUID

from kgtool.protocol.schema import Struct, int32, int64, string, uuid


class LegacyOffsetCommitKey(Struct, key=0, versions="0"):
    group: str = string()
    topic: str = string()
    partition: int = int32()


class LegacyOffsetCommitValue(Struct, key=0, versions="0"):
    offset: int = int64()
    metadata: str = string()
    commit_timestamp: int = int64()


class OffsetCommitKey(Struct, key=1, versions="0"):
    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Struct, key=1, versions="0-4", flexible="4+"):
    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: UUID = uuid("4+", tag=0, ignorable=True)
