"""``undo``, ``restore`` and ``recover``: what they show of the plan, and their rows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from kgtool import timespec
from kgtool.changes.kinds.restore_offsets import Only, RestoreOffsets
from kgtool.changes.reset.rows import members
from kgtool.changes.restore.decide import RestoreGroup, RestorePolicy, RestoreRow
from kgtool.cli.change.journaled import SHARE_NOTE, wait_until_empty
from kgtool.cli.change.run import ChangeRun
from kgtool.cli.options.change import ChangeOptions
from kgtool.cli.output.errors import sentence
from kgtool.cli.output.output import Output
from kgtool.cli.output.rows import moved_row
from kgtool.cli.output.tables import TableStream, preview
from kgtool.columns import Column, Row, shown
from kgtool.columns.changes import RESTORE
from kgtool.errors import ConfigError, readable
from kgtool.model import GroupDescription
from kgtool.net.session import Session
from kgtool.text import counted, escape, listed

LINES = 40
"""Rows of the preview, and notes; the rest is counted."""


class RestoreOptions(NamedTuple):
    """Options of both commands.

    ``verify``: read back what was written. ``only``: what an earlier dry run would have changed.
    """

    policy: RestorePolicy
    change: ChangeOptions
    wait_seconds: float
    verify: bool
    only: Only | None = None


def planned_rows(path: Path) -> dict[tuple[Any, ...], tuple[Any, Any]]:
    """Read the JSON of a dry run: old and new value of each offset, or config, it would change.

    :raises ConfigError: it is something else.
    """
    try:
        with readable(path):
            rows = json.loads(path.read_text(encoding="utf-8"))["results"]
        found: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        for row in rows:
            if not row["status"].startswith("would-"):
                continue
            if "name" in row:
                found[row["group"], row["name"]] = row["old_value"], row["new_value"]
            else:
                key = row["group"], row["topic"], row["partition"]
                found[key] = row["old_offset"], row["new_offset"]
        return found
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} is not the JSON of a dry run.") from error


def restore_options(
    policy: RestorePolicy,
    change: ChangeOptions,
    wait_empty: str | None,
    *,
    verify: bool = True,
    agreed: Path | None = None,
) -> RestoreOptions:
    """Read the options of a command."""
    wait = timespec.waiting_seconds(wait_empty)
    only = None if agreed is None else planned_rows(agreed)
    return RestoreOptions(policy, change, wait, verify, only)


class Shape(NamedTuple):
    """The rows of a command: their columns, and how one is made of a group's row."""

    columns: tuple[Column, ...]
    row: Callable[[RestoreGroup, RestoreRow], Row]


RESTORED = Shape(RESTORE, lambda _, row: moved_row(row, RESTORE))


class RestoreRun(ChangeRun[RestoreGroup]):
    """One ``undo``, ``restore`` or ``recover``, from the first look to the last row.

    :param undoes: the id of the journal that is undone.
    """

    doing = "Restoring"

    def __init__(
        self,
        session: Session,
        output: Output,
        options: RestoreOptions,
        kind: RestoreOffsets,
        shape: Shape = RESTORED,
        undoes: str | None = None,
    ) -> None:
        super().__init__(session, output, kind, kind.groups, options.change)
        self.undoes = undoes
        self._wait_seconds = options.wait_seconds
        self._shape = shape
        self._preview = Preview(shape)
        self._table = TableStream(output, shown(shape.columns), folds=True)
        self.done = self.failed = 0
        """Rows."""

    def run(self) -> None:
        """Wait for members to leave, for all groups together up to ``--wait-empty``."""
        with self._table:
            if self._wait_seconds:
                until = time.monotonic() + self._wait_seconds
                wait_until_empty(self.session, self.groups, until, self._say_wait)
            super().run()

    def _say_wait(self, busy: list[GroupDescription]) -> None:
        for group in busy[:LINES]:
            said = f"Waiting until group {group.group} has no members. {members(group)}"
            self.output.note(escape(said))

    def show(self, wave: list[RestoreGroup]) -> None:
        """Add a wave to what is shown of the plan."""
        self._preview.add(wave)

    def preview(self) -> None:
        """Name the groups without offsets, and report what would be done and come of it."""
        self._preview.show_without_offsets(self.output)
        self._preview.show_effects(self.output)
        super().preview()

    def show_plan(self) -> None:
        """Show totals, first rows and notes."""
        self._preview.show_without_offsets(self.output)
        said = counted(self.plan.offsets, self.offset_word)
        self._preview.show(self.output, len(self.plan.groups), self.plan.offsets, said)
        if self.has_share:
            self.output.note(SHARE_NOTE)

    def question(self) -> str:
        """Return the question."""
        deleted, every = self._preview.deletions, self.plan.offsets
        if deleted == every > 0:
            return f"Delete {counted(every, self.offset_word)}?"
        also = f" and delete {deleted}" if deleted else ""
        return f"Restore {counted(every - deleted, self.offset_word)}{also}?"

    def report(self, wave: list[RestoreGroup]) -> None:
        """Report the outcome of a wave."""
        for group in wave:
            self._report(group)

    def _report(self, group: RestoreGroup) -> None:
        output, rows = self.output, [self._shape.row(group, row) for row in group.rows]
        if group.error is not None:
            self.failed += len(rows)
            output.note(sentence(group.error))
            for row in rows:
                output.row(row)
            empty = None if rows else {"group": group.group}
            output.failed(group.error, row=empty, quiet=True)
        else:
            for item, row in zip(group.rows, rows, strict=True):
                self.failed += item.error is not None
                self.done += item.error is None and item.status != "skipped"
                output.item(row, item.error)
        self._table.add(rows)

    def finish(self, *, is_whole: bool = True) -> None:
        """Print the rest of the table."""
        self._table.flush()  # before the journal's line, which is what to type next


