"""``kgtool reset-offsets``: set the committed offsets of groups that have no members."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from kgtool import timespec
from kgtool.changes.kinds.reset_offsets import ResetOffsets
from kgtool.changes.plan import DiskList
from kgtool.changes.plan_rows import open_rows
from kgtool.changes.reset.rows import members
from kgtool.changes.reset.targets import GroupReset, ResetRequest, Strategy
from kgtool.cli.app import exits, kafka_refusals
from kgtool.cli.change import confirm
from kgtool.cli.change.journaled import wait_until_empty
from kgtool.cli.change.run import ChangeRun
from kgtool.cli.change.share import refuse_share_resets
from kgtool.cli.commands.delete_offsets import with_topics
from kgtool.cli.options.change import ChangeOptions, all_or_nothing_option, change_options
from kgtool.cli.options.declare import declare, flag, option, repeatable
from kgtool.cli.options.group_selection import Selection, choose
from kgtool.cli.options.shared import group_options, open_session
from kgtool.cli.options.types import TOPIC, Name
from kgtool.cli.output.output import Output
from kgtool.cli.output.tables import TableStream, preview
from kgtool.cli.reset import csv_file
from kgtool.cli.reset import report as reset_report
from kgtool.clock import now_ms
from kgtool.columns import shown
from kgtool.columns.changes import RESET
from kgtool.config import Settings
from kgtool.errors import UsageError
from kgtool.model import GroupDescription, TopicSpec
from kgtool.net.session import Session
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
    wait_seconds: float
    change: ChangeOptions
    asks: bool = False
    """Ask after the preview: without ``--execute``, on a terminal."""

    @property
    def may_change(self) -> bool:
        """Whether the run may change anything."""
        return self.execute or self.asks


@declare(
    "reset-offsets",
    "kgtool reset-offsets --group billing --topic orders --to-earliest",
    "kgtool reset-offsets --group a --all-topics --to-datetime now-2h --execute",
    "kgtool reset-offsets --group billing --from-file offsets.csv --execute --yes",
    "kgtool reset-offsets --group billing-eu --like billing --create --execute",
)
@group_options
@repeatable("--topic", "TOPIC[:0,1]", "A topic, or some of its partitions; repeatable.", type=TOPIC)
@flag("--all-topics", "Every partition with a committed offset.")
@option("--to", "WHERE", "earliest, latest, or a TIME as --to-datetime takes it.")
@flag("--to-earliest", "To the start of the log.")
@flag("--to-latest", "To the end of the log.")
@flag("--to-current", "To where it is; skips partitions never committed.")
@option("--to-offset", "N", "To this offset, clamped to the log.")
@option("--shift-by", "N", "By N records (negative: back), clamped to the log.")
@option(
    "--to-datetime",
    "TIME",
    "To the first record from this time on: 2023-11-14T22:18:20Z "
    "(no zone: UTC), 1700000300000 (ms since the epoch), now-2h30m.",
)
@option("--by-duration", "DURATION", "To the first record newer than DURATION: 1d12h, P1D.")
@option("--from-file", "FILE", "To the offsets of a CSV file (see --export).", type=click.Path())
@option("--like", "GROUP", "To where another group is: all of it, or --topic.", type=Name())
@flag("--execute", "Do it; without it, this is a dry run.")
@flag("--export", "Print CSV that --from-file reads.")
@flag("--create", "Create missing groups.")
@option("--wait-empty", "TIME", "Wait up to TIME (60s, 5m) for groups to be empty.")
@all_or_nothing_option
@flag("--force", "Also where a transaction is pending.")
@change_options()
def command(
    settings: Settings, output: Output, selection: Selection, change: ChangeOptions, **given: Any
) -> int | None:
    """Set the committed offsets of groups that have no members.

    Without --execute it shows a preview, and asks if it is on a terminal. What can't be reset (a
    group with members, an unknown group or partition) is listed with the reason; the rest is reset.
    """
    if not given["topic"]:
        selection, given["topic"] = with_topics(selection)
    selection.check("reset-offsets")
    given = _with_to(given)
    kafka_refusals.check_reset(_names(selection, {**given, "dry_run": change.dry_run}))
    options = _options(output, selection, given, change, settings.timeout_ms)
    if options.execute:
        confirm.require(change)
    elif not (change.dry_run or options.export) and output.is_text and confirm.is_interactive():
        options = options._replace(asks=True)
    return _run(settings, output, selection, options)


def _with_to(given: dict[str, Any]) -> dict[str, Any]:
    """Return ``--to earliest`` as ``--to-earliest``; what is no such word is a time."""
    where = given.pop("to")
    if where is None:
        return given
    if timespec.may_be_seconds(where):
        raise UsageError(
            f"--to takes earliest, latest or a time, not '{where}': --to-offset {where} is an "
            "offset."
        )
    where = {"beginning": "earliest", "start": "earliest", "end": "latest"}.get(where, where)
    key, value = f"to_{where}", True
    if key not in ("to_earliest", "to_latest", "to_current"):
        key, value = "to_datetime", where
    if given[key] not in (None, False, value):
        raise UsageError("--to and --to-datetime exclude each other.")
    return {**given, key: value}


def kafka_form(
    settings: Settings, output: Output, selection: Selection, change: ChangeOptions, **given: Any
) -> int | None:
    """Reset as ``kafka-consumer-groups.sh --reset-offsets`` does: without asking."""
    if not given["execute"] and not change.dry_run:
        output.note(reset_report.NO_EXECUTE)
    options = _options(output, selection, given, change, settings.timeout_ms)
    return _run(settings, output, selection, options)


def _names(selection: Selection, given: Mapping[str, Any]) -> set[str]:
    """Return the names of the options that were given, as Kafka spells them."""
    names = {
        name.replace("_", "-") for name, value in given.items() if value not in (None, False, ())
    }
    # Options about groups are checked by the selection.
    return names | ({"group"} if selection.is_given else set())


# ---------------------------------------------------------------------------------------------
# Options


def _options(
    output: Output,
    selection: Selection,
    given: Mapping[str, Any],
    change: ChangeOptions,
    timeout_ms: int,
) -> ResetOptions:
    """Read the options.

    :raises UsageError: a value is invalid.
    :raises ConfigError: the file is.
    """
    topics: tuple[TopicSpec, ...] | None = given["topic"] or None
    if given["from_file"] is not None and (topics or given["all_topics"]):
        ignored = "--topic" if topics else "--all-topics"
        output.note(f"Note: {ignored} is ignored: the file of --from-file says what is reset.")
    names = given.get("group", selection.groups)
    return ResetOptions(
        strategy=_strategy(output, selection, given, timeout_ms),
        topics=topics,
        has_one_group=len(names) == 1 and not selection.needs_listing,
        execute=given["execute"],
        export=given["export"],
        create=given["create"],
        force=given["force"],
        wait_seconds=timespec.waiting_seconds(given["wait_empty"]),
        change=change,
    )


def _strategy(
    output: Output, selection: Selection, given: Mapping[str, Any], timeout_ms: int
) -> Strategy:
    for kind in ("to-earliest", "to-latest", "to-current"):
        if given[kind.replace("-", "_")]:
            return Strategy(kind)
    for kind in ("to-offset", "shift-by"):
        text = given[kind.replace("-", "_")]
        if text is not None:
            return Strategy(kind, timespec.parse_long(text, kind))
    if given["to_datetime"] is not None:
        text = given["to_datetime"]
        if timespec.may_be_seconds(text):
            when = moment(int(text), "milliseconds")
            output.note(f"Warn: {text} is taken as milliseconds since the epoch: {when}.")
        return Strategy("to-datetime", timespec.time_ms(text, now_ms()))
    if given["by_duration"] is not None:
        return Strategy("to-datetime", timespec.before_ms(given["by_duration"], now_ms()))
    if given["like"] is not None:
        return Strategy("like", like=given["like"])
    is_single = len(selection.groups) == 1 and not selection.needs_listing
    group = selection.groups[0] if is_single else None
    found = csv_file.read(given["from_file"], group, timeout_ms)
    for line in found.replaced:
        output.note(escape(f"Note: {given['from_file']}: {line}"))
    return Strategy("from-file", offsets=found.offsets)


# ---------------------------------------------------------------------------------------------
# One run


def _run(
    settings: Settings, output: Output, selection: Selection, options: ResetOptions
) -> int | None:
    """Reset offsets; return the exit status, None for that of the output."""
    request = ResetRequest((), options.strategy, options.topics, options.create, options.force)
    rows = DiskList[list[reset_report.KafkaRow]]()
    with (
        open_session(settings) as session,
        rows,
        TableStream(output, shown(RESET), folds=True) as table,
    ):
        groups = choose(session, output, selection, RESET).groups
        _wait(session, output, groups, options.wait_seconds)
        run = _ResetRun(
            session,
            output,
            ResetOffsets(request, refuse_share_resets if output.is_kafka_form else list),
            groups,
            options.change._replace(dry_run=not options.may_change),
        )
        run.reset, run.kafka_rows, run.table = options, rows, table
        try:
            run.run()
        except confirm.Declined as declined:
            if options.execute:
                raise
            output.note(declined.message)
            return exits.DONE  # the preview was asked for, too
    return None


class _ResetRun(ChangeRun):
    doing, always_plans = "Resetting", True
    reset: ResetOptions
    kafka_rows: DiskList[list[reset_report.KafkaRow]]
    table: TableStream
    _has_kafka_rows = False
    _skipped = _replayed = _new = 0
    """Records of the whole plan, and partitions that had no committed offset."""

    def note_refusal(self) -> None:
        if not self.reset.export:
            super().note_refusal()

    def show(self, wave: list[GroupReset]) -> None:
        options, output = self.reset, self.output
        is_change = options.may_change and bool(open_rows(*wave))
        if output.is_kafka_form or (options.export and not is_change):
            for line in reset_report.notes(wave, options.strategy):
                output.note(escape(line))
            return
        when = options.strategy.timestamp_ms
        if when is not None:
            shown_time = moment(when, "milliseconds")
            output.note_once(f"Looking for the first records at or after {shown_time}.")
        if is_change:
            for row in open_rows(*wave):
                self._skipped += row.records_skipped or 0
                self._replayed += row.records_replayed or 0
                self._new += row.old is None
            output.note_once(f"{self.offset_word.capitalize()}s to reset:")
            if rows := reset_report.table_rows(wave):
                preview(output, shown(RESET), rows)
            for group in wave:
                if group.error is not None:
                    said = f"  {group.group}: will not be reset: {group.error.message}"
                    output.note(escape(said))

    def show_plan(self) -> None:
        self.note_undo()
        self.output.note(reset_report.effect(self._skipped, self._replayed, self._new))

    def question(self) -> str:
        return f"Reset {counted(self.plan.offsets, self.offset_word)}?"

    def change(self, *, is_planned: bool = True) -> None:
        self.reset = self.reset._replace(execute=True)
        super().change(is_planned=is_planned)

    def report(self, wave: list[GroupReset]) -> None:
        """Report the outcome of a wave; the table of Kafka's tool comes at the end."""
        output = self.output
        reset_report.put(output, wave)
        if self.reset.export:
            lines = reset_report.csv(wave, not self.reset.has_one_group, sys.stdout.isatty())
            output.text(lines, end="")
        elif output.is_kafka_form:
            rows = reset_report.kafka_rows(wave)
            self.kafka_rows.append(rows)
            self._has_kafka_rows |= bool(rows)
        else:
            self.table.add(reset_report.table_rows(wave))

    def finish(self, *, is_whole: bool = True) -> None:
        options, output = self.reset, self.output
        self.table.flush()
        if options.export:
            output.text("", end="\n" if output.is_kafka_form else "")
        elif output.is_kafka_form and (self._has_kafka_rows or self._shows_empty_table()):
            for text in reset_report.kafka_table(self.kafka_rows, self.groups):
                output.text(text, end="")
        if not output.is_kafka_form and not options.execute:
            output.note("Dry run: nothing was changed; --execute does it.")

    def _shows_empty_table(self) -> bool:
        """Whether Kafka's tool prints its table after these errors, even without rows."""
        return all(error.name in ("NON_EMPTY_GROUP", "NOT_IN_FILE") for error in self.output.errors)


def _wait(session: Session, output: Output, groups: Sequence[str], seconds: float) -> None:
    if not seconds or not groups:
        return

    def say(busy: list[GroupDescription]) -> None:
        for group in busy:
            said = f"Waiting up to {seconds:g} s until group {group.group} has no members."
            output.note(escape(f"{said} {members(group)}"))

    wait_until_empty(session, groups, time.monotonic() + seconds, say)
