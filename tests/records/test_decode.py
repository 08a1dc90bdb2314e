"""How tolerant decoding is, and where it stops."""

from __future__ import annotations

import struct

import pytest

from kgtool.errors import DecodeError
from kgtool.protocol.plan import encode
from kgtool.protocol.schema import Struct
from kgtool.records import Record, UnknownRecord, control, decode, record_types
from kgtool.records.consumer_group import ConsumerGroupMemberMetadataValue
from kgtool.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kgtool.records.share import EarlyShareGroupMetadataValue, ShareGroupMetadataValue
from tests.protocol.messages import Maker, Message
from tests.records.messages import EVERY, Form
from tests.retention.truth import RULES, raw, truth
from tests.support import seeds

KEY = OffsetCommitKey(group="g", topic="t", partition=3)


def with_version(version: int, body: bytes) -> bytes:
    return struct.pack(">h", version) + body


def offset_key(number: int = 1) -> bytes:
    return with_version(number, encode(KEY, 0))


def decoded(key: bytes, value: bytes | None) -> Record:
    record = decode(key, value)
    assert isinstance(record, Record)
    return record


@pytest.mark.parametrize("version", range(5))
def test_the_old_key_type_takes_every_value_version(version: int) -> None:
    value = OffsetCommitValue(offset=7, metadata="m", commit_timestamp=5)
    record = decoded(offset_key(0), with_version(version, encode(value, version)))
    assert (record.name, record.version) == ("LegacyOffsetCommit", version)
    assert (record.key.group, record.key.topic, record.key.partition) == ("g", "t", 3)
    assert record.value == value


def test_a_null_value_is_a_tombstone_and_an_empty_one_is_not() -> None:
    assert decoded(offset_key(), None).value is None
    with pytest.raises(DecodeError, match="0 bytes"):
        decode(offset_key(), b"")


@pytest.mark.parametrize("number", [18, 24, 99, 32767, -1])
def test_unknown_types_are_handed_through(number: int) -> None:
    key = with_version(number, b"whatever")
    assert decode(key, b"\x00") == UnknownRecord(number, key, b"\x00")


@pytest.mark.parametrize("version", [5, -1, 32767])
def test_an_unknown_value_version_is_an_error(version: int) -> None:
    with pytest.raises(DecodeError, match=f"value version {version} is unknown"):
        decode(offset_key(), with_version(version, b"\x00" * 40))


def test_bytes_after_the_end_are_not_looked_at() -> None:
    value = with_version(3, encode(OffsetCommitValue(offset=9), 3))
    assert decoded(offset_key() + b"\xff", value + b"\xff").value.offset == 9


def test_the_ordinary_null_of_a_kip_848_member() -> None:
    """Brokers write the null of the tagged struct explicitly, with a uvarint marker."""
    value = ConsumerGroupMemberMetadataValue(client_id="c", classic_member_metadata=None)
    raw_value = with_version(0, encode(value, 0))
    assert raw_value.endswith(b"\x01\x00\x01\x00")
    key = with_version(5, b"\x00\x01g\x00\x01m")
    assert decoded(key, raw_value).value.classic_member_metadata is None


def test_share_groups_of_the_early_access_are_read_too() -> None:
    key = with_version(11, b"\x00\x01g")
    early = with_version(0, encode(EarlyShareGroupMetadataValue(epoch=4), 0))
    assert decoded(key, early).value == EarlyShareGroupMetadataValue(epoch=4)
    today = ShareGroupMetadataValue(epoch=4, metadata_hash=5)
    assert decoded(key, with_version(0, encode(today, 0))).value == today


def test_names_that_are_no_utf_8_survive() -> None:
    key = with_version(2, b"\x00\x02\xff\xfe")
    record = decoded(key, None)
    assert encode(record.key, 0) == key[2:]


@pytest.mark.parametrize("key", [b"", b"\x00", b"\x00\x01", offset_key()[:-1]])
def test_a_cut_key_is_an_error(key: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(key, None)


def _whole(form: Form, message: Struct, version: int) -> tuple[bytes, bytes | None]:
    body = encode(message, version)
    if form.name.endswith("Key"):
        return with_version(form.cls.KEY, body), None
    key_class = record_types()[form.cls.KEY].key
    return with_version(form.cls.KEY, encode(key_class(), 0)), with_version(version, body)


@pytest.mark.parametrize("form", [f for f in EVERY if f.cls.KEY >= 0], ids=lambda f: f.cls.__name__)
def test_every_truncation_and_mutation_is_decoded_or_a_decode_error(form: Form) -> None:
    rng = seeds.rng(form.cls.__name__)
    for version in form.versions:
        made = Maker((form.name, version)).message(Message(form.name, "", form.cls, version))
        key, value = _whole(form, made, version)
        part = key if value is None else value
        for end in range(len(part)):
            with pytest.raises(DecodeError) as caught:
                decode(*((part[:end], None) if value is None else (key, part[:end])))
            assert "\n" not in str(caught.value)
        for _ in range(200):
            broken = bytearray(part)
            broken[rng.randrange(2, len(part))] = rng.randrange(256)
            try:
                decode(*((bytes(broken), None) if value is None else (key, bytes(broken))))
            except DecodeError:
                continue


@pytest.mark.parametrize("run", RULES)
def test_real_records_are_written_back_byte_for_byte(run: str) -> None:
    for line in truth(run).records:
        key, value = raw(line, "key"), raw(line, "value")
        assert key is not None
        record = None if line["control"] else decode(key, value)
        if isinstance(record, Record):
            assert with_version(record.type, encode(record.key, 0)) == key
            if value is not None:
                assert record.version is not None
                assert with_version(record.version, encode(record.value, record.version)) == value


def test_a_control_record_of_another_kind_ends_no_transaction() -> None:
    leader_change = control.decode_marker(with_version(0, b"\x00\x02"), b"\x00\x00")
    assert leader_change.type not in (control.COMMIT, control.ABORT)
    with pytest.raises(DecodeError):
        control.decode_marker(b"\x00\x00\x00", b"")
    with pytest.raises(DecodeError):
        control.decode_marker(b"\x00\x00\x00\x01", b"\x00\x00\x00")
