"""``kgtool delete``: delete groups with all their committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from kgtool.changes.groups import delete as deletion
from kgtool.changes.hidden_offsets import HiddenOffsets
from kgtool.changes.plan_rows import skip
from kgtool.cli.change import confirm, impact
from kgtool.cli.change.canary import Canary, not_reached
from kgtool.cli.change.journaled import UNDO_NOTE_GROUPS, CommandChange
from kgtool.cli.options.declare import declare, flag
from kgtool.cli.options.group_selection import Selection, choose
from kgtool.cli.options.shared import change_options, group_options, open_session
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
@flag(
    "--force",
    "Also groups of other types (share, streams, connect), and with a transaction pending.",
)
@change_options(all_or_nothing=True)
def command(
    settings: Settings,
    output: Output,
    selection: Selection,
    force: bool,
    all_or_nothing: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete groups that have no members."""
    selection.check("delete")
    confirm.require(yes, dry_run)
    with open_session(settings) as session:
        groups = choose(session, output, selection, DELETE).groups
        hidden = HiddenOffsets(groups, output.note_once, refuse=not force)
        run = _DeleteRun(session, output, force, all_or_nothing, hidden)
        plan = run.plan(groups)
        names = _open_groups(plan)
        if dry_run or not names:
            run.preview(plan)
            return
        _show_plan(output, plan, names)
        used = None if yes else impact.show(session, output, names, selection)
        hidden.warn(names)
        question = f"Delete {counted(len(names), 'group')}?"
        confirm.ask(session, output, question, yes, used, groups=names, offsets=plan.offsets)
        change, done = run.delete(names, plan.agreed, yes=yes)
    outcome = {row.group: row for row in done}
    _report(output, [outcome.get(row.group, row) for row in plan.rows])
    change.say()


def kafka_form(
    settings: Settings, output: Output, selection: Selection, given: dict[str, Any]
) -> None:
    """Delete as ``kafka-consumer-groups.sh --delete`` does: without asking."""
    with open_session(settings) as session:
        groups = choose(session, output, selection, DELETE).groups
        hidden = HiddenOffsets(groups, output.note_once, refuse=False, is_long=False)
        run = _DeleteRun(session, output, given["force"], given["all_or_nothing"], hidden)
        if given["dry_run"] or run.all_or_nothing:
            plan = run.plan(groups)
            if given["dry_run"] or (plan.rows and not _open_groups(plan)):
                run.preview(plan)
                return
        change, done = run.delete(groups, yes=True)
    _report(output, done)
    change.say()


def _open_groups(plan: deletion.DeletionPlan) -> list[str]:
    return [row.group for row in plan.rows if row.is_open]


def _show_plan(output: Output, plan: deletion.DeletionPlan, names: Sequence[str]) -> None:
    """Show the plan on stderr; failures are repeated in the report."""
    output.note(f"This deletes {counted(len(names), 'group')} and all their committed offsets:")
    for group in names:
        output.note(f"  {escape(group)}")
    for row in plan.rows:
        if row.error is not None:
            said = f"{row.error.message}{hint_of(row.error)}"
            output.note(f"  {escape(row.group)}: will not be deleted: {escape(said)}")
    output.note(UNDO_NOTE_GROUPS)
    if plan.has_share:
        output.note("Warning: share groups keep their state elsewhere: undo does not restore it.")


