"""Kafka's tables, byte for byte those of kafka-consumer-groups.sh 4.3.1, empty lines included.

Widths count UTF-16 units, as Java's ``String.format`` does; nothing is cut
(``ConsumerGroupCommand.ConsumerGroupService``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from kgtool.columns import Column, Row
from kgtool.columns.groups import type_name
from kgtool.model import GroupDescription, ItemError, OffsetDeletion, OffsetRow
from kgtool.protocol.codes import CODES
from kgtool.text import escape, java_order, shown

MIN_WIDTH = 15


def width(text: str) -> int:
    """Return the length in UTF-16 units."""
    return len(text) if text.isascii() else len(text) + sum(char > "\uffff" for char in text)


def pad(text: str, size: int) -> str:
    """Pad on the right to ``size`` UTF-16 units; longer text stays as it is."""
    return text + " " * (size - width(text))


def longest(values: Iterable[object], least: int = MIN_WIDTH) -> int:
    """Return the width of a column: that of its longest value, at least ``least``."""
    return max([least, *(width(shown(value)) for value in set(values))])


def table(*columns: tuple[str, Sequence[object], int]) -> str:
    """Return a header and rows, a line each, of columns with header, values and width.

    Longer values push the rest of their line to the right.
    """
    headers, forms, cells = [], [], []
    count = len(columns[0][1])
    for header, values, size in columns:
        headers.append(pad(header, size))
        first = values[0] if values else None
        if values.count(first) == count:  # the same in every row: part of the line's form
            forms.append(pad(shown(first), size).replace("%", "%%"))
        elif isinstance(first, int) and None not in values:
            forms.append(f"%-{size}s")
            cells.append(values)
        else:
            padded = {value: pad(shown(value), size) for value in set(values)}
            forms.append("%s")
            cells.append([padded[value] for value in values])
    form = " ".join(forms) + "\n"
    rows = zip(*cells, strict=True) if cells else [()] * count
    return "".join([" ".join(headers), "\n", *[form % row for row in rows]])


def listing(groups: Sequence[Row], with_type: bool, with_state: bool) -> str:
    """Return ``--list``: bare names, or a table when types or states were asked for."""
    names = [group["group"] for group in groups]
    if not with_type and not with_state:
        return "".join(f"{escape(name)}\n" for name in names)
    columns = [("GROUP", names, longest(names) + 10)]
    if with_type:
        columns.append(("TYPE", [type_name(group["type"]) for group in groups], 20))
    if with_state:
        columns.append(("STATE", [group["state"] or "Unknown" for group in groups], 20))
    return table(*columns)


def offsets(rows: Sequence[OffsetRow], verbose: bool = False) -> str:
    """Return one group's ``--describe --offsets``; empty where there is no row."""
    if not rows:
        return ""
    # All of a column at once: there may be a million rows.
    values = dict(zip(OffsetRow._fields, zip(*rows, strict=True), strict=True))
    epochs = [("LEADER-EPOCH", values["leader_epoch"], 15)] if verbose else []
    return "\n" + table(
        ("GROUP", values["group"], longest(values["group"])),
        ("TOPIC", values["topic"], longest(values["topic"])),
        ("PARTITION", values["partition"], 10),
        *epochs,
        ("CURRENT-OFFSET", values["current_offset"], 15),
        ("LOG-END-OFFSET", values["log_end_offset"], 15),
        ("LAG", values["lag"], 15),
        ("CONSUMER-ID", values["member_id"], longest(values["member_id"])),
        ("HOST", values["host"], longest(values["host"])),
        ("CLIENT-ID", values["client_id"], 0),
    )


_LEAST = {
    "group_instance_id": 17,
    "coordinator": 25,
    "current_assignment": 20,
    "target_assignment": 20,
}
"""Least widths of columns as wide as their longest value, if not ``MIN_WIDTH``."""
_SIZES = {
    "partitions": 15,
    "current_epoch": 15,
    "target_epoch": 15,
    "upgraded": 0,
    "state": 20,
    "assignment_strategy": 20,
    "group_epoch": 15,
    "target_assignment_epoch": 25,
    "members": 0,
}
_CELLS: dict[str, Callable[[Row], str | None]] = {
    "group_instance_id": lambda row: row["group_instance_id"] or "",
    "upgraded": lambda row: "true" if row["upgraded"] else "false",
    "coordinator": lambda row: (
        row["coordinator"] and (f"{row['coordinator']}  ({row['coordinator_id']})")
    ),
}


def described(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """Return one group's ``--describe --members`` or ``--state``; the header also over no rows."""
    table_columns: list[tuple[str, Sequence[object], int]] = []
    for column in columns:
        key, cell = column.key, _CELLS.get(column.key)
        values = [row[key] if cell is None else cell(row) for row in rows]
        size = _SIZES[key] if key in _SIZES else longest(values, _LEAST.get(key, MIN_WIDTH))
        table_columns.append((column.header, values, size))
    if columns[-1].key == "partitions":
        table_columns.append(("", [""] * len(rows), 0))  # the lines end with a blank
    return "\n" + table(*table_columns)


def group_note(group: GroupDescription) -> str | None:
    """Return what Kafka's tool prints on stderr before a group's table, if anything."""
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
    topics = [row.topic for row in ordered]
    return "\n" + table(
        ("TOPIC", topics, longest(topics)),
        ("PARTITION", [row.partition for row in ordered], 10),
        ("STATUS", [_deletion_status(row) for row in ordered], 15),
    )


def _deletion_order(row: OffsetDeletion) -> bytes:
    """Sort by topic and partition as one string; the partition of an unknown topic is -1."""
    return java_order(f"{row.topic}{-1 if row.partition is None else row.partition}")


_DELETION = {"would-delete": "Would be deleted", "skipped": "Skipped"}


def _deletion_status(row: OffsetDeletion) -> str:
    if row.error is not None:
        return f"Error: {java_error(row.error)}"
    return _DELETION.get(row.status, "Successful")


def resets(
    rows: Sequence[tuple[str, str, int | None, int | None]],
    groups: Sequence[str],
    topics: Collection[str],
) -> str:
    """Return the table of Kafka's ``--reset-offsets``: group, topic, partition, new offset.

    :param groups: all that were asked for; without any there is no header.
    :param topics: those of all rows.
    """
    if not groups:
        return "\n"
    return "\n" + table(
        ("GROUP", [row[0] for row in rows], longest(groups)),
        ("TOPIC", [row[1] for row in rows], longest(topics)),
        ("PARTITION", [row[2] for row in rows], 10),
        ("NEW-OFFSET", [row[3] for row in rows], 0),
    )


def java_error(error: ItemError) -> str:
    """Return an error as Java prints it: ``class name: message``."""
    known = CODES.get(error.code) if error.code is not None else None
    if known is not None and known.exception:
        return f"org.apache.kafka.common.errors.{known.exception}: {known.message}"
    if error.name == "TIMEOUT":
        return f"org.apache.kafka.common.errors.TimeoutException: {escape(error.message)}"
    return escape(error.message)
