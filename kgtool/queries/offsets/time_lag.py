"""How old unread records are: the timestamp of the record at each committed offset (Fetch).

One Fetch a leader brings the beginning of every partition asked for, a few kB each; what did not
fit is fetched batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.client import denied
from kgtool.client.answers import left_out
from kgtool.client.cluster import Cluster
from kgtool.client.leaders import by_leader
from kgtool.client.ops import Call, Operation, cut, grouped
from kgtool.errors import KgError
from kgtool.model import TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import fetch
from kgtool.protocol.codes import broker_error
from kgtool.queries.log.fetch import NAMES_VERSION, fetch_request
from kgtool.queries.offsets.batch_times import ReadOn, Timestamp, first_timestamp
from kgtool.queries.offsets.positions import ranges_at

GLANCE_BYTES = 20 * 1024
"""Of each partition in the first Fetch: more than a batch of a producer's default batch.size."""
PARTITIONS_PER_FETCH = 500
SINGLES_AT_ONCE = 50
"""Whole batches (1 MB by default, at most) that are in memory at a time."""
ROUNDS = 20
"""How many batches without a record (markers, aborted, compacted) are passed over."""


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

    None where none is left (only markers, or aborted ones with read_committed) or where it has no
    timestamp; a KgError where the partition can't be read, which takes READ on the topic.
    """
    found: Times = {}
    open_at = {position: position.offset for position in dict.fromkeys(positions)}
    for number in range(ROUNDS):
        answers = yield from _fetch_all(cluster, open_at, isolation, is_glance=number == 0)
        for position, answer in answers.items():
            before = open_at.pop(position)
            if isinstance(answer, Timestamp):
                found[position] = answer.ms
            elif isinstance(answer, KgError):
                found[position] = answer
            elif answer.offset >= position.end or (number and answer.offset <= before):
                found[position] = None
            else:
                open_at[position] = max(answer.offset, before)
        if not open_at:
            break
    found.update(dict.fromkeys(open_at))
    return found


# ---------------------------------------------------------------------------------------------
# Fetch


def _fetch_all(
    cluster: Cluster, open_at: dict[Position, int], isolation: int, *, is_glance: bool
) -> Operation[dict[Position, Any]]:
    """Look at every open position once; the answer is of ``first_timestamp``, or a KgError."""
    mine = grouped((position.partition, position) for position in open_at)

    def work(broker: int, parts: list[TopicPartition]) -> Operation[dict[TopicPartition, Any]]:
        wanted = [position for partition in parts for position in mine[partition]]
        batches = _layers(wanted) if is_glance else [[position] for position in wanted]
        rows: dict[Position, Any] = {}
        at_once = len(batches) if is_glance else SINGLES_AT_ONCE
        for some in cut(batches, at_once):
            replies = yield [_call(broker, batch, open_at, isolation, is_glance) for batch in some]
            for batch, reply in zip(some, replies, strict=True):
                rows.update(_read(reply, batch, open_at))
        return _by_partition(rows)

    answers = yield from by_leader(cluster, mine, work)
    found: dict[Position, Any] = {}
    for partition, answer in answers.items():
        if isinstance(answer, KgError):
            found.update(dict.fromkeys(mine[partition], answer))
        else:
            found.update(answer)
    return found


def _layers(positions: Sequence[Position]) -> list[list[Position]]:
    """Split so that no Fetch has a partition twice, nor too many of them."""
    layers: list[list[Position]] = []
    seen: dict[TopicPartition, int] = {}
    for position in positions:
        number = seen[position.partition] = seen.get(position.partition, -1) + 1
        if number == len(layers):
            layers.append([])
        layers[number].append(position)
    return [part for layer in layers for part in cut(layer, PARTITIONS_PER_FETCH)]


def _call(
    broker: int, positions: list[Position], open_at: dict[Position, int], isolation: int,
    is_glance: bool,
) -> Call:  # fmt: skip
    size = GLANCE_BYTES if is_glance else 1
    offsets = {position.partition: open_at[position] for position in positions}
    request = fetch_request(
        offsets, size, size * len(positions), isolation=isolation, max_wait_ms=0
    )
    return Call(broker, request, NAMES_VERSION)


def _read(
    reply: Any, positions: list[Position], open_at: dict[Position, int]
) -> dict[Position, Any]:
    if isinstance(reply, KgError):
        return dict.fromkeys(positions, reply)
    if reply.error_code:
        return dict.fromkeys(positions, broker_error(reply.error_code))
    rows = {
        TopicPartition(topic.topic, row.partition): row
        for topic in reply.topics
        for row in topic.partitions
    }
    return {position: _answer(rows.get(position.partition), open_at[position], position.partition)
            for position in positions}  # fmt: skip


def _answer(row: Any, offset: int, partition: TopicPartition) -> Any:
    if row is None:
        return left_out(fetch.Request, f"{partition.topic}-{partition.partition}")
    if row.error_code == codes.TOPIC_AUTHORIZATION_FAILED:
        said = f"Not allowed to read {partition.topic}, so its time lag is unknown."
        return denied.needs(row.error_code, said, "READ", f"topic {partition.topic}")
    if row.error_code == codes.OFFSET_OUT_OF_RANGE:  # the log's beginning moved on meanwhile
        return ReadOn(max(row.log_start_offset, offset + 1))
    if row.error_code:
        return broker_error(row.error_code)
    aborted = [(part.producer_id, part.first_offset) for part in row.aborted_transactions or ()]
    return first_timestamp(row.records or b"", offset, aborted)


def _by_partition(rows: dict[Position, Any]) -> dict[TopicPartition, Any]:
    """Give each partition its positions, or the error that all of them share."""
    found: dict[TopicPartition, Any] = {}
    for position, answer in rows.items():
        if isinstance(answer, KgError):
            found[position.partition] = answer
        elif not isinstance(found.get(position.partition), KgError):
            found.setdefault(position.partition, {})[position] = answer
    return found


# ---------------------------------------------------------------------------------------------
# When the last record before an offset was written: what a consumer has read last


STEPS = (1, 2, 10, 100, 1_000, 10_000)
"""So far back is looked for a record: markers of transactions and compaction leave gaps."""


class Place(NamedTuple):
    """A committed offset, and where its log begins."""

    offset: int
    start: int


def times_before(
    cluster: Cluster, places: Mapping[TopicPartition, Place]
) -> Operation[dict[TopicPartition, int | KgError]]:
    """Return the time (ms) of the last record before each offset; 0 where there is none.

    The log itself is asked whether the first record of that time or later is not beyond the
    offset, which a gap, a compressed batch or unordered times can cause; an earlier record's time
    is taken then. A KgError where the log can't be read, which takes READ on the topic.
    """
    found: dict[TopicPartition, int | KgError] = {}
    for step in STEPS:
        left = {
            p: at for p, at in places.items() if p not in found and at.offset - step >= at.start
        }
        if not left:
            break
        asked = [Position(p, at.offset - step, at.offset) for p, at in left.items()]
        times = yield from first_unread(cluster, asked)
        found.update({at.partition: ms for at, ms in times.items() if isinstance(ms, KgError)})
        told = {at.partition: ms for at, ms in times.items() if isinstance(ms, int)}
        found.update((yield from _confirmed(cluster, told, places)))
    return {partition: found.get(partition, 0) for partition in places}


def _confirmed(
    cluster: Cluster, times: Mapping[TopicPartition, int], places: Mapping[TopicPartition, Place]
) -> Operation[Iterable[tuple[TopicPartition, int | KgError]]]:
    """Return the times that lead to the offset or before it."""
    logs = yield from ranges_at(cluster, times)
    found: list[tuple[TopicPartition, int | KgError]] = []
    for partition, log in logs.items():
        if isinstance(log, KgError):
            found.append((partition, log))
        elif log.at_time is not None and log.at_time.offset <= places[partition].offset:
            found.append((partition, times[partition]))
    return found
