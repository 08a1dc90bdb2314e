"""What ``undo`` and ``restore`` say: rows, tables, and the plan before anything is asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kgtool.changes.restore.decide import RestoreGroup, RestoreRow
from kgtool.cli.output.errors import sentence
from kgtool.cli.output.output import Output
from kgtool.cli.output.rows import moved_row
from kgtool.cli.output.tables import preview
from kgtool.columns import shown
from kgtool.columns.changes import RESTORE
from kgtool.model import ItemError
from kgtool.text import counted, escape, listed

LINES = 40
"""At most so many rows of a plan, and so many notes, are shown; the rest is counted."""


class Plan:
    """What the first look has found."""

    def __init__(self) -> None:
        self.count = 0
        self.deletions = 0
        self.failed = 0
        self.unchanged = 0
        self.groups: list[str] = []
        self.made = 0
        self.living: list[str] = []
        self.lost: list[str] = []
        self._rows: list[RestoreRow] = []
        self._notes: list[str] = []

    @property
    def words(self) -> str:
        """How many offsets are to be changed."""
        return counted(self.count, "committed offset")

    def add(self, groups: Iterable[RestoreGroup]) -> None:
        """Take in what is to be done for some groups."""
        for group in groups:
            is_open = any(row.is_open for row in group.rows)
            description = group.reading.description
            if is_open:
                self.groups.append(group.group)
            self.made += is_open and description.error is not None
            if is_open and description.error is None and not description.is_empty:
                self.living.append(group.group)
            if not group.rows and description.error is not None:
                self.lost.append(group.group)
            if group.error is not None:
                self._note(sentence(group.error, prefix=""))
            for row in group.rows:
                self._add_row(row, group.error)

    def _add_row(self, row: RestoreRow, error: ItemError | None) -> None:
        if row.is_open:
            self.count += 1
            self.deletions += row.status == "would-delete"
            if len(self._rows) < LINES:
                self._rows.append(row)
            if row.note is not None:
                self._note(f"{row.group}, {row.at}: {row.note}.")
        elif row.error is not None:
            self.failed += 1
            if error is None:
                self._note(sentence(row.error, prefix=""))
        else:
            self.unchanged += 1

    def _note(self, text: str) -> None:
        self._notes.append(text if len(self._notes) < LINES else "")

    def show_lost(self, output: Output) -> None:
        """Name the groups that can't come back."""
        if self.lost:
            names = listed(self.lost, LINES)
            said = f"Note: nothing to restore, these groups had no committed offsets: {names}."
            output.note(escape(said))

    def show(self, output: Output) -> None:
        """Say on stderr what is about to happen."""
        groups = counted(len(self.groups), "group")
        output.note(f"To restore: {self.words} of {groups}.")
        if self.deletions:
            output.note(f"{self.deletions} of them did not exist then and are deleted.")
        preview(output, shown(RESTORE), [row_of(row) for row in self._rows])
        if self.count > len(self._rows):
            output.note(f"… and {self.count - len(self._rows)} more.")
        if self.made:
            what = "group does" if self.made == 1 else "groups do"
            output.note(f"{self.made} {what} not exist and will be created.")
        if self.unchanged:
            has = "has" if self.unchanged == 1 else "have"
            output.note(f"{self.unchanged} already {has} the right offset.")
        if self.living:
            names = listed(self.living, 5)
            output.note(escape(
                f"Note: {names}: written in a member's name. Running members keep their position: "
                "they read the new offset only when they start or are assigned the partition, and "
                "may commit over it."
            ))  # fmt: skip
        for text in self._notes[:LINES]:
            output.note(f"Note: {escape(text)}")
        if len(self._notes) > LINES:
            output.note(f"… and {len(self._notes) - LINES} more notes like these.")


def row_of(row: RestoreRow) -> dict[str, Any]:
    """Return a row for the JSON and its like."""
    return moved_row(row, RESTORE)
