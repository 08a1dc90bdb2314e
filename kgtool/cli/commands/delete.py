"""``kgtool delete``: remove groups, with everything they have committed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from kgtool.changes.groups import delete as deletion
from kgtool.changes.hidden import HiddenOffsets
from kgtool.changes.plan_rows import skip
from kgtool.cli.change import confirm, impact
from kgtool.cli.change.canary import Course, not_reached
from kgtool.cli.change.journaled import NOT_ALL_COMES_BACK, Change
from kgtool.cli.options.declare import declare, flag
from kgtool.cli.options.group_selection import Selection, choose
from kgtool.cli.options.shared import (
    all_or_nothing_option,
    change_options,
    group_options,
    open_session,
)
from kgtool.cli.output import kafka_tables
from kgtool.cli.output.errors import hint_of
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import Meter
from kgtool.cli.output.rows import build_row
from kgtool.columns.changes import DELETE
from kgtool.config import Settings
from kgtool.model import GroupDeletion, has_failed
from kgtool.net.session import Session
from kgtool.text import counted, escape


@declare(
    "delete",
    "kgtool delete --group billing",
    "kgtool delete --match 'console-consumer-*' --state Empty --dry-run",
    "kgtool delete --regex 'test-[0-9]+' --exclude test-1 --yes --reason cleanup",
)
@group_options
@flag("--force", "Also groups of other types (share, streams, connect), and with a transaction "
      "pending.")  # fmt: skip
@all_or_nothing_option
@change_options()
def command(
    settings: Settings, output: Output, selection: Selection, force: bool, all_or_nothing: bool,
    dry_run: bool, yes: bool,
) -> int:  # fmt: skip
    """Delete groups that have no members."""
    selection.check("delete")
    confirm.require(yes, dry_run)
    with open_session(settings) as session:
        groups = choose(session, output, selection, DELETE).groups
        hidden = HiddenOffsets(groups, output.note_once, refuse=not force)
        run = _Run(session, output, force, all_or_nothing, hidden)
        plan = run.settled_plan(groups)
        good = _good(plan)
        if dry_run or not good:
            return run.preview(plan)
        _show_plan(output, plan, good)
        used = None if yes else impact.say(session, output, good, selection)
        hidden.warn(good)
        question = f"Delete {counted(len(good), 'group')}?"
        confirm.ask(session, output, question, yes, used, groups=good, offsets=plan.offsets)
        change, done = run.delete(good, plan.agreed, yes=yes)
    outcome = {row.group: row for row in done}
    _report(output, [outcome.get(row.group, row) for row in plan.rows])
    change.say()
    return output.finish()


def _show_plan(output: Output, plan: deletion.DeletionPlan, good: Sequence[str]) -> None:
    """Say on stderr what is about to happen; what will be refused is said again at the end."""
    output.note(f"This deletes {counted(len(good), 'group')} and all their committed offsets:")
    for group in good:
        output.note(f"  {escape(group)}")
    for row in plan.rows:
        if row.error is not None:
            said = f"{row.error.message}{hint_of(row.error)}"
            output.note(f"  {escape(row.group)}: will not be deleted: {escape(said)}")
    output.note(NOT_ALL_COMES_BACK)
    if plan.has_share:
        output.note("Warning: share groups keep their state elsewhere: undo does not restore it.")


def kafka_form(
    settings: Settings, output: Output, selection: Selection, given: dict[str, Any]
) -> int:
    """Delete as ``kafka-consumer-groups.sh --delete`` does: without asking."""
    with open_session(settings) as session:
        groups = choose(session, output, selection, DELETE).groups
        hidden = HiddenOffsets(groups, output.note_once, refuse=False, is_long=False)
        run = _Run(session, output, given["force"], given["all_or_nothing"], hidden)
        if given["dry_run"] or run.all_or_nothing:
            plan = run.settled_plan(groups)
            if given["dry_run"] or (plan.rows and not _good(plan)):
                return run.preview(plan)
        change, done = run.delete(groups, yes=True)
    _report(output, done)
    change.say()
    return output.finish()


def _good(plan: deletion.DeletionPlan) -> list[str]:
    return [row.group for row in plan.rows if row.is_open]


class _Run(NamedTuple):
    """One run of the command, in either form."""

    session: Session
    output: Output
    force: bool
    all_or_nothing: bool
    hidden: HiddenOffsets

    def settled_plan(self, groups: Sequence[str]) -> deletion.DeletionPlan:
        """Say what will be deleted: nothing, if something fails and all or nothing was asked for.

        What was not found, and so is in no plan, fails too.
        """
        plan = self.plan(groups)
        if self.all_or_nothing and (self.output.errors or any(map(has_failed, plan.rows))):
            return deletion.DeletionPlan(skip(plan.rows), {}, 0)
        return plan

    def plan(self, groups: Sequence[str]) -> deletion.DeletionPlan:
        """Look at groups, and say what would be deleted."""
        with Meter(self.output, "Looking", len(groups)) as meter:
            looked = deletion.plan_deletions(
                self.session.cluster, groups, force=self.force, hidden=self.hidden,
                on_rows=lambda rows: meter.add(len(rows)),
            )  # fmt: skip
            plan: deletion.DeletionPlan = self.session.run(looked)
        return plan

    def preview(self, plan: deletion.DeletionPlan) -> int:
        """Put out what would be deleted; return the exit status."""
        self.hidden.warn(_good(plan))
        _report(self.output, plan.rows, is_preview=True)
        confirm.foretell(
            self.session, self.output, list(plan.agreed), plan.offsets, removes=True,
            is_blind=self.hidden.is_blind,
        )  # fmt: skip
        return self.output.finish()

    def delete(
        self, groups: Sequence[str], agreed: Mapping[str, int] | None = None, *, yes: bool
    ) -> tuple[Change, list[GroupDeletion]]:
        """Delete groups, with a journal of what they had.

        :param agreed: what they had when they were shown; what has changed since is left alone.
        """
        session, output = self.session, self.output
        known: list[GroupDeletion] = []
        change, course = Change(session, output), Course(session, output, len(groups), yes=yes)
        with _told(output, known), change, Meter(output, "Deleting", len(groups)) as meter:

            def told(done: Sequence[GroupDeletion]) -> None:
                change.results(done)
                known.extend(done)
                meter.add(len(done))

            def work(part: list[str]) -> list[GroupDeletion]:
                return session.run(
                    deletion.delete_groups(
                        session.cluster, part, agreed=agreed, force=self.force,
                        all_or_nothing=self.all_or_nothing, before_change=change.before,
                        hidden=self.hidden, on_rows=told,
                    )
                )  # fmt: skip

            def count() -> tuple[list[str], int]:
                plan = self.plan(groups)
                return list(plan.agreed), plan.offsets

            change.lock(groups)
            if agreed is None:
                change.foresee(count)
            done = course.run(
                list(groups), work, lambda row: row.error is not None,
                lambda group: GroupDeletion(group, "not-reached", not_reached(group)),
            )  # fmt: skip
        return change, done


@contextmanager
def _told(output: Output, known: Sequence[GroupDeletion]) -> Iterator[None]:
    """Put out what is known where something ends all of it, a full disk or Ctrl-C."""
    try:
        yield
    except BaseException:
        if known:
            _report(output, known, is_all=False)
        raise


def _names(rows: Iterable[GroupDeletion]) -> str:
    return ", ".join(f"'{escape(row.group)}'" for row in rows)


def _report(
    output: Output, done: Sequence[GroupDeletion], *, is_all: bool = True, is_preview: bool = False
) -> None:
    """Put out the rows; in text, the sentences of Kafka's tool."""
    failed = [row for row in done if row.error is not None]
    if failed:
        output.note("Error: Deletion of some consumer groups failed:")
    for row in done:
        if row.error is None:
            output.item(build_row(row, DELETE))
            continue
        is_kafkas = output.is_kafka_form
        why = kafka_tables.java_error(row.error) if is_kafkas else row.error.message
        said = f"{why}{hint_of(row.error)}"
        output.note(f"* Group '{escape(row.group)}' could not be deleted due to: {escape(said)}")
        output.failed(row.error, row=build_row(row, DELETE), quiet=True)
    skipped = [row for row in done if row.status == "skipped"]
    if skipped:
        output.note(f"Skipped, as all or nothing was asked for: {_names(skipped)}")
    good = [row for row in done if row.error is None and row.status != "skipped"]
    names = _names(good)
    is_whole = not (failed or skipped) and (good or output.is_kafka_form)
    if is_preview and good:
        output.text(f"Dry run: these consumer groups would be deleted: {names}")
    elif is_preview and is_whole:
        output.text("Dry run: no consumer group would be deleted.")
    elif is_all and is_whole:
        output.text(f"Deletion of requested consumer groups ({names}) was successful.")
    elif good:
        output.text(f"\nThese consumer groups were deleted successfully: {names}")
