"""Primitive types, nullable structs and unknown tags, byte by byte."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgtool.errors import DecodeError, EncodeError
from kgtool.protocol import wire
from kgtool.protocol.api import (
    api_versions,
    describe_topic_partitions,
    find_coordinator,
    metadata,
    offset_commit,
    offset_fetch,
)
from kgtool.protocol.plan import decode, encode
from kgtool.protocol.schema import (
    Struct,
    array,
    boolean,
    bytestring,
    float64,
    int8,
    int16,
    int32,
    int64,
    parse_versions,
    string,
    struct,
    uint16,
    uuid,
)

unhex = bytes.fromhex
VARINTS = {
    0: "00",
    1: "01",
    127: "7f",
    128: "8001",
    300: "ac02",
    16383: "ff7f",
    16384: "808001",
    2097151: "ffff7f",
    2097152: "80808001",
    2**31 - 1: "ffffffff07",
    2**32 - 1: "ffffffff0f",
}


class Inner(Struct):
    number: int = int32()


class Sample(Struct, versions="0-2", flexible="1+", name="Sample"):
    text: str | None = string(nullable="0+")
    inner: Inner | None = struct(Inner, nullable="0+", default=None)
    # 2+ only, and tagged: a marker of another kind
    classic: Inner | None = struct(Inner, "2+", nullable="2+", default=None, tag=3)


class Defaulted(Struct, versions="0", flexible="0+"):
    maybe: Inner | None = struct(Inner, nullable="0+", tag=4)


class Later(Struct):
    number: int = int32("5+")


class Nothings(Struct, versions="0-5"):
    all: list[Later] = array(Later)


class Primitives(Struct, versions="0-1", flexible="1+", name="Primitives"):
    a: int = int8()
    b: int = int16()
    c: int = uint16()
    d: int = int32()
    e: int = int64()
    f: float = float64()
    g: bool = boolean()
    h: UUID = uuid()
    i: bytes | None = bytestring(nullable="0+")
    j: list[str] | None = array(string, nullable="0+")
    k: list[int] = array(int32)


@pytest.mark.parametrize("value", VARINTS)
def test_varint_edges(value: int) -> None:
    out = bytearray()
    wire.write_uvarint(out, value)
    assert out.hex() == VARINTS[value]
    assert wire.read_uvarint(b"\xff" + bytes(out), 1) == (value, len(out) + 1)


@pytest.mark.parametrize("raw", ["ffffffff10", "ffffffffff01", "808080808000"])
def test_varints_of_more_than_32_bits_are_refused(raw: str) -> None:
    with pytest.raises(ValueError, match="32 bits"):
        wire.read_uvarint(unhex(raw), 0)


@given(st.integers(0, 2**32 - 1))
def test_varints_are_kios(value: int) -> None:
    from kio.serial.readers import read_unsigned_varint

    out = bytearray()
    wire.write_uvarint(out, value)
    assert read_unsigned_varint(bytes(out), 0) == wire.read_uvarint(bytes(out), 0)


def test_primitives_are_big_endian_and_in_order() -> None:
    made = Primitives(
        a=-2,
        b=-3,
        c=0xFFFE,
        d=-5,
        e=-6,
        f=1.5,
        g=True,
        h=UUID(int=7),
        i=b"\x08",
        j=["é", ""],
        k=[10, -1],
    )
    fixed = unhex("fe fffd fffe fffffffb fffffffffffffffa 3ff8000000000000 01" + " 00" * 15 + "07")
    classic = fixed + unhex("00000001 08  00000002 0002c3a9 0000  00000002 0000000a ffffffff")
    flexible = fixed + unhex("02 08  03 03c3a9 01  03 0000000a ffffffff  00")
    for version, raw in enumerate((classic, flexible)):
        assert encode(made, version) == raw
        assert decode(Primitives, version, raw) == made


def test_null_and_empty_differ() -> None:
    null, empty = Primitives(i=None, j=None), Primitives(i=b"", j=[])
    zeros = bytes(42)
    assert encode(null, 0) == zeros + b"\xff" * 8 + bytes(4)
    assert encode(empty, 0) == zeros + bytes(12)
    assert encode(null, 1) == zeros + b"\x00\x00\x01\x00"
    assert encode(empty, 1) == zeros + b"\x01\x01\x01\x00"
    for version in (0, 1):
        assert decode(Primitives, version, encode(null, version)) == null
        assert decode(Primitives, version, encode(empty, version)) == empty


@pytest.mark.parametrize(("version", "raw"), [(0, "fffe"), (0, "8000")])
def test_negative_lengths_other_than_null_are_refused(version: int, raw: str) -> None:
    with pytest.raises(DecodeError):
        decode(Sample, version, unhex(raw + "ff"))


def test_null_where_none_may_be_is_refused() -> None:
    with pytest.raises(DecodeError, match="null"):
        decode(find_coordinator.Request, 0, b"\xff\xff")
    with pytest.raises(DecodeError, match="null"):
        decode(find_coordinator.Request, 4, b"\x00\x00\x00")
    with pytest.raises(EncodeError, match="null"):
        encode(find_coordinator.Request(key=None), 0)


def test_names_that_are_not_utf8_survive() -> None:
    raw = b"\x00\x03a\xff\xfe"
    read = decode(find_coordinator.Request, 0, raw)
    assert read.key == "a\udcff\udcfe"
    assert encode(read, 0) == raw


@given(st.text(st.characters(blacklist_categories=["Cs"]), max_size=300))
@settings(max_examples=50)
def test_any_text_survives(text: str) -> None:
    for version in (0, 1):
        made = Sample(text=text)
        assert decode(Sample, version, encode(made, version)) == made


def test_a_nullable_struct_has_a_byte_before_it() -> None:
    null, five = Sample(text=None), Sample(text=None, inner=Inner(number=5))
    assert encode(null, 0) == unhex("ffff ff")
    assert encode(five, 0) == unhex("ffff 01 00000005")
    assert encode(null, 1) == unhex("00 ff  00")
    assert encode(five, 1) == unhex("00 01 00000005 00  00")
    for raw in ("ffff 00", "ffff 02 00000005", "ffff fe"):
        with pytest.raises(DecodeError, match="null"):
            decode(Sample, 0, unhex(raw))


def test_inside_a_tag_the_marker_is_a_varint() -> None:
    # As real brokers write ConsumerGroupMemberMetadataValue.ClassicMemberMetadata.
    present = unhex("00 ff  01 03 06 01 00000005 00")
    explicit_null = unhex("00 ff  01 03 01 00")
    assert encode(Sample(text=None, classic=Inner(number=5)), 2) == present
    assert decode(Sample, 2, present).classic == Inner(number=5)
    assert decode(Sample, 2, explicit_null).classic is None
    assert decode(Sample, 2, unhex("00 ff  00")).classic is None
    with pytest.raises(DecodeError):
        decode(Sample, 2, unhex("00 ff  01 03 01 ff"))


def test_null_inside_a_tag_is_written_where_it_is_not_the_default() -> None:
    made = Defaulted(maybe=None)
    assert encode(made, 0) == unhex("01 04 01 00")
    assert decode(Defaulted, 0, unhex("01 04 01 00")) == made
    assert encode(Defaulted(), 0) == unhex("00")


def test_elements_without_any_bytes_can_not_be_counted_to_the_end_of_time() -> None:
    assert decode(Nothings, 5, unhex("00000001 00000007")).all == [Later(number=7)]
    with pytest.raises(DecodeError, match="2147483647 elements in 0 bytes"):
        decode(Nothings, 0, unhex("7fffffff"))


def test_unknown_tags_are_kept_and_written_back_in_order() -> None:
    raw = unhex("00 ff  03  01 02 abcd  03 06 01 00000005 00  8101 00")
    read = decode(Sample, 2, raw)
    assert read.unknown_tags == ((1, b"\xab\xcd"), (129, b""))
    assert read.classic == Inner(number=5)
    assert encode(read, 2) == raw
    # v1 does not know tag 3 yet: it is kept as it came.
    older = decode(Sample, 1, raw)
    assert older.classic is None
    assert [tag for tag, _ in older.unknown_tags] == [1, 3, 129]
    assert encode(older, 1) == raw


def test_a_tag_must_be_as_long_as_it_says() -> None:
    for size in ("05", "07"):
        raw = unhex(f"00 ff  01 03 {size} 01 00000005 00 00")
        with pytest.raises(DecodeError):
            decode(Sample, 2, raw)


@pytest.mark.parametrize("second", ["01", "00"])
def test_tags_come_once_and_in_order(second: str) -> None:
    with pytest.raises(DecodeError, match="after tag 1"):
        decode(Sample, 1, unhex(f"00 ff  02  01 00  {second} 00"))


def test_tags_have_no_place_in_a_classic_version() -> None:
    read = decode(Sample, 1, unhex("00 ff  01 01 00"))
    with pytest.raises(EncodeError, match="tagged"):
        encode(read, 0)


@pytest.mark.parametrize(
    "values",
    [
        {"d": 2**31},
        {"d": -(2**31) - 1},
        {"a": 128},
        {"c": -1},
        {"d": "1"},
        {"d": None},
        {"h": "00000000"},
        {"i": "text"},
        {"j": [None]},
        {"j": [1]},
        {"j": 5},
        {"k": ["x"]},
        {"k": [2**31]},
        {"f": 10**400},
        {"j": ["\ud800"]},
        {"j": ["x" * 32768]},
    ],
    ids=lambda values: str(values)[:30],
)
def test_values_that_do_not_fit_are_encode_errors(values: dict[str, Any]) -> None:
    for version in (0, 1):
        with pytest.raises(EncodeError, match=f"^Primitives v{version}: cannot be written"):
            encode(Primitives(**values), version)


def test_a_struct_of_another_kind_is_an_encode_error() -> None:
    with pytest.raises(EncodeError, match="RequestTopic expected"):
        encode(offset_commit.Request(topics=[offset_commit.Topic()]), 5)


def test_what_a_version_can_not_say_is_refused_unless_kafka_ignores_it() -> None:
    with pytest.raises(EncodeError, match="allow_auto_topic_creation"):
        encode(metadata.Request(allow_auto_topic_creation=False), 3)
    partition = offset_commit.RequestPartition(offset=5, leader_epoch=7)
    topics = [offset_commit.RequestTopic(name="t", partitions=[partition])]
    encode(offset_commit.Request(topics=topics), 5)  # leader_epoch is ignorable
    with pytest.raises(EncodeError, match="group_instance_id"):
        encode(offset_commit.Request(group_instance_id="i"), 6)


def test_unknown_fields_are_programming_errors() -> None:
    with pytest.raises(TypeError, match="has no field grp"):
        offset_commit.Request(grp="g")


def test_the_answer_to_an_api_versions_request_from_the_future() -> None:
    # What a broker says to a version that it does not know: v0, error 35, one entry {18, 0, 4}.
    read = decode(api_versions.Response, 0, unhex("0023 00000001 0012 0000 0004"))
    assert read.error_code == 35
    assert read.api_keys == [api_versions.ApiVersion(api_key=18, min_version=0, max_version=4)]


def test_a_commit_as_kafka_documents_it() -> None:
    made = offset_commit.Request(
        group_id="g",
        topics=[
            offset_commit.RequestTopic(
                name="t", partitions=[offset_commit.RequestPartition(partition=1, offset=42)]
            )
        ],
    )
    assert encode(made, 8) == unhex(
        "0267 ffffffff 01 00  02 0274  02 00000001 000000000000002a ffffffff 01  00 00 00"
    )


def test_a_page_of_topics_starts_at_a_cursor() -> None:
    request = describe_topic_partitions.Request()
    assert encode(request, 0) == unhex("01 000007d0 ff 00")
    cursor = describe_topic_partitions.Cursor(topic_name="t", partition=3)
    request = request.replace(cursor=cursor)
    assert encode(request, 0) == unhex("01 000007d0 01 0274 00000003 00 00")


def test_require_stable_is_left_out_where_brokers_do_not_know_it() -> None:
    with_it = offset_fetch.Request(group_id="g", topics=None, require_stable=True)
    assert encode(with_it, 5) == encode(with_it.replace(require_stable=False), 5)
    assert encode(with_it, 7).endswith(b"\x01\x00")


def test_defaults_are_not_shared_between_messages() -> None:
    first = decode(offset_fetch.Response, 0, bytes(4))
    first.groups.append("x")
    assert decode(offset_fetch.Response, 0, bytes(4)).groups == []
    offset_fetch.Response().groups.append("x")
    assert offset_fetch.Response().groups == []


@pytest.mark.parametrize(
    ("text", "inside", "outside", "shown"),
    [
        ("3+", (3, 32767), (2,), "3+"),
        ("2-7", (2, 7), (1, 8), "2-7"),
        ("4", (4,), (3, 5), "4"),
        ("none", (), (0, -1), "none"),
    ],
)
def test_version_ranges(text: str, inside: Any, outside: Any, shown: str) -> None:
    versions = parse_versions(text)
    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)
    assert str(versions) == shown
