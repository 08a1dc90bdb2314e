"""How old unread records are: the timestamp of the record at each committed offset (Fetch).

The first Fetch to a leader brings the beginning of every partition, a few kB each; the rest is
fetched batch by batch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.client import denied
from kgtool.client.answers import left_out
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Call, Operation, cut, grouped
from kgtool.client.routing import by_leader
from kgtool.errors import DecodeError, KgError
from kgtool.model import TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import fetch
from kgtool.protocol.codes import broker_error
from kgtool.queries.log.fetch import NAMES_VERSION, fetch_calls, fetch_request
from kgtool.queries.offsets.lag import NONE_LEFT
from kgtool.queries.offsets.list_offsets import log_ranges
from kgtool.records.batch import PREFIX_SIZE, Batch, read_header, read_records

FIRST_BYTES = 20 * 1024
"""Of each partition in the first Fetch: more than a batch of a producer's default batch.size."""
PARTITIONS_PER_FETCH = 500
SINGLES_AT_ONCE = 50
"""Whole batches (1 MB by default, at most) that are in memory at a time."""
ROUNDS = 20
"""Batches without a record (markers, aborted, compacted) that are passed over at most."""


class Position(NamedTuple):
    """Where to look: a partition, a committed offset, and the end of what may be read."""

    partition: TopicPartition
    offset: int
    end: int


Times = dict[Position, "int | None | KgError"]


def first_unread(
    cluster: Cluster, positions: Iterable[Position], *, isolation: int = 0
) -> Operation[Times]:
    """Return the timestamp (ms) of the first record that is left to read at each position.

    ``NONE_LEFT`` where none is left (only markers, or aborted ones with read_committed); None where
    it has no timestamp; a KgError where the partition can't be read, which takes READ on the topic.
    """
    times: Times = {}
    pending = {position: position.offset for position in dict.fromkeys(positions)}
    for number in range(ROUNDS):
        answers = yield from _fetch_all(cluster, pending, isolation, is_first=number == 0)
        for position, answer in answers.items():
            asked = pending.pop(position)
            if isinstance(answer, Timestamp):
                times[position] = answer.ms
            elif isinstance(answer, KgError):
                times[position] = answer
            elif answer.offset >= position.end:
                times[position] = NONE_LEFT
            elif number and answer.offset <= asked:
                times[position] = None
            else:
                pending[position] = max(answer.offset, asked)
        if not pending:
            break
    return times | dict.fromkeys(pending)


# ---------------------------------------------------------------------------------------------
# Fetch


def _fetch_all(
    cluster: Cluster, pending: Mapping[Position, int], isolation: int, *, is_first: bool
) -> Operation[dict[Position, Any]]:
    """Fetch every pending position once; the answer is of ``first_timestamp``, or a KgError."""
    positions = grouped((position.partition, position) for position in pending)

    def work(broker: int, parts: list[TopicPartition]) -> Operation[dict[TopicPartition, Any]]:
        own = [position for partition in parts for position in positions[partition]]
        requests = _without_repeats(own) if is_first else [[position] for position in own]
        found: dict[TopicPartition, Any] = {}
        for some in cut(requests, len(requests) if is_first else SINGLES_AT_ONCE):
            size = FIRST_BYTES if is_first else 1  # the first batch comes whole
            calls = [_call(broker, each, pending, size, isolation) for each in some]
            replies = yield from fetch_calls(calls)
            for asked, reply in zip(some, replies, strict=True):
                rows = _rows(reply)
                for position in asked:
                    answer = _answer(rows, position.partition, pending[position])
                    if isinstance(answer, KgError):  # one for all positions of the partition
                        found[position.partition] = answer
                    elif not isinstance(found.get(position.partition), KgError):
                        found.setdefault(position.partition, {})[position] = answer
        return found

    answers = yield from by_leader(cluster, positions, work)
    return {
        position: answer if isinstance(answer, KgError) else answer[position]
        for partition, answer in answers.items()
        for position in positions[partition]
    }


def _without_repeats(positions: Sequence[Position]) -> list[list[Position]]:
    """Split positions so that no Fetch has a partition twice, nor too many of them."""
    layers: list[list[Position]] = []
    for same in grouped((position.partition, position) for position in positions).values():
        layers += [[] for _ in same[len(layers) :]]
        for layer, position in zip(layers, same, strict=False):
            layer.append(position)
    return [part for layer in layers for part in cut(layer, PARTITIONS_PER_FETCH)]


def _call(
    broker: int, positions: list[Position], offsets: Mapping[Position, int], size: int, level: int
) -> Call:
    request = fetch_request(
        {position.partition: offsets[position] for position in positions},
        size,
        size * len(positions),
        isolation=level,
        max_wait_ms=0,
    )
    return Call(broker, request, NAMES_VERSION)


def _rows(reply: Any) -> dict[TopicPartition, Any] | KgError:
    if isinstance(reply, KgError):
        return reply
    if reply.error_code:
        return broker_error(reply.error_code)
    return {
        TopicPartition(topic.topic, row.partition): row
        for topic in reply.topics
        for row in topic.partitions
    }


