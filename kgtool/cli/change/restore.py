"""What ``undo`` and ``restore`` have in common: plan, show, ask, put back, report.

The first pass over the groups only looks, the second one looks again at each part, under a lock,
and changes it (``kgtool.changes.restore.run``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from kgtool import timespec
from kgtool.changes.plan_rows import each_open, failed, open_rows, skip
from kgtool.changes.reset.rows import members
from kgtool.changes.restore.decide import DesiredGroup, RestoreGroup, RestorePolicy, RestoreRow
from kgtool.changes.restore.run import Restorer, parts
from kgtool.cli.change import confirm
from kgtool.cli.change.canary import Course, not_reached
from kgtool.cli.change.journaled import Change, wait_until_empty
from kgtool.cli.change.restore_plan import LINES, Plan, row_of
from kgtool.cli.output.errors import sentence
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import Meter
from kgtool.cli.output.tables import TableStream
from kgtool.columns import shown
from kgtool.columns.changes import RESTORE
from kgtool.errors import NotDone
from kgtool.model import GroupDescription, ItemError, Target, has_failed
from kgtool.net.session import Session
from kgtool.text import escape


class Options(NamedTuple):
    """How to put back. ``verify``: read back what was written."""

    policy: RestorePolicy
    dry_run: bool
    yes: bool
    wait_seconds: float = 0.0
    all_or_nothing: bool = False
    verify: bool = True

    @classmethod
    def of(cls, output: Output, given: Mapping[str, Any], policy: RestorePolicy) -> Options:
        """Read the options of both commands; nothing has been sent yet.

        :raises UsageError: they contradict each other, or nobody can be asked.
        """
        confirm.require(given["yes"], given["dry_run"])
        wait = timespec.waiting_seconds(given["wait_empty"])
        return cls(policy, given["dry_run"], given["yes"], wait, given["all_or_nothing"])


Source = Callable[[], Iterable[DesiredGroup]]
"""Returns the groups to restore, each time from the beginning."""


class PutBack:
    """One ``undo`` or ``restore``, from the first look to the last row.

    :param undoes: the id of the journal that is taken back.
    """

    def __init__(
        self, session: Session, output: Output, options: Options, source: Source,
        undoes: str | None = None,
    ) -> None:  # fmt: skip
        self._session = session
        self._output = output
        self._options = options
        self._source = source
        self._undoes = undoes
        self._restorer = Restorer(session, options.policy, verify=options.verify)
        self._plan = Plan()
        self._wait_until: float | None = None
        self._meter = Meter(output, "Restoring")
        self._table = TableStream(output, shown(RESTORE))
        self.done = 0
        self.failed = 0
        self.journal_id: str | None = None

    def run(self) -> None:
        """Do all of it."""
        with self._table:
            self._run()

    def _run(self) -> None:
        total = 0
        with Meter(self._output, "Looking") as meter:
            for part in self._parts():
                self._wait(part)
                look = self._restorer.look if self._options.dry_run else self._restorer.plan
                self._plan.add(look(part))
                total += len(part)
                meter.add(len(part))
        self._plan.show_lost(self._output)
        if self._options.dry_run or not self._plan.count:
            self._only_report()
            if self._options.dry_run:
                self._table.flush()
                confirm.foretell(self._session, self._output, self._plan.groups, self._plan.count)
            return
        self._plan.show(self._output)
        # Among the errors: what is not in the file, or can't be translated, and so in no plan.
        if self._options.all_or_nothing and (self._plan.failed or self._output.errors):
            self._only_report(is_off=True)
            return
        confirm.ask(
            self._session, self._output, f"Restore {self._plan.words}?", self._options.yes,
            groups=self._plan.groups, offsets=self._plan.count,
        )  # fmt: skip
        self._meter = Meter(self._output, "Restoring", total)
        with Change(self._session, self._output, undoes=self._undoes) as change, self._meter:
            self._change(change, total)
        self._table.flush()  # before the journal's line, which is what to type next
        self.journal_id = change.journal_id
        change.say()

    # -- looking --------------------------------------------------------------------------

    def _wait(self, part: Sequence[DesiredGroup]) -> None:
        """Wait for members to leave, all groups together no longer than asked for."""
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

    def _change(self, change: Change, total: int) -> None:
        if not self._options.all_or_nothing:
            self._change_in_parts(change, total)
            return
        # Whatever has changed since the first look stops all of it, before the first write.
        change.lock(desired.group for desired in self._source())
        if any(has_failed(group) for part in self._parts() for group in self._restorer.look(part)):
            self._only_report(is_off=True)
            return
        for part in self._parts():
            self._apply(part, change)

    def _change_in_parts(self, change: Change, total: int) -> None:
        canary = Course(self._session, self._output, total, yes=self._options.yes)
        done = failed = 0
        for part in canary.parts(self._parts()):
            with change.locked(desired.group for desired in part):
                failed += self._apply(part, change)
            done += len(part)
            if not canary.goes_on(done, failed=failed):
                self._give_up(done)
                return

    def _parts(self) -> Iterator[list[DesiredGroup]]:
        return parts(self._source())

    def _apply(self, part: Sequence[DesiredGroup], change: Change) -> int:
        """Put a part back; return in how many groups something failed."""
        groups = self._restorer.restore(part, change)
        self._meter.add(len(part))
        for group in groups:
            self._report(group)
        return sum(map(has_failed, groups))

    def _give_up(self, groups: int) -> None:
        """Name the groups behind the canary."""
        for part in parts(islice(self._source(), groups, None)):
            for desired in part:
                self.failed += 1
                self._output.failed(not_reached(desired.group), quiet=True)

    # -- saying ---------------------------------------------------------------------------

    def _only_report(self, *, is_off: bool = False) -> None:
        """Put out what would be done, without doing it.

        Something may be possible now that was not at the first look, when a broker did not answer:
        nobody has agreed to it, so it is an error that it was not done.
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
        output = self._output
        if group.error is not None:
            self.failed += len(group.rows)
            output.note(sentence(group.error))
            for row in group.rows:
                output.row(row_of(row))
            output.failed(group.error, row=None if group.rows else {"group": group.group},
                          quiet=True)  # fmt: skip
        else:
            for row in group.rows:
                self._report_row(row)
        self._table.add([row_of(row) for row in group.rows])

    def _report_row(self, row: RestoreRow) -> None:
        if row.error is not None:
            self.failed += 1
            self._output.failed(row.error, row=row_of(row))
        else:
            self.done += row.status != "skipped"
            self._output.item(row_of(row))


def _not_done(row: RestoreRow) -> RestoreRow:
    return failed(row, NotDone())
