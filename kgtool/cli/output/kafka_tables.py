"""Kafka's own tables, byte for byte those of kafka-consumer-groups.sh 4.3.1, and plain ones.

Each function takes domain records and returns text. Widths count UTF-16 units, as Java's
``String.format`` does; nothing is ever cut off. Where a table begins with an empty line and how
it ends is part of the format (``ConsumerGroupCommand.ConsumerGroupService``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kgtool.cli.options.group_selection import java_order
from kgtool.cli.output.text_rows import NO_VALUE, Table, pad, shown, width
from kgtool.model import (
    Assignment,
    GroupDescription,
    GroupListing,
    ItemError,
    Member,
    OffsetDeletion,
    OffsetRow,
)
from kgtool.protocol.codes import CODES
from kgtool.text import escape

MIN_WIDTH = 15


def _column(header: str, values: Sequence[str], least: int) -> list[str]:
    """Return a column as wide as its longest value, at least ``least``."""
    return _fixed(header, values, max(least, max(map(width, set(values)), default=0)))


def _fixed(header: str, values: Sequence[str], size: int) -> list[str]:
    """Return a column of one width: longer values push the rest of their line to the right."""
    if "".join(values).isascii():  # one character is one unit, as in nearly all tables
        return [header.ljust(size), *[value.ljust(size) for value in values]]
    return [pad(header, size), *(pad(value, size) for value in values)]


def listing(groups: Sequence[GroupListing], with_type: bool, with_state: bool) -> str:
    """Return ``--list``: bare names, or a table when types or states were asked for."""
    names = [escape(group.group) for group in groups]
    if not with_type and not with_state:
        return "".join(f"{name}\n" for name in names)
    columns = [_column("GROUP", names, max([MIN_WIDTH, *map(width, names)]) + 10)]
    if with_type:
        columns.append(_fixed("TYPE", [type_name(group.type) for group in groups], 20))
    if with_state:
        columns.append(_fixed("STATE", [group.state or "Unknown" for group in groups], 20))
    return "".join(" ".join(line) + "\n" for line in zip(*columns, strict=True))


def type_name(type_: str | None) -> str:
    """Return a group's type as Kafka's tool writes it."""
    return type_[:1].upper() + type_[1:] if type_ else "Unknown"


def offsets(rows: Sequence[OffsetRow], verbose: bool = False, status: bool = False) -> str:
    """Return one group's ``--describe --offsets``; empty where there is no row.

    ``verbose`` adds the committed leader epoch, ``status`` kgtool's own STATUS at the end.
    """
    if not rows:
        return ""
    found = Table()
    found.names("GROUP", [row.group for row in rows], MIN_WIDTH)
    found.names("TOPIC", [row.topic for row in rows], MIN_WIDTH)
    found.numbers("PARTITION", [row.partition for row in rows], 10)
    if verbose:
        found.numbers("LEADER-EPOCH", [row.leader_epoch for row in rows], 15)
    found.numbers("CURRENT-OFFSET", [row.current_offset for row in rows], 15)
    found.numbers("LOG-END-OFFSET", [row.log_end_offset for row in rows], 15)
    found.numbers("LAG", [row.lag for row in rows], 15)
    found.names("CONSUMER-ID", [row.member_id for row in rows], MIN_WIDTH)
    found.names("HOST", [row.host for row in rows], MIN_WIDTH)
    clients = [row.client_id for row in rows]
    if status:
        found.names("CLIENT-ID", clients, MIN_WIDTH)
        found.last("STATUS", [row.status for row in rows])
    else:
        found.last("CLIENT-ID", clients)
    return "\n" + found.text(len(rows))


def members(group: GroupDescription, verbose: bool = False) -> str:
    """Return one group's ``--describe --members``; the header also when nobody is there."""
    found = group.members
    columns = [
        _column("GROUP", [shown(group.group) for _ in found], MIN_WIDTH),
        _column("CONSUMER-ID", [shown(member.member_id) for member in found], MIN_WIDTH),
    ]
    if any(member.instance_id for member in found):
        instances = [escape(member.instance_id or "") for member in found]
        columns.append(_column("GROUP-INSTANCE-ID", instances, 17))
    columns += [
        _column("HOST", [shown(member.host) for member in found], MIN_WIDTH),
        _column("CLIENT-ID", [shown(member.client_id) for member in found], MIN_WIDTH),
        _fixed("#PARTITIONS", [str(member.partition_count) for member in found], 15),
    ]
    if not verbose:
        return "\n" + "".join(" ".join(line) + " \n" for line in zip(*columns, strict=True))
    return "\n" + _verbose_members(group, columns)


