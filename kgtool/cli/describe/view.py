"""The view that ``describe`` shows, made of its options."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kgtool import columns as columns_of
from kgtool.cli.options.group_selection import Selection
from kgtool.clock import now_ms
from kgtool.columns import Column, Order, groups
from kgtool.errors import UsageError
from kgtool.model import TopicSpec

_TABLES = {
    "offsets": groups.OFFSETS_TEXT,
    "members": groups.MEMBERS,
    "state": groups.STATE,
    "totals": groups.TOTALS,
    "by group": groups.BY_GROUP_TEXT,
    "by topic": groups.BY_TOPIC,
    "topology": groups.TOPOLOGY,
}
_OTHER_TABLES = {
    ("share", "offsets"): groups.SHARE_OFFSETS,
    ("streams", "offsets"): groups.STREAMS_OFFSETS,
    ("share", "members"): groups.SHARE_MEMBERS,
    ("streams", "members"): groups.STREAMS_MEMBERS,
    ("share", "state"): groups.OTHER_STATES,
    ("streams", "state"): groups.OTHER_STATES,
    ("streams", "topology"): groups.TOPOLOGY_TEXT,
}
_ROWS = {**_TABLES, "offsets": groups.OFFSETS, "by group": groups.BY_GROUP}
_VERBOSE = {
    "leader_epoch",
    "group_epoch",
    "target_assignment_epoch",
    "current_epoch",
    "current_assignment",
    "target_epoch",
    "target_assignment",
    "upgraded",
    "topology_epoch",
}
"""Columns of ``--verbose``."""
_WHERE_KNOWN = {
    "group_instance_id",
    "lost_at_ms",
    "upgraded",
    "topology_epoch",
    *groups.SUBSCRIPTION,
}
"""Columns that are shown where any row has a value."""
_ON_REQUEST = {"log_start_offset", "metadata", "subscribed", "coordinator_id"}
"""Columns that only ``--columns`` shows."""
_RATE_KEYS = columns_of.keys(groups.FIRST_RATES)
RATES_OVER_MS = 600_000
"""What rates are averages of, without ``--over``."""
_IDENTITY = ("group", "topic", "partition", "consumer_id")
"""Columns that identify a row, where its table has them."""
_RANGE = re.compile(r"\s*(>=|<=|>|<|=)\s*(\d{1,19})\s*", re.ASCII)
_SIGNS = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
}
LagTest = Callable[[int | None], bool]


def _lag_test(text: str | None) -> LagTest | None:
    """Read ``--lag``: ``>1000``, ``>=10``, ``<5``, ``=0``. No range contains an unknown lag."""
    if text is None:
        return None
    found = _RANGE.fullmatch(text)
    if found is None:
        raise UsageError(
            f"--lag takes a comparison such as '>1000', '>=10', '<5' or '=0', not '{text}'."
        )
    compare, limit = _SIGNS[found[1]], int(found[2])
    return lambda lag: lag is not None and bool(compare(lag, limit))


class View(NamedTuple):
    """The rows and columns that ``describe`` shows."""

    name: str = "offsets"
    verbose: bool = False
    topics: tuple[TopicSpec, ...] = ()
    lagging: bool = False
    lag: LagTest | None = None
    by: str | None = None
    """``group`` or ``topic``: one row for each. None: one a partition."""
    time_lag: bool = False
    loses_within_ms: int | None = None
    """Only where unread records go within this span."""
    rates_over_ms: int | None = None
    """Rates of this time are shown; None: none."""
    read_committed: bool = False
    expiry: bool = False
    totals: bool = False
    columns: tuple[Column, ...] = ()
    sort: Order | None = None
    limit: int | None = None
    no_headers: bool = False
    prometheus: str | None = None
    watch: float | None = None
    kafka_form: bool = False

    @property
    def table(self) -> str:
        """The kind of rows shown: the view, or ``totals``."""
        if self.by is not None:
            return f"by {self.by}"
        return "totals" if self.totals else self.name

    @property
    def narrows(self) -> bool:
        """Whether partitions are hidden by their lag."""
        return self.lagging or self.lag is not None or self.loses_within_ms is not None

    def shows(self, row: Any) -> bool:
        """Whether an offset is shown; with ``--by`` the sums are filtered instead."""
        is_taken = self.takes(row.lag) or self._takes_uncommitted(row)
        return self.by is not None or (is_taken and self.loses(row.lost_at_ms))

    def loses(self, lost_at_ms: int | None) -> bool:
        """Whether unread records go within ``--loses-within``; true without it."""
        if self.loses_within_ms is None:
            return True
        return lost_at_ms is not None and lost_at_ms <= now_ms() + self.loses_within_ms

    def _takes_uncommitted(self, row: Any) -> bool:
        """Whether a row of unknown lag has something to read: nothing was committed there yet."""
        is_asked = self.lagging and self.lag is None
        has_records = (row.log_end_offset or 0) > (row.log_start_offset or 0)
        return is_asked and row.status == "no-commit" and has_records

    def takes(self, lag: int | None) -> bool:
        """Whether a row with this lag is shown."""
        return (not self.lagging or (lag or 0) > 0) and (self.lag is None or self.lag(lag))

    @property
    def is_kafka_table(self) -> bool:
        """Whether the tables are those of Kafka's tool, byte for byte."""
        own = self.columns or self.sort or self.time_lag or self.read_committed or self.is_summed
        own = own or self.expiry or self.is_cut or self.rates_over_ms is not None
        return self.kafka_form and not own and self.watch is None

    @property
    def has_plain_rows(self) -> bool:
        """Whether rows of offsets have only the columns that they always have."""
        return not (self.read_committed or self.expiry or self.rates_over_ms)

    @property
    def is_summed(self) -> bool:
        """Whether rows are sums over partitions."""
        return self.totals or self.by is not None

    @property
    def is_cut(self) -> bool:
        """Whether it is not a whole table."""
        return self.limit is not None or self.no_headers

    @property
    def collects(self) -> bool:
        """Whether all groups are shown in one table at the end."""
        if self.sort is not None or self.is_summed or self.columns or self.is_cut:
            return True
        return self.name != "offsets" and not self.is_kafka_table

    @property
    def row_keys(self) -> tuple[str, ...]:
        """The keys of the rows of the machine formats."""
        if self.columns:
            return columns_of.keys(self.columns)
        keys = columns_of.keys(_ROWS[self.table])
        if not self.is_summed:
            keys = (*keys, "last_stable_offset") if self.read_committed else keys
            keys = (*keys, *groups.EXPIRY_KEYS) if self.expiry else keys
        return (*keys, *_RATE_KEYS) if self.rates_over_ms else keys

    @property
    def identity(self) -> tuple[str, ...]:
        """The keys that identify a row."""
        known = columns_of.keys(_TABLES[self.table])
        return tuple(key for key in _IDENTITY if key in known)

    def text_columns(self, found: Sequence[Mapping[str, Any]], kind: str = "") -> list[Column]:
        """Return the columns of a table: those of ``--columns``, or Kafka's and those of options.

        :param kind: ``share`` or ``streams``: groups that have tables of their own.
        """
        if self.columns:
            return list(self.columns)
        known = _TABLES[self.table]
        if kind and not self.is_summed:
            known = (*_OTHER_TABLES[kind, self.name], *groups.EXPIRY, *groups.FIRST_RATES)
        shown = [column for column in known if self._is_shown(column.key, kind, found)]
        if self.name == "state" and not (kind or self.kafka_form):
            shown.insert(1, groups.STATE_TYPE)
        return shown

    def _is_shown(self, key: str, kind: str, found: Sequence[Mapping[str, Any]]) -> bool:
        if key in _ON_REQUEST:
            return False
        if key in _VERBOSE and not self.verbose:
            return key == "current_assignment" and bool(kind)
        if key in groups.SUBSCRIPTION and (self.kafka_form or not self.verbose):
            return False
        if key in _WHERE_KNOWN:
            return any(row.get(key) is not None for row in found)
        if key == "readable":
            return not self.kafka_form and any(map(_has_less, found))
        by_option = {
            "lag_ms": self.time_lag,
            "last_stable_offset": self.read_committed,
            "status": not self.kafka_form,
            **dict.fromkeys(groups.EXPIRY_KEYS, self.expiry),
            **dict.fromkeys(_RATE_KEYS, bool(self.rates_over_ms)),
        }
        return by_option.get(key, True)


