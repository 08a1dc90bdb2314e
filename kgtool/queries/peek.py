"""The records around a committed offset: where to look, and reading them by raw Fetch.

No group is touched: no member joins, and nothing is committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kgtool.client.cluster import Cluster, fetch_metadata, need_topics
from kgtool.client.ops import Operation, backoff, call
from kgtool.client.retries import is_final
from kgtool.errors import BrokerError, KgError
from kgtool.model import CommittedOffset, TopicPartition, TopicSpec
from kgtool.protocol import codes
from kgtool.protocol.codes import broker_error
from kgtool.queries.groups.share_and_streams import OtherGroup, describe_other_groups
from kgtool.queries.log.fetch import NAMES_VERSION, fetch_request
from kgtool.queries.offsets.fetch import fetch_committed
from kgtool.queries.offsets.lag import LogEnds
from kgtool.queries.offsets.list_offsets import log_ends
from kgtool.queries.offsets.time_lag import Aborted
from kgtool.records.batch import Batch, Headers, batches, read_records_with_headers
from kgtool.text import shell_word

_BYTES = 1 << 20
_EMPTY_TRIES = 3
_FAR = 10_000
"""Offsets: farther back than ten times that nobody looks for records before the position."""


class NoCommit(KgError):
    """There is nothing around which records could be shown."""

    name = "NO_COMMIT"


class Record(NamedTuple):
    """One record as it is in the log, decompressed; times in ms since the epoch.

    ``timestamp_type``: ``create`` (the producer's clock) or ``append`` (the broker's).
    """

    offset: int
    timestamp_ms: int | None
    timestamp_type: str | None
    key: bytes | None
    value: bytes | None
    headers: Headers
    leader_epoch: int | None


class Place(NamedTuple):
    """One partition: what is committed there, and the range of its log."""

    partition: TopicPartition
    offset: int
    start: int
    end: int

    def window(self, before: int, after: int) -> Window:
        """Return what to read for so many records on both sides of the committed offset."""
        position = min(max(self.offset, self.start), self.end)
        start = max(self.start, position - before)
        end = self.end if after else position
        return Window(self.partition, start, end, position, before, after)


class Window(NamedTuple):
    """What to read of a partition: from ``start`` up to, not including, ``end``.

    ``position`` is the committed offset; of the records from there on ``after`` are wanted, and of
    those before it the last ``before``.
    """

    partition: TopicPartition
    start: int
    end: int
    position: int
    before: int
    after: int

    def wider(self, records: Sequence[Record], log_start: int) -> Window | None:
        """Return a window that begins earlier, where records before the position are missing.

        Compaction and the markers of transactions leave offsets without a record.
        """
        found = sum(record.offset < self.position for record in records)
        is_near = 0 < self.position - self.start < _FAR
        if found >= self.before or not is_near or self.start <= log_start:
            return None
        span = (self.position - self.start) * 10
        return self._replace(start=max(log_start, self.position - span))


# ---------------------------------------------------------------------------------------------
# Where to look


def find_places(
    cluster: Cluster, group: str, topics: Sequence[TopicSpec]
) -> Operation[dict[TopicPartition, Place | KgError]]:
    """Find a group's committed offsets in their logs; without ``topics`` all of them.

    :raises NoCommit: there is none.
    :raises KgError: the group's offsets can't be read.
    """
    committed = (yield from fetch_committed(cluster, [group]))[group]
    if isinstance(committed, KgError):
        raise committed
    asked = _selected(committed, topics)
    if not asked:
        raise (yield from _nothing(cluster, group, bool(topics)))
    ends = yield from log_ends(cluster, asked)
    return {at: _place(at, committed.get(at), ends[at]) for at in asked}


def _nothing(cluster: Cluster, group: str, is_partial: bool) -> Operation[KgError]:
    """Say why there is no place to look at."""
    found = (yield from describe_other_groups(cluster, [group]))[group]
    if isinstance(found, OtherGroup) and found.description.type == "share":
        return NoCommit(
            f"Group '{group}' is a share group: it has no committed offsets.",
            hint=f"kgtool describe --group {shell_word(group)} shows its start offsets.",
        )
    return NoCommit(
        f"Group '{group}' has no committed offset{' there' if is_partial else ''}.",
        hint="kgtool describe shows what it has.",
    )


def _selected(committed: Any, topics: Sequence[TopicSpec]) -> list[TopicPartition]:
    if not topics:
        return sorted(committed)
    asked: list[TopicPartition] = []
    for spec in topics:
        if spec.partitions is None:
            asked += sorted(partition for partition in committed if partition.topic == spec.topic)
        else:
            asked += [TopicPartition(spec.topic, number) for number in spec.partitions]
    return list(dict.fromkeys(asked))


def _place(partition: TopicPartition, value: Any, ends: LogEnds) -> Place | KgError:
    if isinstance(value, KgError):
        return value
    offset = value.offset if isinstance(value, CommittedOffset) else None
    if isinstance(ends.end, KgError):
        return ends.end
    if offset is None:
        return NoCommit(f"Nothing is committed for {partition}.")
    return Place(partition, offset, ends.start or 0, ends.end)


# ---------------------------------------------------------------------------------------------
# Reading


def read_around(
    cluster: Cluster, place: Place, before: int, after: int, *, committed_only: bool = False
) -> Operation[list[Record]]:
    """Return the records around a committed offset, in their order; needs READ on the topic.

    :param committed_only: without records of open or aborted transactions (KIP-98).
    :raises KgError: they can't be read.
    """
    window: Window | None = place.window(before, after)
    records: list[Record] = []
    while window is not None:
        records = yield from read_window(cluster, window, committed_only=committed_only)
        window = window.wider(records, place.start)
    return records


def read_window(
    cluster: Cluster, window: Window, *, committed_only: bool = False
) -> Operation[list[Record]]:
    """Return the records of one window, in their order."""
    read: deque[Record] = deque(maxlen=window.before)
    unread: list[Record] = []
    position = window.start
    attempt = empty = 0
    if window.start >= window.end or window.before + window.after == 0:
        return []
    yield from need_topics(cluster, [window.partition.topic])
    while position < window.end and empty < _EMPTY_TRIES:
        row = yield from _fetch(cluster, window.partition, position, committed_only)
        if isinstance(row, KgError):
            _refuse(row)
            yield backoff(attempt)
            attempt += 1
            yield from fetch_metadata(cluster, [window.partition.topic])
            continue
        attempt, begin = 0, position
        for last, records in _batches(row, committed_only):
            wanted = [record for record in records if begin <= record.offset < window.end]
            read.extend(record for record in wanted if record.offset < window.position)
            unread.extend(record for record in wanted if record.offset >= window.position)
            position = max(position, last + 1)
            if position >= window.position and len(unread) >= window.after:
                return [*read, *unread[: window.after]]
        readable = row.last_stable_offset if committed_only else row.high_watermark
        if position >= readable:
            break
        empty = empty + 1 if position == begin else 0
    return [*read, *unread]


def _refuse(error: KgError) -> None:
    """Raise what will not get better by asking again."""
    if isinstance(error, BrokerError) and error.code == codes.OFFSET_OUT_OF_RANGE:
        raise KgError("The records were removed from the log meanwhile.")
    if not (error.retriable if isinstance(error, BrokerError) else not is_final(error)):
        raise error


def _fetch(
    cluster: Cluster, partition: TopicPartition, position: int, committed_only: bool
) -> Operation[Any]:
    leader = cluster.leader(partition)
    if leader not in cluster.brokers:
        return broker_error(codes.LEADER_NOT_AVAILABLE)
    request = fetch_request({partition: position}, _BYTES, _BYTES, isolation=int(committed_only))
    reply = yield from call(leader, request, NAMES_VERSION)
    if isinstance(reply, KgError):
        return reply
    row = reply.topics[0].partitions[0]
    return broker_error(row.error_code) if row.error_code else row


def _batches(row: Any, committed_only: bool) -> Iterator[tuple[int, Sequence[Record]]]:
    """Yield of each batch that a fetch brought its last offset, and its records."""
    data = row.records or b""
    listed = row.aborted_transactions or () if committed_only else ()
    aborted = Aborted((one.producer_id, one.first_offset) for one in listed)
    for batch in batches(data):
        yield batch.last_offset, [] if aborted.hides(batch) else _records(data, batch)


def _records(data: bytes, batch: Batch) -> Sequence[Record]:
    kind = "append" if batch.is_append_time else "create"
    epoch = batch.leader_epoch(data)
    return [
        Record(
            raw.offset,
            raw.timestamp_ms if raw.timestamp_ms >= 0 else None,
            kind if raw.timestamp_ms >= 0 else None,
            raw.key, raw.value, headers, epoch if epoch >= 0 else None,
        )
        for raw, headers in read_records_with_headers(data, batch)
    ]  # fmt: skip
