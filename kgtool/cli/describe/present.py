"""Shows described groups: one by one, or all in one table at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from kgtool import columns
from kgtool.cli.describe.query import DescribedGroup
from kgtool.cli.describe.sums import sum_by_topic, totals
from kgtool.cli.describe.view import View
from kgtool.cli.output import kafka_tables
from kgtool.cli.output.output import Output
from kgtool.cli.output.rows import offset_values
from kgtool.cli.output.tables import show_table
from kgtool.columns import Column, Row
from kgtool.model import ItemError, OffsetRow, TopicPartition
from kgtool.text import counted, escape, listed


class Presenter:
    """Shows each group at once, or collects all for one table."""

    def __init__(self, output: Output, view: View) -> None:
        self.output = output
        self.view = view
        self.partitions: set[TopicPartition] = set()
        """Those of ``--topic`` that exist, whatever their lag."""
        self.sizes: dict[str, int] = {}
        """How many partitions topics have."""
        self._groups_without_rows = 0
        self.found = False
        """Whether anything goes within ``--loses-within``."""
        self.unread: set[str] = set()
        """Topics with records that are left to read, where ``--loses-within`` asks for them."""
        self._rows: list[Row] = []

    def show(self, group: DescribedGroup) -> None:
        """Show one group, and the errors about it."""
        if not (self.view.collects and group.shown) and self.view.by != "group":
            # Else the table says it.
            self._note(group)
        if self.view.collects:
            self._rows += group.rows()
        elif self.output.is_text:
            self._show_table(group)
        elif self.view.name == "offsets" and self.view.has_plain_rows:
            self.output.records(list(map(offset_values, group.shown)))
        else:
            for row in group.rows():
                self.output.row(row)
        self._count(group)
        if self.view.loses_within_ms is not None:
            self.found |= any(self.view.loses(row.lost_at_ms) for row in group.records)
            self.unread |= {row.topic for row in group.records if row.readable}
        if self.output.reader_gone:
            raise BrokenPipeError

    def end(self) -> None:
        """Show the table of all groups."""
        if self.view.collects:
            rows = arrange(self._rows, self.view, self.sizes)
            if self.view.narrows and not rows and self.output.done:
                self.output.note("No lag to show.")
            write_table(self.output, self.view, self.view.text_columns(rows), rows)

    def _note(self, group: DescribedGroup) -> None:
        if not self.output.is_text:
            return
        note = kafka_tables.group_note(group.description)
        if note is not None and (group.shown or not self.view.narrows):
            self.output.note(note)
        if not (self.view.kafka_form or group.records or group.errors or self.view.topics):
            self._note_without_rows(group)
        for row in () if self.view.kafka_form else group.shown:
            if getattr(row, "has_only_markers", False):
                place = escape(f"{row.topic}:{row.partition}")
                self.output.note(f"Only transaction markers are left to read in {place}.")
        if self._has_no_rows(group):
            topics = escape(", ".join(map(str, self.view.topics)))
            name = escape(group.description.group)
            self.output.note(
                f"Group '{name}' has no offset in {topics}, and is not subscribed to it."
            )

    def _note_without_rows(self, group: DescribedGroup) -> None:
        described = group.description
        if self.view.name == "offsets" and described.members:
            who = counted(len(described.members), "member")
            name = escape(described.group)
            self.output.note(
                f"Group {name} ({described.state}) has {who}, no assigned partition and no "
                "committed offset."
            )

    def _has_no_rows(self, group: DescribedGroup) -> bool:
        return bool(self.view.topics) and not (group.shown or group.errors or self.view.narrows)

    def _show_table(self, group: DescribedGroup) -> None:
        if not self.view.is_kafka_table:
            rows = group.rows()
            if self.output.is_terminal and self.view.name == "offsets":  # members may be hidden
                rows = sorted(rows, key=lambda row: (row["topic"], row["partition"]))
            show_table(self.output, self.view.text_columns(rows), rows, "\n")
        elif self.view.name == "offsets":
            pending = [row for row in group.shown if row.is_pending and _is_only_pending(row)]
            table = group.shown
            if pending:
                table = [row for row in table if not _is_only_pending(row)]
            self.output.text(kafka_tables.offsets(table, self.view.verbose), end="")
            if pending:
                names = ", ".join(f"{row.topic}-{row.partition}" for row in pending)
                note = f"Note: group {group.description.group} has only a pending transaction for"
                self.output.note(escape(f"{note} {names}."))
        else:
            columns = self.view.text_columns(group.shown)
            self.output.text(kafka_tables.described(columns, group.shown), end="")

    def _count(self, group: DescribedGroup) -> None:
        for error in group.errors:
            self.output.failed(error)
        if not group.errors or group.shown:
            self.output.done += 1
            self._groups_without_rows += self._has_no_rows(group)
        if self.view.topics:
            self.partitions |= {TopicPartition(row.topic, row.partition) for row in group.records}

    def limited(self, topics: Sequence[str]) -> None:
        """Say which topics may lose records sooner than is told."""
        if topics:
            names = escape(listed(topics, 5, " and {} more"))
            self.output.note(
                f"Note: {names}: retention.bytes may remove records sooner, which is not foreseen."
            )

    def missing(self, errors: Sequence[ItemError]) -> None:
        """Name topics that do not exist; groups without any other topic do not count as done."""
        for error in errors:
            self.output.failed(error)
        self.output.done -= self._groups_without_rows if errors else 0


def write_table(
    output: Output, view: View, shown: Sequence[Column], rows: Sequence[Row], head: str = ""
) -> None:
    """Show a table, and write its rows in the machine formats."""
    show_table(output, shown, rows, head)
    for row in rows:
        output.row(columns.pick(row, view.columns) if view.columns else row)


def arrange(
    found: Sequence[Row], view: View, sizes: Mapping[str, int] = MappingProxyType({})
) -> list[Row]:
    """Sum up and sort rows as the view's options say.

    :param sizes: how many partitions topics have, where that is known.
    """
    rows: list[Row] = list(found)
    if view.by is not None:
        sums = sum_by_topic(found, sizes) if view.by == "topic" else rows
        rows = [row for row in sums if view.takes(row["lag"]) and view.loses(row.get("lost_at_ms"))]
    elif view.totals:
        rows = list(totals(found))
    return columns.sort(rows, view.sort) if view.sort is not None else rows


def _is_only_pending(row: OffsetRow) -> bool:
    """Whether a partition has only a pending transaction: Kafka's tool does not show it."""
    return row.is_pending and row.current_offset is None and row.member_id is None