def _has_less(row: Mapping[str, Any]) -> bool:
    """Whether fewer records can be read than the lag counts."""
    return row.get("readable") is not None and row["readable"] < row["lag"]


class Line(NamedTuple):
    """The options of ``describe`` as they were given, in either form; spans are in ms."""

    selection: Selection
    view: str | None = None
    """``--offsets``, ``--members`` or ``--topology``."""
    states: tuple[str, ...] = ()
    """The values of ``--state``: one is empty where it is a view."""
    type_: str | None = None
    members: bool = False
    """Kafka's form has this and ``state`` instead."""
    state: str | None = None
    topics: tuple[TopicSpec, ...] = ()
    verbose: bool = False
    lagging: bool = False
    lag: str | None = None
    by: str | None = None
    time_lag: bool = False
    loses_within: int | None = None
    rates: bool = False
    over: int | None = None
    read_committed: bool = False
    expiry: bool = False
    totals: bool = False
    columns: str | None = None
    sort: str | None = None
    limit: int | None = None
    no_headers: bool = False
    prometheus: str | None = None
    watch: int | None = None

    @property
    def view_name(self) -> str:
        """The view that kgtool's own form asks for."""
        return self.view or ("state" if "" in self.states else "offsets")


def build_view(name: str, line: Line, *, kafka_form: bool = False) -> View:
    """Build a view of the options; UsageError if they contradict each other."""
    _check(name, line)
    by = line.by if line.by != "partition" else None
    known = _TABLES[f"by {by}" if by is not None else "totals" if line.totals else name]
    columns, sort = line.columns, line.sort
    view = View(
        name,
        line.verbose,
        line.topics,
        line.lagging,
        _lag_test(line.lag),
        by,
        line.time_lag or line.loses_within is not None,
        line.loses_within,
        (line.over or RATES_OVER_MS) if line.rates else None,
        line.read_committed,
        line.expiry,
        line.totals,
        columns_of.parse(columns, known, "--columns") if columns is not None else (),
        columns_of.parse_order(sort, known) if sort is not None else None,
        line.limit,
        line.no_headers,
        line.prometheus,
        None if line.watch is None else line.watch / 1000,
        kafka_form,
    )
    asked = {column.key for column in (*view.columns, *([view.sort.column] if view.sort else ()))}
    asks_rates = view.rates_over_ms is None and not asked.isdisjoint(_RATE_KEYS)
    return view._replace(
        time_lag=view.time_lag or not asked.isdisjoint(("lag_ms", "lost_at_ms")),
        read_committed=view.read_committed or "last_stable_offset" in asked,
        expiry=view.expiry or not asked.isdisjoint(groups.EXPIRY_KEYS),
        rates_over_ms=RATES_OVER_MS if asks_rates else view.rates_over_ms,
    )


