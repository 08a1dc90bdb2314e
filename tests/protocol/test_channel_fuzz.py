"""Whatever a peer sends, in whatever pieces: a channel raises nothing and answers every token once.

Hypothesis plays the peer. It knows the protocol well enough to get far, and then breaks it.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgtool.errors import KgError
from kgtool.protocol.api import api_versions, list_groups, metadata
from kgtool.protocol.channel import CLOSED, READY, Channel
from kgtool.protocol.plan import encode

REQUESTS = (list_groups.Request(), metadata.Request(topics=[]))
OFFERED = {18: (0, 4), 16: (0, 5), 3: (0, 13)}

Piece = bytes


def _frame(payload: bytes, length: int | None = None) -> bytes:
    return struct.pack(">i", len(payload) if length is None else length) + payload


class Peer:
    """Answers what the channel asks, and damages the answers as it is told."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.asked: list[tuple[int, int, int]] = []

    def answers(self) -> list[bytes]:
        """Return the good answers to what was asked since the last time."""
        data = self.channel.data_to_send()
        found = []
        while data:
            (length,) = struct.unpack_from(">i", data)
            key, version, correlation = struct.unpack_from(">hhi", data, 4)
            found.append(_frame(struct.pack(">i", correlation) + self._body(key, version)))
            data = data[4 + length :]
        return found

    def _body(self, key: int, version: int) -> bytes:
        if key == 18:
            rows = [
                api_versions.ApiVersion(api_key=k, min_version=low, max_version=high)
                for k, (low, high) in OFFERED.items()
            ]
            return encode(api_versions.Response(api_keys=rows), version)
        if key == 16:
            group = list_groups.Group(group_id="g", group_state="Empty", group_type="classic")
            return b"\0" + encode(list_groups.Response(groups=[group]), version)
        return b"\0" + encode(metadata.Response(), version)


DAMAGE = st.sampled_from(
    ["none", "none", "none", "cut", "flip", "twice", "noise", "longer", "negative", "empty", "drop"]
)


def _damaged(frame: bytes, kind: str, draw: Any) -> bytes:
    at = draw(st.integers(0, max(0, len(frame) - 1)))
    return {
        "none": frame,
        "cut": frame[:at],
        "flip": frame[:at] + bytes([frame[at] ^ draw(st.integers(1, 255))]) + frame[at + 1 :],
        "twice": frame + frame,
        "noise": draw(st.binary(max_size=40)) + frame,
        "longer": _frame(frame[4:], len(frame) + draw(st.integers(0, 1 << 20))),
        "negative": _frame(frame[4:], -len(frame)),
        "empty": _frame(b""),
        "drop": b"",
    }[kind]


@pytest.mark.filterwarnings("ignore::kgtool.protocol.channel.ProtocolWarning")  # bytes left over
@settings(max_examples=400, deadline=None)
@given(st.data())
def test_every_token_is_answered_once_whatever_comes(data: st.DataObject) -> None:
    channel = Channel("broker:9092", "fuzz")
    peer = Peer(channel)
    channel.start()
    sent, answered = 0, []
    for _ in range(data.draw(st.integers(1, 6))):
        for _ in range(data.draw(st.integers(0, 3))):
            channel.send(sent, data.draw(st.sampled_from(REQUESTS)))
            sent += 1
        stream = b"".join(_damaged(frame, data.draw(DAMAGE), data.draw) for frame in peer.answers())
        while stream:
            size = data.draw(st.integers(1, len(stream)))
            channel.receive(stream[:size])
            stream = stream[size:]
        answered += channel.replies()
    channel.receive(b"")
    answered += channel.replies()
    assert channel.state == CLOSED
    assert sorted(token for token, _ in answered) == list(range(sent))
    for _, reply in answered:
        assert isinstance(reply, KgError | list_groups.Response | metadata.Response)
        if isinstance(reply, KgError):
            assert reply.message
    assert channel.pending == 0


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=8))
def test_noise_from_the_first_byte_on(pieces: list[bytes]) -> None:
    channel = Channel("broker:9092", "fuzz")
    channel.start()
    channel.send("token", REQUESTS[0])
    for piece in pieces:
        channel.receive(piece)
    channel.receive(b"")
    ((token, reply),) = channel.replies()
    assert token == "token"
    assert isinstance(reply, KgError)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40))
def test_good_answers_come_through_in_any_pieces(sizes: list[int]) -> None:
    channel = Channel("broker:9092", "fuzz")
    peer = Peer(channel)
    channel.start()
    for token, request in enumerate(REQUESTS):
        channel.send(token, request)
    for _ in range(2):  # the versions, then what was waiting for them
        stream = b"".join(peer.answers())
        for size in (*sizes, len(stream)):
            if stream[:size]:
                channel.receive(stream[:size])
            stream = stream[size:]
    assert channel.state == READY
    replies = channel.replies()
    assert [token for token, _ in replies] == [0, 1]
    assert [type(reply) for _, reply in replies] == [list_groups.Response, metadata.Response]
