"""``reset-offsets``: plan, show, ask if need be, change and report, batch by batch."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from kgtool.changes.plan_rows import open_rows
from kgtool.changes.reset.execute import execute_resets, look_again
from kgtool.changes.reset.plan import plan_resets
from kgtool.changes.reset.rows import members
from kgtool.changes.reset.targets import GroupReset, ResetRequest, Strategy
from kgtool.cli.app import exits
from kgtool.cli.change import confirm
from kgtool.cli.change.canary import Canary, rows_not_reached
from kgtool.cli.change.journaled import UNDO_NOTE, Change, wait_until_empty
from kgtool.cli.change.plan import DiskList, Plan, can_all_be_done
from kgtool.cli.options.group_selection import Selection, choose
from kgtool.cli.options.shared import open_session
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import Meter
from kgtool.cli.output.tables import TableStream, preview
from kgtool.cli.reset import report as reset_report
from kgtool.columns import shown
from kgtool.columns.changes import RESET
from kgtool.config import Settings
from kgtool.model import GroupDescription, TopicSpec
from kgtool.net.session import Session
from kgtool.queries.offsets.adaptive_batches import AdaptiveBatches
from kgtool.text import counted, escape, moment


class ResetOptions(NamedTuple):
    """All options but the selection of groups."""

    strategy: Strategy
    topics: tuple[TopicSpec, ...] | None
    """None: every partition with a committed offset (or a line in the file)."""
    execute: bool
    export: bool
    has_one_group: bool
    """A single --group: CSV lines then have no group."""
    create: bool
    force: bool
    all_or_nothing: bool
    wait_seconds: float
    yes: bool
    asks: bool = False
    """Ask after the preview: without ``--execute``, on a terminal."""

    @property
    def may_change(self) -> bool:
        """Whether the run may change anything."""
        return self.execute or self.asks


def run(
    settings: Settings, output: Output, selection: Selection, options: ResetOptions
) -> int | None:
    """Reset offsets; return the exit status, None for that of the output."""
    plan = Plan[GroupReset](all_or_nothing=options.all_or_nothing)
    rows = DiskList[list[reset_report.KafkaRow]]()
    with open_session(settings) as session, plan, rows, TableStream(output, shown(RESET)) as table:
        groups = choose(session, output, selection, RESET).groups
        _wait(session, output, groups, options.wait_seconds)
        return _Run(session, output, options, groups, plan, rows, table).run()


class _Run:
    """One run of the command; memory holds one batch of what it plans and does."""

    def __init__(
        self, session: Session, output: Output, options: ResetOptions, groups: Sequence[str],
        plan: Plan[GroupReset], kafka_rows: DiskList[list[reset_report.KafkaRow]],
        table: TableStream,
    ) -> None:  # fmt: skip
        self._session = session
        self._output = output
        self._options = options
        self._groups = list(dict.fromkeys(groups))
        self._plan = plan
        self._has_kafka_rows = False
        self._table = table
        self._kafka_rows = kafka_rows

    def run(self) -> int | None:
        """Plan, and change if asked to."""
        self._look()
        plan, may_change = self._plan, self._options.may_change
        if not (may_change and plan.groups) or plan.is_off:
            plan.report(self._report)
            self._finish()
            if not (may_change or plan.is_off or self._options.export):
                confirm.note_refusal(self._session, self._output, plan.groups, plan.offsets)
            return None
        try:
            self._ask()
        except confirm.Declined as declined:
            if self._options.execute:
                raise
            self._output.note(declined.message)
            return exits.DONE  # the preview was asked for, too
        self._options = self._options._replace(execute=True)
        with Change(self._session, self._output) as change:
            self._change(change)
        self._finish()
        change.say()
        return None

    # -- looking --------------------------------------------------------------------------

    def _look(self) -> None:
        options, plan = self._options, self._plan
        request = ResetRequest((), options.strategy, options.topics, options.create, options.force)
        # Patterns without a match and brokers that did not list their groups are errors already.
        plan.is_off = options.all_or_nothing and bool(self._output.errors)
        batches = AdaptiveBatches(self._groups)
        with Meter(self._output, "Looking", len(self._groups)) as meter:
            while names := batches.next():
                looked = plan_resets(self._session.cluster, request._replace(groups=tuple(names)))
                batch = plan.add(self._session.run(looked))
                batches.learn(len(names), sum(len(group.rows) for group in batch))
                self._show(batch, is_change=options.may_change and bool(open_rows(*batch)))
                meter.add(len(names))
        if plan.groups and options.may_change and not (plan.is_off or self._output.is_kafka_form):
            self._output.note(UNDO_NOTE)

    def _show(self, batch: Sequence[GroupReset], *, is_change: bool) -> None:
        options, output = self._options, self._output
        if output.is_kafka_form or (options.export and not is_change):
            for line in reset_report.notes(batch, options.strategy):
                output.note(escape(line))
            return
        when = options.strategy.timestamp_ms
        if when is not None:
            shown_time = moment(when, "milliseconds")
            output.note_once(f"Looking for the first records at or after {shown_time}.")
        if is_change:
            output.note_once("Committed offsets to reset:")
            if rows := reset_report.table_rows(batch):
                preview(output, shown(RESET), rows)
            for group in batch:
                if group.error is not None:
                    said = f"  {group.group}: will not be reset: {group.error.message}"
                    output.note(escape(said))

    def _ask(self) -> None:
        if not self._output.is_kafka_form:
            question = f"Reset {counted(self._plan.offsets, 'committed offset')}?"
            confirm.ask(
                self._session, self._output, question, self._options.yes,
                groups=self._plan.groups, offsets=self._plan.offsets,
            )  # fmt: skip

    # -- changing -------------------------------------------------------------------------

    def _change(self, change: Change) -> None:
        """Write what is planned, with a journal of the offsets before."""
        session, output, plan, options = self._session, self._output, self._plan, self._options
        change.lock(self._groups)
        change.admit(plan.groups, plan.offsets)
        if options.all_or_nothing and len(plan) > 1:
            looked = (
                session.run(look_again(session.cluster, batch, options.force)) for batch in plan
            )
            if not can_all_be_done(looked, self._report):
                return

        def execute(part: list[GroupReset]) -> list[GroupReset]:
            writing = execute_resets(
                session.cluster, part, force=options.force,
                all_or_nothing=options.all_or_nothing, before_change=change.before,
            )  # fmt: skip
            done: list[GroupReset] = session.run(writing)
            for group in done:
                change.results(group.rows)
            return done

        total, is_silent = len(plan.groups), options.yes or output.is_kafka_form
        canary = Canary(session, output, total, yes=is_silent)
        with Meter(output, "Resetting", total) as meter:
            for count in plan.change(
                lambda groups: canary.run(groups, execute, rows_not_reached, self._report),
                self._report,
            ):
                meter.add(count)

    # -- reporting ------------------------------------------------------------------------

    def _report(self, batch: Sequence[GroupReset]) -> None:
        """Report the outcome of a batch; the table of Kafka's tool comes at the end."""
        options, output = self._options, self._output
        reset_report.put(output, batch)
        if options.export:
            lines = reset_report.csv(batch, not options.has_one_group, sys.stdout.isatty())
            output.text(lines, end="")
        elif output.is_kafka_form:
            rows = reset_report.kafka_rows(batch)
            self._kafka_rows.append(rows)
            self._has_kafka_rows |= bool(rows)
        else:
            self._table.add(reset_report.table_rows(batch))

    def _finish(self) -> None:
        options, output = self._options, self._output
        self._table.flush()
        if options.export:
            output.text("", end="\n" if output.is_kafka_form else "")
        elif output.is_kafka_form and (self._has_kafka_rows or self._shows_empty_table()):
            for text in reset_report.kafka_table(self._kafka_rows, self._groups):
                output.text(text, end="")
        if not output.is_kafka_form and not options.execute:
            output.note("Dry run: nothing was changed; --execute does it.")

    def _shows_empty_table(self) -> bool:
        """Whether Kafka's tool prints its table after these errors, even without rows."""
        return all(
            error.name in ("NON_EMPTY_GROUP", "NOT_IN_FILE") for error in self._output.errors
        )


def _wait(session: Session, output: Output, groups: Sequence[str], seconds: float) -> None:
    if not seconds or not groups:
        return

    def say(busy: list[GroupDescription]) -> None:
        for group in busy:
            said = f"Waiting up to {seconds:g} s until group {group.group} has no members."
            output.note(escape(f"{said} {members(group)}"))

    wait_until_empty(session, groups, time.monotonic() + seconds, say)