class _DeleteRun(NamedTuple):
    """One run of the command, in either form."""

    session: Session
    output: Output
    force: bool
    all_or_nothing: bool
    hidden: HiddenOffsets

    def plan(self, groups: Sequence[str]) -> deletion.DeletionPlan:
        """Plan the deletion: of nothing, if anything fails and all or nothing was asked for."""
        with Meter(self.output, "Looking", len(groups)) as meter:
            looked = deletion.plan_deletions(
                self.session.cluster,
                groups,
                force=self.force,
                hidden=self.hidden,
                on_rows=lambda rows: meter.add(len(rows)),
            )
            plan: deletion.DeletionPlan = self.session.run(looked)
        # Groups that were not found are errors already, and in no plan.
        if self.all_or_nothing and (self.output.errors or any(map(has_failed, plan.rows))):
            return deletion.DeletionPlan(skip(plan.rows), {}, 0)
        return plan

    def preview(self, plan: deletion.DeletionPlan) -> None:
        """Report what would be deleted."""
        self.hidden.warn(_open_groups(plan))
        _report(self.output, plan.rows, is_preview=True)
        confirm.note_refusal(
            self.session,
            self.output,
            list(plan.agreed),
            plan.offsets,
            removes=True,
            is_blind=self.hidden.is_blind,
        )

    def delete(
        self, groups: Sequence[str], agreed: Mapping[str, int] | None = None, *, yes: bool
    ) -> tuple[CommandChange, list[GroupDeletion]]:
        """Delete groups, with a journal of their offsets.

        :param agreed: digests of the offsets in the plan; groups that differ now are left alone.
        """
        session, output = self.session, self.output
        known: list[GroupDeletion] = []
        canary = Canary(session, output, len(groups), yes=yes)
        change = CommandChange(session, output)
        with _reported(output, known), change, Meter(output, "Deleting", len(groups)) as meter:

            def report(done: Sequence[GroupDeletion]) -> None:
                change.results(done)
                known.extend(done)
                meter.add(len(done))

            def delete(part: list[str]) -> list[GroupDeletion]:
                return session.run(
                    deletion.delete_groups(
                        session.cluster,
                        part,
                        agreed=agreed,
                        force=self.force,
                        all_or_nothing=self.all_or_nothing,
                        before_change=change.before,
                        hidden=self.hidden,
                        on_rows=report,
                    )
                )

            def count() -> tuple[list[str], int]:
                plan = self.plan(groups)
                return list(plan.agreed), plan.offsets

            change.lock(groups)
            if agreed is None:
                change.foresee(count)
            done = canary.run(
                list(groups),
                delete,
                lambda group: GroupDeletion(group, "not-reached", not_reached(group)),
            )
        return change, done


@contextmanager
def _reported(output: Output, known: Sequence[GroupDeletion]) -> Iterator[None]:
    """Report the known outcomes if an error (a full disk, Ctrl-C) ends the run."""
    try:
        yield
    except BaseException:
        if known:
            _report(output, known, is_all=False)
        raise


def _report(
    output: Output, done: Sequence[GroupDeletion], *, is_all: bool = True, is_preview: bool = False
) -> None:
    """Report the outcome; in text, with the sentences of Kafka's tool."""
    failed = [row for row in done if row.error is not None]
    if failed and output.is_kafka_form:
        output.note("Error: Deletion of some consumer groups failed:")
    for row in done:
        if row.error is None:
            output.item(build_row(row, DELETE))
            continue
        if output.is_kafka_form:
            said = escape(f"{kafka_tables.java_error(row.error)}{hint_of(row.error)}")
            output.note(f"* Group '{escape(row.group)}' could not be deleted due to: {said}")
        output.failed(row.error, row=build_row(row, DELETE), quiet=output.is_kafka_form)
    skipped = _names(row for row in done if row.status == "skipped")
    if skipped:
        output.note(f"Skipped, as all or nothing was asked for: {skipped}")
    good = _names(row for row in done if row.error is None and row.status != "skipped")
    is_whole = not (failed or skipped) and (good or output.is_kafka_form)
    if is_preview and good:
        output.text(f"Dry run: these consumer groups would be deleted: {good}")
    elif is_preview and is_whole:
        output.text("Dry run: no consumer group would be deleted.")
    elif is_all and is_whole:
        output.text(f"Deletion of requested consumer groups ({good}) was successful.")
    elif good:
        output.text(f"\nThese consumer groups were deleted successfully: {good}")


def _names(rows: Iterable[GroupDeletion]) -> str:
    return ", ".join(f"'{escape(row.group)}'" for row in rows)
