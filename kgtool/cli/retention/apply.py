"""``kgtool retention apply``: keep what is due, remove what is due, in one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kgtool.changes.cleanup.apply import ItemResult, size
from kgtool.changes.cleanup.plan_file import CleanupPlan, PlanItem
from kgtool.changes.driver import Canary, Driver, untouched
from kgtool.changes.journal.journal import KEEP
from kgtool.changes.kinds.keep import GroupKeep
from kgtool.changes.kinds.keep_planned import KeepPlanned
from kgtool.changes.plan import ChangePlan, open_rows
from kgtool.changes.retention.apply import kept_row, removed_rows, split
from kgtool.changes.retention.decide import RetentionRow
from kgtool.cli.change import confirm
from kgtool.cli.change.journaled import CommandChange
from kgtool.cli.change.run import go_on_after
from kgtool.cli.cleanup.apply import Apply, show_plan
from kgtool.cli.options.change import ChangeOptions
from kgtool.cli.output.errors import sentence
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import Meter
from kgtool.cli.output.tables import TableStream, preview
from kgtool.cli.retention.look import row_of
from kgtool.clock import now_ms
from kgtool.columns import shown
from kgtool.columns.changes import RETENTION
from kgtool.config.retention import RetentionRules
from kgtool.model import Target, TopicPartition
from kgtool.net.session import Session
from kgtool.queries.log.reader import by_log
from kgtool.queries.offsets.fetch import AdaptiveBatches
from kgtool.text import counted

FirstMs = Mapping[tuple[str, TopicPartition], int]


class RetentionOptions(NamedTuple):
    """The options of ``retention apply``."""

    change: ChangeOptions
    join: bool
    """Join and leave groups whose clock runs from when they became Empty."""
    allow_blind: bool
    """Remove even if the log can't be read."""


