"""``undo`` and ``restore``: plan, show, confirm, restore, report.

The first pass over the groups only reads. The second one reads each part again, under a lock, and
changes it (``kgtool.changes.restore.run``).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from kgtool import timespec
from kgtool.changes.plan_rows import each_open, failed, open_rows, skip
from kgtool.changes.reset.rows import members
from kgtool.changes.restore.decide import DesiredGroup, RestoreGroup, RestorePolicy, RestoreRow
from kgtool.changes.restore.run import Restorer, parts
from kgtool.cli.change import confirm
from kgtool.cli.change.canary import Canary, not_reached
from kgtool.cli.change.journaled import CommandChange, wait_until_empty
from kgtool.cli.output.errors import sentence
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import Meter
from kgtool.cli.output.rows import moved_row
from kgtool.cli.output.tables import TableStream, preview
from kgtool.columns import Column, shown
from kgtool.columns.changes import RESTORE
from kgtool.errors import ConfigError, NotDone, readable
from kgtool.model import GroupDescription, ItemError, Target, has_failed
from kgtool.net.session import Session
from kgtool.text import counted, escape, listed

LINES = 40
"""Rows of the preview, and notes; the rest is counted."""


class RestoreOptions(NamedTuple):
    """Options of both commands.

    ``verify``: read back what was written. ``only``: what an earlier dry run would have changed.
    """

    policy: RestorePolicy
    dry_run: bool
    yes: bool
    wait_seconds: float
    all_or_nothing: bool
    verify: bool
    only: Mapping[tuple[Any, ...], tuple[Any, Any]] | None = None


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


def restore_options(policy: RestorePolicy, given: Mapping[str, Any]) -> RestoreOptions:
    """Read the options of a command.

    :raises UsageError: they contradict each other, or there is no terminal to ask on.
    """
    confirm.require(given["yes"], given["dry_run"])
    wait = timespec.waiting_seconds(given["wait_empty"])
    return RestoreOptions(
        policy,
        given["dry_run"],
        given["yes"],
        wait,
        given["all_or_nothing"],
        given.get("verify", True),
        planned_rows(given["agreed"]) if given.get("agreed") else None,
    )


class Shape(NamedTuple):
    """The rows of a command: their columns, and how one is made of a group's row."""

    columns: tuple[Column, ...]
    row: Callable[[RestoreGroup, RestoreRow], dict[str, Any]]


class Restore:
    """One ``undo`` or ``restore``, from the first look to the last row.

    :param source: returns the groups to restore, each time from the beginning.
    :param undoes: the id of the journal that is undone.
    :param restorer: plans and restores; default: a ``Restorer``.
    :param shape: the rows; default: those of ``restore``.
    """

    def __init__(
        self,
        session: Session,
        output: Output,
        options: RestoreOptions,
        source: Callable[[], Iterable[DesiredGroup]],
        undoes: str | None = None,
        restorer: Restorer | None = None,
        shape: Shape | None = None,
    ) -> None:
        self._session = session
        self._output = output
        self._options = options
        self._source = source
        self._undoes = undoes
        self._restorer = restorer or Restorer(
            session, options.policy, verify=options.verify, only=options.only
        )
        self._shape = shape or Shape(RESTORE, lambda _, row: moved_row(row, RESTORE))
        self._preview = Preview(self._shape)
        self._wait_until: float | None = None
        self._table = TableStream(output, shown(self._shape.columns), folds=True)
        self.done = 0
        self.failed = 0
        self.journal_id: str | None = None

    def run(self) -> None:
        """Restore the offsets, or show what would be restored."""
        with self._table:
            self._run()

    def _run(self) -> None:
        output, options, plan = self._output, self._options, self._preview
        total = 0
        with Meter(output, "Looking") as meter:
            for part in self._parts():
                self._wait(part)
                look = self._restorer.look if options.dry_run else self._restorer.plan
                plan.add(look(part))
                total += len(part)
                meter.add(len(part))
        plan.show_without_offsets(output)
        if options.dry_run or not plan.count:
            self._only_report()
            if options.dry_run:
                self._table.flush()
                confirm.note_refusal(self._session, output, plan.groups, plan.count)
            return
        plan.show(output)
        # Groups that are not in the file, or can't be translated, are errors in no plan.
        if options.all_or_nothing and (plan.failed or output.errors):
            self._only_report(is_off=True)
            return
        question = f"Restore {counted(plan.count, 'committed offset')}?"
        confirm.ask(
            self._session, output, question, options.yes, groups=plan.groups, offsets=plan.count
        )
        with (
            CommandChange(self._session, output, undoes=self._undoes) as change,
            Meter(output, "Restoring", total) as meter,
        ):
            self._change(change, meter, total)
        self._table.flush()  # before the journal's line, which is what to type next
        self.journal_id = change.journal_id
        change.say()

    # -- looking --------------------------------------------------------------------------

    def _parts(self) -> Iterator[list[DesiredGroup]]:
        return parts(self._source())

    def _wait(self, part: Sequence[DesiredGroup]) -> None:
        """Wait for members to leave, for all groups together up to ``--wait-empty``."""
        if self._options.wait_seconds:
            if self._wait_until is None:
                self._wait_until = time.monotonic() + self._options.wait_seconds
            names = [desired.group for desired in part]
            wait_until_empty(self._session, names, self._wait_until, self._say_wait)

    def _say_wait(self, busy: list[GroupDescription]) -> None:
        for group in busy[:LINES]:
            said = f"Waiting until group {group.group} has no members. {members(group)}"
            self._output.note(escape(said))

    # -- changing -------------------------------------------------------------------------

    def _change(self, change: CommandChange, meter: Meter, total: int) -> None:
        if not self._options.all_or_nothing:
            self._change_in_parts(change, meter, total)
            return
        # Any change since the first look stops all of it, before the first write.
        change.lock(desired.group for desired in self._source())
        if any(has_failed(group) for part in self._parts() for group in self._restorer.look(part)):
            self._only_report(is_off=True)
            return
        for part in self._parts():
            self._apply(part, change, meter)

    def _change_in_parts(self, change: CommandChange, meter: Meter, total: int) -> None:
        canary = Canary(self._session, self._output, total, yes=self._options.yes)
        done = failed = 0
        for part in canary.split(self._parts()):
            with change.locked(desired.group for desired in part):
                failed += self._apply(part, change, meter)
            done += len(part)
            if not canary.may_continue(done, failed=failed):
                for desired in islice(self._source(), done, None):
                    self.failed += 1
                    self._output.failed(not_reached(desired.group), quiet=True)
                return

    def _apply(self, part: Sequence[DesiredGroup], change: CommandChange, meter: Meter) -> int:
        """Restore a part; return in how many groups anything failed."""
        groups = self._restorer.restore(part, change)
        meter.add(len(part))
        for group in groups:
            self._report(group)
        return sum(map(has_failed, groups))

    # -- reporting ------------------------------------------------------------------------

    def _only_report(self, *, is_off: bool = False) -> None:
        """Report what would be done, without doing it.

        A row may be possible now that was not at the first look, when a broker did not answer. It
        was not in the plan that was shown, so it is an error that it is not done.
        """
        late = []
        for part in self._parts():
            groups = self._restorer.look(part)
            if is_off or not self._options.dry_run:
                late += open_rows(*groups)
                groups = skip(groups) if is_off else [each_open(g, _not_done) for g in groups]
            for group in groups:
                self._report(group)
        if is_off and late and not self.failed:
            self.failed += 1
            if not self._output.errors:
                self._output.failed(ItemError.of(NotDone(), Target()))

    def _report(self, group: RestoreGroup) -> None:
        output, rows = self._output, [self._shape.row(group, row) for row in group.rows]
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


