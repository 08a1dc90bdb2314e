"""What brokers say and what their log holds, damaged: a value or its decoder's own error."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgtool.config.logins import ClientCredentials, Secret
from kgtool.config.properties import Properties
from kgtool.errors import AuthenticationError, DecodeError
from kgtool.net.auth import tokens
from kgtool.protocol.plan import decode, encode
from kgtool.protocol.sasl.gssapi import Gssapi
from kgtool.protocol.sasl.msk_iam import AwsCredentials, MskIam
from kgtool.protocol.sasl.oauthbearer import OAuthBearer
from kgtool.protocol.sasl.plain import Plain
from kgtool.protocol.sasl.scram import Scram
from kgtool.records import batch, control, record_types, subscription
from kgtool.records import decode as decode_record
from tests.fuzz.damage import EDITS, damaged, fuzz
from tests.protocol import messages
from tests.protocol.messages import Maker, Message
from tests.protocol.test_damage import sample
from tests.records.messages import EVERY as FORMS

DATA = Path(__file__).parents[1] / "data"


@fuzz(1000)
@given(st.sampled_from(messages.EVERY), st.integers(0, 3), EDITS)
def test_messages(message: Message, seed: int, edits: Any) -> None:
    with contextlib.suppress(DecodeError):
        decode(message.cls, message.version, damaged(sample(message, seed), edits))


RECORDS = [(form, version) for form in FORMS if form.cls.KEY >= 0 for version in form.versions]


@fuzz(300)
@given(st.sampled_from(RECORDS), st.integers(0, 3), EDITS, EDITS)
def test_records(record: Any, seed: int, of_key: Any, of_value: Any) -> None:
    form, version = record
    made = Maker((form.name, seed)).message(Message(form.name, "", form.cls, version))
    body = version.to_bytes(2, "big") + encode(made, version)
    if form.name.endswith("Key"):
        key, value = form.cls.KEY.to_bytes(2, "big") + body[2:], b""
    else:
        plain = encode(record_types()[form.cls.KEY].key(), 0)
        key, value = form.cls.KEY.to_bytes(2, "big") + plain, damaged(body, of_value)
    with contextlib.suppress(DecodeError):
        decode_record(damaged(key, of_key) if not value else key, value or None)


SUBSCRIPTION = encode(
    subscription.ConsumerProtocolSubscription(topics=["orders", "payments"], user_data=b"x"), 3
)


@fuzz(150)
@given(EDITS)
def test_subscriptions_and_assignments(edits: Any) -> None:
    raw = damaged(b"\0\3" + SUBSCRIPTION, edits)
    subscription.subscribed_topics([raw])
    for read in (subscription.decode_subscription, subscription.decode_assignment):
        with contextlib.suppress(DecodeError):
            read(raw)


@fuzz(100)
@given(EDITS, EDITS)
def test_markers(of_key: Any, of_value: Any) -> None:
    with contextlib.suppress(DecodeError):
        control.decode_marker(damaged(b"\0\0\0\1", of_key), damaged(bytes(6), of_value))


SEGMENTS = sorted((DATA).rglob("*.log"))


@fuzz(150)
@given(st.data())
def test_batches(data: st.DataObject) -> None:
    assert SEGMENTS, "recorded segments below tests/data"
    raw = data.draw(st.sampled_from(SEGMENTS)).read_bytes()[:4096]
    raw = damaged(raw, data.draw(EDITS))
    with contextlib.suppress(DecodeError):
        for found in batch.batches(raw):
            for record in batch.read_records(raw, found):
                if record.key is not None and not found.is_control:
                    with contextlib.suppress(DecodeError):
                        decode_record(record.key, record.value)


class _Ticket:
    """A Kerberos context that is content with anything."""

    complete = True

    def step(self, token: bytes | None) -> bytes | None:
        return token

    def wrap(self, data: bytes) -> bytes:
        return data

    def unwrap(self, data: bytes) -> bytes:
        return data


NONCE = "fyko+d2lbbFgONRv9qkxdawL"
MECHANISMS: dict[str, tuple[Callable[[], Any], list[bytes]]] = {
    "PLAIN": (lambda: Plain("a", "b"), [b""]),
    "SCRAM-SHA-256": (
        lambda: Scram("SCRAM-SHA-256", "user", "pencil", NONCE),
        [f"r={NONCE}3rfcNH,s=QSXCR+Q6sek8bf92,i=4096".encode(), b"v=pNNDFVEQxuXxCoSEiW8GEZ+1RSo="],
    ),
    "OAUTHBEARER": (lambda: OAuthBearer("t", {}), [b'{"status":"invalid_token"}', b""]),
    "AWS_MSK_IAM": (
        lambda: MskIam("b.eu-west-1.amazonaws.com", AwsCredentials("A", "s"), "r", 1.0, "k"),
        [b'{"version":"2020_10_22","request-id":"1"}'],
    ),
    "GSSAPI": (lambda: Gssapi(_Ticket()), [b"\1\0\xff\xff"]),
}


@pytest.mark.parametrize("name", MECHANISMS)
@fuzz(60)
@given(edits=st.lists(EDITS, min_size=2, max_size=2))
def test_logins(name: str, edits: Any) -> None:
    make, answers = MECHANISMS[name]
    mechanism = make()
    mechanism.start()
    with contextlib.suppress(AuthenticationError):
        for answer, changes in zip(answers, edits, strict=False):
            mechanism.step(damaged(answer, changes))


@fuzz(60)
@given(EDITS)
def test_answers_of_token_endpoints(edits: Any) -> None:
    claims = base64.urlsafe_b64encode(b'{"exp": 1700000000}').decode()
    answer = json.dumps({"access_token": f"a.{claims}.c", "expires_in": 300}).encode()
    login = ClientCredentials("http://h/t", "i", Secret("s"), None, Properties())
    with contextlib.suppress(AuthenticationError):
        tokens._read(damaged(answer, edits), login)
