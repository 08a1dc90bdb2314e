"""One connection's state, fed whole, byte by byte and with garbage; no sockets."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kgtool.errors import (
    ConnectFailed,
    ConnectionLost,
    DecodeError,
    EncodeError,
    FrameError,
    KgError,
    NotKafka,
    UnsupportedVersion,
)
from kgtool.protocol.api import api_versions, list_groups, metadata, offset_delete
from kgtool.protocol.channel import CLOSED, READY, Channel, Expected
from kgtool.protocol.plan import encode

OFFERED = {18: (0, 4), 16: (0, 5), 3: (0, 13)}


class Broker:
    """The other side: takes frames off a channel and answers them."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.requests: list[tuple[int, int, int]] = []

    def take(self) -> list[tuple[int, int, int]]:
        data, frames = self.channel.data_to_send(), []
        while data:
            (length,) = struct.unpack_from(">i", data)
            frames.append(struct.unpack_from(">hhi", data, 4))
            data = data[4 + length :]
        self.requests += frames
        return frames


def frame(correlation_id: int, body: bytes, *, flexible: bool = False) -> bytes:
    payload = struct.pack(">i", correlation_id) + (b"\x00" if flexible else b"") + body
    return struct.pack(">i", len(payload)) + payload


def test_a_known_broker_is_named_and_refuses_to_be_another() -> None:
    """KIP-1242; where nothing is known the version is asked that 3.9 to 4.3 speak too."""
    plain = Channel("b:1", "kgtool")
    plain.start()
    assert Broker(plain).take()[0][:2] == (18, 4)
    channel = Channel("b:1", "kgtool", expected=Expected("cluster-1", 7))
    channel.start()
    data = channel.data_to_send()
    key, version, sent = struct.unpack_from(">hhi", data, 4)
    assert (key, version) == (18, 5)
    assert data.endswith(b"\x0acluster-1\x00\x00\x00\x07\x00")
    channel.receive(frame(sent, encode(api_versions.Response(error_code=129), 5)))
    assert channel.state == CLOSED
    assert isinstance(channel.error, ConnectFailed)
    assert "b:1 is not broker 7 of the cluster cluster-1" in str(channel.error)


def versions_body(version: int = 4, offered: dict[int, tuple[int, int]] | None = None) -> bytes:
    keys = [
        api_versions.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in (OFFERED if offered is None else offered).items()
    ]
    return encode(api_versions.Response(api_keys=keys), version)


def groups_body() -> bytes:
    groups = [list_groups.Group(group_id="g", group_state="Empty", group_type="classic")]
    return encode(list_groups.Response(groups=groups), 5)


def ready() -> tuple[Channel, Broker]:
    channel = Channel("broker:9092", "test")
    broker = Broker(channel)
    channel.start()
    ((_, _, correlation_id),) = broker.take()
    channel.receive(frame(correlation_id, versions_body()))
    assert channel.state == READY
    return channel, broker


def test_requests_made_before_the_versions_are_known_wait() -> None:
    channel = Channel("broker:9092", "test")
    broker = Broker(channel)
    channel.start()
    channel.send("token", list_groups.Request())
    ((key, version, correlation_id),) = broker.take()
    assert (key, version) == (18, 4)
    channel.receive(frame(correlation_id, versions_body()))
    ((key, version, correlation_id),) = broker.take()
    assert (key, version) == (16, 5)
    channel.receive(frame(correlation_id, groups_body(), flexible=True))
    ((token, reply),) = channel.replies()
    assert token == "token"
    assert reply.groups[0].group_id == "g"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_replies_may_arrive_in_any_pieces(size: int) -> None:
    channel, broker = ready()
    for number in range(3):
        channel.send(number, list_groups.Request())
    data = b"".join(frame(c, groups_body(), flexible=True) for _, _, c in broker.take())
    for at in range(0, len(data), size):
        channel.receive(data[at : at + size])
    assert [token for token, _ in channel.replies()] == [0, 1, 2]


def test_the_version_is_never_outside_what_the_broker_offers() -> None:
    channel = Channel("broker:9092", "test")
    broker = Broker(channel)
    channel.start()
    ((_, _, correlation_id),) = broker.take()
    channel.receive(frame(correlation_id, versions_body(4, {16: (0, 2), 3: (1, 7)})))
    channel.send(1, list_groups.Request())
    channel.send(2, metadata.Request(allow_auto_topic_creation=False), max_version=5)
    assert [row[:2] for row in broker.take()] == [(16, 2), (3, 5)]


def test_an_api_that_the_broker_lacks_is_refused_here_and_says_since_when() -> None:
    channel, broker = ready()
    channel.send(1, offset_delete.Request(group_id="g"))
    ((_, error),) = channel.replies()
    assert isinstance(error, UnsupportedVersion)
    assert "Kafka does since 2.4" in str(error)
    assert broker.take() == []


def test_no_common_version_is_refused_here() -> None:
    channel, _ = ready()
    channel.versions[16] = (6, 9)
    channel.send(1, list_groups.Request())
    ((_, error),) = channel.replies()
    assert isinstance(error, UnsupportedVersion)
    assert "6–9" in str(error)


def test_what_the_version_cannot_carry_fails_alone() -> None:
    channel, broker = ready()
    channel.versions[16] = (0, 3)
    channel.send(1, list_groups.Request(states_filter=["Empty"]))
    channel.send(2, list_groups.Request())
    ((token, error),) = channel.replies()
    assert token == 1
    assert isinstance(error, EncodeError)
    assert len(broker.take()) == 1


