"""``kgtool keep``: make committed offsets outlive a freeze."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kgtool.changes.offsets.keep import (
    GroupKeep,
    KeepPlan,
    KeepRow,
    journaled_keep,
    look_again,
    plan_keep,
)
from kgtool.changes.plan_rows import open_rows, settle, skip
from kgtool.cli.change import confirm
from kgtool.cli.change.canary import Course, can_all_be_done, leave
from kgtool.cli.change.disk_list import Spool
from kgtool.cli.change.journaled import Change
from kgtool.cli.describe.expiry import explain_rules
from kgtool.cli.options.declare import declare, flag
from kgtool.cli.options.group_selection import Selection, choose
from kgtool.cli.options.shared import (
    all_or_nothing_option,
    change_options,
    group_options,
    open_session,
)
from kgtool.cli.output.errors import sentence
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import Meter
from kgtool.cli.output.rows import build_row
from kgtool.cli.output.tables import draw_for, preview
from kgtool.clock import now_ms
from kgtool.columns import shown
from kgtool.columns.changes import KEEP
from kgtool.config import Settings
from kgtool.model import Target, has_failed
from kgtool.net.session import Session
from kgtool.queries.log.reader import by_log
from kgtool.queries.offsets.adaptive_batches import AdaptiveBatches
from kgtool.text import counted


@declare(
    "keep",
    "kgtool keep billing --dry-run",
    "kgtool keep billing --join --yes",
    "kgtool keep --all-groups --state Empty --join",
)
@group_options
@flag("--join", "Join and leave groups whose clock runs from when they became Empty.")
@all_or_nothing_option
@change_options()
def command(
    settings: Settings, output: Output, selection: Selection, join: bool, all_or_nothing: bool,
    dry_run: bool, yes: bool,
) -> int:  # fmt: skip
    """Keep committed offsets for another full retention.

    Where an offset's clock runs from its commit, the same offset is committed again: standalone
    consumers and KIP-848 groups. The clock of a classic group runs from when it became Empty:
    --join joins and leaves it, which restarts that clock.
    """
    selection.check("keep")
    confirm.require(yes, dry_run)
    with open_session(settings, progress=True) as session, Spool["list[GroupKeep]"]() as plan:
        groups = choose(session, output, selection, KEEP).groups
        run = _Run(session, output, plan, all_or_nothing)
        run.look(groups, join)
        if dry_run or run.is_off or not run.going:
            for wave in plan:
                run.report(skip(wave) if run.is_off else wave)
            if not run.is_off:
                confirm.foretell(session, output, run.going, run.offsets)
        else:
            question = _question(run.commits, run.joins)
            confirm.ask(session, output, question, yes, groups=run.going, offsets=run.offsets)
            run.change(yes)
    return output.finish()


class _Run:
    """One run of the command; of what it plans and does memory holds one wave."""

    def __init__(
        self, session: Session, output: Output, plan: Spool[list[GroupKeep]], all_or_nothing: bool
    ) -> None:
        self._session = session
        self._output = output
        self._plan = plan
        self._all_or_nothing = all_or_nothing
        self._waves = 0
        self.is_off = False
        """Whether something fails, and all or nothing was asked for."""
        self.going: set[str] = set()
        self.offsets = self.commits = self.joins = 0
        self._has_table = False
        self._said: set[tuple[str, str]] = set()

    def look(self, groups: Sequence[str], join: bool) -> None:
        """Plan, and say on stderr what is about to happen."""

        waves = AdaptiveBatches(groups)
        if waves.are_many:
            first, rest = groups[: self._output.canary or 0], groups[self._output.canary or 0 :]
            waves = AdaptiveBatches(
                [*first, *self._session.run(by_log(self._session.cluster, rest))]
            )
        with Meter(self._output, "Looking", len(groups)) as meter:
            while names := waves.next():
                looked = plan_keep(self._session.cluster, names, now_ms(), join=join)
                found: KeepPlan = self._session.run(looked)
                wave = settle(found.groups, self._all_or_nothing)
                self._plan.add(wave)
                self._waves += 1
                self.is_off |= self._all_or_nothing and any(map(has_failed, wave))
                waves.learn(len(names), sum(len(group.rows) for group in wave))
                self._show(found, open_rows(*wave))
                meter.add(len(names))
        # A pattern that matches nothing, or a broker whose log can't be read.
        self.is_off |= self._all_or_nothing and bool(self._output.errors)

    def _show(self, found: KeepPlan, wanted: Sequence[KeepRow]) -> None:
        output = self._output
        for problem in found.expiries.errors:
            if problem not in output.errors:
                output.failed(problem)
        for line in explain_rules(g.broker for g in found.expiries.groups.values()):
            output.note_once(line)
        joined = {row.group for row in wanted if row.how == "join"}
        self.going.update(row.group for row in wanted)
        self.offsets += len(wanted)
        self.commits += sum(row.how == "commit" for row in wanted)
        self.joins += len(joined)
        if wanted:
            output.note_once("Committed offsets to keep:")
            preview(output, shown(KEEP), [_row(row) for row in wanted])

    def change(self, yes: bool) -> None:
        """Do it, with a journal of what was there; there is nothing to undo: offsets stay the
        same."""
        course = Course(self._session, self._output, len(self.going), yes=yes)
        with Change(self._session, self._output) as change:

            def work(part: list[GroupKeep]) -> list[GroupKeep]:
                keeping = journaled_keep(
                    self._session.cluster, change, part, now_ms,
                    all_or_nothing=self._all_or_nothing,
                )  # fmt: skip
                return self._session.run(keeping)

            change.lock(self.going)
            if self._all_or_nothing and self._waves > 1:
                looked = (
                    self._session.run(look_again(self._session.cluster, wave))
                    for wave in self._plan
                )
                if not can_all_be_done(looked, self.report):
                    return
            with Meter(self._output, "Keeping", len(self.going)) as meter:
                for wave in self._plan:
                    going = [group for group in wave if group.description.group in self.going]
                    done = course.run(
                        going, work, has_failed, lambda g: leave(g, g.description.group),
                        self.report,
                    )  # fmt: skip
                    outcome = {group.description.group: group for group in done}
                    self.report([outcome.get(g.description.group, g) for g in wave])
                    meter.add(len(going))
        change.say()

    def report(self, groups: Sequence[GroupKeep]) -> None:
        """Put out what came of some groups."""
        output = self._output
        rows = [row for group in groups for row in group.rows]
        if rows and output.is_text:
            text = draw_for(output, shown(KEEP), [_row(row) for row in rows])
            output.text(text.partition("\n")[2] if self._has_table else text, end="")
            self._has_table = True
        for group in groups:
            if group.error is not None:
                output.failed(group.error)
            elif not group.rows:
                output.done += 1
                output.note(f"Note: group {group.description.group} has no committed offset.")
            for row in group.rows:
                self._put(row)

    def _put(self, row: KeepRow) -> None:
        output = self._output
        said = (row.group, row.error.message if row.error is not None else "")
        if row.error is not None and said not in self._said:  # it mostly concerns the whole group
            self._said.add(said)
            output.note(sentence(row.error._replace(target=Target(group=row.group))))
        output.item(_row(row), row.error, quiet=True)


def _question(commits: int, joins: int) -> str:
    parts = []
    if commits:
        parts.append(f"Commit {counted(commits, 'offset')} again")
    if joins:
        verb = "join and leave" if parts else "Join and leave"
        parts.append(f"{verb} {counted(joins, 'group')}")
    return f"{' and '.join(parts)}?"


def _row(row: KeepRow) -> dict[str, Any]:
    return build_row(row, KEEP, offset=row.value.offset)
