"""``kgtool cleanup apply``: a plan, part by part, each looked at again before it is touched."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kgtool.changes.cleanup.apply import GROUPS_AT_ONCE, ItemResult, PlanRun, size
from kgtool.changes.cleanup.plan_file import DELETE_OFFSETS, CleanupPlan, PlanItem
from kgtool.changes.cleanup.progress import PlanProgress
from kgtool.changes.journal import history
from kgtool.changes.journal.journal import UNDONE
from kgtool.changes.policy import Guard
from kgtool.cli.change import confirm
from kgtool.cli.change.canary import Course
from kgtool.cli.change.impact import used
from kgtool.cli.change.journaled import NOT_ALL_COMES_BACK, Change, folder, origin
from kgtool.cli.cleanup.plan import say_left_out, summary
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import Meter
from kgtool.cli.output.rows import build_row
from kgtool.cli.output.tables import show_table
from kgtool.client.ops import cut
from kgtool.clock import now_ms
from kgtool.columns import shown
from kgtool.columns.changes import APPLIED, CLEANUP_APPLY
from kgtool.errors import KgError
from kgtool.net.session import Session
from kgtool.text import counted, escape

_NOT_NOW = ("waiting", "not-reached", "done-before")
"""Results for which this run has done nothing."""


class Options(NamedTuple):
    """How to apply: see ``kgtool cleanup apply --help``."""

    path: Path
    dry_run: bool
    yes: bool
    rate: float | None = None
    allow_blind: bool = False


class Apply:
    """One run of ``cleanup apply``, from the first question to the end report."""

    def __init__(
        self, session: Session, output: Output, plan: CleanupPlan, options: Options
    ) -> None:
        self._session = session
        self._output = output
        self._plan = plan
        self._options = options
        self._results: list[ItemResult] = []
        self._journals: list[str] = []
        self._change: Change | None = None
        say = output.note_once
        self._run = PlanRun(session, plan, options.path, say, allow_blind=options.allow_blind)

    def run(self) -> int:
        """Do it; return the exit status."""
        if self._options.dry_run:
            self._look()
            return self._report()
        header = self._plan.header
        with PlanProgress(folder(), header.id, self._session.cluster_id) as progress:
            self._journals = list(progress.journals)
            left = self._settle(progress.results)
            if not left:
                return self._report()
            self._ask(left, sum(item.changes for item in self._plan.items) - len(left))
            self._work(left, progress)
        return self._report()

    def _settle(self, results: Mapping[str, str]) -> list[PlanItem]:
        """Return what is still to be done; the others have their result at once."""
        left, settled = self._run.settle(results)
        self._take(settled)
        return left

    # -- asking ---------------------------------------------------------------------------

    def _ask(self, left: Sequence[PlanItem], done_before: int) -> None:
        output = self._output
        if done_before:
            output.note(f"{done_before} are already done; now the rest.")
        show_plan(output, self._plan, left)
        self._run.look_ahead(left)
        question = f"Apply the plan to {counted(len(left), 'group')}?"
        groups, offsets = size(left)
        confirm.ask(
            self._session, output, question, self._options.yes, self._used(left), groups=groups,
            offsets=offsets,
        )  # fmt: skip

    def _used(self, left: Sequence[PlanItem]) -> tuple[str, str | None] | None:
        """Return the group that was used last, and when, if that was not long ago; else one of
        which the plan does not know when."""
        times = {i.group: max(i.last_commit_ms or 0, i.last_change_ms or 0) for i in left}
        known = {group: at for group, at in times.items() if at}
        unknown = [(group, None) for group in times if group not in known]
        return used(known, now_ms()) or next(iter(unknown), None)

    # -- working --------------------------------------------------------------------------

    def _look(self) -> None:
        """Look at everything, and touch nothing."""
        left = self._settle({})
        groups, offsets = size(left)
        Guard(self._session, origin(self._output)).limit(groups)
        show_plan(self._output, self._plan, left)
        self._run.look_ahead(left)
        for items in self._parts(left):
            self._take(self._run.look(items))
        confirm.foretell(
            self._session, self._output, groups, offsets, removes=True,
            is_blind=self._run.hidden.is_blind,
        )  # fmt: skip

    def _work(self, left: Sequence[PlanItem], progress: PlanProgress) -> None:
        meter = Meter(self._output, "Cleaning up", len(left))
        course = Course(self._session, self._output, len(left), yes=self._options.yes)
        done: list[PlanItem] = []
        try:
            with Change(self._session, self._output) as change, meter:
                for items in course.parts(self._parts(left)):
                    began = time.monotonic()
                    meter.set(len(done), *self._troubles())
                    self._take(self._run.apply(items, change, progress))
                    done += items
                    skipped, failed = self._troubles()
                    if not course.goes_on(len(done), failed=failed, skipped=skipped):
                        self._take([ItemResult(item, "not-reached") for item in left[len(done) :]])
                        break
                    self._wait(len(items), began, len(done) < len(left))
        except BaseException as error:
            how = "Stopped" if isinstance(error, Exception) else "Interrupted"
            self._output.note(
                f"{how}: {len(done)} of {counted(len(left), 'group')} are finished. Run the "
                "same command again to finish the rest."
            )
            raise
        if change.journal_id is not None:
            self._journals.append(change.journal_id)
            self._change = change

    def _parts(self, left: Sequence[PlanItem]) -> list[list[PlanItem]]:
        """Cut the work into parts: no more at once than the rate lets pass."""
        at_once = GROUPS_AT_ONCE
        if self._options.rate is not None:
            at_once = max(1, min(at_once, int(self._options.rate)))
        return cut(left, at_once)

    def _wait(self, groups: int, began: float, is_more: bool) -> None:
        if self._options.rate is None or not is_more:
            return
        pause = groups / self._options.rate - (time.monotonic() - began)
        if pause > 0:
            time.sleep(pause)
            self._session.loop.extend(pause)

    # -- saying ---------------------------------------------------------------------------

    def _take(self, results: Sequence[ItemResult]) -> None:
        for result in results:
            self._results.append(result)
            if result.error is None:
                self._output.done += result.status not in _NOT_NOW
                self._output.row(row_of(result))
            else:
                is_shown = result.status == "skipped" and self._output.is_text
                self._output.failed(result.error, row=row_of(result), quiet=is_shown)

    def _troubles(self) -> tuple[int, int]:
        by_status = Counter(result.status for result in self._results)
        return by_status["skipped"], by_status["failed"]

    def _say_way_back(self) -> None:
        """Say how to take back what this run did, and what earlier, interrupted ones did."""
        if self._change is not None:
            self._change.say()
        older = self._journals if self._change is None else self._journals[:-1]
        older = [journal for journal in older if _can_be_undone(journal)]
        if older:
            listed = ", then ".join(f"kgtool undo {journal}" for journal in reversed(older))
            self._output.note(f"Earlier runs of this plan are undone by {listed}.")

    def _report(self) -> int:
        show_table(self._output, shown(CLEANUP_APPLY), [row_of(each) for each in self._results])
        by_word = Counter(APPLIED[result.status] for result in self._results)
        said = ", ".join(f"{count} {words}" for words, count in by_word.items())
        self._output.note(f"{said or 'Nothing is in the plan'}.")
        self._say_way_back()
        status = self._output.finish()
        if any(result.status == "not-reached" for result in self._results) and not status:
            return 3
        return status


# ---------------------------------------------------------------------------------------------
# What it says: the plan before, and each item's result


def _can_be_undone(journal: str) -> bool:
    try:
        return history.find(folder(), journal).state != UNDONE
    except KgError:  # it was pruned
        return False


def row_of(result: ItemResult) -> dict[str, Any]:
    """Return a result as a row."""
    item, error = result.item, result.error
    return build_row(
        result, CLEANUP_APPLY, action=item.action, group=item.group, offsets=len(item.offsets),
        reason=None if error is None else error.message,
    )  # fmt: skip


def show_plan(output: Output, plan: CleanupPlan, left: Sequence[PlanItem]) -> None:
    """Say on stderr what is about to happen."""
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
    output.note(NOT_ALL_COMES_BACK)
