"""``kgtool reset-offsets``: set the committed offsets of groups that have no members."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import click

from kgtool import timespec
from kgtool.changes.kinds.reset_offsets import ResetOffsets
from kgtool.changes.plan import DiskList, open_rows
from kgtool.changes.reset.rows import members
from kgtool.changes.reset.targets import GroupReset, ResetRequest, Strategy
from kgtool.cli.app import exits, kafka_refusals
from kgtool.cli.app.nearest import did_you_mean
from kgtool.cli.change import confirm
from kgtool.cli.change.journaled import wait_until_empty
from kgtool.cli.change.run import ChangeRun
from kgtool.cli.commands.delete_offsets import refuse_share_resets, with_topics
from kgtool.cli.options.change import ChangeOptions, all_or_nothing_option, change_options
from kgtool.cli.options.declare import declare, flag, option, repeatable
from kgtool.cli.options.group_selection import Selection, choose
from kgtool.cli.options.shared import group_options, line_of, open_session
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


class Line(NamedTuple):
    """The command's own options, as they were given."""

    selection: Selection
    topic: tuple[TopicSpec, ...]
    all_topics: bool
    to_earliest: bool
    to_latest: bool
    to_current: bool
    to_offset: str | None
    shift_by: str | None
    to_datetime: str | None
    by_duration: str | None
    from_file: str | None
    like: str | None
    execute: bool
    export: bool
    create: bool
    wait_empty: str | None
    force: bool
    to: str | None = None
    group: tuple[str, ...] | None = None
    """Kafka's form: the groups, as often as they were named."""

    @property
    def has_one_group(self) -> bool:
        """Whether the lines of a CSV file have no group."""
        names = self.selection.groups if self.group is None else self.group
        return len(names) == 1 and not self.selection.needs_listing


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
@line_of(Line)
def command(settings: Settings, output: Output, line: Line, change: ChangeOptions) -> int | None:
    """Set the committed offsets of groups that have no members.

    Without --execute it shows a preview, and asks if it is on a terminal. What can't be reset (a
    group with members, an unknown group or partition) is listed with the reason; the rest is reset.
    """
    if not line.topic:
        selection, topics = with_topics(line.selection)
        line = line._replace(selection=selection, topic=tuple(topics))
    line.selection.check("reset-offsets")
    line = _with_to(line)
    kafka_refusals.check_reset(_names(line, change))
    options = _options(output, line, change, settings.timeout_ms)
    if options.execute:
        confirm.require(change)
    elif not (change.dry_run or options.export) and output.is_text and confirm.is_interactive():
        options = options._replace(asks=True)
    return _run(settings, output, line.selection, options)


def _with_to(line: Line) -> Line:
    """Return ``--to earliest`` as ``--to-earliest``; what is no such word is a time."""
    where = line.to
    if where is None:
        return line
    if timespec.may_be_seconds(where):
        raise UsageError(
            f"--to takes earliest, latest or a time, not '{where}': --to-offset {where} is an "
            "offset."
        )
    word = where.lower()
    word = {"beginning": "earliest", "start": "earliest", "end": "latest"}.get(word, word)
    if word == "earliest":
        return line._replace(to=None, to_earliest=True)
    if word == "latest":
        return line._replace(to=None, to_latest=True)
    if word == "current":
        return line._replace(to=None, to_current=True)
    if near := did_you_mean(word, ["earliest", "latest", "current"]):
        raise UsageError(f"--to takes earliest, latest or a time, not '{where}'{near}.")
    if line.to_datetime not in (None, where):
        raise UsageError("--to and --to-datetime exclude each other.")
    return line._replace(to=None, to_datetime=where)


def kafka_form(settings: Settings, output: Output, line: Line, change: ChangeOptions) -> int | None:
    """Reset as ``kafka-consumer-groups.sh --reset-offsets`` does: without asking."""
    if not line.execute and not change.dry_run:
        output.note(reset_report.NO_EXECUTE)
    options = _options(output, line, change, settings.timeout_ms)
    return _run(settings, output, line.selection, options)


def _names(line: Line, change: ChangeOptions) -> set[str]:
    """Return the names of the options that were given, as Kafka spells them."""
    given = {**line._asdict(), **change._asdict()}
    given.pop("selection")  # which checks the options about groups itself
    names = {
        name.replace("_", "-") for name, value in given.items() if value not in (None, False, ())
    }
    return names | ({"group"} if line.selection.is_given else set())


# ---------------------------------------------------------------------------------------------
# Options


def _options(output: Output, line: Line, change: ChangeOptions, timeout_ms: int) -> ResetOptions:
    """Read the options.

    :raises UsageError: a value is invalid.
    :raises ConfigError: the file is.
    """
    topics = line.topic or None
    if line.from_file is not None and (topics or line.all_topics):
        ignored = "--topic" if topics else "--all-topics"
        output.note(f"Note: {ignored} is ignored: the file of --from-file says what is reset.")
    return ResetOptions(
        strategy=_strategy(output, line, timeout_ms),
        topics=topics,
        has_one_group=line.has_one_group,
        execute=line.execute,
        export=line.export,
        create=line.create,
        force=line.force,
        wait_seconds=timespec.waiting_seconds(line.wait_empty),
        change=change,
    )


def _strategy(output: Output, line: Line, timeout_ms: int) -> Strategy:
    for kind, is_meant in (
        ("to-earliest", line.to_earliest),
        ("to-latest", line.to_latest),
        ("to-current", line.to_current),
    ):
        if is_meant:
            return Strategy(kind)
    for kind, text in (("to-offset", line.to_offset), ("shift-by", line.shift_by)):
        if text is not None:
            return Strategy(kind, timespec.parse_long(text, kind))
    if line.to_datetime is not None:
        text = line.to_datetime
        if timespec.may_be_seconds(text):
            when = moment(int(text), "milliseconds")
            output.note(f"Warn: {text} is taken as milliseconds since the epoch: {when}.")
        return Strategy("to-datetime", timespec.time_ms(text, now_ms()))
    if line.by_duration is not None:
        return Strategy("to-datetime", timespec.before_ms(line.by_duration, now_ms()))
    if line.like is not None:
        return Strategy("like", like=line.like)
    assert line.from_file is not None
    selection = line.selection
    is_single = len(selection.groups) == 1 and not selection.needs_listing
    group = selection.groups[0] if is_single else None
    found = csv_file.read(line.from_file, group, timeout_ms)
    for note in found.replaced:
        output.note(escape(f"Note: {line.from_file}: {note}"))
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


class _ResetRun(ChangeRun[GroupReset]):
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
        reset_report.put(output, wave, self.reset.strategy)
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
