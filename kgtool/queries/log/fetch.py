"""Copies partitions by raw Fetch: the broker's record batches, byte for byte.

Only the first 17 bytes of each batch are decoded, for its base offset and length, and the offset
delta, for the offset of the next one. Transactional and control batches come through unchanged,
which no dump by a consumer can do.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.client import denied
from kgtool.client.answers import is_final, keep_reason
from kgtool.client.cluster import Cluster, fetch_metadata
from kgtool.client.ops import Call, Operation, backoff, gather, grouped, pipelined
from kgtool.errors import BrokerError, DecodeError, KgError
from kgtool.model import TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import fetch
from kgtool.protocol.codes import broker_error

NAMES_VERSION = 12
"""The last Fetch version with topic names (v13 wants topic ids, KIP-516)."""

BATCH_OVERHEAD = 12
_HEAD = struct.Struct(">qi")
_LAST_OFFSET_DELTA = struct.Struct(">i")
_MAGIC_AT = 16
_LAST_OFFSET_DELTA_AT = 23

FETCH_BYTES = 16 * 1024 * 1024
PARTITION_BYTES = 4 * 1024 * 1024

Sink = Callable[[TopicPartition, int, bytes], None]
"""Called with a partition, the offset of the first batch, and whole batches."""


class Range(NamedTuple):
    """Offsets to copy: from ``start`` up to, not including, ``end``."""

    start: int
    end: int


def whole_batches(data: bytes, until: int) -> tuple[int, int]:
    """Return how many bytes of ``data`` are whole batches that begin before offset ``until``.

    The second value is the offset after the last of them (-1 if there is none). A fetch is cut
    off at its size limit, in the middle of a batch. Message sets of magic 0 and 1 have the same
    offset and length fields, and the offset of their (last) message.
    """
    pos, following = 0, -1
    size = len(data)
    while pos + BATCH_OVERHEAD <= size:
        base, length = _HEAD.unpack_from(data, pos)
        end = pos + BATCH_OVERHEAD + length
        if end > size or length < 0 or base >= until:
            break
        following = base + 1
        if length >= _LAST_OFFSET_DELTA_AT + 4 - BATCH_OVERHEAD and data[pos + _MAGIC_AT] >= 2:
            (delta,) = _LAST_OFFSET_DELTA.unpack_from(data, pos + _LAST_OFFSET_DELTA_AT)
            following = base + delta + 1
        pos = end
    return pos, following


def fetch_request(
    positions: Mapping[TopicPartition, int],
    partition_bytes: int,
    all_bytes: int,
    *,
    isolation: int = 0,
    max_wait_ms: int = 500,
) -> Any:
    """Return a Fetch at these offsets; brokers serve the partitions in this order.

    :param partition_bytes: the most of each partition; the first batch always comes whole (KIP-74).
    :param isolation: 1 for read_committed (KIP-98).
    :param max_wait_ms: how long the broker waits for a record where there is none.
    """
    topics = grouped(
        (
            partition.topic,
            fetch.RequestPartition(
                partition=partition.partition,
                fetch_offset=offset,
                partition_max_bytes=partition_bytes,
            ),
        )
        for partition, offset in positions.items()
    )
    return fetch.Request(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=all_bytes,
        isolation_level=isolation,
        topics=[fetch.RequestTopic(topic=name, partitions=rows) for name, rows in topics.items()],
    )


def fetch_calls(calls: Sequence[Call]) -> Operation[list[Any]]:
    """Make calls of Fetch; those that a quota left empty are repeated, when the broker allows it.

    A throttled Fetch is answered without any topic (``FetchContext.getThrottledResponse``), and the
    connection keeps quiet until the time is over (KIP-219).
    """
    replies: list[Any] = yield from pipelined(list(calls))
    replies = list(map(_as_asked, calls, replies))
    while again := [at for at, reply in enumerate(replies) if _is_throttled(reply)]:
        answers = yield from pipelined([calls[at] for at in again])
        for at, reply in zip(again, answers, strict=True):
            replies[at] = _as_asked(calls[at], reply)
    return replies


def _as_asked(call: Call, reply: Any) -> Any:
    """Return the reply; an error where it has partitions that the request has not."""
    if isinstance(reply, KgError):
        return reply
    request: Any = call.request
    asked, found = (
        {(topic.topic, row.partition) for topic in message.topics for row in topic.partitions}
        for message in (request, reply)
    )
    if found <= asked:
        return reply
    return DecodeError(f"Broker {call.to} has answered a Fetch of other partitions.")


def _is_throttled(reply: Any) -> bool:
    return not isinstance(reply, KgError) and not reply.topics and reply.throttle_time_ms > 0


def copy_partitions(
    cluster: Cluster, ranges: Mapping[TopicPartition, Range], sink: Sink
) -> Operation[dict[TopicPartition, KgError | None]]:
    """Copy each range into ``sink``; return the error of each partition that is not complete.

    The copy follows leaders that move, and continues after connections that break, until the time
    of the command (without progress) is up.
    """
    state = _Copy(dict(ranges), sink)
    attempt = 0
    while state.open_partitions():
        before = state.bytes
        parts = grouped((cluster.leader(p), p) for p in state.open_partitions())
        lanes: list[Operation[None]] = []
        for broker, own in parts.items():
            if broker in cluster.brokers:
                # Two lanes a broker: it prepares one's answer while the other's is written.
                lanes += [_from_leader(broker, h, state) for h in (own[::2], own[1::2]) if h]
            else:
                error = broker_error(codes.LEADER_NOT_AVAILABLE)
                state.problems.update(dict.fromkeys(own, error))
        yield from gather(lanes)
        if not state.open_partitions():
            break
        attempt = 0 if state.bytes > before else attempt + 1
        yield backoff(attempt)
        if not (yield from _refresh(cluster, state)):
            break
    return {partition: state.outcome(partition) for partition in ranges}


class _Copy:
    """How far the copy of each partition is."""

    def __init__(self, ranges: dict[TopicPartition, Range], sink: Sink) -> None:
        self.ranges = ranges
        self.next = {partition: wanted.start for partition, wanted in ranges.items()}
        self.problems: dict[TopicPartition, KgError] = {}
        self.sink = sink
        self.bytes = 0
        self._given_up: set[TopicPartition] = set()

    def is_open(self, partition: TopicPartition) -> bool:
        if partition in self._given_up:
            return False
        return self.next[partition] < self.ranges[partition].end

    def open_partitions(self) -> list[TopicPartition]:
        return [partition for partition in self.ranges if self.is_open(partition)]

    def outcome(self, partition: TopicPartition) -> KgError | None:
        done = self.next[partition] >= self.ranges[partition].end
        return None if done else self.problems.get(partition)

    def fail(self, partition: TopicPartition, error: KgError, *, final: bool) -> None:
        self.problems[partition] = keep_reason(self.problems.get(partition), error)
        if final:
            self._given_up.add(partition)

    def take(self, partition: TopicPartition, row: Any, *, first: bool) -> None:
        """Write what a fetch brought, and advance.

        Only the ``first`` partition of a fetch always gets a batch if there is one; no data for
        the others may just mean that the fetch was full.
        """
        data = row.records or b""
        until = self.ranges[partition].end
        size, following = whole_batches(data, until)
        if size and following > self.next[partition]:
            (base,) = struct.unpack_from(">q", data)
            self.sink(partition, base, data if size == len(data) else data[:size])
            self.bytes += size
            self.next[partition] = following
            self.problems.pop(partition, None)
        elif len(data) >= _HEAD.size and _HEAD.unpack_from(data)[0] >= until:
            # Compaction made a gap: the next batch begins after the end of the range.
            self.next[partition] = until
        elif size or (data and first):  # a first batch always comes whole (KIP-74)
            said = f"The log of {partition} has a damaged batch at offset {self.next[partition]}."
            self.fail(partition, DecodeError(said), final=True)
        elif first and row.high_watermark >= until:  # nothing is left before that end
            self.next[partition] = until


def _from_leader(broker: int, mine: list[TopicPartition], state: _Copy) -> Operation[None]:
    """Fetch from one broker until all its partitions are copied or have an error."""
    stuck: set[TopicPartition] = set()
    turn = 0
    while wanted := [p for p in mine if p not in stuck and state.is_open(p)]:
        # The broker fills a fetch in the order asked: start with another partition each time.
        turn %= len(wanted)
        wanted = wanted[turn:] + wanted[:turn]
        positions = {partition: state.next[partition] for partition in wanted}
        request = fetch_request(positions, PARTITION_BYTES, FETCH_BYTES)
        (reply,) = yield from fetch_calls([Call(broker, request, NAMES_VERSION)])
        turn += 1
        if isinstance(reply, KgError):
            for partition in wanted:
                state.fail(partition, reply, final=is_final(reply))
            return
        for topic in reply.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.topic, row.partition)
                if row.error_code:
                    _on_error(state, partition, row)
                    stuck.add(partition)
                else:
                    state.take(partition, row, first=partition == wanted[0])


def _on_error(state: _Copy, partition: TopicPartition, row: Any) -> None:
    error = broker_error(row.error_code)
    if row.error_code == codes.TOPIC_AUTHORIZATION_FAILED:
        said = f"Not allowed to read {partition.topic}."
        error = denied.needs(row.error_code, said, "READ", f"topic {partition.topic}")
    if row.error_code == codes.OFFSET_OUT_OF_RANGE and row.log_start_offset > state.next[partition]:
        state.next[partition] = row.log_start_offset  # the log's beginning was removed meanwhile
        return
    retriable = isinstance(error, BrokerError) and error.retriable
    state.fail(partition, error, final=not retriable)


def _refresh(cluster: Cluster, state: _Copy) -> Operation[bool]:
    """Look up the leaders again; False when no time is left."""
    names = sorted({partition.topic for partition in state.open_partitions()})
    try:
        yield from fetch_metadata(cluster, names)
    except KgError as error:
        for partition in state.open_partitions():
            state.problems.setdefault(partition, error)
        return False
    return True
