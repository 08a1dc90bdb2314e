"""What is written is what is read, for every message at every version."""

from __future__ import annotations

import pytest

from kgtool.errors import DecodeError, EncodeError
from kgtool.protocol.plan import decode, decode_prefix, encode
from tests.protocol.messages import EVERY, Maker, Message, classes

SAMPLES = 12


@pytest.mark.parametrize("message", EVERY, ids=str)
def test_random_messages_come_back(message: Message) -> None:
    maker = Maker(message, unknown_tags=True)
    for _ in range(SAMPLES):
        made = maker.message(message)
        raw = encode(made, message.version)
        assert decode(message.cls, message.version, raw) == made
        again, end = decode_prefix(message.cls, message.version, b"\xff" + raw + b"more", 1)
        assert (again, end) == (made, len(raw) + 1)


@pytest.mark.parametrize("message", EVERY, ids=str)
def test_bytes_after_the_message_are_not_ignored(message: Message) -> None:
    raw = encode(Maker(message).message(message), message.version)
    with pytest.raises(DecodeError, match=r"1 bytes left over"):
        decode(message.cls, message.version, raw + b"\0")


@pytest.mark.parametrize(("name", "kind", "cls"), classes())
def test_a_version_that_does_not_exist_is_an_encode_error(name: str, kind: str, cls: type) -> None:
    for version in (-1, cls.VERSIONS.high + 1):
        with pytest.raises(EncodeError, match=f"{name}{kind} has no version {version}"):
            encode(cls(), version)
