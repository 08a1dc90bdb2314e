"""Arrays that are read at once: the same as element by element, whatever is in between."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgtool.errors import DecodeError
from kgtool.protocol.api import offset_fetch
from kgtool.protocol.api.offset_fetch import Group, GroupPartition, GroupTopic, Response
from kgtool.protocol.plan import decode, encode, reader

INT32 = st.integers(-(2**31), 2**31 - 1)
TAGS = st.sampled_from([()] * 20 + [((7, b"later"),)])
OTHERS = ["", None, "x", "AQAAAYvPw0gA", "ä" * 70]


@st.composite
def arrays(draw: st.DrawFn, min_size: int = 0) -> list[GroupPartition]:
    """Return partitions, mostly with the same metadata: read at once, or with a step between."""
    usual = draw(st.sampled_from(OTHERS))
    metadata = st.sampled_from([usual] * 20 + OTHERS)
    return draw(st.lists(partitions(metadata), min_size=min_size, max_size=20))


@st.composite
def partitions(draw: st.DrawFn, metadata: st.SearchStrategy[str | None]) -> GroupPartition:
    made = GroupPartition(
        partition=draw(INT32),
        offset=draw(st.integers(-(2**63), 2**63 - 1)),
        leader_epoch=draw(INT32),
        metadata=draw(metadata),
        error_code=draw(st.integers(-1, 130)),
    )
    return tuple.__new__(GroupPartition, (*made[:-1], draw(TAGS)))


def _reply(parts: list[GroupPartition]) -> Response:
    topics = [GroupTopic(name="orders", partitions=parts), GroupTopic(name="", partitions=[])]
    return Response(groups=[Group(group_id="g", topics=topics)])


@given(parts=arrays(), version=st.sampled_from([8, 9]))
def test_what_was_written_is_read(parts: list[GroupPartition], version: int) -> None:
    made = _reply(parts)
    assert decode(Response, version, encode(made, version)) == made


@given(parts=arrays(min_size=1), data=st.data())
def test_a_reply_that_is_cut_off_is_no_reply(
    parts: list[GroupPartition], data: st.DataObject
) -> None:
    raw = encode(_reply(parts), 9)
    with pytest.raises(DecodeError):
        decode(Response, 9, raw[: data.draw(st.integers(0, len(raw) - 1))])


@given(raw=st.lists(st.sampled_from([0, 1, 1, 1, 2, 255]), max_size=120).map(bytes))
def test_any_bytes_are_what_they_are_one_by_one(raw: bytes) -> None:
    """Bytes that look like empty strings and tags, and are a message only by chance."""
    count = len(raw) // 20
    name = b"\x02t"
    one = reader(GroupPartition, 9, True)

    def by_one() -> list[GroupPartition]:
        found, at = [], 0
        for _ in range(count):
            part, at = one(raw, at)
            found.append(part)
        return found

    def at_once() -> list[GroupPartition]:
        topic, _ = reader(GroupTopic, 9, True)(name + bytes([count + 1]) + raw + b"\0", 0)
        assert isinstance(topic, GroupTopic)
        return topic.partitions

    expected, found = _outcome(by_one), _outcome(at_once)
    # The topic's own tags come behind the array: what is left of the bytes may be none.
    assert found == expected or (found is None and expected is not None)


def _outcome(read: Callable[[], list[GroupPartition]]) -> list[GroupPartition] | None:
    try:
        return read()
    except (ValueError, IndexError, struct.error):
        return None


def test_kio_reads_the_same() -> None:
    from kio.index import load_response_schema
    from kio.serial import entity_reader

    parts = [GroupPartition(partition=at, offset=at * 3, leader_epoch=at) for at in range(9)]
    raw = encode(_reply(parts), 9)
    theirs, _ = entity_reader(load_response_schema(offset_fetch.Request.KEY, 9))(raw, 0)
    found = decode(Response, 9, raw).groups[0].topics[0].partitions
    assert [(part.partition, part.offset, part.leader_epoch, part.metadata) for part in found] == [
        (part.partition_index, part.committed_offset, part.committed_leader_epoch, part.metadata)
        for part in theirs.groups[0].topics[0].partitions
    ]
    assert found == parts
