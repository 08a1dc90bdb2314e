"""Output of the console consumer's old text formatters, up to 3.8 (and in 3.9 by the old names).

::

    [g,t1,0]::[OffsetMetadata[10,NO_METADATA],CommitTime 1795265630387,ExpirationTime 1795265690387]
    [g,t1,0]::OffsetAndMetadata(offset=10, leaderEpoch=Optional[5], metadata=, commitTimestamp=1,
        expireTimestamp=Some(2))
    [g,t1,0]::NULL
    g::GroupMetadata(groupId=g, generation=2, protocolType=Some(consumer), currentState=Stable,
        members=HashMap(m -> MemberMetadata(memberId=m, …)))
    g::NULL

each on one line (the first shape: up to 2.0; ``[g,t1,0]::OffsetAndMetadata[10,NO_METADATA,1]``
in 0.8.2). Nothing is escaped, but a topic's name has only
letters, digits, dots, dashes and underscores, so the fields can be told apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from kgtool.analysis.input.input_files import TOPIC_NAME
from kgtool.analysis.input.readers.reencode import (
    NOT_A_RECORD,
    PrintedRecords,
    group_key,
    offset_key,
    plain_offset,
)
from kgtool.analysis.input.readers.text_ranges import TextRecord
from kgtool.protocol.plan import encode
from kgtool.records.group_metadata import GroupMetadataValue, MemberMetadata

_KEY = rf"^\[(?P<group>.*?),(?P<topic>{TOPIC_NAME}),(?P<partition>\d+)\]::"
_OFFSETS = re.compile(
    _KEY + r"(?:(?P<null>NULL)"
    r"|OffsetAndMetadata\(offset=(?P<offset>-?\d+), leaderEpoch=[^,]*, metadata=.*,"
    r" commitTimestamp=(?P<commit>-?\d+), expireTimestamp=(?P<expire>None|Some\(-?\d+\)|[^)]*)\)"
    r"|OffsetAndMetadata\[(?P<offset_0>-?\d+),.*,(?P<commit_0>-?\d+)\]"
    r"|\[OffsetMetadata\[(?P<offset_2>-?\d+),.*\],CommitTime (?P<commit_2>-?\d+)"
    r",ExpirationTime (?P<expire_2>-?\d+)\])$",
    re.DOTALL,
)
_GROUPS = re.compile(
    r"^(?:(?P<gone>.*)::NULL|(?P<group>.*?)::GroupMetadata\(groupId=(?P=group), "
    r"generation=(?P<generation>-?\d+), "
    r"protocolType=(?:None|Some\((?P<protocol>.*?)\)), currentState=(?P<state>\w+), "
    r"members=\w*Map\((?P<members>.*)\)\))$",
    re.DOTALL,
)
_MEMBER = re.compile(r"(?:^|, )[^,]* -> MemberMetadata\(memberId=")
_END = re.compile(r"(?<=[)\]L])\n")
MOST_LINES = 6
"""Line ends behind which a record is looked for: with more, a long text would be read for each."""
_NUMBER = re.compile(r"-?\d+")
Add = Callable[[re.Match[str], PrintedRecords, int], None]
"""Adds a matched record, at an offset; raises NOT_A_RECORD."""


def read_offsets(block: Iterable[TextRecord], into: PrintedRecords) -> None:
    """Read the records of an OffsetsMessageFormatter."""
    for unit in block:
        _read(_OFFSETS, _add_offset, unit, into)


def read_groups(block: Iterable[TextRecord], into: PrintedRecords) -> None:
    """Read the records of a GroupMetadataMessageFormatter."""
    for unit in block:
        _read(_GROUPS, _add_group, unit, into)


def _add_offset(found: re.Match[str], into: PrintedRecords, log_offset: int) -> None:
    key = offset_key(found["group"], found["topic"], int(found["partition"]))
    if found["null"]:
        into.add(log_offset, 0, key, None)
        return
    commit = int(found["commit"] or found["commit_2"] or found["commit_0"])
    expire = _NUMBER.search(found["expire"] or found["expire_2"] or "")
    offset = int(found["offset"] or found["offset_2"] or found["offset_0"])
    value = plain_offset(offset, commit, int(expire[0]) if expire else None)
    into.add(log_offset, max(commit, 0), key, value)


def _add_group(found: re.Match[str], into: PrintedRecords, log_offset: int) -> None:
    if found["gone"] is not None:
        into.add(log_offset, 0, group_key(found["gone"]), None)
        return
    members = len(_MEMBER.findall(found["members"]))
    value = group_value(found["protocol"] or "", int(found["generation"]), members)
    into.add(log_offset, 0, group_key(found["group"]), value)


def group_value(protocol_type: str, generation: int, members: int) -> bytes:
    """GroupMetadataValue v3 of a group of which only this is known; raises NOT_A_RECORD."""
    unknown = [MemberMetadata(member_id=str(number)) for number in range(members)]
    value = GroupMetadataValue(protocol_type=protocol_type, generation=generation, members=unknown)
    return b"\0\3" + encode(value, 3)


def _read(pattern: re.Pattern[str], add: Add, unit: TextRecord, into: PrintedRecords) -> None:
    """Add the record of a unit, or skip its text."""
    text = unit.data.decode(errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")
    whole = text.removesuffix("\n")
    # Metadata may have line breaks, and behind a record there may be lines of a logger.
    for size in _ends(whole):
        found = pattern.match(whole[:size])
        if found is not None:
            into.skip_text(whole[size:], unit.position)
            try:
                add(found, into, into.order + unit.position)
            except NOT_A_RECORD:  # a number or a name that fits into no record
                into.skip_text(found[0], unit.position)
            return
    is_last = into.is_last(unit) and unit.position > 0 and text == whole
    into.skip_text(text, unit.position, is_last=is_last)


def _ends(text: str) -> Iterator[int]:
    """Where a record that begins here may end, the last place first."""
    yield len(text)
    ends = [found.start() for found in islice(_END.finditer(text), MOST_LINES)]
    yield from reversed(ends)
