"""The group's own records: rare, so decoded one by one, by their schemas in ``kgtool.records``.

Only what decides about offsets is read: members and subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np

from kgtool import records as kafka_records
from kgtool.analysis.decode.batches import LogRecords
from kgtool.analysis.decode.segments import Notes
from kgtool.analysis.decode.vector_reader import Bools, Ints
from kgtool.errors import DecodeError
from kgtool.records.subscription import subscribed_topics
from kgtool.records.types import (
    CONSUMER_MEMBER,
    CURRENT_ASSIGNMENT_TYPES,
    GROUP_METADATA,
    GROUP_TYPES,
    MEMBER_TYPES,
    REGULAR_EXPRESSION,
    STREAMS_TOPOLOGY,
)

REASON_VALUE = "malformed value"
DECODED_TYPES: Final = frozenset(
    (*GROUP_TYPES, *MEMBER_TYPES, *CURRENT_ASSIGNMENT_TYPES, REGULAR_EXPRESSION, STREAMS_TOPOLOGY)
)
_WITH_VALUE: Final = (GROUP_METADATA, CONSUMER_MEMBER, REGULAR_EXPRESSION, STREAMS_TOPOLOGY)
"""Of the others only the key matters, and that the value's version is known."""


class GroupRecord(NamedTuple):
    """One group record; fields that its type does not have are None."""

    group: str
    protocol_type: str | None = None
    generation: int | None = None
    state_since_ms: int | None = None
    members: int | None = None
    member: str | None = None
    topics: list[str] | None = None
    """Of a classic group: the union over its members, None if one can't be read."""
    regex: str | None = None


def group_columns(
    records: LogRecords, key_type: Ints, is_group: Bools, notes: Notes
) -> tuple[dict[str, Any], list[tuple[str, int]]]:
    """Columns of the group rows; and the group and index of each record that deletes a group."""
    index: list[int] = []
    details: list[dict[str, Any]] = []
    damaged = 0
    for at in np.flatnonzero(is_group & np.isin(key_type, list(DECODED_TYPES))).tolist():
        try:
            record = decode(int(key_type[at]), *records.key_and_value(at))
        except ValueError:
            damaged += 1
            continue
        index.append(at)
        details.append(record._asdict())
    notes.skip(REASON_VALUE, damaged)
    rows = np.array(index, dtype=np.int64)
    groups = [str(detail.pop("group")) for detail in details]
    tombstone = records.value_size[rows] < 0
    columns = {
        "index": rows,
        "key_type": key_type[rows].astype(np.int32),
        "group": groups,
        "tombstone": tombstone,
        "detail": details,
        "bytes": records.size(rows),
    }
    deletes = np.flatnonzero(tombstone & np.isin(key_type[rows], GROUP_TYPES))
    return columns, [(groups[at], index[at]) for at in deletes]


def decode(key_type: int, key: bytes, value: bytes | None) -> GroupRecord:
    """The record of a type in DECODED_TYPES; ValueError if it is damaged."""
    try:
        found: Any = kafka_records.decode(key, value if key_type in _WITH_VALUE else None)
    except DecodeError as error:
        raise ValueError(str(error)) from None
    if value is not None and key_type not in _WITH_VALUE and value[:2] != b"\0\0":
        raise ValueError(f"{found.name}: value version {value[:2].hex()} is unknown")
    member, regex = (getattr(found.key, name, None) for name in ("member_id", "regular_expression"))
    record = GroupRecord(_text(found.key.group), member=_text(member), regex=_text(regex))
    if found.value is None:
        return record
    if key_type == GROUP_METADATA:
        return _group_metadata(record, found.value)
    if key_type == CONSUMER_MEMBER:
        return record._replace(topics=_texts(found.value.subscribed_topic_names))
    if key_type == REGULAR_EXPRESSION:
        return record._replace(topics=_texts(found.value.topics))
    return record._replace(topics=sorted(_texts(_sources(found.value))))


def _group_metadata(record: GroupRecord, value: Any) -> GroupRecord:
    # Without the consumer protocol, or without a chosen protocol, nothing can be read.
    readable = value.protocol_type == "consumer" and value.protocol is not None
    topics = None
    if readable or not value.members:
        topics = subscribed_topics(member.subscription for member in value.members)
    since = value.current_state_timestamp
    return record._replace(
        protocol_type=_text(value.protocol_type),
        generation=value.generation,
        state_since_ms=None if since == -1 else since,
        members=len(value.members),
        topics=None if topics is None else sorted(_texts(topics)),
    )


def _sources(topology: Any) -> set[str]:
    """Source and repartition-source topics of all subtopologies."""
    topics: set[str] = set()
    for part in topology.subtopologies:
        topics.update(part.source_topics, (info.name for info in part.repartition_source_topics))
    return topics


def _texts(values: Iterable[str]) -> list[str]:
    return [_text(value) for value in values]


def _text(value: Any) -> Any:
    """Bytes that are not UTF-8 become U+FFFD, as in ``offset_records.strings``; None stays."""
    if value is None or value.isascii():
        return value
    return value.encode("utf-8", "surrogateescape").decode(errors="replace")
