"""Kafka's own tables, byte for byte those of kafka-consumer-groups.sh 4.3.1, and plain ones.

Each function takes domain records and returns text. Rows are laid out fast: what says the same in
every row is put into the line's form once. Widths count UTF-16 units, as Java's
``String.format`` does; nothing is ever cut off. Where a table begins with an empty line and how
it ends is part of the format (``ConsumerGroupCommand.ConsumerGroupService``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from kgtool.cli.options.group_selection import java_order
from kgtool.columns import Column, Row
from kgtool.columns.groups import type_name
from kgtool.model import (
    GroupDescription,
    GroupListing,
    ItemError,
    OffsetDeletion,
    OffsetRow,
)
from kgtool.protocol.codes import CODES
from kgtool.text import escape, shown

MIN_WIDTH = 15


def width(text: str) -> int:
    """Return the length in UTF-16 units."""
    return len(text) if text.isascii() else len(text) + sum(char > "\uffff" for char in text)


def pad(text: str, size: int) -> str:
    """Pad on the right to ``size`` UTF-16 units; longer text stays as it is."""
    return text + " " * (size - width(text))


class Table:
    """A table of many rows, built column by column."""

    def __init__(self) -> None:
        self._headers: list[str] = []
        self._forms: list[str] = []
        self._values: list[Sequence[object]] = []
        """Of the columns that differ from row to row: those of ``_forms`` with a ``%``."""

    def names(self, header: str, values: Sequence[object], least: int = MIN_WIDTH) -> None:
        """Add a column as wide as its longest value, at least ``least``."""
        cells = {value: shown(value) for value in set(values)}  # many of them repeat
        self._add(header, values, cells, max([least, *map(width, cells.values())]))

    def words(self, header: str, values: Sequence[object], size: int = 0) -> None:
        """Add a column of one width: longer values push the rest of their line to the right."""
        self._add(header, values, {value: shown(value) for value in set(values)}, size)

    def numbers(self, header: str, values: Sequence[int | None], size: int = 0) -> None:
        """Add a column of one width, as ``words`` does."""
        if values and values.count(values[0]) != len(values):
            self._headers.append(pad(header, size))
            self._forms.append(f"%-{size}s")
            self._values.append([shown(v) for v in values] if None in values else values)
        else:
            self.words(header, values, size)

    def _add(
        self, header: str, values: Sequence[object], cells: Mapping[object, str], size: int
    ) -> None:
        self._headers.append(pad(header, size))
        if len(cells) == 1:
            (cell,) = cells.values()
            self._forms.append(pad(cell, size).replace("%", "%%"))
        elif "".join(cells.values()).isascii():
            self._forms.append(f"%-{size}s")
            self._values.append([cells[value] for value in values])
        else:  # % counts characters, not units
            self._forms.append("%s")
            self._values.append([pad(cells[value], size) for value in values])

    def text(self, count: int, gap: str = " ") -> str:
        """Return header and ``count`` rows, a line each."""
        form = gap.join(self._forms) + "\n"
        rows = zip(*self._values, strict=True) if self._values else [()] * count
        return "".join([gap.join(self._headers), "\n", *[form % row for row in rows]])


def listing(groups: Sequence[GroupListing], with_type: bool, with_state: bool) -> str:
    """Return ``--list``: bare names, or a table when types or states were asked for."""
    names = [escape(group.group) for group in groups]
    if not with_type and not with_state:
        return "".join(f"{name}\n" for name in names)
    found = Table()
    found.words("GROUP", names, max([MIN_WIDTH, *map(width, names)]) + 10)
    if with_type:
        found.words("TYPE", [type_name(group.type) for group in groups], 20)
    if with_state:
        found.words("STATE", [group.state or "Unknown" for group in groups], 20)
    return found.text(len(groups))


def offsets(rows: Sequence[OffsetRow], verbose: bool = False) -> str:
    """Return one group's ``--describe --offsets``; empty where there is no row."""
    if not rows:
        return ""
    found = Table()
    found.names("GROUP", [row.group for row in rows])
    found.names("TOPIC", [row.topic for row in rows])
    found.numbers("PARTITION", [row.partition for row in rows], 10)
    if verbose:
        found.numbers("LEADER-EPOCH", [row.leader_epoch for row in rows], 15)
    found.numbers("CURRENT-OFFSET", [row.current_offset for row in rows], 15)
    found.numbers("LOG-END-OFFSET", [row.log_end_offset for row in rows], 15)
    found.numbers("LAG", [row.lag for row in rows], 15)
    found.names("CONSUMER-ID", [row.member_id for row in rows])
    found.names("HOST", [row.host for row in rows])
    found.words("CLIENT-ID", [row.client_id for row in rows])
    return "\n" + found.text(len(rows))


