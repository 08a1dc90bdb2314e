"""The columns of all tables and JSON rows, each declared once: ``groups``, ``changes``, ``tools``.

Text, JSON, CSV, ``--columns``, ``--sort``, completions and JSON Schemas (``schemas``) are made of
them. A column's name is the key of the JSON row; ``--columns`` and ``--sort`` also accept the
header of Kafka's tables (``LOG-END-OFFSET``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from kgtool.errors import UsageError
from kgtool.text import shown as text_of
from kgtool.text import span

NAME, PLAIN, STATUS, LAG, COUNT, TEXT = "name", "plain", "status", "lag", "count", "text"
"""Kinds of columns: names may be shortened to fit, and texts at their end; statuses and lags have
colours where something is wrong; a status, a lag and a text are never hidden."""

Json = Literal[
    "string",
    "string?",
    "integer",
    "integer?",
    "number",
    "number?",
    "boolean",
    "boolean?",
    "object",
    "error?",
    "strings",
    "strings?",
    "integers?",
    "rows",
    "rows?",
    "any",
]
"""A JSON type, with a ``?`` if it may be null: ``error`` is an error object, ``strings`` and
``integers`` are arrays, ``rows`` is an array of objects."""

_PLAIN_VALUES = ("string", "string?", "integer", "integer?")

Row = Mapping[str, Any]
Text = Callable[[Row], str | None]
R = TypeVar("R", bound=Row)


class Column(NamedTuple):
    """One column: its key in rows, its header in tables, and how its cells are written."""

    key: str
    header: str = ""
    """Empty: not in text tables."""
    kind: str = PLAIN
    text: Text | None = None
    spare: int = 0
    """More than 0: hidden on a narrow terminal, the lowest first."""
    json: Json = "string?"
    words: tuple[str, ...] = ()
    """All possible values."""
    inner: tuple[Column, ...] = ()
    """The columns of an object, or of the objects in an array."""

    @property
    def is_number(self) -> bool:
        """Whether its cells are right-aligned: counts, offsets, durations, but not times."""
        is_time = self.key.endswith(("at_ms", "commit_ms", "since_ms"))
        return self.kind in (LAG, COUNT) or (
            self.kind == PLAIN and self.json.startswith(("integer", "number")) and not is_time
        )

    @property
    def decides(self) -> bool:
        """Whether it is never hidden."""
        return self.kind in (STATUS, LAG, TEXT)

    def cell(self, row: Row) -> str:
        """Return the cell as text: ``-`` if unknown, control characters escaped."""
        return text_of(self.text(row) if self.text is not None else row.get(self.key))

    def cells(self, rows: Iterable[Row]) -> list[str]:
        """Return the cells of many rows; each different value is written once."""
        if self.text is not None or self.json not in _PLAIN_VALUES:
            return list(map(self.cell, rows))
        values = [row.get(self.key) for row in rows]
        texts = {value: text_of(value) for value in set(values)}
        return [texts[value] for value in values]


class Results(NamedTuple):
    """The kinds of rows of a command, of which its JSON Schema is made."""

    kinds: dict[str, Sequence[Column]]
    chosen: Sequence[Column] = ()
    """The columns that ``--columns`` can choose."""
    is_open: bool = False
    """Rows may also be other objects (``analyze``)."""


def machine(**kinds: Json) -> tuple[Column, ...]:
    """Return columns of the machine formats only, by their JSON types."""
    return tuple(Column(key, json=kind) for key, kind in kinds.items())


def keys(columns: Iterable[Column]) -> tuple[str, ...]:
    """Return the keys of columns."""
    return tuple(column.key for column in columns)


def shown(columns: Sequence[Column], names: str = "", **headers: str) -> tuple[Column, ...]:
    """Return the columns of a text table: those with a header, or those named, in that order.

    :param headers: other headers for some of them.
    """
    known = {column.key: column for column in columns}
    if not names:
        return tuple(column for column in columns if column.header)
    table = (known[name] for name in names.split())
    return tuple(each._replace(header=headers.get(each.key, each.header)) for each in table)


def written(key: str, write: Callable[[Any], str]) -> Text:
    """Return the ``text`` of a column whose values may be null."""
    return lambda row: None if row.get(key) is None else write(row[key])


def duration(ms: int) -> str:
    """Return a time span in its two largest units.

    >>> duration(250), duration(61_000), duration(90_000_000)
    ('250ms', '1m 1s', '1d 1h')
    """
    return span(ms) if ms >= 1000 else f"{ms}ms"


_LARGEST_FIRST = {"lag", "lag_ms", "members", "partitions", "lagging", "unknown", "max_lag"}
_LARGEST_FIRST |= {"in_per_s", "out_per_s", "eta_ms"}
_WAYS = ("asc", "desc")


def parse(text: str, known: Sequence[Column], option: str) -> tuple[Column, ...]:
    """Read ``group,LOG-END-OFFSET``; UsageError for an unknown column."""
    listed = ", ".join(keys(known))
    by_name = {_plain(name): one for one in reversed(known) for name in (one.header, one.key)}
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise UsageError(f"{option} takes names of columns: {listed}.")
    for word in words:
        if _plain(word) not in by_name:
            raise UsageError(f"{option}: there is no column '{word}' here. There are: {listed}.")
    # A column asked for by name is never hidden.
    return tuple(dict.fromkeys(by_name[_plain(word)]._replace(spare=0) for word in words))


def _plain(word: str) -> str:
    return word.lower().replace("-", "_").replace(" (id)", "").lstrip("#")


def pick(row: Row, chosen: Iterable[Column]) -> dict[str, Any]:
    """Return a row with the chosen columns only."""
    return {column.key: row.get(column.key) for column in chosen}


class Order(NamedTuple):
    """The value of ``--sort``."""

    column: Column
    is_reversed: bool = False


def parse_order(text: str, known: Sequence[Column]) -> Order:
    """Read ``lag``, ``-lag``, ``lag:desc`` or ``lag:asc``; UsageError for an unknown column."""
    name, _, way = text.strip().removeprefix("-").partition(":")
    if "," in name:
        raise UsageError("--sort takes one column.")
    if way.lower() not in ("", *_WAYS):
        raise UsageError(f"--sort takes COLUMN, -COLUMN, COLUMN:asc or COLUMN:desc, not '{text}'.")
    column = parse(name, known, "--sort")[0]
    is_first = text.strip().startswith("-")
    is_other = bool(way) and (way.lower() == "desc") != (column.key in _LARGEST_FIRST)
    return Order(column, is_first != is_other)


def sort(rows: Iterable[R], by: Order) -> list[R]:
    """Sort by a column: lags and counts largest first, the rest ascending, unknown last."""
    key = by.column.key

    def value_of(row: R) -> Any:
        value = row[key]
        # Java sorts strings so.
        return value.encode("utf-16-be", "surrogatepass") if isinstance(value, str) else value

    known = [row for row in rows if row.get(key) is not None]
    unknown = [row for row in rows if row.get(key) is None]
    descending = (key in _LARGEST_FIRST) != by.is_reversed
    return sorted(known, key=value_of, reverse=descending) + unknown
