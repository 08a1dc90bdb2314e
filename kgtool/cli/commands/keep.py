"""``kgtool keep``: restart the expiry clock of committed offsets."""

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
from kgtool.changes.plan_rows import open_rows
from kgtool.cli.change import confirm
from kgtool.cli.change.journaled import CommandChange
from kgtool.cli.change.plan import ChangePlan
from kgtool.cli.describe.expiry import explain_rules
from kgtool.cli.options.declare import declare, flag
from kgtool.cli.options.group_selection import Selection, choose
from kgtool.cli.options.shared import change_options, group_options, open_session
from kgtool.cli.output.errors import sentence
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import Meter
from kgtool.cli.output.rows import build_row
from kgtool.cli.output.tables import draw_for, preview
from kgtool.clock import now_ms
from kgtool.columns import shown
from kgtool.columns.changes import KEEP
from kgtool.config import Settings
from kgtool.model import Target
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
@change_options(all_or_nothing=True)
def command(
    settings: Settings,
    output: Output,
    selection: Selection,
    join: bool,
    all_or_nothing: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Keep committed offsets for another full retention.

    Where an offset's clock runs from its commit, the same offset is committed again: standalone
    consumers and KIP-848 groups. The clock of a classic group runs from when it became Empty:
    --join joins and leaves it, which restarts that clock.
    """
    selection.check("keep")
    confirm.require(yes, dry_run)
    plan = ChangePlan[GroupKeep](all_or_nothing=all_or_nothing)
    with open_session(settings, progress=True) as session, plan:
        groups = choose(session, output, selection, KEEP).groups
        run = _KeepRun(session, output, plan)
        run.look(groups, join)
        if dry_run or plan.is_off or not plan.groups:
            plan.report(run.report)
            if not plan.is_off:
                confirm.note_refusal(session, output, plan.groups, plan.offsets)
        else:
            question = _question(run.commits, run.joins)
            confirm.ask(session, output, question, yes, groups=plan.groups, offsets=plan.offsets)
            run.change(yes)


class _KeepRun:
    """One run of the command; memory holds one batch of what it plans and does."""

    def __init__(self, session: Session, output: Output, plan: ChangePlan[GroupKeep]) -> None:
        self._session = session
        self._output = output
        self._plan = plan
        self.commits = self.joins = 0
        self._has_table = False
        self._said: set[tuple[str, str]] = set()

    def look(self, groups: Sequence[str], join: bool) -> None:
        """Plan, and show the plan on stderr."""
        batches = AdaptiveBatches(groups)
        if batches.are_many:
            first, rest = groups[: self._output.canary or 0], groups[self._output.canary or 0 :]
            by_partition = self._session.run(by_log(self._session.cluster, rest))
            batches = AdaptiveBatches([*first, *by_partition])
        with Meter(self._output, "Looking", len(groups)) as meter:
            while names := batches.next():
                looked = plan_keep(self._session.cluster, names, now_ms(), join=join)
                found: KeepPlan = self._session.run(looked)
                batch = self._plan.add(found.groups)
                batches.learn(len(names), sum(len(group.rows) for group in batch))
                self._show(found, open_rows(*batch))
                meter.add(len(names))
        # Patterns without a match, and brokers whose log can't be read.
        self._plan.is_off |= self._plan.all_or_nothing and bool(self._output.errors)

    def _show(self, found: KeepPlan, rows: Sequence[KeepRow]) -> None:
        output = self._output
        for problem in found.expiries.errors:
            if problem not in output.errors:
                output.failed(problem)
        for line in explain_rules(g.broker for g in found.expiries.groups.values()):
            output.note_once(line)
        self.commits += sum(row.how == "commit" for row in rows)
        self.joins += len({row.group for row in rows if row.how == "join"})
        if rows:
            output.note_once("Committed offsets to keep:")
            preview(output, shown(KEEP), [_row(row) for row in rows])

    def change(self, yes: bool) -> None:
        """Keep the offsets, with a journal. There is nothing to undo: they stay the same."""
        session, output, plan = self._session, self._output, self._plan
        with CommandChange(session, output) as change:
            change.lock(plan.groups)

            def again(batch: list[GroupKeep]) -> list[GroupKeep]:
                return session.run(look_again(session.cluster, batch))

            def execute(part: list[GroupKeep]) -> list[GroupKeep]:
                return session.run(
                    journaled_keep(
                        session.cluster, change, part, now_ms, all_or_nothing=plan.all_or_nothing
                    )
                )

            plan.change(session, output, "Keeping", again, execute, self.report, yes=yes)
        change.say()

    def report(self, groups: Sequence[GroupKeep]) -> None:
        """Report the outcome of some groups."""
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
                output.note(f"Note: group {group.group} has no committed offset.")
            for row in group.rows:
                self._put(row)

    def _put(self, row: KeepRow) -> None:
        output = self._output
        said = (row.group, row.error.message if row.error is not None else "")
        if row.error is not None and said not in self._said:  # once a group
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
