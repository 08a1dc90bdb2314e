"""Shows described groups: one by one, or all in one table at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kgtool import columns
from kgtool.cli.describe.query import DescribedGroup
from kgtool.cli.describe.view import View
from kgtool.cli.output import kafka_tables
from kgtool.cli.output.output import Output
from kgtool.cli.output.rows import offset_values
from kgtool.cli.output.tables import show_table
from kgtool.client.ops import grouped
from kgtool.columns import Column, Row, groups
from kgtool.model import ItemError, OffsetRow, TopicPartition
from kgtool.text import escape


class Presenter:
    """Shows each group at once, or collects all for one table."""

    def __init__(self, output: Output, view: View) -> None:
        self.output = output
        self.view = view
        self.partitions: set[TopicPartition] = set()
        """Those of ``--topic`` that exist, whatever their lag."""
        self._groups_without_rows = 0
        self._rows: list[Row] = []

    def show(self, group: DescribedGroup) -> None:
        """Show one group, and the errors about it."""
        if not (self.view.collects and group.shown):  # else the table says it
            self._note(group)
        if self.view.collects:
            self._rows += group.rows()
        elif self.output.is_text:
            self._show_table(group)
        elif self.view.name == "offsets" and not (self.view.read_committed or self.view.expiry):
            self.output.records(list(map(offset_values, group.shown)))
        else:
            for row in group.rows():
                self.output.row(row)
        self._count(group)
        if self.output.reader_gone:
            raise BrokenPipeError

    def end(self) -> None:
        """Show the table of all groups."""
        if self.view.collects:
            rows = arrange(self._rows, self.view)
            if self.view.narrows and not rows and self.output.done:
                self.output.note("No lag to show.")
            write_table(self.output, self.view, self.view.text_columns(rows), rows)

    def _note(self, group: DescribedGroup) -> None:
        if not self.output.is_text:
            return
        note = kafka_tables.group_note(group.description)
        if note is not None and (group.shown or not self.view.narrows):
            self.output.note(note)
        if self._has_no_rows(group):
            topics = escape(", ".join(map(str, self.view.topics)))
            name = escape(group.description.group)
            self.output.note(
                f"Group '{name}' has no offset in {topics}, and is not subscribed to it."
            )

    def _has_no_rows(self, group: DescribedGroup) -> bool:
        return bool(self.view.topics) and not (group.shown or group.errors or self.view.narrows)

    def _show_table(self, group: DescribedGroup) -> None:
        if not self.view.is_kafka_table:
            rows = group.rows()
            show_table(self.output, self.view.text_columns(rows), rows, "\n")
        elif self.view.name == "offsets":
            table = [row for row in group.shown if not _is_only_pending(row)]
            self.output.text(kafka_tables.offsets(table, self.view.verbose), end="")
            pending = [row for row in group.shown if _is_only_pending(row)]
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


def arrange(found: Sequence[Row], view: View) -> list[Row]:
    """Sum up and sort rows as the view's options say."""
    rows: list[Row] = list(found)
    if view.by is not None:
        sums = sum_by(found, view.by)
        rows = [row for row in sums if view.lag is None or view.lag(row["lag"])]
    elif view.totals:
        rows = list(totals(found))
    return columns.sort(rows, view.sort) if view.sort is not None else rows


def _is_only_pending(row: OffsetRow) -> bool:
    """Whether a partition has only a pending transaction: Kafka's tool does not show it."""
    return row.is_pending and row.current_offset is None and row.member_id is None


# ---------------------------------------------------------------------------------------------
# ``--totals``: sums per group and topic, per group, over all groups; ``--by``: one row each


def totals(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Sum up rows of offsets; ``topic`` is None in a group's sum, ``group`` too in the sum of all.

    A negative lag (a commit beyond the end) counts as 0. A partition whose lag is not known (no
    commit, no leader) counts as ``unknown``.

    >>> rows = [{"group": "g", "topic": "t", "lag": 5, "lag_ms": None},
    ...         {"group": "g", "topic": "t", "lag": None, "lag_ms": None}]
    >>> totals(rows)[0]["lag"], totals(rows)[0]["unknown"]
    (5, 1)
    """
    by_group: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        by_group.setdefault(row["group"], {}).setdefault(row["topic"], []).append(row)
    found = []
    for group, topics in by_group.items():
        found += [_sum(topics[topic], group=group, topic=topic) for topic in sorted(topics)]
        if len(topics) > 1:
            every = [row for part in topics.values() for row in part]
            found.append(_sum(every, group=group, topic=None))
    if len(by_group) > 1:
        found.append(_sum(rows, group=None, topic=None))
    return [columns.pick(row, groups.TOTALS) for row in found]


def sum_by(rows: Sequence[Row], key: str) -> list[dict[str, Any]]:
    """Sum up rows of offsets by ``group`` or ``topic``; the lags as in ``totals``.

    >>> rows = [{"group": "g", "topic": "t", "lag": 5, "lag_ms": None},
    ...         {"group": "g", "topic": "u", "lag": 2, "lag_ms": 9}]
    >>> sum_by(rows, "group")
    [{'group': 'g', 'partitions': 2, 'lag': 7, 'max_lag': 5, 'lag_ms': 9}]
    """
    shown = groups.BY_GROUP if key == "group" else groups.BY_TOPIC
    parts = grouped((row[key], row) for row in rows)
    return [columns.pick(_sum(part, **{key: name}), shown) for name, part in parts.items()]


def _sum(rows: Sequence[Row], **about: str | None) -> dict[str, Any]:
    """Sum up the known lags, none below 0, and the known ages."""
    lags = [max(row["lag"], 0) for row in rows if row["lag"] is not None]
    ages = [row["lag_ms"] for row in rows if row["lag_ms"] is not None]
    return {
        **about,
        "partitions": len(rows),
        "lagging": sum(lag > 0 for lag in lags),
        "unknown": len(rows) - len(lags),
        "lag": sum(lags),
        "max_lag": max(lags, default=None),
        "lag_ms": max(ages, default=None),
    }