def _verbose_members(group: GroupDescription, columns: list[list[str]]) -> str:
    found = group.members
    columns += [
        _fixed("CURRENT-EPOCH", [shown(member.epoch) for member in found], 15),
        _column("CURRENT-ASSIGNMENT", [assignment(m.assignment) for m in found], 20),
        _fixed("TARGET-EPOCH", [shown(target_epoch(group, member)) for member in found], 15),
        _column("TARGET-ASSIGNMENT", [assignment(m.target or ()) for m in found], 20),
    ]
    upgraded = [upgrade(group, member) for member in found]
    if any(value is not None for value in upgraded):
        columns.append(["UPGRADED", *("true" if value else "false" for value in upgraded)])
    return "".join(" ".join(line) + "\n" for line in zip(*columns, strict=True))


def target_epoch(group: GroupDescription, member: Member) -> int | None:
    """Return what TARGET-EPOCH shows: the epoch of the group's target assignment."""
    return group.assignment_epoch if member.target is not None else None


def upgrade(group: GroupDescription, member: Member) -> bool | None:
    """Return what UPGRADED shows: None unless the group has members of both protocols."""
    kinds = {other.is_classic for other in group.members}
    if not {True, False} <= kinds:
        return None
    return member.is_classic is False


def assignment(topics: Assignment) -> str:
    """Return ``t1:0;t2:0,1``, sorted as the text that it becomes, as Kafka does; ``-`` if empty."""
    parts = [f"{topic}:{','.join(map(str, partitions))}" for topic, partitions in topics]
    return escape(";".join(sorted(parts, key=java_order))) or NO_VALUE


def state(group: GroupDescription, verbose: bool = False) -> str:
    """Return one group's ``--describe --state``."""
    columns = [
        _column("GROUP", [shown(group.group)], MIN_WIDTH),
        _column("COORDINATOR (ID)", [coordinator(group)], 25),
        _fixed("ASSIGNMENT-STRATEGY", [shown(group.assignor or None)], 20),
        _fixed("STATE", [group.state], 20),
    ]
    if verbose:
        columns += [
            _fixed("GROUP-EPOCH", [shown(group.group_epoch)], 15),
            _fixed("TARGET-ASSIGNMENT-EPOCH", [shown(group.assignment_epoch)], 25),
        ]
    columns.append(["#MEMBERS", str(len(group.members))])
    return "".join("\n" + " ".join(line) for line in zip(*columns, strict=True)) + "\n"


def coordinator(group: GroupDescription) -> str:
    """Return ``host:port  (id)``, with Kafka's two spaces."""
    broker = group.coordinator
    return f"{shown(broker.host)}:{broker.port}  ({broker.id})" if broker else NO_VALUE


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
    columns = [
        _column("TOPIC", [escape(row.topic) for row in ordered], MIN_WIDTH),
        _fixed("PARTITION", [shown(row.partition) for row in ordered], 10),
        _fixed("STATUS", [_deletion_status(row) for row in ordered], 15),
    ]
    return "".join("\n" + " ".join(line) for line in zip(*columns, strict=True)) + "\n"


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
    least = max([MIN_WIDTH, *(width(escape(group)) for group in groups)])
    widest = max([MIN_WIDTH, *(width(escape(topic)) for topic in topics)])
    columns = [
        _fixed("GROUP", [escape(row[0]) for row in rows], least),
        _fixed("TOPIC", [escape(row[1]) for row in rows], widest),
        _fixed("PARTITION", [shown(row[2]) for row in rows], 10),
        ["NEW-OFFSET", *(shown(row[3]) for row in rows)],
    ]
    return "".join("\n" + " ".join(line) for line in zip(*columns, strict=True)) + "\n"


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
    columns = [
        _column(header, [shown(row[index]) for row in rows], width(header))
        for index, header in enumerate(headers)
    ]
    return "".join("  ".join(line).rstrip() + "\n" for line in zip(*columns, strict=True))
