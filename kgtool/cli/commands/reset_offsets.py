"""``kgtool reset-offsets``: set the committed offsets of groups that have no members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from kgtool import timespec
from kgtool.changes.reset.targets import Strategy
from kgtool.cli.app import kafka_refusals
from kgtool.cli.change import confirm
from kgtool.cli.options.declare import declare, flag, option, repeatable
from kgtool.cli.options.group_selection import Selection
from kgtool.cli.options.shared import all_or_nothing_option, change_options, group_options
from kgtool.cli.options.types import TOPIC, Name
from kgtool.cli.output.output import Output
from kgtool.cli.reset import csv_file
from kgtool.cli.reset import report as reset_report
from kgtool.cli.reset.run import ResetOptions, run
from kgtool.clock import now_ms
from kgtool.config import Settings
from kgtool.model import TopicSpec
from kgtool.text import escape, moment


@declare(
    "reset-offsets",
    "kgtool reset-offsets --group billing --topic orders --to-earliest",
    "kgtool reset-offsets --group a --all-topics --to-datetime now-2h --execute",
    "kgtool reset-offsets --group billing --all-topics --to-current --export",
    "kgtool reset-offsets --group billing --from-file offsets.csv --execute --yes",
    "kgtool reset-offsets --group billing-eu --like billing --create --execute",
)
@group_options
@repeatable("--topic", "TOPIC[:0,1]", "A topic, or some of its partitions; repeatable.",
            type=TOPIC)  # fmt: skip
@flag("--all-topics", "Every partition with a committed offset.")
@flag("--to-earliest", "To the start of the log.")
@flag("--to-latest", "To the end of the log.")
@flag("--to-current", "To where it is; skips partitions never committed.")
@option("--to-offset", "N", "To this offset, clamped to the log.")
@option("--shift-by", "N", "By N records (negative: back), clamped to the log.")
@option("--to-datetime", "TIME", "To the first record from this time on: 2023-11-14T22:18:20Z "
        "(no zone: UTC), 1700000300000 (ms since the epoch), now-2h30m.")  # fmt: skip
@option("--by-duration", "DURATION", "To the first record newer than DURATION: 1d12h, P1D.")
@option("--from-file", "FILE", "To the offsets of a CSV file (see --export).",
        type=click.Path())  # fmt: skip
@option("--like", "GROUP", "To where another group is: all of it, or --topic.", type=Name())
@flag("--execute", "Do it; without it, this is a dry run.")
@flag("--export", "Print CSV that --from-file reads.")
@flag("--create", "Create missing groups.")
@option("--wait-empty", "TIME", "Wait up to TIME (60s, 5m) for groups to be empty.")
@all_or_nothing_option
@flag("--force", "Also where a transaction is pending.")
@change_options()
def command(settings: Settings, output: Output, selection: Selection, **given: Any) -> int | None:
    """Set the committed offsets of groups that have no members.

    Without --execute it shows a preview, and asks if it is on a terminal. What can't be reset (a
    group with members, an unknown group or partition) is listed with the reason; the rest is reset.
    """
    selection.check("reset-offsets")
    kafka_refusals.check_reset(_names(selection, given))
    options = _options(output, selection, given)
    if options.execute:
        confirm.require(options.yes, dry_run=False)
    elif not (given["dry_run"] or options.export) and output.is_text and confirm.is_interactive():
        options = options._replace(asks=True)
    return run(settings, output, selection, options)


def kafka_form(
    settings: Settings, output: Output, selection: Selection, given: dict[str, Any]
) -> int | None:
    """Reset as ``kafka-consumer-groups.sh --reset-offsets`` does: without asking."""
    if not given["execute"] and not given["dry_run"]:
        output.note(reset_report.NO_EXECUTE)
    options = _options(output, selection, given)
    return run(settings, output, selection, options)


def _names(selection: Selection, given: Mapping[str, Any]) -> set[str]:
    """Return the names of the options that were given, as Kafka spells them."""
    names = {
        name.replace("_", "-") for name, value in given.items() if value not in (None, False, ())
    }
    # Options about groups are checked by the selection.
    return names | ({"group"} if selection.is_given else set())


# ---------------------------------------------------------------------------------------------
# Options


def _options(output: Output, selection: Selection, given: Mapping[str, Any]) -> ResetOptions:
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
        strategy=_strategy(output, selection, given),
        topics=topics,
        has_one_group=len(names) == 1 and not selection.needs_listing,
        wait_seconds=timespec.waiting_seconds(given["wait_empty"]),
        **{name: value for name, value in given.items() if name in ResetOptions._fields},
    )


def _strategy(output: Output, selection: Selection, given: Mapping[str, Any]) -> Strategy:
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
    found = csv_file.read(given["from_file"], selection.groups[0] if is_single else None)
    for line in found.replaced:
        output.note(escape(f"Note: {given['from_file']}: {line}"))
    return Strategy("from-file", offsets=found.offsets)
