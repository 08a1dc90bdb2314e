"""Shows what a look finds: group by group, or all of it in one table at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kgtool import columns
from kgtool.cli.describe.query import Found
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
    """Shows each group as soon as it is known, or holds all back to make one table of it."""

    def __init__(self, output: Output, view: View) -> None:
        self.output = output
        self.view = view
        self.found: set[TopicPartition] = set()
        """What there is of the topics asked for, however it lags."""
        self._bare = 0
        self._held: list[Row] = []

    def show(self, found: Found) -> None:
        """Show one group, and what of it could not be found out."""
        if not (self.view.collects and found.shown):  # else the table says it
            self._note(found)
        if self.view.collects:
            self._held += found.rows()
        elif self.output.is_text:
            self._table(found)
        elif self.view.name == "offsets" and not (self.view.committed or self.view.expiry):
            self.output.records(list(map(offset_values, found.shown)))
        else:
            for row in found.rows():
                self.output.row(row)
        self._count(found)
        if self.output.reader_gone:
            raise BrokenPipeError

    def end(self) -> None:
        """Show what was held back."""
        if self.view.collects:
            rows = arranged(self._held, self.view)
            if self.view.narrows and not rows and self.output.done:
                self.output.note("No lag to show.")
            put(self.output, self.view, self.view.text_columns(rows), rows)

    def _note(self, found: Found) -> None:
        note = kafka_tables.group_note(found.description)
        if note is not None and self.output.is_text and (found.shown or not self.view.narrows):
            self.output.note(note)
        if self._has_nothing(found) and self.output.is_text:
            asked = escape(", ".join(map(str, self.view.topics)))
            name = escape(found.description.group)
            self.output.note(
                f"Group '{name}' has no offset in {asked}, and is not subscribed to it."
            )

    def _has_nothing(self, found: Found) -> bool:
        return bool(self.view.topics) and not (found.shown or found.errors or self.view.narrows)

    def _table(self, found: Found) -> None:
        if not self.view.is_kafkas:
            rows = found.rows()
            show_table(self.output, self.view.text_columns(rows), rows, "\n")
        elif self.view.name == "offsets":
            there = [row for row in found.shown if not _is_first(row)]
            self.output.text(kafka_tables.offsets(there, self.view.verbose), end="")
            pending = [f"{row.topic}-{row.partition}" for row in found.shown if _is_first(row)]
            if pending:
                said = f"group {found.description.group} has only a pending transaction for"
                self.output.note(escape(f"Note: {said} {', '.join(pending)}."))
        else:
            columns = self.view.text_columns(found.shown)
            self.output.text(kafka_tables.described(columns, found.shown), end="")

    def _count(self, found: Found) -> None:
        for error in found.errors:
            self.output.failed(error)
        if not found.errors or found.shown:
            self.output.done += 1
            self._bare += self._has_nothing(found)
        if self.view.topics:
            self.found |= {TopicPartition(row.topic, row.partition) for row in found.every}

    def missing(self, errors: Sequence[ItemError]) -> None:
        """Name topics that the cluster does not have; looking for them only was no success."""
        for error in errors:
            self.output.failed(error)
        self.output.done -= self._bare if errors else 0


def put(
    output: Output, view: View, wanted: Sequence[Column], rows: Sequence[Row], head: str = ""
) -> None:
    """Put out one table, and its rows with the columns asked for."""
    show_table(output, wanted, rows, head)
    for row in rows:
        output.row(columns.pick(row, view.columns) if view.columns else row)


def arranged(found: Sequence[Row], view: View) -> list[Row]:
    """Sum up and sort as the view wants it."""
    rows: list[Row] = list(found)
    if view.by is not None:
        sums = summed(found, view.by)
        rows = [row for row in sums if view.lag is None or view.lag(row["lag"])]
    elif view.totals:
        rows = list(totals(found))
    return columns.sort(rows, view.sort) if view.sort is not None else rows


def _is_first(row: OffsetRow) -> bool:
    """Whether only a pending transaction speaks of a partition: Kafka's tool does not show it."""
    return row.is_pending and row.current_offset is None and row.member_id is None


# ---------------------------------------------------------------------------------------------
# ``--totals``: sums per group and topic, per group, over all groups; ``--by``: one row each


def totals(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Sum up rows of offsets; ``topic`` is None in a group's sum, ``group`` too in that of all.

    A commit beyond the end has a negative lag, which takes nothing away from the others'. Where
    the lag is not known (no commit, no leader) a partition counts as ``unknown``.

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


def summed(rows: Sequence[Row], key: str) -> list[dict[str, Any]]:
    """Sum up rows of offsets by ``group`` or ``topic``; the lags as in ``totals``.

    >>> rows = [{"group": "g", "topic": "t", "lag": 5, "lag_ms": None},
    ...         {"group": "g", "topic": "u", "lag": 2, "lag_ms": 9}]
    >>> summed(rows, "group")
    [{'group': 'g', 'partitions': 2, 'lag': 7, 'max_lag': 5, 'lag_ms': 9}]
    """
    wanted = groups.BY_GROUP if key == "group" else groups.BY_TOPIC
    parts = grouped((row[key], row) for row in rows)
    return [columns.pick(_sum(some, **{key: name}), wanted) for name, some in parts.items()]


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
