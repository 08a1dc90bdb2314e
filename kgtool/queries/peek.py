"""The records around a committed offset: where to look, and reading them by raw Fetch.

No group is touched: no member joins, and nothing is committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kgtool.client.answers import is_final, left_out
from kgtool.client.cluster import Cluster, ensure_topics, fetch_metadata
from kgtool.client.ops import Call, Operation, backoff
from kgtool.errors import BrokerError, KgError
from kgtool.model import CommittedOffset, TopicPartition, TopicSpec
from kgtool.protocol import codes
from kgtool.protocol.codes import broker_error
from kgtool.queries.groups.share_and_streams import OtherGroup, describe_other_groups
from kgtool.queries.log.fetch import NAMES_VERSION, fetch_calls, fetch_request
from kgtool.queries.offsets.fetch import fetch_committed
from kgtool.queries.offsets.lag import LogEnds
from kgtool.queries.offsets.list_offsets import log_ends
from kgtool.queries.offsets.time_lag import Aborted
from kgtool.records.batch import Batch, RecordHeaders, batches, read_records_with_headers
from kgtool.text import shell_word

_BYTES = 1 << 20
_EMPTY_TRIES = 3
_FAR = 10_000
"""Offsets: records before the position are searched for at most ten times as far back."""


class NoCommit(KgError):
    """There is no committed offset to show records around."""

    name = "NO_COMMIT"


class PeekedRecord(NamedTuple):
    """One record as it is in the log, decompressed; times in ms since the epoch.

    ``timestamp_type``: ``create`` (the producer's clock) or ``append`` (the broker's).
    """

    offset: int
    timestamp_ms: int | None
    timestamp_type: str | None
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders
    leader_epoch: int | None


class CommittedPosition(NamedTuple):
    """The committed offset of one partition, and the range of its log."""

    partition: TopicPartition
    offset: int
    start: int
    end: int

    def window(self, before: int, after: int) -> Window:
        """Return what to read for some records on both sides of the committed offset."""
        position = min(max(self.offset, self.start), self.end)
        start = max(self.start, position - before)
        end = self.end if after else position
        return Window(self.partition, start, end, position, before, after)


class Window(NamedTuple):
    """What to read of a partition: from ``start`` up to, not including, ``end``.

    Of the records before ``position``, the committed offset, the last ``before`` are returned, and
    of the others the first ``after``.
    """

    partition: TopicPartition
    start: int
    end: int
    position: int
    before: int
    after: int

    def wider(self, records: Sequence[PeekedRecord], log_start: int) -> Window | None:
        """Return a window that begins earlier; None if there are enough records or no more.

        Compaction and transaction markers leave offsets without a record.
        """
        found = sum(record.offset < self.position for record in records)
        is_near = 0 < self.position - self.start < _FAR
        if found >= self.before or not is_near or self.start <= log_start:
            return None
        span = (self.position - self.start) * 10
        return self._replace(start=max(log_start, self.position - span))


# ---------------------------------------------------------------------------------------------
# The committed offsets


def find_positions(
    cluster: Cluster, group: str, topics: Sequence[TopicSpec]
) -> Operation[dict[TopicPartition, CommittedPosition | KgError]]:
    """Return a group's committed offsets and their logs; without ``topics`` all of them.

    :raises NoCommit: the group has none.
    :raises KgError: the group's offsets can't be read.
    """
    committed = (yield from fetch_committed(cluster, [group]))[group]
    if isinstance(committed, KgError):
        raise committed
    asked = _selected(committed, topics)
    if not asked:
        raise (yield from _no_commit(cluster, group, bool(topics)))
    ends = yield from log_ends(cluster, asked)
    return {at: _position(at, committed.get(at), ends[at]) for at in asked}


def _no_commit(cluster: Cluster, group: str, is_partial: bool) -> Operation[KgError]:
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


def _position(
    partition: TopicPartition, value: CommittedOffset | KgError | None, ends: LogEnds
) -> CommittedPosition | KgError:
    if isinstance(value, KgError):
        return value
    if isinstance(ends.end, KgError):
        return ends.end
    if value is None or value.offset is None:
        return NoCommit(f"Nothing is committed for {partition.typed}.")
    return CommittedPosition(partition, value.offset, ends.start or 0, ends.end)


# ---------------------------------------------------------------------------------------------
# Reading


def read_around(
    cluster: Cluster,
    place: CommittedPosition,
    before: int,
    after: int,
    *,
    committed_only: bool = False,
) -> Operation[list[PeekedRecord]]:
    """Return the records around a committed offset, in log order; needs READ on the topic.

    :param committed_only: without records of open or aborted transactions (KIP-98).
    :raises KgError: they can't be read.
    """
    window: Window | None = place.window(before, after)
    records: list[PeekedRecord] = []
    while window is not None:
        records = yield from read_window(cluster, window, committed_only=committed_only)
        window = window.wider(records, place.start)
    return records


def read_window(
    cluster: Cluster, window: Window, *, committed_only: bool = False
) -> Operation[list[PeekedRecord]]:
    """Return the records of one window, in log order."""
    read: deque[PeekedRecord] = deque(maxlen=window.before)
    unread: list[PeekedRecord] = []
    position = window.start
    attempt = empty = 0
    if window.start >= window.end or window.before + window.after == 0:
        return []
    yield from ensure_topics(cluster, [window.partition.topic])
    while position < window.end and empty < _EMPTY_TRIES:
        row = yield from _fetch(cluster, window.partition, position, committed_only)
        if isinstance(row, KgError):
            _raise_if_final(row)
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


def _raise_if_final(error: KgError) -> None:
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
    (reply,) = yield from fetch_calls([Call(leader, request, NAMES_VERSION)])
    if isinstance(reply, KgError):
        return reply
    row = next((row for topic in reply.topics for row in topic.partitions), None)
    code = reply.error_code or (row.error_code if row is not None else 0)
    if code:
        return broker_error(code)
    return left_out(request, str(partition)) if row is None else row


def _batches(row: Any, committed_only: bool) -> Iterator[tuple[int, Sequence[PeekedRecord]]]:
    """Yield the last offset and the records of each batch."""
    data = row.records or b""
    listed = row.aborted_transactions or () if committed_only else ()
    aborted = Aborted((one.producer_id, one.first_offset) for one in listed)
    for batch in batches(data):
        yield batch.last_offset, [] if aborted.hides(batch) else _records(data, batch)


def _records(data: bytes, batch: Batch) -> Sequence[PeekedRecord]:
    kind = "append" if batch.is_append_time else "create"
    epoch = batch.leader_epoch(data)
    return [
        PeekedRecord(
            raw.offset,
            raw.timestamp_ms if raw.timestamp_ms >= 0 else None,
            kind if raw.timestamp_ms >= 0 else None,
            raw.key,
            raw.value,
            headers,
            epoch if epoch >= 0 else None,
        )
        for raw, headers in read_records_with_headers(data, batch)
    ]