class Preview:
    """Totals, first rows and notes of the plan."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.deletions = self._unchanged = self._created = 0
        self._living: list[str] = []
        self._without_offsets: list[str] = []
        self._rows: list[Row] = []
        self._notes: list[str] = []
        self._refusals: list[str] = []

    def add(self, groups: Iterable[RestoreGroup]) -> None:
        """Add some groups of the plan."""
        for group in groups:
            is_open = any(row.is_open for row in group.rows)
            description = group.reading.description
            self._created += is_open and description.error is not None
            if is_open and description.error is None and not description.is_empty:
                self._living.append(group.group)
            if not group.rows and description.error is not None:
                self._without_offsets.append(group.group)
            if group.error is not None:
                self._keep(self._refusals, sentence(group.error, prefix=""))
            for row in group.rows:
                self._add_row(group, row)

    def _add_row(self, group: RestoreGroup, row: RestoreRow) -> None:
        if row.is_open:
            self.deletions += row.status == "would-delete"
            if len(self._rows) < LINES:
                self._rows.append(self._shape.row(group, row))
            if row.note is not None:
                self._keep(self._notes, f"{row.group}, {row.at.typed}: {row.note}.")
        elif row.error is not None:
            if group.error is None:
                self._keep(self._refusals, sentence(row.error, prefix=""))
        else:
            self._unchanged += 1

    @staticmethod
    def _keep(notes: list[str], text: str) -> None:
        notes.append(text if len(notes) < LINES else "")

    def show_without_offsets(self, output: Output) -> None:
        """Name the groups that had no offsets, and so can't be restored."""
        if self._without_offsets:
            names = listed(self._without_offsets, LINES)
            said = f"Note: nothing to restore, these groups had no committed offsets: {names}."
            output.note(escape(said))

    def show(self, output: Output, groups: int, offsets: int, said: str) -> None:
        """Show the plan of so many groups and offsets on stderr; ``said``: these in words."""
        output.note(f"To restore: {said} of {counted(groups, 'group')}.")
        if self.deletions:
            output.note(f"{self.deletions} of them did not exist then and are deleted.")
        preview(output, shown(self._shape.columns), self._rows)
        if offsets > len(self._rows):
            output.note(f"… and {offsets - len(self._rows):,} more.")
        if self._unchanged:
            has = "has" if self._unchanged == 1 else "have"
            output.note(f"{self._unchanged} already {has} the right offset.")
        self.show_effects(output)
        _show_notes(output, self._refusals)

    def show_effects(self, output: Output) -> None:
        """Show what comes of it: new groups, members, and consumers that can't resume."""
        if self._created:
            what = "group does" if self._created == 1 else "groups do"
            output.note(f"{self._created} {what} not exist and will be created.")
        if self._living:
            names = listed(self._living, 5)
            output.note(
                escape(
                    f"Note: {names}: written in a member's name. Running members keep their "
                    "position: they read the new offset only when they start or are assigned the "
                    "partition, and may commit over it."
                )
            )
        _show_notes(output, self._notes)


def _show_notes(output: Output, notes: list[str]) -> None:
    for text in notes[:LINES]:
        output.note(f"Note: {escape(text)}")
    if len(notes) > LINES:
        output.note(f"… and {len(notes) - LINES} more notes like these.")
