"""Group membership by hand, for what no consumer library does.

A Connect worker's group needs another protocol type, and two hundred console consumers that come
and go in a second or two need no two hundred clients. Six requests in their last versions without
tagged fields; the real protocol client is ``kgtool.protocol``, which seeding must not depend on:
it is what the seeded world is there to test.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kgtool.errors import SandboxError

OFFSET_COMMIT, FIND_COORDINATOR, JOIN, HEARTBEAT, LEAVE, SYNC = 8, 10, 11, 12, 13, 14
HEARTBEAT_S = 2.0
_RETRIABLE = {14, 15, 16}  # the coordinator is loading, not there yet, or somewhere else


class Membership(NamedTuple):
    """One member of one generation of a group."""

    group: str
    generation: int
    member_id: str


class GroupSocket:
    """One blocking connection to one broker."""

    def __init__(self, host: str, port: int, client_id: str, timeout: float = 30.0) -> None:
        self._socket = socket.create_connection((host, port), timeout=timeout)
        self._client_id = client_id
        self._correlation = 0

    def __enter__(self) -> GroupSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the coordinator notices when the session times out."""
        self._socket.close()

    def join(self, group: str, kind: str, name: str, metadata: bytes) -> Membership:
        """JoinGroup v2 and SyncGroup v0 as the only member, hence the leader.

        ``kind`` is the protocol type, ``name`` the assignor, ``metadata`` the subscription.
        """
        body = string(group) + struct.pack(">ii", 45_000, 60_000) + string("") + string(kind)
        answer = self.ask(JOIN, 2, body + array([string(name) + data(metadata)]))
        _, error, generation = struct.unpack_from(">ihi", answer)
        _raise(error, f"joining {group!r}")
        at = 10
        for _ in range(2):  # the assignor that was chosen, the leader
            at += 2 + struct.unpack_from(">h", answer, at)[0]
        (length,) = struct.unpack_from(">h", answer, at)
        return Membership(group, generation, answer[at + 2 : at + 2 + length].decode())

    def sync(self, who: Membership, assignment: bytes) -> None:
        """SyncGroup v0: give the only member everything."""
        shares = array([string(who.member_id) + data(assignment)])
        answer = self.ask(SYNC, 0, _identity(who) + shares)
        _raise(struct.unpack_from(">h", answer)[0], f"assigning {who.group!r}")

    def heartbeat(self, who: Membership) -> None:
        """Heartbeat v0."""
        answer = self.ask(HEARTBEAT, 0, _identity(who))
        _raise(struct.unpack_from(">h", answer)[0], f"the heartbeat of {who.group!r}")

    def leave(self, who: Membership) -> None:
        """LeaveGroup v0."""
        answer = self.ask(LEAVE, 0, string(who.group) + string(who.member_id))
        _raise(struct.unpack_from(">h", answer)[0], f"leaving {who.group!r}")

    def commit(self, who: Membership, topic: str, offsets: Mapping[int, int]) -> None:
        """OffsetCommit v6 for the partitions of one topic."""
        rows = [
            struct.pack(">iqi", partition, offset, -1) + string("")
            for partition, offset in offsets.items()
        ]
        body = _identity(who) + array([string(topic) + array(rows)])
        answer = self.ask(OFFSET_COMMIT, 6, body)
        # Throttle time, one topic, its name, then (partition, error) for each.
        at = 8 + len(string(topic)) + 4
        for _, error in struct.iter_unpack(">ih", answer[at:]):
            _raise(error, f"the commit of {who.group!r}")

    def coordinator(self, group: str) -> tuple[str, int]:
        """FindCoordinator v0 until there is one: its host and port."""
        for _ in range(300):
            answer = self.ask(FIND_COORDINATOR, 0, string(group))
            error, _, length = struct.unpack_from(">hih", answer)
            if error not in _RETRIABLE:
                break
            time.sleep(0.1)
        _raise(error, f"looking for the coordinator of {group!r}")
        host = answer[8 : 8 + length].decode()
        return host, struct.unpack_from(">i", answer, 8 + length)[0]

    def ask(self, api: int, version: int, body: bytes) -> bytes:
        """Send a request behind a header of version 1; return what follows the correlation id."""
        self._correlation += 1
        header = struct.pack(">hhi", api, version, self._correlation) + string(self._client_id)
        self._socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)[4:]

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            if not part:
                raise SandboxError("The broker closed the connection while groups were seeded")
            parts += part
        return bytes(parts)


class Worker:
    """A member made by hand: joins when it is not in, and sends heartbeats in between."""

    def __init__(self, bootstrap: str, group: str, client_id: str) -> None:
        self._bootstrap, self._group, self._client_id = bootstrap, group, client_id
        self._socket: GroupSocket | None = None
        self._next = 0.0

    def enter(self, within: float) -> None:
        """Try until it is a member.

        :raises SandboxError: if it is none after ``within`` seconds.
        """
        deadline = time.monotonic() + within
        while self._socket is None:
            if time.monotonic() > deadline:
                raise SandboxError(f"{self._group!r} had no member after {within:.0f} s")
            self.tick()
            time.sleep(0.02)

    def tick(self) -> None:
        """Do what it is time for."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + HEARTBEAT_S
        try:
            if self._socket is None:
                self._socket = connect(self._bootstrap, self._group, self._client_id)
                self.join(self._socket)
            self.beat(self._socket)
        except (OSError, SandboxError):
            # The broker went away or forgot us: join again next time.
            if self._socket is not None:
                self._socket.close()
            self._socket = None

    def join(self, connection: GroupSocket) -> None:
        """Become a member."""
        raise NotImplementedError

    def beat(self, connection: GroupSocket) -> None:
        """Stay a member."""
        raise NotImplementedError


def connect(bootstrap: str, group: str, client_id: str) -> GroupSocket:
    """A connection to the coordinator of a group."""
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    with GroupSocket(host, int(port), client_id) as first:
        return GroupSocket(*first.coordinator(group), client_id)


def string(text: str) -> bytes:
    """An int16 length and UTF-8."""
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def data(raw: bytes) -> bytes:
    """An int32 length and bytes."""
    return struct.pack(">i", len(raw)) + raw


def array(items: Sequence[bytes]) -> bytes:
    """An int32 count and the items."""
    return struct.pack(">i", len(items)) + b"".join(items)


def subscription(topics: Sequence[str]) -> bytes:
    """A consumer's metadata in JoinGroup, version 0."""
    return struct.pack(">h", 0) + array([string(topic) for topic in topics]) + _NO_USER_DATA


def assignment(topic: str, partitions: Sequence[int]) -> bytes:
    """A consumer's share in SyncGroup, version 0, for one topic."""
    numbers = array([struct.pack(">i", number) for number in partitions])
    return struct.pack(">h", 0) + array([string(topic) + numbers]) + _NO_USER_DATA


_NO_USER_DATA = struct.pack(">i", -1)


def _identity(who: Membership) -> bytes:
    return string(who.group) + struct.pack(">i", who.generation) + string(who.member_id)


def _raise(error: int, what: str) -> None:
    if error:
        raise SandboxError(f"{what} failed: the broker answered with error code {error}")
