"""``reset-offsets``: plan, show, ask where that is due, do it, and report; wave by wave."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kgtool.changes.plan_rows import settle, skip
from kgtool.changes.reset.execute import execute_resets, look_again
from kgtool.changes.reset.plan import plan_resets
from kgtool.changes.reset.rows import members
from kgtool.changes.reset.targets import GroupReset, ResetRequest, Strategy
from kgtool.cli.app import exits
from kgtool.cli.change import confirm
from kgtool.cli.change.canary import Course, can_all_be_done, leave
from kgtool.cli.change.disk_list import Spool
from kgtool.cli.change.journaled import WAY_BACK, Change, wait_until_empty
from kgtool.cli.options.group_selection import Selection, choose
from kgtool.cli.options.shared import open_session
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import Meter
from kgtool.cli.output.tables import TableStream, preview
from kgtool.cli.reset import report as reset_report
from kgtool.columns import shown
from kgtool.columns.changes import RESET
from kgtool.config import Settings
from kgtool.model import GroupDescription, TopicSpec, has_failed
from kgtool.net.session import Session
from kgtool.queries.offsets.adaptive_batches import AdaptiveBatches
from kgtool.text import counted, escape, moment


class Reset(NamedTuple):
    """What is asked for, but for the groups."""

    strategy: Strategy
    topics: tuple[TopicSpec, ...] | None
    """None: whatever has a committed offset (or stands in the file)."""
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
    """Somebody can be asked after the preview: without ``--execute``, on a terminal."""

    @property
    def is_wanted(self) -> bool:
        """Whether it may come to a change."""
        return self.execute or self.asks


def run(settings: Settings, output: Output, selection: Selection, reset: Reset) -> int:
    """Do all of it; return the exit status."""
    plan = Spool["list[GroupReset]"]()
    rows = Spool["list[reset_report.KafkaRow]"]()
    with (
        open_session(settings) as session,
        plan,
        rows,
        TableStream(output, shown(RESET)) as table,
    ):
        groups = choose(session, output, selection, RESET).groups
        _wait(session, output, groups, reset.wait_seconds)
        return _Run(session, output, reset, groups, plan, rows, table).run()


class _Run:
    """One run of the command; of what it plans and does memory holds one wave."""

    def __init__(
        self, session: Session, output: Output, reset: Reset, groups: Sequence[str],
        plan: Spool[list[GroupReset]], kafka_rows: Spool[list[reset_report.KafkaRow]],
        table: TableStream,
    ) -> None:  # fmt: skip
        self._session = session
        self._output = output
        self._reset = reset
        self._groups = list(dict.fromkeys(groups))
        self._plan = plan
        self._waves = 0
        self._going: set[str] = set()
        self._offsets = 0
        self._is_off = False
        """Whether something fails, and all or nothing was asked for."""
        self._has_table = False
        self._table = table
        self._kafka_rows = kafka_rows

    def run(self) -> int:
        """Plan, and do it where that is wanted; return the exit status."""
        self._look()
        is_wanted = self._reset.is_wanted
        if not (is_wanted and self._going) or self._is_off:
            self._report_plan()
            if not (is_wanted or self._is_off or self._reset.export):
                confirm.foretell(self._session, self._output, self._going, self._offsets)
            return self._output.finish()
        try:
            self._ask()
        except confirm.Declined as declined:
            if self._reset.execute:
                raise
            self._output.note(declined.message)
            return exits.DONE  # a preview was asked for, too
        self._reset = self._reset._replace(execute=True)
        with Change(self._session, self._output) as change:
            self._change(change)
        self._finish()
        change.say()
        return self._output.finish()

    # -- looking --------------------------------------------------------------------------

    def _look(self) -> None:
        reset = self._reset
        request = ResetRequest((), reset.strategy, reset.topics, reset.create, reset.force)
        # A pattern that matches nothing, or a broker that did not tell its groups.
        self._is_off = reset.all_or_nothing and bool(self._output.errors)
        waves = AdaptiveBatches(self._groups)
        with Meter(self._output, "Looking", len(self._groups)) as meter:
            while names := waves.next():
                looked = plan_resets(self._session.cluster, request._replace(groups=tuple(names)))
                wave = settle(self._session.run(looked), reset.all_or_nothing)
                self._plan.add(wave)
                self._waves += 1
                self._is_off |= reset.all_or_nothing and any(map(has_failed, wave))
                going = {row.group for group in wave for row in group.rows if row.is_open}
                self._going |= going
                self._offsets += reset_report.count(wave, "would-reset")
                waves.learn(len(names), sum(len(group.rows) for group in wave))
                self._show(wave, is_change=bool(going) and reset.is_wanted)
                meter.add(len(names))
        if self._going and reset.is_wanted and not (self._is_off or self._output.is_kafka_form):
            self._output.note(WAY_BACK)

    def _show(self, wave: Sequence[GroupReset], *, is_change: bool) -> None:
        """Say on stderr what is about to happen, before anything is written."""
        reset, output = self._reset, self._output
        if output.is_kafka_form or (reset.export and not is_change):
            for line in reset_report.notes(wave, reset.strategy):
                output.note(escape(line))
            return
        when = reset.strategy.timestamp_ms
        if when is not None:
            shown_time = moment(when, "milliseconds")
            output.note_once(f"Looking for the first records at or after {shown_time}.")
        if is_change:
            output.note_once("Committed offsets to reset:")
            if rows := reset_report.table_rows(wave):
                preview(output, shown(RESET), rows)
            for group in wave:
                if group.error is not None:
                    said = f"  {group.group}: will not be reset: {group.error.message}"
                    output.note(escape(said))

    def _ask(self) -> None:
        if not self._output.is_kafka_form:
            question = f"Reset {counted(self._offsets, 'committed offset')}?"
            confirm.ask(
                self._session, self._output, question, self._reset.yes, groups=self._going,
                offsets=self._offsets,
            )  # fmt: skip

    # -- changing -------------------------------------------------------------------------

    def _change(self, change: Change) -> None:
        """Write what is planned, with a journal of what was there."""
        reset = self._reset
        change.lock(self._groups)
        change.admit(self._going, self._offsets)
        if reset.all_or_nothing and self._waves > 1:
            looked = (
                self._session.run(look_again(self._session.cluster, wave, reset.force))
                for wave in self._plan
            )
            if not can_all_be_done(looked, self._report):
                return
        work = self._work(change)
        total = len(self._groups if reset.all_or_nothing else self._going)
        is_silent = reset.yes or self._output.is_kafka_form
        course = Course(self._session, self._output, total, yes=is_silent)
        with Meter(self._output, "Resetting", total) as meter:
            for wave in self._plan:
                going = [g for g in wave if reset.all_or_nothing or g.group in self._going]
                done = course.run(
                    going, work, has_failed, lambda g: leave(g, g.group), self._report
                )
                outcome = {group.group: group for group in done}
                self._report([outcome.get(group.group, group) for group in wave])
                meter.add(len(going))

    def _work(self, change: Change) -> Callable[[list[GroupReset]], list[GroupReset]]:
        reset = self._reset

        def work(part: list[GroupReset]) -> list[GroupReset]:
            writing = execute_resets(
                self._session.cluster, part, force=reset.force,
                all_or_nothing=reset.all_or_nothing, before_change=change.before,
            )  # fmt: skip
            done: list[GroupReset] = self._session.run(writing)
            for group in done:
                change.results(group.rows)
            return done

        return work

    # -- saying ---------------------------------------------------------------------------

    def _report_plan(self) -> None:
        for wave in self._plan:
            self._report(skip(wave) if self._is_off else wave)
        self._finish()

    def _report(self, wave: Sequence[GroupReset]) -> None:
        """Put out the outcome of a wave; the table of Kafka's tool comes at the end."""
        reset, output = self._reset, self._output
        reset_report.put(output, wave)
        if reset.export:
            lines = reset_report.csv(wave, not reset.has_one_group, sys.stdout.isatty())
            output.text(lines, end="")
        elif output.is_kafka_form:
            rows = reset_report.kafka_rows(wave)
            self._kafka_rows.add(rows)
            self._has_table |= bool(rows)
        else:
            self._table.add(reset_report.table_rows(wave))

    def _finish(self) -> None:
        reset, output = self._reset, self._output
        self._table.flush()
        if reset.export:
            output.text("", end="\n" if output.is_kafka_form else "")
        elif output.is_kafka_form and (self._has_table or self._goes_on()):
            for text in reset_report.kafka_table(self._kafka_rows, self._groups):
                output.text(text, end="")
        if not output.is_kafka_form and not reset.execute:
            output.note("Dry run: nothing was changed; --execute does it.")

    def _goes_on(self) -> bool:
        """Whether Kafka's tool prints its table after these errors, even if it has no rows."""
        return all(
            error.name in ("NON_EMPTY_GROUP", "NOT_IN_FILE") for error in self._output.errors
        )


def _wait(session: Session, output: Output, groups: Sequence[str], seconds: float) -> None:
    """Wait for members to leave."""
    if not seconds or not groups:
        return

    def say(busy: list[GroupDescription]) -> None:
        for group in busy:
            said = f"Waiting up to {seconds:g} s until group {group.group} has no members."
            output.note(escape(f"{said} {members(group)}"))

    wait_until_empty(session, groups, time.monotonic() + seconds, say)
