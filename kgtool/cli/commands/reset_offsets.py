"""``kgtool reset-offsets``: set the committed offsets of groups that have no members."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kgtool import timespec
from kgtool.cli.app import exits, kafka_refusals
from kgtool.cli.app.help import examples
from kgtool.cli.confirm import consent
from kgtool.cli.flows.change import WAY_BACK, Change
from kgtool.cli.flows.course import Course, not_reached
from kgtool.cli.options.choose import choose
from kgtool.cli.options.group_selection import Selection
from kgtool.cli.options.shared import (
    Name,
    TopicSpecType,
    change_options,
    connection_options,
    output_options,
    positions,
    selection_options,
)
from kgtool.cli.output.output import Output
from kgtool.cli.reports import reset as reset_report
from kgtool.cli.reports import reset_file
from kgtool.model import TopicSpec
from kgtool.text import counted, escape

if TYPE_CHECKING:
    from kgtool.changes.reset.targets import GroupReset, Strategy
    from kgtool.config import Settings
    from kgtool.model import GroupDescription
    from kgtool.net.session import Session

_STRATEGY_OPTIONS = (
    click.option("--to-earliest", is_flag=True, help="To the start of the log."),
    click.option("--to-latest", is_flag=True, help="To the end of the log."),
    click.option("--to-current", is_flag=True,
                 help="To where it is; partitions without a committed offset are left alone."),
    click.option("--to-offset", metavar="N", help="To this offset, clamped to the log."),
    click.option("--shift-by", metavar="N",
                 help="By this many offsets (negative: back), clamped to the log."),
    click.option("--to-datetime", metavar="TIME",
                 help="To the first record from this time on: 2023-11-14T22:18:20Z (no zone: UTC), "
                      "1700000300000 (ms since the epoch), now-2h30m."),
    click.option("--by-duration", metavar="DURATION",
                 help="To the first record newer than DURATION: P1D."),
    click.option("--from-file", type=click.Path(), metavar="FILE",
                 help="To the offsets of a CSV file (see --export)."),
    click.option("--like", type=Name(), metavar="GROUP",
                 help="To where another group is, of all its partitions or those of --topic."),
)  # fmt: skip


def _strategy_options(function: Any) -> Any:
    for option in reversed(_STRATEGY_OPTIONS):
        function = option(function)
    return function


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
    is_kafka_form: bool
    asks: bool = False
    """Somebody can be asked after the preview: without ``--execute``, on a terminal."""


@click.command(
    "reset-offsets",
    epilog=examples(
        "kgtool reset-offsets --group billing --topic orders --to-earliest",
        "kgtool reset-offsets --group a --all-topics --to-datetime now-2h --execute",
        "kgtool reset-offsets --group billing --all-topics --to-current --export",
        "kgtool reset-offsets --group billing --from-file offsets.csv --execute --yes",
        "kgtool reset-offsets --group billing-eu --like billing --create --execute",
    ),
)
@selection_options
@positions
@click.option("--topic", multiple=True, type=TopicSpecType(), metavar="TOPIC[:0,1]",
              help="A topic, or some of its partitions; repeatable.")  # fmt: skip
@click.option("--all-topics", is_flag=True, help="Every partition with a committed offset.")
@_strategy_options
@click.option("--execute", is_flag=True, help="Do it; without, it is a dry run.")
@click.option("--export", is_flag=True, help="Print CSV that --from-file reads.")
@click.option("--create", is_flag=True, help="Create missing groups.")
@click.option("--wait-empty", metavar="TIME",
              help="Wait up to TIME (60s, 5m) for groups to be empty.")  # fmt: skip
@click.option("--all-or-nothing", is_flag=True,
              help="Do nothing unless all of it can be done.")  # fmt: skip
@click.option("--force", is_flag=True, help="Also where a transaction is pending.")
@change_options
@connection_options()
@output_options
def command(settings: Settings, output: Output, selection: Selection, **given: Any) -> int:
    """Set the committed offsets of groups that have no members.

    Without --execute it is a preview; on a terminal it asks then. What can't be reset (a living or
    unknown group, an unknown partition) is named with the reason, the rest is done.
    """
    kafka_refusals.check_reset(_names(selection, given))
    selection.check("reset-offsets")
    reset = _reset(output, selection, given, is_kafka_form=False)
    if reset.execute:
        consent.require(reset.yes, dry_run=False)
    elif not (given["dry_run"] or reset.export) and output.is_text and consent.is_interactive():
        reset = reset._replace(asks=True)
    return run(settings, output, selection, reset)


def kafka_form(
    settings: Settings, output: Output, selection: Selection, given: Mapping[str, Any]
) -> int:
    """Reset as ``kafka-consumer-groups.sh --reset-offsets`` does: without asking."""
    if not given["execute"] and not given["dry_run"]:
        output.note(reset_report.NO_EXECUTE)
    reset = _reset(output, selection, given, is_kafka_form=True)
    return run(settings, output, selection, reset)


def _names(selection: Selection, given: Mapping[str, Any]) -> set[str]:
    """Return the options that were given, by Kafka's names."""
    names = {
        name.replace("_", "-") for name, value in given.items() if value not in (None, False, ())
    }
    # What stands for the groups is checked by the selection itself.
    return names | ({"group"} if selection.is_given else set())


