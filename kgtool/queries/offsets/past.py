"""How groups came to where they are: their lag a while ago and their commits, from the log.

The log of groups has each commit with its time; where a log of records ended is known for one
moment (``rates``), and between then and now it is taken to have grown evenly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple, cast

from kgtool.client.cluster import Cluster
from kgtool.client.ops import READING_SHARE, Operation, within
from kgtool.errors import KgError
from kgtool.model import GroupOffsets, OffsetRow
from kgtool.queries.log.moves import Commit, CommitsLog
from kgtool.queries.log.reader import LogReader, Stretch
from kgtool.queries.offsets.rates import Rate, find_rates

SMALL = 100_000
"""Partitions of the log with at most this many records are read whole for a group's commits."""


class Sums(NamedTuple):
    """Sums over the partitions of a group that have a commit and a known end."""

    lag: int | None = None
    """Records between its commits and the ends of their logs; None without such a partition."""
    committed: int = 0
    ends: int = 0
    partitions: int = 0
    topics: Mapping[str, int] = {}
    """Topic → lag."""


def sums_of(rows: Iterable[OffsetRow]) -> Sums:
    """Sum up the rows of a group."""
    topics: dict[str, int] = {}
    committed = ends = partitions = 0
    for row in rows:
        topics.setdefault(row.topic, 0)
        if row.current_offset is not None and row.log_end_offset is not None:
            topics[row.topic] += max(row.lag or 0, 0)
            committed += row.current_offset
            ends += row.log_end_offset
            partitions += 1
    return Sums(sum(topics.values()) if partitions else None, committed, ends, partitions, topics)


class CommitTime(NamedTuple):
    """What a group committed within one second: how many partitions, and how many records it had
    read since the commits before; None: the log does not have those."""

    at_ms: int
    partitions: int
    records: int | None


def past_lags(
    cluster: Cluster, groups: Sequence[GroupOffsets], now_ms: int, over_ms: int, count: int
) -> Operation[dict[str, list[tuple[float, Sums]]]]:
    """Return the sums of groups at ``count`` moments of the last ``over_ms``, the oldest first.

    Each comes with how many seconds ago that was.
    A group whose log can't be read is left out, and so is one of a topic whose records of that
    time are gone. Before the first commit that the log has, an offset is taken to be that one.
    """
    rates = yield from find_rates(
        cluster, groups, now_ms, over_ms, look_s=0, stuck=False, make_log=CommitsLog
    )
    agos_ms = [over_ms * step // count for step in range(count, 0, -1)]
    past = {}
    for found in groups:
        name = found.description.group
        keys = ((row, (name, row.topic_partition)) for row in found.rows)
        pairs = [(row, rates.rows[key]) for row, key in keys if key in rates.rows]
        if not pairs or name not in rates.logs or any(rate.in_per_s is None for _, rate in pairs):
            continue
        log = cast("CommitsLog", rates.logs[name].log)
        past[name] = [
            (
                ago_ms / 1000,
                sums_of(_row_then(row, rate, log, now_ms, ago_ms) for row, rate in pairs),
            )
            for ago_ms in agos_ms
        ]
    return past


def _row_then(row: OffsetRow, rate: Rate, log: CommitsLog, now_ms: int, ago_ms: int) -> OffsetRow:
    """Return a row as it was some time ago."""
    commits = log.commits(row.group, row.topic_partition)
    end = round((row.log_end_offset or 0) - (rate.in_per_s or 0) * ago_ms / 1000)
    offset = _offset_at(commits, now_ms - ago_ms, row.current_offset or 0)
    return row._replace(current_offset=offset, log_end_offset=end, lag=end - offset)


def _offset_at(commits: Sequence[Commit], at_ms: int, otherwise: int) -> int:
    """Return the offset that held then; before the first commit that is known, that one's."""
    after = bisect_right(commits, at_ms, key=lambda commit: commit.at_ms)
    return commits[max(after - 1, 0)].offset if commits else otherwise


def recent_commits(
    cluster: Cluster, found: GroupOffsets, since_ms: int
) -> Operation[list[CommitTime]]:
    """Return when a group has committed, the newest first; nothing where the log can't be read."""
    name = found.description.group
    make_log = partial(CommitsLog, since_ms=since_ms)
    reader = LogReader([name], since_ms, small=SMALL, make_log=make_log)
    try:
        stretch = (yield from within(reader.read(cluster, [name]), READING_SHARE))[name]
    except KgError:
        return []
    if not isinstance(stretch, Stretch):
        return []
    partitions: Counter[int] = Counter()
    records: dict[int, int] = {}
    for row in found.rows:
        commits = cast("CommitsLog", stretch.log).commits(name, row.topic_partition)
        partitions.update({commit.at_ms // 1000 for commit in commits})
        for old, new in pairwise(commits):
            second = new.at_ms // 1000
            records[second] = records.get(second, 0) + new.offset - old.offset
    seconds = sorted(partitions, reverse=True)
    return [CommitTime(1000 * at, partitions[at], records.get(at)) for at in seconds]
