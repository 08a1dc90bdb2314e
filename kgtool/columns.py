"""The columns of every table and row: ``--columns``, ``--sort`` and the headers of text.

A column has one name everywhere: the key of the JSON row, which is also accepted the way Kafka's
tables write it (``LOG-END-OFFSET``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from kgtool.errors import UsageError
from kgtool.text import escape, span

NAME, PLAIN, STATUS = "name", "plain", "status"
"""What a column holds: a name, which may be shortened to fit; anything else; a status or state,
which has a colour."""

Row = Mapping[str, Any]
T = TypeVar("T")


class Column(NamedTuple):
    """One column: its key in rows, its header in tables, and how its cells are written."""

    key: str
    header: str
    kind: str = PLAIN
    text: Callable[[Row], str | None] | None = None
    spare: int = 0
    """More than 0: a narrow terminal can do without, the lowest first."""

    def cell(self, row: Row) -> str:
        """Return the cell as text: ``-`` for what is unknown, names made harmless."""
        value = self.text(row) if self.text is not None else row.get(self.key)
        if value is None:
            return "-"
        if isinstance(value, bool):
            return "true" if value else "false"
        return escape(value) if isinstance(value, str) else str(value)


def _age(key: str) -> Callable[[Row], str | None]:
    def text(row: Row) -> str | None:
        return None if row.get(key) is None else duration(row[key])

    return text


def duration(ms: int) -> str:
    """Return a time span in its two largest units.

    >>> duration(250), duration(61_000), duration(90_000_000)
    ('250ms', '1m 1s', '1d 1h')
    """
    return span(ms) if ms >= 1000 else f"{ms}ms"


def _coordinator(row: Row) -> str | None:
    broker = row.get("coordinator")
    return None if broker is None else f"{broker} ({row.get('coordinator_id')})"


def _all(key: str) -> Callable[[Row], str]:
    return lambda row: "(all)" if row[key] is None else row[key]


def _type(row: Row) -> str:
    kind = row.get("type")
    return kind[:1].upper() + kind[1:] if kind else "Unknown"


LIST = (
    Column("group", "GROUP", NAME),
    Column("type", "TYPE", text=_type),
    Column("state", "STATE", STATUS, text=lambda row: row.get("state") or "Unknown"),
    Column(
        "protocol_type",
        "PROTOCOL",
        NAME,
        text=lambda row: row.get("protocol_type") or None,
        spare=1,
    ),
    Column("coordinator", "COORDINATOR"),
)
OFFSETS = (
    Column("group", "GROUP", NAME),
    Column("topic", "TOPIC", NAME),
    Column("partition", "PARTITION"),
    Column("leader_epoch", "LEADER-EPOCH"),
    Column("current_offset", "CURRENT-OFFSET"),
    Column("log_start_offset", "LOG-START-OFFSET"),
    Column("log_end_offset", "LOG-END-OFFSET"),
    Column("last_stable_offset", "LAST-STABLE-OFFSET"),
    Column("lag", "LAG"),
    Column("lag_ms", "TIME-LAG", text=_age("lag_ms")),
    Column("metadata", "METADATA", NAME, lambda row: row.get("metadata") or None, spare=4),
    Column("member_id", "CONSUMER-ID", NAME, spare=3),
    Column("host", "HOST", NAME, spare=2),
    Column("client_id", "CLIENT-ID", NAME, spare=1),
    Column("subscribed", "SUBSCRIBED"),
    Column("status", "STATUS", STATUS),
)
MEMBERS = (
    Column("group", "GROUP", NAME),
    Column("consumer_id", "CONSUMER-ID", NAME, spare=6),
    Column("group_instance_id", "GROUP-INSTANCE-ID", NAME, spare=5),
    Column("host", "HOST", NAME, spare=2),
    Column("client_id", "CLIENT-ID", NAME, spare=1),
    Column("partitions", "#PARTITIONS"),
    Column("current_epoch", "CURRENT-EPOCH"),
    Column("current_assignment", "CURRENT-ASSIGNMENT", NAME, spare=4),
    Column("target_epoch", "TARGET-EPOCH"),
    Column("target_assignment", "TARGET-ASSIGNMENT", NAME, spare=3),
    Column("upgraded", "UPGRADED"),
)
STATE = (
    Column("group", "GROUP", NAME),
    Column("coordinator", "COORDINATOR (ID)", NAME, _coordinator, spare=2),
    Column("coordinator_id", "COORDINATOR-ID"),
    Column("assignment_strategy", "ASSIGNMENT-STRATEGY", NAME, spare=1),
    Column("state", "STATE", STATUS),
    Column("group_epoch", "GROUP-EPOCH"),
    Column("target_assignment_epoch", "TARGET-ASSIGNMENT-EPOCH"),
    Column("members", "#MEMBERS"),
)
STATE_TYPE = Column(
    "type", "TYPE", text=lambda row: "Classic" if row.get("group_epoch") is None else "Consumer"
)
"""Of a row of ``STATE``, for people: only KIP-848 groups have epochs, and the other types have
tables of their own."""
TOTALS = (
    Column("group", "GROUP", NAME, text=_all("group")),
    Column("topic", "TOPIC", NAME, text=_all("topic")),
    Column("partitions", "PARTITIONS"),
    Column("lagging", "LAGGING"),
    Column("unknown", "UNKNOWN"),
    Column("lag", "LAG"),
    Column("lag_ms", "TIME-LAG", text=_age("lag_ms")),
)
_SUMS = (
    Column("partitions", "PARTITIONS"),
    Column("lag", "LAG"),
    Column("max_lag", "MAX-LAG"),
    Column("lag_ms", "TIME-LAG", text=_age("lag_ms")),
)
BY_GROUP = (Column("group", "GROUP", NAME), *_SUMS)
BY_TOPIC = (Column("topic", "TOPIC", NAME), *_SUMS)
CHANGE = Column("change", "CHANGE", NAME)

_LARGEST_FIRST = {"lag", "lag_ms", "members", "partitions", "lagging", "unknown", "max_lag"}


def parse(text: str, known: Sequence[Column], option: str) -> tuple[Column, ...]:
    """Read ``group,LOG-END-OFFSET``; UsageError for a column that there isn't."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise UsageError(f"{option} takes names of columns: {_listed(known)}.")
    # What was asked for by name is never left out.
    return tuple(dict.fromkeys(_find(word, known, option)._replace(spare=0) for word in words))


def _find(word: str, known: Sequence[Column], option: str) -> Column:
    wanted = _plain(word)
    for column in known:
        if wanted in (_plain(column.key), _plain(column.header)):
            return column
    raise UsageError(f"{option}: there is no column '{word}' here. There are: {_listed(known)}.")


def _plain(word: str) -> str:
    return word.lower().replace("-", "_").replace(" (id)", "").lstrip("#")


def _listed(known: Sequence[Column]) -> str:
    return ", ".join(column.key for column in known)


def pick(row: Row, chosen: Iterable[Column]) -> dict[str, Any]:
    """Return a row with the chosen columns only."""
    return {column.key: row.get(column.key) for column in chosen}


def sort(items: Iterable[T], column: Column, as_row: Callable[[T], Row]) -> list[T]:
    """Sort by a column: lags and counts largest first, the rest ascending, unknown last."""
    largest_first = column.key in _LARGEST_FIRST

    def key(item: T) -> tuple[bool, Any]:
        value = as_row(item).get(column.key)
        if value is None:
            return True, 0
        if isinstance(value, str):
            return False, value.encode("utf-16-be", "surrogatepass")  # as Java sorts strings
        return False, -value if largest_first else value

    return sorted(items, key=key)