# ---------------------------------------------------------------------------------------------
# What is asked for


def _reset(
    output: Output, selection: Selection, given: Mapping[str, Any], *, is_kafka_form: bool
) -> Reset:
    """Read the options' values; nothing has been sent yet.

    :raises UsageError: a value can't be understood.
    :raises ConfigError: the file can't be.
    """
    topics: tuple[TopicSpec, ...] | None = given["topic"] or None
    if given["from_file"] is not None and (topics or given["all_topics"]):
        ignored = "--topic" if topics else "--all-topics"
        output.note(f"Note: {ignored} is ignored: the file of --from-file says what is reset.")
    wait = given["wait_empty"]
    names = given.get("group", selection.groups)
    return Reset(
        strategy=_strategy(output, selection, given),
        topics=topics,
        execute=given["execute"],
        export=given["export"],
        has_one_group=len(names) == 1 and not selection.needs_listing,
        create=given["create"],
        force=given["force"],
        all_or_nothing=given["all_or_nothing"],
        wait_seconds=timespec.waiting_seconds(wait),
        yes=given["yes"],
        is_kafka_form=is_kafka_form,
    )


def _strategy(output: Output, selection: Selection, given: Mapping[str, Any]) -> Strategy:
    from kgtool.changes.reset.targets import Strategy

    now_ms = time.time_ns() // 1_000_000
    for kind in ("to-earliest", "to-latest", "to-current"):
        if given[kind.replace("-", "_")]:
            return Strategy(kind)
    for kind in ("to-offset", "shift-by"):
        text = given[kind.replace("-", "_")]
        if text is not None:
            return Strategy(kind, timespec.parse_long(text, kind))
    if given["to_datetime"] is not None:
        _warn_of_seconds(output, given["to_datetime"])
        return Strategy("to-datetime", timespec.time_ms(given["to_datetime"], now_ms))
    if given["by_duration"] is not None:
        return Strategy("to-datetime", timespec.before_ms(given["by_duration"], now_ms))
    if given["like"] is not None:
        return Strategy("like", like=given["like"])
    is_single = len(selection.groups) == 1 and not selection.needs_listing
    found = reset_file.read(given["from_file"], selection.groups[0] if is_single else None)
    for line in found.replaced:
        output.note(escape(f"Note: {given['from_file']}: {line}"))
    return Strategy("from-file", offsets=found.offsets)


def _warn_of_seconds(output: Output, text: str) -> None:
    if timespec.may_be_seconds(text):
        when = timespec.shown_time(int(text))
        output.note(f"Warn: {text} is taken as milliseconds since the epoch: {when}.")


# ---------------------------------------------------------------------------------------------
# Doing it


def run(settings: Settings, output: Output, selection: Selection, reset: Reset) -> int:
    """Plan, show, ask where that is due, do it, and report."""
    from kgtool.changes.reset.execute import settle
    from kgtool.changes.reset.plan import plan_resets
    from kgtool.changes.reset.targets import ResetRequest
    from kgtool.net.session import Session

    with Session(settings) as session:
        groups = choose(session, output, selection, reset_report.COLUMNS).groups
        _wait(session, output, groups, reset.wait_seconds)
        request = ResetRequest(
            tuple(groups), reset.strategy, reset.topics, reset.create, reset.force
        )
        plan = session.run(plan_resets(session.cluster, request))
        plan = settle(plan, reset.all_or_nothing)
        may_change = reset.execute or reset.asks
        is_change = may_change and reset_report.count(plan, "would-reset") > 0
        _show_plan(output, plan, reset, is_change)
        if is_change:
            try:
                _ask(session, output, plan, reset)
            except consent.Declined as declined:
                if reset.execute:
                    raise
                output.note(declined.message)
                return exits.DONE  # a preview was asked for, too
            reset = reset._replace(execute=True)
            change, plan = _execute(session, output, plan, reset)
    _report(output, plan, reset)
    if is_change:
        change.say()
    return output.finish()