_OF_OFFSETS = (
    "lagging",
    "lag",
    "by",
    "time_lag",
    "loses_within",
    "rates",
    "over",
    "read_committed",
    "expiry",
    "totals",
    "prometheus",
)


def _check(name: str, line: Line) -> None:
    given = line._asdict()
    if name != "offsets":
        wrong = [f"--{option.replace('_', '-')}" for option in _OF_OFFSETS if given[option]]
        wrong += ["--topic"] if line.topics else []
        if wrong:
            verb = "is" if len(wrong) == 1 else "are"
            raise UsageError(
                f"{', '.join(wrong)} {verb} about offsets: leave out --{name}, which shows "
                "something else."
            )
    if name == "topology" and line.watch is not None:
        raise UsageError("--topology shows what does not change: leave out --watch.")
    sums = [f"--{option}" for option in ("totals", "by") if given[option]]
    if len(sums) > 1:
        raise UsageError("--totals and --by exclude each other.")
    for key in ("loses_within", "rates"):
        if given[key] and (line.totals or line.by == "topic"):
            option = f"--{key.replace('_', '-')}"
            raise UsageError(f"{option} is about groups or partitions: --by group|partition.")
    if line.over and not line.rates:
        raise UsageError("--over is the time that --rates are averages of: add --rates.")
    if line.expiry and sums and line.by != "partition":
        raise UsageError(f"--expiry is about single partitions: leave out {sums[0]}.")