def test_a_broker_that_knows_a_lower_version_is_asked_again() -> None:
    channel = Channel("broker:9092", "test")
    broker = Broker(channel)
    channel.start()
    ((_, _, correlation_id),) = broker.take()
    body = struct.pack(">hi", 35, 1) + struct.pack(">hhh", 18, 0, 2)
    channel.receive(frame(correlation_id, body))
    ((_, version, correlation_id),) = broker.take()
    assert version == 2
    channel.receive(frame(correlation_id, versions_body(2)))
    assert channel.state == READY


def test_kafka_2_1_answers_35_with_no_hint_and_is_asked_in_version_0() -> None:
    channel = Channel("broker:9092", "test")
    broker = Broker(channel)
    channel.start()
    ((_, _, correlation_id),) = broker.take()
    channel.receive(frame(correlation_id, struct.pack(">hi", 35, 0)))
    ((_, version, correlation_id),) = broker.take()
    assert version == 0
    channel.receive(frame(correlation_id, versions_body(0)))
    assert channel.state == READY


def test_a_peer_that_refuses_every_version_does_not_make_it_loop() -> None:
    channel = Channel("broker:9092", "test")
    broker = Broker(channel)
    channel.start()
    for _ in range(10):
        for _, _, correlation_id in broker.take():
            body = struct.pack(">hi", 35, 1) + struct.pack(">hhh", 18, 0, 4)
            channel.receive(frame(correlation_id, body))
    assert channel.state == CLOSED
    assert len(broker.requests) <= 5


def test_a_peer_that_refuses_what_it_says_it_can_is_asked_in_the_version_before() -> None:
    channel = Channel("broker:9092", "test")
    broker = Broker(channel)
    channel.start()
    asked = []
    while requests := broker.take():
        ((_, version, correlation_id),) = requests
        asked.append(version)
        body = struct.pack(">hi", 35, 1) + struct.pack(">hhh", 18, 0, version)
        channel.receive(frame(correlation_id, body))
    assert asked == list(range(asked[0], -1, -1))


GARBAGE = {
    b"HTTP/1.1 400 Bad Request\r\n": (NotKafka, "web server"),
    b"\x15\x03\x03\x00\x02\x02\x46": (NotKafka, "TLS"),
    b"SSH-2.0-OpenSSH_9.2\r\n": (NotKafka, "not in Kafka's protocol"),
    b"\xff\xff\xff\xff\xff": (NotKafka, "not in Kafka's protocol"),
    b"\x00\x00\x00\x0a\x00\x00\x0d\x0a\x7f\x7f\x7f\x7f\x7f\x7f": (NotKafka, "not as a Kafka"),
    b"\x00\x00\x00\x04\x00\x00\x00\x63": (FrameError, "answered request 99"),
    b"": (ConnectionLost, "closed the connection at once"),
}


@pytest.mark.parametrize(("data", "expected"), GARBAGE.items(), ids=[str(d) for d in GARBAGE])
def test_whatever_answers_is_named(data: bytes, expected: tuple[type[KgError], str]) -> None:
    channel = Channel("broker:9092", "test")
    channel.start()
    channel.send("token", list_groups.Request())
    channel.receive(data)
    ((token, error),) = channel.replies()
    assert token == "token"
    assert isinstance(error, expected[0])
    assert expected[1] in str(error)
    assert channel.state == CLOSED


def test_a_wrong_correlation_id_closes_the_channel_and_fails_everything_in_flight() -> None:
    channel, broker = ready()
    channel.send(1, list_groups.Request())
    channel.send(2, list_groups.Request())
    first, _ = broker.take()
    channel.receive(frame(first[2] + 1, groups_body(), flexible=True))
    replies = channel.replies()
    assert [token for token, _ in replies] == [1, 2]
    assert all(isinstance(error, FrameError) for _, error in replies)


def test_a_reply_that_nobody_asked_for_closes_the_channel() -> None:
    channel, _ = ready()
    channel.receive(frame(1, b""))
    assert isinstance(channel.error, FrameError)


def test_a_giant_length_closes_the_channel_and_allocates_nothing() -> None:
    channel, broker = ready()
    channel.send(1, list_groups.Request())
    broker.take()
    channel.receive(b"\x7f\xff\xff\xff")
    ((_, error),) = channel.replies()
    assert isinstance(error, FrameError)


def test_a_reply_that_cannot_be_read_fails_alone() -> None:
    channel, broker = ready()
    channel.send(1, list_groups.Request())
    channel.send(2, list_groups.Request())
    first, second = (row[2] for row in broker.take())
    channel.receive(frame(first, groups_body()[:-1], flexible=True))
    channel.receive(frame(second, groups_body() + b"\x00", flexible=True))
    replies: list[Any] = channel.replies()
    assert [type(error) for _, error in replies] == [DecodeError, DecodeError]
    assert channel.state == READY


def test_every_token_comes_back_once_when_the_peer_goes_away() -> None:
    channel, broker = ready()
    channel.send(1, list_groups.Request())
    broker.take()
    channel.receive(b"")
    channel.send(2, list_groups.Request())
    channel.fail(FrameError("again"))
    replies = channel.replies()
    assert [token for token, _ in replies] == [1, 2]
    assert all(isinstance(error, ConnectionLost) for _, error in replies)
    assert channel.replies() == []