def _execute(
    session: Session, output: Output, plan: Sequence[GroupReset], reset: Reset
) -> tuple[Change, list[GroupReset]]:
    """Write what is planned, with a journal of what was there."""
    from kgtool.changes.reset.execute import execute_resets
    from kgtool.changes.reset.snapshots import reset_changes

    is_open = {row.group for group in plan for row in group.rows if row.status == "would-reset"}
    going = [group for group in plan if group.group in is_open]
    if reset.all_or_nothing:
        going = list(plan)
    course = Course(session, output, len(going), yes=reset.yes or reset.is_kafka_form)
    with Change(session, output) as change:

        def work(part: list[GroupReset]) -> list[GroupReset]:
            done: list[GroupReset] = session.run(
                execute_resets(
                    session.cluster,
                    part,
                    force=reset.force,
                    all_or_nothing=reset.all_or_nothing,
                    before_change=lambda rows: change.before(
                        reset_changes(session.cluster, part, rows)
                    ),
                )
            )
            for group in done:
                change.results(group.rows)
            return done

        change.lock(group.group for group in plan)
        outcome = {group.group: group for group in course.run(going, work, _has_failed, _left)}
    return change, [outcome.get(group.group, group) for group in plan]


def _has_failed(group: GroupReset) -> bool:
    return group.error is not None or any(row.error is not None for row in group.rows)


def _left(group: GroupReset) -> GroupReset:
    error = not_reached(group.group)
    rows = [
        row._replace(status="failed", error=error) if row.status == "would-reset" else row
        for row in group.rows
    ]
    return group._replace(rows=rows)


def _wait(session: Session, output: Output, groups: Sequence[str], seconds: float) -> None:
    """Wait for members to leave; the time that takes does not count against --timeout."""
    if not seconds or not groups:
        return
    from kgtool.changes.groups.wait_empty import wait_until_empty
    from kgtool.changes.reset.rows import members

    def say(busy: list[GroupDescription]) -> None:
        for group in busy:
            said = f"Waiting up to {seconds:g} s until group {group.group} has no members."
            output.note(escape(f"{said} {members(group)}"))

    began = time.monotonic()
    session.loop.extend(seconds)
    session.run(wait_until_empty(session.cluster, groups, seconds, time.monotonic, say))
    session.loop.extend(time.monotonic() - began - seconds)


def _show_plan(output: Output, plan: Sequence[GroupReset], reset: Reset, is_change: bool) -> None:
    """Say on stderr what is about to happen, before anything is written."""
    if reset.is_kafka_form or (reset.export and not is_change):
        for line in reset_report.notes(plan, reset.strategy):
            output.note(escape(line))
        return
    when = reset.strategy.timestamp_ms
    if when is not None:
        output.note(f"Looking for the first records at or after {timespec.shown_time(when)}.")
    if is_change:
        output.note("Committed offsets to reset:")
        output.note(reset_report.table(plan), end="")
        for group in plan:
            if group.error is not None:
                said = f"  {group.group}: will not be reset: {group.error.message}"
                output.note(escape(said))
        output.note(WAY_BACK)


def _ask(session: Session, output: Output, plan: Sequence[GroupReset], reset: Reset) -> None:
    if not reset.is_kafka_form:
        count = reset_report.count(plan, "would-reset")
        offsets = counted(count, "committed offset")
        groups = {row.group for group in plan for row in group.rows if row.status == "would-reset"}
        consent.ask(session, output, f"Reset {offsets}?", reset.yes, groups=groups, offsets=count)


def _report(output: Output, plan: Sequence[GroupReset], reset: Reset) -> None:
    """Put out the outcome: the table of Kafka's tool in its form, CSV where it was asked for."""
    reset_report.put(output, plan)
    if reset.export:
        lines = reset_report.csv(plan, not reset.has_one_group, sys.stdout.isatty())
        output.text(lines, end="\n" if reset.is_kafka_form else "")
    elif reset.is_kafka_form:
        output.text(reset_report.kafka_table(plan), end="")
    else:
        output.text(reset_report.table(plan), end="")
    if not reset.is_kafka_form and not reset.execute:
        output.note("Dry run: nothing was changed; --execute does it.")