_LEAST = {"group_instance_id": 17, "coordinator": 25, "current_assignment": 20,
          "target_assignment": 20}  # fmt: skip
"""Of columns as wide as their longest value, where that is not ``MIN_WIDTH``."""
_SIZES = {
    "partitions": 15, "current_epoch": 15, "target_epoch": 15, "upgraded": 0, "state": 20,
    "assignment_strategy": 20, "group_epoch": 15, "target_assignment_epoch": 25, "members": 0,
}  # fmt: skip
_CELLS: dict[str, Callable[[Row], str | None]] = {
    "group_instance_id": lambda row: row["group_instance_id"] or "",
    "upgraded": lambda row: "true" if row["upgraded"] else "false",
    "coordinator": lambda row: row["coordinator"] and (
        f"{row['coordinator']}  ({row['coordinator_id']})"
    ),
}  # fmt: skip


def described(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """Return one group's ``--describe --members`` or ``--state``; the header also over no rows."""
    found = Table()
    for column in columns:
        key, cell = column.key, _CELLS.get(column.key)
        values = [row[key] if cell is None else cell(row) for row in rows]
        if key in _SIZES:
            found.words(column.header, values, _SIZES[key])
        else:
            found.names(column.header, values, _LEAST.get(key, MIN_WIDTH))
    if columns[-1].key == "partitions":
        found.words("", [""] * len(rows))  # its lines end in a blank
    return "\n" + found.text(len(rows))


def group_note(group: GroupDescription) -> str | None:
    """Return what Kafka's tool says on stderr before a group's table, if anything."""
    name = escape(group.group)
    if group.state == "Empty":
        return f"\nConsumer group '{name}' has no active members."
    if group.state == "Dead":
        return f"\nError: Consumer group '{name}' does not exist."
    if group.is_rebalancing:
        return f"\nWarning: Consumer group '{name}' is rebalancing."
    return None


def offset_deletions(rows: Sequence[OffsetDeletion]) -> str:
    """Return the table of Kafka's ``--delete-offsets``, in its order."""
    ordered = sorted(rows, key=_deletion_order)
    found = Table()
    found.names("TOPIC", [row.topic for row in ordered])
    found.numbers("PARTITION", [row.partition for row in ordered], 10)
    found.words("STATUS", [_deletion_status(row) for row in ordered], 15)
    return "\n" + found.text(len(rows))


def _deletion_order(row: OffsetDeletion) -> bytes:
    """By topic and partition as one string; Kafka's partition for "no such topic" is -1."""
    return java_order(f"{row.topic}{-1 if row.partition is None else row.partition}")


def _deletion_status(row: OffsetDeletion) -> str:
    if row.error is not None:
        return f"Error: {java_error(row.error)}"
    return "Would be deleted" if row.status == "would-delete" else "Successful"


def resets(
    rows: Sequence[tuple[str, str, int | None, int | None]], groups: Sequence[str],
    topics: Collection[str],
) -> str:  # fmt: skip
    """Return the table of Kafka's ``--reset-offsets``: group, topic, partition, new offset.

    ``groups`` are all that were asked for: the header also stands over no rows, but not over no
    groups, and is as wide as the longest of them. ``topics`` are those of all rows.
    """
    if not groups:
        return "\n"
    found = Table()
    for at, (header, names) in enumerate((("GROUP", groups), ("TOPIC", topics))):
        size = max([MIN_WIDTH, *(width(escape(name)) for name in names)])
        found.words(header, [row[at] for row in rows], size)
    found.numbers("PARTITION", [row[2] for row in rows], 10)
    found.numbers("NEW-OFFSET", [row[3] for row in rows])
    return "\n" + found.text(len(rows))


def java_error(error: ItemError) -> str:
    """Return an error as Java prints it: ``class name: message``."""
    known = CODES.get(error.code) if error.code is not None else None
    if known is not None and known.exception:
        return f"org.apache.kafka.common.errors.{known.exception}: {known.message}"
    if error.name == "TIMEOUT":
        return f"org.apache.kafka.common.errors.TimeoutException: {escape(error.message)}"
    return escape(error.message)


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a plain table, no wider than needed, without lines; for kgtool's own tables."""
    found = Table()
    for index, header in enumerate(headers):
        found.names(header, [row[index] for row in rows], width(header))
    return "".join(f"{line.rstrip()}\n" for line in found.text(len(rows), "  ").splitlines())
