"""The groups of the screen: what was seen of each, and when; filters, orders and cells. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from kgtool.columns import COUNT, LAG, NAME, PLAIN, STATUS, Column
from kgtool.errors import UsageError
from kgtool.model import GroupListing, GroupOffsets
from kgtool.queries.doctor.finding import PROBLEM, WARNING, Finding
from kgtool.queries.offsets.past import Sums, sums_of
from kgtool.queries.offsets.rates import eta_ms, per_s
from kgtool.text import rough

WINDOW_S = 60.0
"""Rates are averages over this time, so that one slow commit is no alarm."""
FOUND_FOR_S = 300.0
"""How long doctor's findings of a group hold; it reads the log for them."""
KEPT = 60
"""Looks that a group keeps."""
TREND = 8
BARS = "▁▂▃▄▅▆▇█"


class Look(NamedTuple):
    """What one look found of a group; ``at_s`` is monotonic."""

    at_s: float
    sums: Sums = Sums()
    members: int | None = None
    error: str | None = None


def look_of(found: GroupOffsets, at_s: float) -> Look:
    """Sum up the rows of a group."""
    if found.description.error is not None:
        return Look(at_s, error=found.description.error.message)
    return Look(at_s, sums_of(found.rows), len(found.description.members))


class Group:
    """One group: as listed, and as it was at the last looks."""

    def __init__(self, listing: GroupListing, listed_at_s: float = 0.0) -> None:
        self.listing, self.listed_at_s = listing, listed_at_s
        self.name = listing.group
        self.found_at_s: float | None = None
        self.has_past = False
        """Whether the log was asked for what was before the first look."""
        self.looks: tuple[Look, ...] = ()
        """The newest is the last. Replaced, never changed: other threads read it."""
        self.topics: Mapping[str, int] = {}
        """Topic → lag, as of the last look."""
        self.findings: Sequence[Finding] = ()
        self.expires_at_ms: int | None = None
        self.lost_at_ms: int | None = None

    @property
    def last(self) -> Look | None:
        """The newest look; None before the first."""
        return self.looks[-1] if self.looks else None

    @property
    def lag(self) -> int | None:
        """Records between its commits and the ends of their logs."""
        return self.last.sums.lag if self.last else None

    @property
    def seen_at_s(self) -> float | None:
        """The age of the oldest that its line shows; None before the first look."""
        return min(self.last.at_s, self.listed_at_s) if self.last else None

    def findings_age_s(self, at_s: float) -> float:
        """Return how old the findings are, and what LOSES and EXPIRES say."""
        return 0.0 if self.found_at_s is None else at_s - self.found_at_s

    def see(self, look: Look) -> None:
        """Add the newest look; of those before it stay the ones that rates or trend need."""
        recent = [one for one in self.looks if look.at_s - one.at_s <= WINDOW_S]
        kept = recent if len(recent) >= TREND else self.looks[1 - TREND :]
        bare = look._replace(sums=Sums(*look.sums[:-1]))  # 10,000 groups have many looks
        self.topics, self.looks = look.sums.topics, (*kept[1 - KEPT :], bare)

    def begin(self, past: Iterable[tuple[float, Sums]], at_s: float) -> None:
        """Put before the first look what the log tells of the time until ``at_s``."""
        first = self.looks[0]
        told = [first._replace(at_s=at_s - ago, sums=Sums(*sums[:-1])) for ago, sums in past]
        self.looks = (*(look for look in told if look.at_s < first.at_s), *self.looks)[-KEPT:]

    def rates(self) -> tuple[float | None, float | None]:
        """Return records written and read per second; None where nothing is known of before."""
        last = self.last
        if last is None or last.sums.lag is None:
            return None, None
        for at_s, old, *_ in self.looks:
            seconds = last.at_s - at_s
            if 0 < seconds <= WINDOW_S and old.partitions == last.sums.partitions:
                produced, consumed = last.sums.ends - old.ends, last.sums.committed - old.committed
                return per_s(produced, seconds), per_s(consumed, seconds)
        return None, None

    def trend(self) -> str:
        """Draw the last lags as bars, the smallest and the largest of them as floor and top."""
        lags = [look.sums.lag for look in self.looks if look.sums.lag is not None][-TREND:]
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


ORDERS: dict[str, Callable[[Group], Any]] = {
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
    if len(tests) == 1:  # as nearly always: a key filters thousands of groups
        return tests[0]
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
    part = word.lower()
    return lambda group: part in group.name.lower()


_FIELDS: dict[str, Callable[[Group], Iterable[str]]] = {
    "state": lambda group: [group.listing.state or ""],
    "type": lambda group: [group.listing.type or ""],
    "topic": lambda group: group.topics,
    "finding": lambda group: [found.kind for found in group.findings],
}


LEAST_NAME, MOST_NAME = 16, 40
COLUMNS = {
    Column("group", "GROUP", NAME): LEAST_NAME,
    Column("type", "TYPE", spare=4): 8,
    Column("state", "STATE", STATUS): 9,
    Column("members", "MEM", COUNT): 3,
    Column("lag", "LAG", LAG): 9,
    Column("trend", "TREND", PLAIN, spare=5): TREND,
    Column("in_per_s", "IN/S", COUNT, spare=6): 6,
    Column("out_per_s", "OUT/S", COUNT): 6,
    Column("eta", "ETA", COUNT): 6,
    Column("loses", "LOSES", COUNT, spare=3): 7,
    Column("expires", "EXPIRES", COUNT, spare=2): 7,
    Column("seen", "SEEN", COUNT): 4,
    Column("findings", "FINDINGS", spare=1): 22,
}
"""With their widths."""


def fitting(width: int) -> dict[Column, int]:
    """Return the columns that fit into a width, each with its own; the group takes the rest.

    A column has a blank before it, and the mark stands before the first.
    """
    left = dict(COLUMNS)
    while (over := 1 + sum(left.values()) + len(left) - width) > 0 and (
        spare := [column for column in left if column.spare]
    ):
        del left[min(spare, key=lambda column: column.spare)]
    name = next(iter(left))
    left[name] = min(MOST_NAME, LEAST_NAME + max(-over, 0))
    return left


def cells(group: Group, at_s: float, now_ms: int) -> dict[str, str]:
    """Return the text of each column, before it is cut to its width."""
    last = group.last
    produced, consumed = group.rates()
    eta = eta_ms(group.lag, produced, consumed)
    said = ", ".join(dict.fromkeys(found.kind for found in group.findings))
    if said and group.findings_age_s(at_s) > FOUND_FOR_S:
        said += f", {rough(1000 * group.findings_age_s(at_s))} ago"
    return {
        "group": group.name,
        "type": group.listing.type or "-",
        "state": group.listing.state or "-",
        "members": _number(last and last.members),
        "lag": _number(group.lag),
        "trend": group.trend(),
        "in_per_s": _rate(produced),
        "out_per_s": _rate(consumed),
        "eta": rough(eta) if eta else "-",
        "loses": _until(group.lost_at_ms, now_ms),
        "expires": _until(group.expires_at_ms, now_ms),
        "seen": "-" if group.seen_at_s is None else rough(1000 * (at_s - group.seen_at_s)),
        "findings": (last and last.error) or said,
    }


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def _until(at_ms: int | None, now_ms: int) -> str:
    return "-" if at_ms is None else "due" if at_ms <= now_ms else rough(at_ms - now_ms)
