"""Writes the log of ``__consumer_offsets`` by hand: real bytes, read back by ``read_entry``."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from kgtool.protocol.plan import encode
from kgtool.protocol.schema import Struct
from kgtool.records import record_types
from kgtool.records.consumer_group import ConsumerGroupMemberMetadataValue
from kgtool.records.group_metadata import GroupMetadataValue, MemberMetadata
from kgtool.records.offset_commit import OffsetCommitValue
from kgtool.records.subscription import ConsumerProtocolSubscription
from kgtool.retention.history import Entry, read_entry

GROUP = "g"


class Log:
    """Appends records of one group (``GROUP`` unless told) to one partition."""

    def __init__(self, partition: int = 0) -> None:
        self.partition = partition
        self.epoch = 0
        """The leader epoch of what follows; a higher one: a coordinator has loaded the log."""
        self.entries: list[Entry] = []

    def append(
        self,
        at_ms: int,
        number: int,
        version: int,
        value: Struct | None,
        *,
        pid: int = -1,
        base: int | None = None,
        **key: Any,
    ) -> Entry:
        """Append any record; ``key`` are the fields of its key."""
        key.setdefault("group", GROUP)
        raw_key = struct.pack(">h", number) + encode(record_types()[number].key(**key), 0)
        raw = None if value is None else struct.pack(">h", version) + encode(value, version)
        return self._add(at_ms, raw_key, raw, pid=pid, base=base)

    def commit(
        self,
        at_ms: int,
        topic: str = "t1",
        partition: int = 0,
        *,
        offset: int = 1,
        cts: int | None = None,
        ets: int | None = None,
        pid: int = -1,
        **key: Any,
    ) -> Entry:
        """A commit at the time of the record, v1 if it has an expire timestamp."""
        value = OffsetCommitValue(offset=offset, commit_timestamp=at_ms if cts is None else cts)
        if ets is not None:
            value = value.replace(expire_timestamp=ets)
        version = 3 if ets is None else 1
        key |= {"topic": topic, "partition": partition}
        return self.append(at_ms, 1, version, value, pid=pid, **key)

    def forget(
        self, at_ms: int, topic: str = "t1", partition: int = 0, *, pid: int = -1, **key: Any
    ) -> Entry:
        """An offset's tombstone."""
        return self.append(at_ms, 1, 0, None, pid=pid, topic=topic, partition=partition, **key)

    def classic(
        self,
        at_ms: int,
        members: Iterable[Sequence[str] | bytes] = (),
        *,
        protocol_type: str = "consumer",
        cst: int | None = None,
        generation: int = 1,
        protocol: str | None = "range",
        static: bool = False,
        **key: Any,
    ) -> Entry:
        """A GroupMetadata record; a member is its topics, or the bytes of its subscription."""
        value = GroupMetadataValue(
            protocol_type=protocol_type,
            generation=generation,
            protocol=protocol if members else None,
            current_state_timestamp=-1 if cst is None else cst,
            members=[_member(at, topics, static=static) for at, topics in enumerate(members)],
        )
        return self.append(at_ms, 2, 1 if cst is None else 3, value, **key)

    def end_group(self, at_ms: int, number: int = 2, **key: Any) -> Entry:
        """A group's tombstone."""
        return self.append(at_ms, number, 0, None, **key)

    def member(
        self,
        at_ms: int,
        name: str,
        topics: Iterable[str] | None,
        *,
        regex: str | None = None,
        **key: Any,
    ) -> Entry:
        """A member of a KIP-848 group, or its tombstone."""
        value = None
        if topics is not None:
            value = ConsumerGroupMemberMetadataValue(
                subscribed_topic_names=list(topics),
                subscribed_topic_regex=regex,
                classic_member_metadata=None,
            )
        return self.append(at_ms, 5, 0, value, member_id=name, **key)

    def end_transaction(self, at_ms: int, pid: int, *, commit: bool) -> Entry:
        """A control record."""
        return self._add(
            at_ms, struct.pack(">hh", 0, int(commit)), bytes(6), pid=pid, is_control=True
        )

    def _add(
        self,
        at_ms: int,
        key: bytes,
        value: bytes | None,
        *,
        pid: int = -1,
        base: int | None = None,
        is_control: bool = False,
    ) -> Entry:
        offset = len(self.entries)
        entry = read_entry(
            self.partition,
            offset,
            at_ms,
            key,
            value,
            producer_id=pid,
            transactional=pid != -1,
            is_control=is_control,
            base_offset=offset if base is None else base,
            leader_epoch=self.epoch,
        )
        self.entries.append(entry)
        return entry


def subscription(topics: Iterable[str]) -> bytes:
    return b"\x00\x01" + encode(ConsumerProtocolSubscription(topics=list(topics)), 1)


def _member(number: int, topics: Sequence[str] | bytes, *, static: bool) -> MemberMetadata:
    raw = topics if isinstance(topics, bytes) else subscription(topics)
    instance = f"i{number}" if static else None
    return MemberMetadata(
        member_id=f"m{number}",
        group_instance_id=instance,
        session_timeout=600_000,
        subscription=raw,
    )
