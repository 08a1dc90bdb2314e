"""The group's own records: rare, so decoded one by one, by their schemas in ``kgtool.records``.

Only what decides about offsets is read: members and subscriptions.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Final

import numpy as np

from kgtool import records as kafka_records
from kgtool.analysis.decode.batches import LogRecords
from kgtool.analysis.decode.segments import Notes
from kgtool.analysis.decode.vector_reader import Bools, Ints
from kgtool.errors import DecodeError
from kgtool.records.types import (
    CONSUMER_MEMBER,
    CURRENT_ASSIGNMENT_TYPES,
    GROUP_METADATA,
    GROUP_TYPES,
    MEMBER_TYPES,
    REGULAR_EXPRESSION,
    STREAMS_TOPOLOGY,
)
from kgtool.retention.groups import GroupDetail, read_detail

REASON_VALUE = "malformed value"
DECODED_TYPES: Final = frozenset(
    (*GROUP_TYPES, *MEMBER_TYPES, *CURRENT_ASSIGNMENT_TYPES, REGULAR_EXPRESSION, STREAMS_TOPOLOGY)
)
_WITH_VALUE: Final = (GROUP_METADATA, CONSUMER_MEMBER, REGULAR_EXPRESSION, STREAMS_TOPOLOGY)
"""Of the others only the key matters, and that the value's version is known."""


def group_columns(
    records: LogRecords, key_type: Ints, is_group: Bools, notes: Notes
) -> tuple[dict[str, Any], list[tuple[str, int]]]:
    """Columns of the group rows; and the group and index of each record that deletes a group."""
    index: list[int] = []
    groups: list[str] = []
    details: list[dict[str, Any]] = []
    damaged = 0
    for at in np.flatnonzero(is_group & np.isin(key_type, list(DECODED_TYPES))).tolist():
        try:
            group, detail = decode(int(key_type[at]), *records.key_and_value(at))
        except ValueError:
            damaged += 1
            continue
        index.append(at)
        groups.append(group)
        details.append(detail._asdict())
    notes.skip(REASON_VALUE, damaged)
    rows = np.array(index, dtype=np.int64)
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


def decode(key_type: int, key: bytes, value: bytes | None) -> tuple[str, GroupDetail]:
    """The group and content of a record of a type in DECODED_TYPES; ValueError if it is damaged."""
    try:
        record: Any = kafka_records.decode(key, value if key_type in _WITH_VALUE else None)
    except DecodeError as error:
        raise ValueError(str(error)) from None
    if value is not None and key_type not in _WITH_VALUE and value[:2] != b"\0\0":
        raise ValueError(f"{record.name}: value version {value[:2].hex()} is unknown")
    detail = read_detail(record)
    topics = None if detail.topics is None else list(map(_text, detail.topics))
    if topics is not None and isinstance(detail.topics, Set):
        topics.sort()
    return _text(record.key.group), detail._replace(
        protocol_type=_text(detail.protocol_type),
        member=_text(detail.member),
        topics=topics,
        regex=_text(detail.regex),
    )


def _text(value: Any) -> Any:
    """Bytes that are not UTF-8 become U+FFFD, as in ``offset_records.strings``; None stays."""
    if value is None or value.isascii():
        return value
    return value.encode("utf-8", "surrogateescape").decode(errors="replace")
