"""How fast records come and are read, at the first look.

What comes: ListOffsets tells where a log was some time ago, and where it ends. It goes by the
records' timestamps, which with CreateTime are the producers'. What is read: the commits of that
time, in the groups' own partitions of ``__consumer_offsets``. Where those can't be read, two looks
at the offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, cast

from kgtool.client.cluster import Cluster
from kgtool.client.ops import READING_SHARE, Operation, Pause, within
from kgtool.errors import KgError
from kgtool.model import GroupOffsets, OffsetRow, TopicPartition
from kgtool.queries.log.expiry import denied_log
from kgtool.queries.log.moves import Moves, MovesLog
from kgtool.queries.log.reader import LogReader, Stretch
from kgtool.queries.offsets.fetch import fetch_committed, offsets_of
from kgtool.queries.offsets.lag import NONE_LEFT
from kgtool.queries.offsets.list_offsets import LogRange, log_ranges
from kgtool.queries.offsets.time_lag import Position, first_unread
from kgtool.text import DAY_MS

LOOK_S = 5.0
"""Between two looks; ``auto.commit.interval.ms`` is as long by default."""
_STRETCHES = ((0, 20_000), (DAY_MS, 100_000))
"""What is read of a partition of the log: its last ms (twice the time asked for, at least), or all
of it if it has so few records. The second is for what stood still in the first."""

Key = tuple[str, TopicPartition]
"""A group and a partition."""


class Rate(NamedTuple):
    """How one offset and the end of its log move, in offsets per second; None: not known.

    ``eta_ms``: how long the lag takes to go at these rates; None: not known, or never.
    ``stuck_since_ms``: nothing was read in the time asked for, though there was something left all
    the time: when it began, which is the last commit that moved, or the writing of the first unread
    record if that is later. None: it is not stuck, or was before what was read of the log.
    """

    in_per_s: float | None = None
    out_per_s: float | None = None
    eta_ms: int | None = None
    stuck_since_ms: int | None = None


class Rates(NamedTuple):
    """The rates of committed offsets, and by group why its log could not be read: such a group has
    ``out_per_s`` of two looks, and no ``stuck_since_ms``."""

    rows: Mapping[Key, Rate]
    unread: Mapping[str, KgError]
    logs: Mapping[str, Stretch]
    """What was read of the log, by group."""


def per_s(count: float, seconds: float) -> float:
    """Return a rate, without digits that mean nothing."""
    return round(count / seconds, 3)


def eta_ms(lag: int | None, produced: float | None, consumed: float | None) -> int | None:
    """Return how long a lag takes to go at these rates; None: not known, or never."""
    if lag is None or produced is None or consumed is None:
        return None
    if lag <= 0:
        return 0
    return int(lag / (consumed - produced) * 1000) if consumed > produced else None


def find_rates(
    cluster: Cluster,
    groups: Sequence[GroupOffsets],
    now_ms: int,
    over_ms: int,
    *,
    look_s: float = LOOK_S,
    stuck: bool = True,
    make_log: Callable[..., MovesLog] = MovesLog,
) -> Operation[Rates]:
    """Return the rates of all committed offsets of groups.

    :param over_ms: the time that they are averages of.
    :param look_s: between two looks, where the log can't be read; 0: no second look.
    :param stuck: also find ``stuck_since_ms``, for which earlier parts of the log may be read.
    :param make_log: what the log is read into.
    """
    search = _Search(groups, now_ms, min(over_ms, now_ms))
    partitions = sorted({at for _, at in search.rows})
    search.ends = yield from log_ranges(cluster, partitions, search.since_ms)
    stretches = _STRETCHES if stuck else _STRETCHES[:1]
    yield from _read_logs(cluster, search, stretches, make_log)
    read = {key: search.read_per_s(key) for key in search.rows}
    if search.unread and look_s:
        read.update((yield from _look_twice(cluster, list(search.unread), look_s)))
    since_ms = (yield from _stuck_since(cluster, search)) if stuck else {}
    found = {}
    for key, row in search.rows.items():
        produced, consumed = search.produced_per_s(key[1]), read[key]
        left_ms = eta_ms(row.lag, produced, consumed)
        found[key] = Rate(produced, consumed, left_ms, since_ms.get(key))
    return Rates(found, search.unread, search.logs)


class _Search:
    """What is known of some groups while it is being read."""

    def __init__(self, groups: Sequence[GroupOffsets], now_ms: int, over_ms: int) -> None:
        every = (row for found in groups for row in found.rows)
        self.rows: dict[Key, OffsetRow] = {
            (row.group, row.topic_partition): row
            for row in every
            if row.current_offset is not None and row.log_end_offset is not None
        }
        self.now_ms, self.over_ms, self.since_ms = now_ms, over_ms, now_ms - over_ms
        self.ends: Mapping[TopicPartition, LogRange | KgError] = {}
        self.logs: dict[str, Stretch] = {}
        self.unread: dict[str, KgError] = {}

    def end_then(self, at: TopicPartition) -> int | None:
        """Return where a log ended when the time began; None: its records are gone already."""
        log = self.ends.get(at)
        if not isinstance(log, LogRange):
            return None
        if log.at_time is None:
            return log.end.offset
        return None if log.at_time.offset == log.start.offset > 0 else log.at_time.offset

    def produced_per_s(self, at: TopicPartition) -> float | None:
        log, then = self.ends.get(at), self.end_then(at)
        if then is None or not isinstance(log, LogRange):
            return None
        return per_s(log.end.offset - then, self.over_ms / 1000)

    def read_per_s(self, key: Key) -> float | None:
        stretch, moves = self.logs.get(key[0]), self.moves(key)
        if stretch is None:
            return None
        if moves is None:  # the last commit is older than what was read
            return None if stretch.before_ms is None else 0.0
        if moves.first_ms <= self.since_ms:
            return per_s(moves.records, self.over_ms / 1000)
        # It is not known what the first commit has passed.
        seconds = max(self.now_ms - moves.first_ms, 1000) / 1000
        return per_s(moves.records, seconds) if moves.has_moved else None

    def moves(self, key: Key) -> Moves | None:
        stretch = self.logs.get(key[0])
        return None if stretch is None else cast("MovesLog", stretch.log).moves(*key)

    def is_stuck(self, key: Key) -> bool:
        """Whether nothing was read, though something was left when the time began."""
        then, offset = self.end_then(key[1]), self.rows[key].current_offset
        return then is not None and (offset or 0) < then and self.read_per_s(key) == 0

    def stuck_since_ms(self, key: Key) -> int | None:
        """Return when the commit that still holds was made first; None: before what was read."""
        stretch, moves = self.logs.get(key[0]), self.moves(key)
        if stretch is None or moves is None:
            return None
        return moves.held_ms if moves.has_moved or stretch.before_ms is None else None

    def is_open(self, key: Key) -> bool:
        """Whether an earlier part of the log may tell more."""
        stretch, moves = self.logs.get(key[0]), self.moves(key)
        if stretch is None or stretch.before_ms is None:
            return False
        if moves is not None and moves.first_ms > self.since_ms:
            return True
        return self.is_stuck(key) and self.stuck_since_ms(key) is None


def _read_logs(
    cluster: Cluster,
    search: _Search,
    stretches: Sequence[tuple[int, int]],
    make_log: Callable[..., MovesLog],
) -> Operation[None]:
    """Read the log of the groups, as far back as is necessary and the stretches allow."""
    names = sorted({group for group, _ in search.rows})
    begin_log = partial(make_log, since_ms=search.since_ms)
    for length_ms, small in stretches:
        if not names:
            return
        begin_ms = search.now_ms - max(length_ms, 2 * search.over_ms)
        reader = LogReader(names, begin_ms, small=small, make_log=begin_log)
        try:
            found = yield from within(reader.read(cluster, names), READING_SHARE)
        except KgError as error:
            found = dict.fromkeys(names, error)
        for name, stretch in found.items():
            if isinstance(stretch, Stretch):
                search.logs[name] = stretch
            elif name not in search.logs:
                search.unread[name] = denied_log(stretch, "which tells what was read and when")
        names = sorted({key[0] for key in search.rows if search.is_open(key)})


def _stuck_since(cluster: Cluster, search: _Search) -> Operation[dict[Key, int]]:
    """Return since when offsets are stuck: not before there was something left to read."""
    since = {key: search.stuck_since_ms(key) for key in search.rows if search.is_stuck(key)}
    places = {}
    for key in since:
        row = search.rows[key]
        offset = max(row.current_offset or 0, row.log_start_offset or 0)
        places[key] = Position(key[1], offset, row.log_end_offset or 0)
    written = yield from first_unread(cluster, places.values())
    found = {}
    for key, held_ms in since.items():
        at_ms = written[places[key]]
        begin_ms = search.logs[key[0]].before_ms or 0
        if at_ms == NONE_LEFT:
            continue
        if isinstance(at_ms, int) and at_ms >= (begin_ms if held_ms is None else held_ms):
            found[key] = at_ms
        elif held_ms is not None:
            found[key] = held_ms
    return found


def _look_twice(
    cluster: Cluster, groups: Sequence[str], seconds: float
) -> Operation[dict[Key, float | None]]:
    """Return how many offsets per second groups commit now."""
    before = yield from fetch_committed(cluster, groups)
    yield Pause(seconds)
    after = yield from fetch_committed(cluster, groups)
    found: dict[Key, float | None] = {}
    for group in groups:
        old = offsets_of(before[group])
        for at, value in offsets_of(after[group]).items():
            was = old[at].offset if at in old else None
            if was is not None and value.offset is not None:
                found[group, at] = per_s(value.offset - was, seconds)
    return found