def _not_done(row: RestoreRow) -> RestoreRow:
    return failed(row, NotDone())


class Preview:
    """Totals, first rows and notes of the plan."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.count = 0
        """Offsets to change; the groups that have any are ``groups``."""
        self.groups: list[str] = []
        self.failed = 0
        self._deletions = self._unchanged = self._created = 0
        self._living: list[str] = []
        self._without_offsets: list[str] = []
        self._rows: list[dict[str, Any]] = []
        self._notes: list[str] = []

    def add(self, groups: Iterable[RestoreGroup]) -> None:
        """Add some groups of the plan."""
        for group in groups:
            is_open = any(row.is_open for row in group.rows)
            description = group.reading.description
            if is_open:
                self.groups.append(group.group)
            self._created += is_open and description.error is not None
            if is_open and description.error is None and not description.is_empty:
                self._living.append(group.group)
            if not group.rows and description.error is not None:
                self._without_offsets.append(group.group)
            if group.error is not None:
                self._note(sentence(group.error, prefix=""))
            for row in group.rows:
                self._add_row(group, row)

    def _add_row(self, group: RestoreGroup, row: RestoreRow) -> None:
        if row.is_open:
            self.count += 1
            self._deletions += row.status == "would-delete"
            if len(self._rows) < LINES:
                self._rows.append(self._shape.row(group, row))
            if row.note is not None:
                self._note(f"{row.group}, {row.at.typed}: {row.note}.")
        elif row.error is not None:
            self.failed += 1
            if group.error is None:
                self._note(sentence(row.error, prefix=""))
        else:
            self._unchanged += 1

    def _note(self, text: str) -> None:
        self._notes.append(text if len(self._notes) < LINES else "")

    def show_without_offsets(self, output: Output) -> None:
        """Name the groups that had no offsets, and so can't be restored."""
        if self._without_offsets:
            names = listed(self._without_offsets, LINES)
            said = f"Note: nothing to restore, these groups had no committed offsets: {names}."
            output.note(escape(said))

    def show(self, output: Output) -> None:
        """Show the plan on stderr."""
        groups = counted(len(self.groups), "group")
        output.note(f"To restore: {counted(self.count, 'committed offset')} of {groups}.")
        if self._deletions:
            output.note(f"{self._deletions} of them did not exist then and are deleted.")
        preview(output, shown(self._shape.columns), self._rows)
        if self.count > len(self._rows):
            output.note(f"… and {self.count - len(self._rows)} more.")
        if self._created:
            what = "group does" if self._created == 1 else "groups do"
            output.note(f"{self._created} {what} not exist and will be created.")
        if self._unchanged:
            has = "has" if self._unchanged == 1 else "have"
            output.note(f"{self._unchanged} already {has} the right offset.")
        if self._living:
            names = listed(self._living, 5)
            output.note(
                escape(
                    f"Note: {names}: written in a member's name. Running members keep their "
                    "position: they read the new offset only when they start or are assigned the "
                    "partition, and may commit over it."
                )
            )
        for text in self._notes[:LINES]:
            output.note(f"Note: {escape(text)}")
        if len(self._notes) > LINES:
            output.note(f"… and {len(self._notes) - LINES} more notes like these.")
