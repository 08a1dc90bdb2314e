"""The columns of every table and row, each declared once: ``groups``, ``changes``, ``tools``.

Text, JSON, CSV, ``--columns``, ``--sort``, completions and the JSON Schemas (``schemas``) take them
from there. A column has one name everywhere: the key of the JSON row, which is also accepted the
way Kafka's tables write it (``LOG-END-OFFSET``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from kgtool.errors import UsageError
from kgtool.text import shown as text_of
from kgtool.text import span

NAME, PLAIN, STATUS, LAG, COUNT = "name", "plain", "status", "lag", "count"
"""What a column holds: a name, which may be shortened to fit; anything else; a status or state, or
a lag, which have a colour; a count, which stands on the right."""

Json = Literal[
    "string", "string?", "integer", "integer?", "number", "number?", "boolean", "boolean?",
    "object", "error?", "strings", "strings?", "integers?", "rows", "rows?", "any",
]  # fmt: skip
"""A JSON type, with a ``?`` where it may be null. Besides JSON's own: ``error`` is an error object,
``strings`` and ``integers`` are arrays, ``rows`` is one of objects, ``any`` is anything."""

Row = Mapping[str, Any]
Text = Callable[[Row], str | None]
R = TypeVar("R", bound=Row)


class Column(NamedTuple):
    """One column: its key in rows, its header in tables, and how its cells are written."""

    key: str
    header: str = ""
    """Empty: text tables do not have it."""
    kind: str = PLAIN
    text: Text | None = None
    spare: int = 0
    """More than 0: a narrow terminal can do without, the lowest first."""
    json: Json = "string?"
    words: tuple[str, ...] = ()
    """All values that there are."""
    inner: tuple[Column, ...] = ()
    """The keys of an object, or of the objects of an array."""

    def cell(self, row: Row) -> str:
        """Return the cell as text: ``-`` for what is unknown, names made harmless."""
        return text_of(self.text(row) if self.text is not None else row.get(self.key))


def machine(**kinds: Json) -> tuple[Column, ...]:
    """Return columns that only the machine formats have, by their JSON types."""
    return tuple(Column(key, json=kind) for key, kind in kinds.items())


def keys(columns: Iterable[Column]) -> tuple[str, ...]:
    """Return the keys of rows, in their order."""
    return tuple(column.key for column in columns)


def shown(columns: Sequence[Column], names: str = "") -> tuple[Column, ...]:
    """Return the columns of the text table: those with a header, or these in this order."""
    known = {column.key: column for column in columns}
    if names:
        return tuple(known[name] for name in names.split())
    return tuple(column for column in columns if column.header)


def written(key: str, write: Callable[[Any], str]) -> Text:
    """Return how a column is written whose values may be null."""
    return lambda row: None if row.get(key) is None else write(row[key])


def duration(ms: int) -> str:
    """Return a time span in its two largest units.

    >>> duration(250), duration(61_000), duration(90_000_000)
    ('250ms', '1m 1s', '1d 1h')
    """
    return span(ms) if ms >= 1000 else f"{ms}ms"


_LARGEST_FIRST = {"lag", "lag_ms", "members", "partitions", "lagging", "unknown", "max_lag"}


def parse(text: str, known: Sequence[Column], option: str) -> tuple[Column, ...]:
    """Read ``group,LOG-END-OFFSET``; UsageError for a column that there isn't."""
    listed = ", ".join(keys(known))
    by_name = {_plain(name): one for one in reversed(known) for name in (one.header, one.key)}
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise UsageError(f"{option} takes names of columns: {listed}.")
    for word in words:
        if _plain(word) not in by_name:
            raise UsageError(f"{option}: there is no column '{word}' here. There are: {listed}.")
    # What was asked for by name is never left out.
    return tuple(dict.fromkeys(by_name[_plain(word)]._replace(spare=0) for word in words))


def _plain(word: str) -> str:
    return word.lower().replace("-", "_").replace(" (id)", "").lstrip("#")


def pick(row: Row, chosen: Iterable[Column]) -> dict[str, Any]:
    """Return a row with the chosen columns only."""
    return {column.key: row.get(column.key) for column in chosen}


def sort(rows: Iterable[R], column: Column) -> list[R]:
    """Sort by a column: lags and counts largest first, the rest ascending, unknown last."""
    largest_first = column.key in _LARGEST_FIRST

    def key(row: R) -> tuple[bool, Any]:
        value = row.get(column.key)
        if value is None:
            return True, 0
        if isinstance(value, str):
            return False, value.encode("utf-16-be", "surrogatepass")  # as Java sorts strings
        return False, -value if largest_first else value

    return sorted(rows, key=key)