class RetentionApply:
    """One run: first what is kept, then what is removed, after one question.

    :param plan: what is due; its items keep, or remove.
    :param rules: the rules that it was made of, for the rows.
    :param first_ms: from which time offsets counted before kgtool kept them.
    """

    def __init__(
        self,
        session: Session,
        output: Output,
        plan: CleanupPlan,
        rules: RetentionRules,
        first_ms: FirstMs,
        options: RetentionOptions,
    ) -> None:
        self._session, self._output, self._rules = session, output, rules
        self._options = options.change
        planned, rest = split(plan)
        self._kind = KeepPlanned(now_ms, planned, first_ms, join=options.join)
        self._keeps = list(planned)
        self._removal = _Removal(self, session, output, rest, options)
        self._removals = [item for item in rest.items if item.changes]
        self._table = TableStream(output, shown(RETENTION), folds=True)

    def run(self) -> None:
        """Look, ask, change and report."""
        with ChangePlan[GroupKeep]() as plan:
            driver = Driver(self._session, self._kind)
            driver.look(plan, self._in_log_order(), self._show)
            if not plan.groups and not self._removals:
                plan.report(self._report)
                if not self._keeps:
                    self._output.note("Nothing is due.")
            elif self._options.dry_run:
                plan.report(self._report)
                groups, offsets = self._total(plan)
                confirm.note_refusal(self._session, self._output, self._options, groups, offsets)
                if self._removals:
                    self._removal.run()
            else:
                self._ask(plan)
                self._change(driver, plan)
        self._table.flush()

    def _in_log_order(self) -> list[str]:
        if not AdaptiveBatches(self._keeps).are_many:
            return self._keeps
        ordered: list[str] = self._session.run(by_log(self._session.cluster, self._keeps))
        return ordered

    def _show(self, wave: list[GroupKeep]) -> None:
        if not self._options.dry_run and not self._options.yes:
            rows = [
                kept_row(self._rules, group, row, now_ms())
                for group in wave
                for row in open_rows(group)
            ]
            if rows:
                self._output.note_once("Committed offsets to keep:")
                preview(self._output, shown(RETENTION), list(map(row_of, rows)))
        for problem in self._kind.expiries.errors:
            if problem not in self._output.errors:
                self._output.failed(problem)

    def _total(self, plan: ChangePlan[GroupKeep]) -> tuple[list[str], int]:
        groups, offsets = size(self._removals)
        return [*plan.groups, *groups], plan.offsets + offsets

    def _ask(self, plan: ChangePlan[GroupKeep]) -> None:
        parts = []
        if plan.groups:
            parts.append(f"Commit {counted(plan.offsets, 'offset')} again")
        if self._removals:
            self._removal.show()
            verb = "remove" if parts else "Remove"
            parts.append(f"{verb} {counted(size(self._removals)[1], 'offset')}")
        groups, offsets = self._total(plan)
        question = f"{' and '.join(parts)} ({counted(len(groups), 'group')})?"
        self._options = confirm.ask(
            self._session, self._output, self._options, question, groups=groups, offsets=offsets
        )
        self._removal.options = self._options._replace(yes=True)

    def _change(self, driver: Driver[GroupKeep], plan: ChangePlan[GroupKeep]) -> None:
        total = len(plan.groups)
        go_on = go_on_after(self._session, self._output, self._options, total)
        canary = Canary(self._options.canary, total, go_on)
        if plan.groups:
            change = CommandChange(self._session, self._output, self._options, command=KEEP)
            with change, Meter(self._output, "Keeping", total) as meter:

                def report(wave: list[GroupKeep]) -> None:
                    self._report(wave)
                    meter.add(len(wave))

                driver.apply(change, plan, report, canary)
        else:
            plan.report(self._report)
        if canary.is_stopped:
            self.add(
                ItemResult(item, "not-reached", untouched(item.group)) for item in self._removals
            )
        elif self._removals:
            self._removal.run()

    # -- rows -----------------------------------------------------------------------------

    def _report(self, groups: list[GroupKeep]) -> None:
        for group in groups:
            if group.error is not None:
                self._output.failed(group.error)
            for row in group.rows:
                self.put(kept_row(self._rules, group, row, now_ms()))

    def add(self, results: Iterable[ItemResult]) -> None:
        """Report what became of items that remove something."""
        for result in results:
            for row in removed_rows(self._rules, result, now_ms()):
                self.put(row)

    def put(self, row: RetentionRow) -> None:
        """Report one row."""
        output = self._output
        if row.error is not None:  # once a group
            output.note_once(sentence(row.error._replace(target=Target(group=row.group))))
        data = row_of(row)
        self._table.add([data])
        if row.status == "not-reached" or row.error is not None:
            output.failed(row.error or untouched(row.group), row=data, quiet=True)
        elif row.status == "done-before":
            output.row(data)
        else:
            output.item(data)


class _Removal(Apply):
    """The removals, as ``cleanup apply`` makes them; the whole run asks and reports."""

    def __init__(
        self,
        whole: RetentionApply,
        session: Session,
        output: Output,
        plan: CleanupPlan,
        options: RetentionOptions,
    ) -> None:
        where, change = Path(f"plan {plan.header.id}"), options.change._replace(yes=True)
        super().__init__(session, output, plan, where, change, allow_blind=options.allow_blind)
        self._whole = whole

    def show(self) -> None:
        """Show what would be removed, and check that the log can be read."""
        left = [item for item in self._plan.items if item.changes]
        show_plan(self._output, self._plan, left, dry_run=self.options.dry_run)
        self._run.check_log(left)

    def ask(self, left: Sequence[PlanItem], done_before: int) -> None:
        """Ask nothing: the whole run has."""

    def add(self, results: Sequence[ItemResult]) -> None:
        """Hand the results to the whole run."""
        self._results += results
        self._whole.add(results)

    def report(self) -> int:
        """Say how to undo it."""
        self.say_undo()
        return 0
