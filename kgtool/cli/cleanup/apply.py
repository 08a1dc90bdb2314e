"""``kgtool cleanup apply``: apply a plan in batches, each checked again before it is changed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from kgtool.changes.cleanup.apply import ItemResult, PlanRun, size
from kgtool.changes.cleanup.plan_file import DELETE_GROUP, DELETE_OFFSETS, CleanupPlan, PlanItem
from kgtool.changes.cleanup.progress import PlanProgress
from kgtool.changes.driver import Canary
from kgtool.changes.journal import history
from kgtool.changes.journal.journal import UNDONE
from kgtool.changes.kinds.apply_plan import apply_items, foreseen
from kgtool.changes.policy import Guard
from kgtool.cli.change import confirm
from kgtool.cli.change.impact import used
from kgtool.cli.change.journaled import (
    UNDO_NOTE_GROUPS,
    CommandChange,
    bare_note,
    journal_folder,
    origin,
)
from kgtool.cli.change.run import go_on_after
from kgtool.cli.cleanup.plan import say_left_out, say_share, summary
from kgtool.cli.options.change import ChangeOptions
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import Meter
from kgtool.cli.output.rows import build_row
from kgtool.cli.output.tables import TableStream
from kgtool.clock import now_ms
from kgtool.columns import Row, shown
from kgtool.columns.changes import CLEANUP_APPLY
from kgtool.errors import KgError
from kgtool.net.session import Session
from kgtool.text import counted, escape

_NOT_DONE = ("waiting", "not-reached", "done-before")
"""Statuses of items that this run has not changed."""


class Apply:
    """One run of ``cleanup apply``."""

    def __init__(
        self,
        session: Session,
        output: Output,
        plan: CleanupPlan,
        path: Path,
        options: ChangeOptions,
        *,
        allow_blind: bool,
        rate: float | None = None,
    ) -> None:
        self._session = session
        self._output = output
        self._plan = plan
        self.options = options
        self._rate = rate
        self._results: list[ItemResult] = []
        self._journals: list[str] = []
        self._began = 0.0
        self._change: CommandChange | None = None
        say = output.note_once
        self._run = PlanRun(session, plan, path, say, allow_blind=allow_blind)

    def run(self) -> int:
        """Apply the plan; return the exit status."""
        if self.options.dry_run:
            self._look()
            return self.report()
        header = self._plan.header
        with PlanProgress(journal_folder(), header.id, self._session.cluster_id) as progress:
            self._journals = list(progress.journals)
            left = self._settle(progress.results)
            if not left:
                return self.report()
            self.ask(left, sum(item.changes for item in self._plan.items) - len(left))
            self._work(left, progress)
        return self.report()

    def _settle(self, results: Mapping[str, str]) -> list[PlanItem]:
        """Return the items that are still open; report the others."""
        left, settled = self._run.open_items(results)
        self.add(settled)
        return left

    # -- asking ---------------------------------------------------------------------------

    def ask(self, left: Sequence[PlanItem], done_before: int) -> None:
        """Show what is going to be done, check that the log can be read, and ask."""
        output = self._output
        if done_before:
            output.note(f"{done_before} are already done; now the rest.")
        show_plan(output, self._plan, left, dry_run=False)
        self._run.check_log(left)
        question = f"Apply the plan to {counted(len(left), 'group')}?"
        groups, offsets = size(left)
        self.options = confirm.ask(
            self._session,
            output,
            self.options,
            question,
            self._used(left),
            groups=groups,
            offsets=offsets,
        )

    def _used(self, left: Sequence[PlanItem]) -> tuple[str, str | None] | None:
        """Return the group in most recent use, and when; else one whose last use is unknown."""
        times = {i.group: max(i.last_commit_ms or 0, i.last_change_ms or 0) for i in left}
        known = {group: at for group, at in times.items() if at}
        unknown = [(group, None) for group in times if group not in known]
        return used(known, now_ms()) or next(iter(unknown), None)

    # -- working --------------------------------------------------------------------------

    def _look(self) -> None:
        """Check everything, and change nothing."""
        left = self._settle({})
        groups, offsets = size(left)
        Guard(self._session, origin(self._output, self.options)).limit(groups)
        show_plan(self._output, self._plan, left, dry_run=True)
        self._run.check_log(left)
        self.add(foreseen(self._run, left))
        confirm.note_refusal(
            self._session,
            self._output,
            self.options,
            groups,
            offsets,
            removes=True,
            is_blind=self._run.hidden.is_blind,
        )

    def _work(self, left: Sequence[PlanItem], progress: PlanProgress) -> None:
        finished = len(self._results)
        ask = go_on_after(self._session, self._output, self.options, len(left))

        def go_on(done: int, _failed: int) -> bool:
            skipped, failed = self._counts()
            return ask(done, failed, skipped)

        canary = Canary(self.options.canary, len(left), go_on)
        at_most = None if self._rate is None else max(1, int(self._rate))
        try:
            with (
                CommandChange(self._session, self._output, self.options) as change,
                Meter(self._output, "Cleaning up", len(left)) as meter,
            ):
                self._began = time.monotonic()

                def report(results: list[ItemResult]) -> None:
                    self.add(results)
                    done = len(self._results) - finished
                    meter.set(done, *self._counts())
                    if done < len(left) and not canary.is_stopped:
                        self._wait(len(results))

                apply_items(self._run, left, change, progress, report, canary, at_most)
        except BaseException as error:
            how = "Stopped" if isinstance(error, Exception) else "Interrupted"
            done = len(self._results) - finished
            self._output.note(
                f"{how}: {done} of {counted(len(left), 'group')} are finished. Run the "
                "same command to finish the rest."
            )
            raise
        if change.journal_id is not None:
            self._journals.append(change.journal_id)
            self._change = change

    def _wait(self, groups: int) -> None:
        """Wait until ``--rate`` allows the next groups."""
        if self._rate is not None:
            pause = groups / self._rate - (time.monotonic() - self._began)
            if pause > 0:
                time.sleep(pause)
                self._session.loop.extend(pause)
            self._began = time.monotonic()

    # -- saying ---------------------------------------------------------------------------

    def add(self, results: Sequence[ItemResult]) -> None:
        """Report results."""
        for result in results:
            self._results.append(result)
            if result.error is None:
                self._output.done += result.status not in _NOT_DONE
                self._output.row(row_of(result))
            else:
                is_shown = result.status == "skipped" and self._output.is_text
                self._output.failed(result.error, row=row_of(result), quiet=is_shown)

    def _counts(self) -> tuple[int, int]:
        by_status = Counter(result.status for result in self._results)
        return by_status["skipped"], by_status["failed"]

    def say_undo(self) -> None:
        """Say how to undo this run, and earlier, interrupted ones."""
        if self._change is not None:
            self._change.say()
        older = self._journals if self._change is None else self._journals[:-1]
        older = [journal for journal in older if _can_be_undone(journal)]
        if older:
            listed = ", then ".join(f"kgtool undo {journal}" for journal in reversed(older))
            self._output.note(f"Earlier runs of this plan are undone by {listed}.")

    def report(self) -> int:
        """Report the end of the run; return the exit status."""
        with TableStream(self._output, shown(CLEANUP_APPLY), folds=True) as table:
            table.add([row_of(each) for each in self._results])
            is_told = table.is_folded
        by_word = Counter(result.status for result in self._results)
        said = ", ".join(f"{count} {words}" for words, count in by_word.items())
        if not is_told:
            self._output.note(f"{said or 'Nothing is in the plan'}.")
        self.say_undo()
        status = self._output.finish()
        if any(result.status == "not-reached" for result in self._results) and not status:
            return 3
        return status


# ---------------------------------------------------------------------------------------------
# Texts and rows


def _can_be_undone(journal: str) -> bool:
    try:
        return history.find(journal_folder(), journal).state != UNDONE
    except KgError:  # it was pruned
        return False


def row_of(result: ItemResult) -> Row:
    """Return a result as a row."""
    item, error = result.item, result.error
    return build_row(
        result,
        CLEANUP_APPLY,
        action=item.action,
        group=item.group,
        offsets=len(item.offsets),
        reason=None if error is None else error.message,
    )


def show_plan(
    output: Output, plan: CleanupPlan, left: Sequence[PlanItem], *, dry_run: bool
) -> None:
    """Show the plan on stderr."""
    header = plan.header
    output.note(escape(f"Plan {header.id}, made {header.made_at} by {header.made_by}."))
    for action, count in Counter(item.action for item in left).items():
        output.note(f"  {action}: {counted(count, 'group')}")
    output.note(f"Total: {summary(left)}")
    say_left_out(output, plan.left_out)
    living = [
        i.group for i in left if i.action == DELETE_OFFSETS and i.state not in (None, "Empty")
    ]
    if living:
        output.note(
            f"Warning: {len(living)} of them had members: what is deleted there can be undone "
            "only while they are empty."
        )
    if not dry_run:  # which saves nothing
        output.note(UNDO_NOTE_GROUPS)
    bare = [i.group for i in left if i.action == DELETE_GROUP and not i.offsets]
    if bare:
        output.note(bare_note(bare))
    say_share(output, left)
