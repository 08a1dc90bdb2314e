"""The groups of the screen: what was seen of each, and when; filters, orders and cells. Pure."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from kgtool.columns import COUNT, LAG, NAME, PLAIN, STATUS, Column
from kgtool.errors import UsageError
from kgtool.model import GroupListing, GroupOffsets
from kgtool.queries.doctor.finding import PROBLEM, WARNING
from kgtool.text import span

WINDOW_S = 60.0
"""Rates are averages over this time, so that one slow commit is no alarm."""
KEPT = 60
"""Looks that a group keeps."""
TREND = 8
BARS = "▁▂▃▄▅▆▇█"


class Look(NamedTuple):
    """What one look found of a group's offsets; ``at_s`` is monotonic.

    ``ends`` and ``committed`` are sums over the partitions with a commit and a known end.
    """

    at_s: float
    lag: int | None = None
    committed: int = 0
    ends: int = 0
    partitions: int = 0
    topics: Mapping[str, int] = {}
    """Topic → lag."""
    members: int | None = None
    error: str | None = None


def look_of(found: GroupOffsets, at_s: float) -> Look:
    """Sum up the rows of a group."""
    error = found.description.error
    if error is not None:
        return Look(at_s, error=error.message)
    topics: dict[str, int] = {}
    committed = ends = partitions = 0
    for row in found.rows:
        topics.setdefault(row.topic, 0)
        if row.current_offset is not None and row.log_end_offset is not None:
            topics[row.topic] += max(row.lag or 0, 0)
            committed += row.current_offset
            ends += row.log_end_offset
            partitions += 1
    lag = sum(topics.values()) if partitions else None
    members = len(found.description.members)
    return Look(at_s, lag, committed, ends, partitions, topics, members)


class Finding(NamedTuple):
    """One of doctor's findings about a group."""

    kind: str
    severity: str
    detail: str