def _answer(rows: Any, partition: TopicPartition, offset: int) -> Any:
    if isinstance(rows, KgError):
        return rows
    row = rows.get(partition)
    if row is None:
        return left_out(fetch.Request, str(partition))
    if row.error_code == codes.TOPIC_AUTHORIZATION_FAILED:
        said = f"Not allowed to read {partition.topic}, so its time lag is unknown."
        return denied.needs(row.error_code, said, "READ", f"topic {partition.topic}")
    if row.error_code == codes.OFFSET_OUT_OF_RANGE:  # the log's beginning moved on meanwhile
        return ReadOn(max(row.log_start_offset, offset + 1))
    if row.error_code:
        return broker_error(row.error_code)
    aborted = [(part.producer_id, part.first_offset) for part in row.aborted_transactions or ()]
    return first_timestamp(row.records or b"", offset, aborted)


# ---------------------------------------------------------------------------------------------
# The record at an offset, in raw record batches


_OLD_HEADER = struct.Struct(">qiIbbq")


class Timestamp(NamedTuple):
    """The record's timestamp in ms; None where the record has none (magic 0, or -1)."""

    ms: int | None


class ReadOn(NamedTuple):
    """There is no such record before ``offset``; -1 where no batch is complete."""

    offset: int


def first_timestamp(
    data: bytes, offset: int, aborted: Iterable[tuple[int, int]] = ()
) -> Timestamp | ReadOn:
    """Return when the first record at or after ``offset`` was written, as far as ``data`` tells.

    Transaction markers and records of aborted transactions are passed over.

    :param data: what a Fetch brought: batches, the last one perhaps cut off.
    :param aborted: ``(producer id, first offset)`` of the aborted transactions, as a Fetch with
        read_committed lists them; empty to take every record.
    """
    following = -1
    hidden = Aborted(aborted)
    pos = 0
    while pos + _OLD_HEADER.size <= len(data):
        if data[pos + 16] < 2:
            answer, pos, last = _old_message(data, pos, offset)
        else:
            try:
                batch = read_header(data, pos)
            except DecodeError:
                break
            if batch is None:  # cut off by the size limit of the Fetch
                break
            answer = None if hidden.hides(batch) else _in_batch(data, batch, offset)
            pos, last = batch.end, batch.last_offset
        if answer is not None:
            return answer
        if last is None:
            break
        following = max(following, last + 1)
    return ReadOn(following)


class Aborted:
    """Which batches belong to aborted transactions (``CompletedFetch`` in Java).

    :param transactions: ``(producer id, first offset)`` of each.
    """

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        self._coming = sorted(transactions, key=lambda pair: pair[1])
        self._open: set[int] = set()

    def hides(self, batch: Batch) -> bool:
        """Whether a batch holds nothing for a reader; batches are asked about in their order."""
        while self._coming and self._coming[0][1] <= batch.last_offset:
            self._open.add(self._coming.pop(0)[0])
        if batch.is_control:
            self._open.discard(batch.producer_id)  # either marker ends the transaction
        return batch.is_control or (batch.is_transactional and batch.producer_id in self._open)


def _timestamp(ms: int) -> Timestamp:
    return Timestamp(None if ms == -1 else ms)


def _in_batch(data: bytes, batch: Batch, offset: int) -> Timestamp | None:
    """Walk the records; compaction may have removed any of them."""
    if batch.last_offset < offset:
        return None
    if batch.is_append_time:
        return _timestamp(batch.max_timestamp_ms)
    try:
        later = (record for record in read_records(data, batch) if record.offset >= offset)
        found = next(later, None)
    except DecodeError:
        return None
    return None if found is None else _timestamp(found.timestamp_ms)


def _old_message(data: bytes, pos: int, offset: int) -> tuple[Timestamp | None, int, int | None]:
    """Read a message of magic 0 or 1; a compressed one has the offset and time of its last."""
    last, length, _, magic, _, ms = _OLD_HEADER.unpack_from(data, pos)
    end = pos + PREFIX_SIZE + length
    if length < _OLD_HEADER.size - PREFIX_SIZE - 8 or end > len(data):
        return None, pos, None
    if last < offset:
        return None, end, last
    return (_timestamp(ms) if magic == 1 else Timestamp(None)), end, last


# ---------------------------------------------------------------------------------------------
# The record before an offset: what a consumer has read last


STEPS = (1, 2, 10, 100, 1_000, 10_000)
"""How far back a record is looked for: transaction markers and compaction leave gaps."""


def times_before(
    cluster: Cluster, places: Mapping[TopicPartition, tuple[int, int]]
) -> Operation[dict[TopicPartition, int | KgError]]:
    """Return the time (ms) of the last record before each offset; 0 where there is none.

    ListOffsets has to confirm that the first record of that time or later is not beyond the
    offset, which a gap, a compressed batch or unordered times can cause; else the time of an
    earlier record is taken. A KgError where the log can't be read, which takes READ on the topic.

    :param places: a committed offset of each partition, and where its log begins.
    """
    found: dict[TopicPartition, int | KgError] = {}
    for step in STEPS:
        positions = [
            Position(partition, offset - step, offset)
            for partition, (offset, start) in places.items()
            if partition not in found and offset - step >= start
        ]
        if not positions:
            break
        times = yield from first_unread(cluster, positions)
        found.update({at.partition: ms for at, ms in times.items() if isinstance(ms, KgError)})
        known = {at.partition: ms for at, ms in times.items() if isinstance(ms, int) and ms >= 0}
        for partition, log in (yield from log_ranges(cluster, known, known)).items():
            if isinstance(log, KgError):
                found[partition] = log
            elif log.at_time is not None and log.at_time.offset <= places[partition][0]:
                found[partition] = known[partition]
    return {partition: found.get(partition, 0) for partition in places}
