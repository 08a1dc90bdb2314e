"""A member of a streams group (KIP-1071) without Kafka Streams: its heartbeats, by hand.

StreamsGroupHeartbeat v0. The first one tells the topology, the others say that nothing has changed;
a member that takes every task it is given has nothing to report.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping, Sequence

from kgtool.errors import SandboxError
from kgtool.sandbox.seeding import raw_group

HEARTBEAT = 88
JOIN_EPOCH = 0
_NULL, _NO_TAGS, _ABSENT = b"\0", b"\0", b"\xff"


class StreamsWorker(raw_group.Worker):
    """The only member of a streams group.

    :param topology: the subtopologies, each with the topics that it reads.
    """

    def __init__(self, bootstrap: str, group: str, topology: Mapping[str, Sequence[str]]) -> None:
        super().__init__(bootstrap, group, f"{group}-1")
        self._topology = topology
        self._member_id = str(uuid.uuid4())
        self._epoch = JOIN_EPOCH

    def join(self, connection: raw_group.GroupSocket) -> None:
        """Begin anew: the first heartbeat joins."""
        self._epoch = JOIN_EPOCH

    def beat(self, connection: raw_group.GroupSocket) -> None:
        """Send a heartbeat, and learn the epoch."""
        # The body comes behind a header of version 2, which is version 1 and a list of tags.
        answer = connection.ask(HEARTBEAT, 0, _NO_TAGS + self._body())[1:]
        (error,) = struct.unpack_from(">h", answer, 4)
        if error:
            raise SandboxError(f"The streams group {self._group!r}: error code {error}")
        at = 6 + _skip(answer, 6)  # an error message, then the member's id
        at += _skip(answer, at)
        (self._epoch,) = struct.unpack_from(">i", answer, at)

    def _body(self) -> bytes:
        is_first = self._epoch == JOIN_EPOCH
        tasks = _array([]) * 3 if is_first else _NULL * 3
        return b"".join((
            _string(self._group), _string(self._member_id),
            struct.pack(">ii", self._epoch, -1),
            _NULL, _NULL,  # instance, rack
            struct.pack(">i", 60_000 if is_first else -1),
            self._shape() if is_first else _ABSENT,
            tasks,
            _string(f"{self._group}-process") if is_first else _NULL,
            _ABSENT, _NULL, _NULL, _NULL,  # endpoint, client tags, offsets, end offsets
            b"\0", _NO_TAGS,
        ))  # fmt: skip

    def _shape(self) -> bytes:
        parts = [
            _string(name) + _array([_string(topic) for topic in topics]) + _array([]) * 5 + _NO_TAGS
            for name, topics in self._topology.items()
        ]
        return b"\x01" + struct.pack(">i", 0) + _array(parts) + _NO_TAGS


def _string(text: str) -> bytes:
    """A compact string of less than 127 bytes."""
    raw = text.encode()
    return bytes([len(raw) + 1]) + raw


def _array(items: Sequence[bytes]) -> bytes:
    """A compact array of less than 127 items."""
    return bytes([len(items) + 1]) + b"".join(items)


def _skip(data: bytes, at: int) -> int:
    """Return how many bytes a short compact string takes."""
    return max(data[at], 1)