class Group:
    """One group: as listed, and as it was at the last looks."""

    __slots__ = ("expires_at_ms", "findings", "listing", "looks", "lost_at_ms")

    def __init__(self, listing: GroupListing) -> None:
        self.listing = listing
        self.looks: deque[Look] = deque(maxlen=KEPT)
        self.findings: Sequence[Finding] = ()
        self.expires_at_ms: int | None = None
        self.lost_at_ms: int | None = None

    @property
    def name(self) -> str:
        """Its id."""
        return self.listing.group

    @property
    def last(self) -> Look | None:
        """The newest look; None before the first."""
        return self.looks[-1] if self.looks else None

    @property
    def lag(self) -> int | None:
        """Records between its commits and the ends of their logs."""
        return self.last.lag if self.last else None

    def rates(self) -> tuple[float | None, float | None]:
        """Return records written and read per second; None before the second look."""
        last = self.last
        if last is None or last.lag is None:
            return None, None
        for old in self.looks:
            seconds = last.at_s - old.at_s
            if 0 < seconds <= WINDOW_S and old.partitions == last.partitions:
                produced, consumed = last.ends - old.ends, last.committed - old.committed
                return produced / seconds, consumed / seconds
        return None, None

    def eta_ms(self) -> float | None:
        """Return how long the lag takes to go at these rates; None: unknown, or never."""
        produced, consumed = self.rates()
        if not self.lag or produced is None or consumed is None or consumed <= produced:
            return None
        return 1000 * self.lag / (consumed - produced)

    def trend(self) -> str:
        """Draw the last lags as bars, the smallest and the largest of them as floor and top."""
        lags = [look.lag for look in self.looks if look.lag is not None][-TREND:]
        if len(lags) < 2:
            return ""
        low, high = min(lags), max(lags)
        steps = max(high - low, 1)
        return "".join(BARS[(lag - low) * (len(BARS) - 1) // steps] for lag in lags)

    def hurts(self) -> tuple[int, ...]:
        """Return what orders the worst first: problems, what is lost soon, warnings, lag.

        The lag of a group that somebody runs comes before that of one without members.
        """
        found = [one.severity for one in self.findings]
        runs = self.last is not None and bool(self.last.members)
        lost = self.lost_at_ms or 2**62
        return -found.count(PROBLEM), lost, -found.count(WARNING), not runs, -(self.lag or 0)


Key = Callable[[Group], Any]
ORDERS: dict[str, Key] = {
    "hurts": Group.hurts,
    "lag": lambda group: -(group.lag if group.lag is not None else -1),
    "name": lambda group: group.name,
    "state": lambda group: group.listing.state or "",
    "members": lambda group: -((group.last and group.last.members) or 0),
    "in/s": lambda group: -(group.rates()[0] or 0),
    "out/s": lambda group: -(group.rates()[1] or 0),
    "loses": lambda group: group.lost_at_ms or 2**62,
    "expires": lambda group: group.expires_at_ms or 2**62,
}
"""What ``s`` goes through; the groups that are equal stand by their names."""


def parse_filter(text: str) -> Callable[[Group], bool]:
    """Read a filter: words that all must hold.

    ``state:empty``, ``type:share``, ``topic:orders*`` compare that; ``/billing-\\d+/`` is a regular
    expression, a word with ``*?[`` a glob, any other a part of the name.

    :raises UsageError: a regular expression is wrong, or a word before a colon is unknown.
    """
    tests = [_test(word) for word in text.split()]
    return lambda group: all(test(group) for test in tests)


def _test(word: str) -> Callable[[Group], bool]:
    if word[0] == "/" and (word[-1] != "/" or len(word) < 3):
        return lambda _group: True  # it is still being typed
    if word[0] == "/":
        try:
            pattern = re.compile(word[1:-1])
        except re.error as error:
            raise UsageError(f"{word} is not a regular expression: {error}.") from None
        return lambda group: pattern.search(group.name) is not None
    field, colon, value = word.partition(":")
    if colon and field in _FIELDS:
        glob, values = value.lower(), _FIELDS[field]
        return lambda group: any(fnmatchcase(one.lower(), f"{glob}*") for one in values(group))
    if set(word) & set("*?["):
        return lambda group: fnmatchcase(group.name, word)
    return lambda group: word.lower() in group.name.lower()


_FIELDS: dict[str, Callable[[Group], Iterable[str]]] = {
    "state": lambda group: [group.listing.state or ""],
    "type": lambda group: [group.listing.type or ""],
    "topic": lambda group: group.last.topics if group.last else (),
    "finding": lambda group: [found.kind for found in group.findings],
}


# -- cells ------------------------------------------------------------------------------------

COLUMNS = (
    Column("group", "GROUP", NAME),
    Column("type", "TYPE", spare=4),
    Column("state", "STATE", STATUS),
    Column("members", "MEM", COUNT),
    Column("lag", "LAG", LAG),
    Column("trend", "TREND", PLAIN, spare=5),
    Column("in_per_s", "IN/S", COUNT, spare=6),
    Column("out_per_s", "OUT/S", COUNT),
    Column("eta", "ETA", COUNT),
    Column("loses", "LOSES", COUNT, spare=3),
    Column("expires", "EXPIRES", COUNT, spare=2),
    Column("seen", "SEEN", COUNT),
    Column("findings", "FINDINGS", spare=1),
)
WIDTHS = {
    "type": 8,
    "state": 9,
    "members": 3,
    "lag": 9,
    "trend": TREND,
    "in_per_s": 6,
    "out_per_s": 6,
    "eta": 6,
    "loses": 7,
    "expires": 7,
    "seen": 4,
    "findings": 22,
}
LEAST_NAME, MOST_NAME = 16, 40


def fitting(width: int) -> dict[Column, int]:
    """Return the columns that fit into a width, each with its own; the group takes the rest.

    A column has a blank before it, and the mark stands before the first.
    """
    left = list(COLUMNS)

    def needed() -> int:
        return 2 + LEAST_NAME + sum(WIDTHS[one.key] + 1 for one in left if one.key in WIDTHS)

    while needed() > width and any(one.spare for one in left):
        left.remove(min((one for one in left if one.spare), key=lambda one: one.spare))
    name = min(MOST_NAME, LEAST_NAME + max(width - needed(), 0))
    return {one: WIDTHS.get(one.key, name) for one in left}


def cells(group: Group, at_s: float, now_ms: int) -> dict[str, str]:
    """Return the text of each column, before it is cut to its width."""
    last = group.last
    produced, consumed = group.rates()
    eta = group.eta_ms()
    said = ", ".join(dict.fromkeys(found.kind for found in group.findings))
    return {
        "group": group.name,
        "type": group.listing.type or "-",
        "state": group.listing.state or "-",
        "members": _number(last and last.members),
        "lag": _number(group.lag),
        "trend": group.trend(),
        "in_per_s": _rate(produced),
        "out_per_s": _rate(consumed),
        "eta": "-" if eta is None else rough(eta),
        "loses": _until(group.lost_at_ms, now_ms),
        "expires": _until(group.expires_at_ms, now_ms),
        "seen": "-" if last is None else rough(1000 * (at_s - last.at_s)),
        "findings": (last and last.error) or said,
    }


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def _until(at_ms: int | None, now_ms: int) -> str:
    return "-" if at_ms is None else "due" if at_ms <= now_ms else rough(at_ms - now_ms)


def rough(ms: float) -> str:
    """Return a duration by its largest unit: a cell is narrow."""
    return span(round(ms / 1000) * 1000).split(" ")[0] if ms >= 500 else "0s"
