"""The report of ``reset-offsets``: rows, tables, notes before the change and failures after it.

stdout has what Kafka's tool prints. What it does not (clamping, records that are read again or
skipped) goes to stderr in Kafka's form, and into columns in the subcommand form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kgtool.changes.reset.rows import NoCommittedOffset, leaderless, not_there
from kgtool.changes.reset.targets import GroupReset, ResetRow, Strategy
from kgtool.cli.output import kafka_tables
from kgtool.cli.output.errors import error_object, is_unknown_name, sentence, together
from kgtool.cli.output.output import Output
from kgtool.cli.output.rows import build_row
from kgtool.cli.reset import csv_file
from kgtool.client.ops import grouped
from kgtool.columns import Row
from kgtool.columns.changes import RESET
from kgtool.model import ItemError
from kgtool.protocol import codes
from kgtool.text import counted, escape, listed, moment

NO_EXECUTE = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this "
    "command will require either --dry-run or --execute to be specified. You should add the "
    "--dry-run option explicitly if you are scripting this command and want to keep the current "
    "default behavior without prompting."
)
"""Kafka's warning, word for word."""

_DONE = ("reset", "would-reset")
_LINES = 20
"""Notes of one kind; the rest is counted."""


def row_of(row: ResetRow) -> dict[str, Any]:
    """Return a row of the machine formats."""
    return build_row(row, RESET, clamped=row.clamp is not None)


def table_rows(resets: Iterable[GroupReset]) -> list[Row]:
    """Return the rows of the subcommand's table, failed ones included."""
    return [
        row_of(row) | {"clamped": _clamped(row), "status": _status(row)}
        for reset in resets
        for row in reset.rows
    ]


def _clamped(row: ResetRow) -> str | None:
    if row.clamp is None:
        return None
    if row.clamp == "late":
        return "no record that late: log end"
    return f"{row.asked} is outside: log {row.clamp}"


def _status(row: ResetRow) -> str:
    if row.error is not None:
        return f"failed: {row.error.name}"
    return row.status


KafkaRow = tuple[str, str, "int | None", "int | None"]


def kafka_rows(resets: Iterable[GroupReset]) -> list[KafkaRow]:
    """Return the rows of Kafka's table: the offsets that were, or would be, reset."""
    return [(row.group, row.topic, row.partition, row.new_offset) for row in _done(resets)]


def kafka_table(batches: Iterable[Sequence[KafkaRow]], groups: Sequence[str]) -> Iterator[str]:
    """Yield the table of Kafka's tool, batch by batch; the batches are read twice."""
    topics = {row[1] for rows in batches for row in rows}
    yield kafka_tables.resets([], groups, topics)
    for rows in batches:
        yield kafka_tables.resets(rows, groups, topics).split("\n", 2)[2]


def csv(resets: Sequence[GroupReset], with_group: bool, for_terminal: bool = False) -> str:
    """Return the lines of ``--export``, which ``--from-file`` reads."""
    known = (
        (escape(row.group) if for_terminal else row.group, row.at, row.new_offset)
        for row in _done(resets)
        if row.new_offset is not None
    )
    return csv_file.export(known, with_group)


def _done(resets: Iterable[GroupReset]) -> Iterator[ResetRow]:
    return (row for reset in resets for row in reset.rows if row.status in _DONE)


# ---------------------------------------------------------------------------------------------
# Before anything is written


def notes(resets: Sequence[GroupReset], strategy: Strategy) -> Iterator[str]:
    """Yield notes about a plan, where no table shows it."""
    rows = [row for reset in resets for row in reset.rows]
    yield from _some([_warning(row, strategy) for row in rows if row.clamp is not None])
    for reset in resets:
        yield from _left_alone(reset, strategy)
    yield from _some([_counts(reset) for reset in resets if any(_done([reset]))])


def _warning(row: ResetRow, strategy: Strategy) -> str:
    """Return the message of Kafka's tool (or in its log file) about a target outside of the log."""
    if row.clamp == "late":
        end = "Falling back to latest known offset."
        where = f"Partition {row.partition} from topic {row.topic}"
        if row.log is not None and row.log.start.offset == row.log.end.offset:
            return f"Warn: {where} is empty. {end}"
        when = moment(strategy.number, "milliseconds")
        return f"Warn: {where} has no record at or after {when}. {end}"
    which = "higher than latest" if row.clamp == "end" else "lower than earliest"
    return (
        f"Warn: New offset ({row.asked}) is {which} offset for topic partition {row.at}. "
        f"Value will be set to {row.new_offset}"
    )


def _left_alone(reset: GroupReset, strategy: Strategy) -> Iterator[str]:
    names = [str(row.at) for row in reset.rows if row.status == "no-commit"]
    if names:
        group = strategy.like if strategy.kind == "like" else reset.group
        yield (
            f"Note: group {group} has no committed offset for "
            f"{listed(names, _LINES, ' and {} more')}: left alone."
        )


def _counts(reset: GroupReset) -> str:
    rows = list(_done([reset]))
    replayed = sum(row.records_replayed or 0 for row in rows)
    skipped = sum(row.records_skipped or 0 for row in rows)
    fresh = sum(row.old is None for row in rows)
    said = (
        f"Note: group {reset.group}: {counted(replayed, 'record')} to read again, "
        f"{counted(skipped, 'record')} to skip"
    )
    return (
        f"{said}; {counted(fresh, 'partition')} had no committed offset." if fresh else f"{said}."
    )


def effect(skipped: int, replayed: int, new: int) -> str:
    """Return what a reset means for the records, in one line above the question.

    :param new: partitions without a committed offset: what they skip is unknown.

    >>> effect(126, 0, 0)
    'Skips 126 records unread, replays 0.'
    >>> effect(0, 1, 2)
    'Skips 0 records, replays 1; unknown of 2 partitions without a committed offset.'
    """
    unread = " unread" if skipped else ""
    said = f"Skips {counted(skipped, 'record')}{unread}, replays {replayed:,}"
    if new:
        said += f"; unknown of {counted(new, 'partition')} without a committed offset"
    return f"{said}."


def _some(lines: list[str]) -> list[str]:
    lines = list(dict.fromkeys(lines))
    more = len(lines) - _LINES
    return lines[:_LINES] + ([f"… and {more} more like that."] if more > 0 else [])


# ---------------------------------------------------------------------------------------------
# After the change


def put(output: Output, resets: Sequence[GroupReset], strategy: Strategy) -> None:
    """Put out the rows, and on stderr each reason of failures once, with its partitions."""
    for line in _some(_failures(output, resets, strategy)):
        output.note(line)
    for reset in resets:
        for row in reset.rows:
            _put_row(output, row, reset)
        if reset.error is not None:
            output.failed(reset.error, quiet=True)


def _put_row(output: Output, row: ResetRow, reset: GroupReset) -> None:
    fields = row_of(row)
    if row.error is None:
        output.item(fields)
    elif reset.error is not None:  # one error for the whole group
        output.row(fields)
    else:
        if output.format == "ndjson":
            fields["error"] = error_object(row.error)
        output.failed(row.error, row=fields, quiet=True)


def _failures(output: Output, resets: Sequence[GroupReset], strategy: Strategy) -> list[str]:
    whole = [output.sentence(reset.error) for reset in resets if reset.error is not None]
    rows = [row for reset in resets if reset.error is None for row in reset.rows]
    if strategy.kind == "shift-by" and not output.is_kafka_form:
        rows = list(map(_in_own_words, rows))
    by_kind = grouped((_kind(row), row) for row in rows if row.error is not None)
    return [*whole, *(line for alike in by_kind.values() for line in _failure(output, alike))]


_NOTHING_TO_SHIFT = "There is no committed offset to shift."


def _in_own_words(row: ResetRow) -> ResetRow:
    """Return a row with a message that is the same for all partitions that failed so."""
    error = row.error
    if error is None or error.name != NoCommittedOffset.name:
        return row
    return row._replace(error=error._replace(message=_NOTHING_TO_SHIFT))


def _kind(row: ResetRow) -> tuple[Any, ...]:
    """Return what failures that share a sentence have in common."""
    error = row.error
    assert error is not None
    if _is_missing(row):
        return row.group, error.code
    return row.group, error.code, error.message, error.hint, row.new is None


def _is_missing(row: ResetRow) -> bool:
    missing = (codes.UNKNOWN_TOPIC_OR_PARTITION, codes.LEADER_NOT_AVAILABLE)
    return (
        row.error is not None
        and row.error.code in missing
        and row.partition is not None
        and row.new is None
    )


def _failure(output: Output, rows: list[ResetRow]) -> list[str]:
    """Return the sentences about rows that failed alike: in Kafka's form one."""
    errors = [row.error for row in rows if row.error is not None]
    is_plain = all(is_unknown_name(e) or e.message == _NOTHING_TO_SHIFT for e in errors)
    is_own = not output.is_kafka_form and is_plain
    if rows[0].partition is None or is_own:
        return [output.sentence(error) for error in together(errors)]
    return [_shared_failure(rows, errors[0])]


def _shared_failure(rows: list[ResetRow], error: ItemError) -> str:
    parts = [row.at for row in rows]
    group = f"(group {rows[0].group})"
    if _is_missing(rows[0]):
        gone = error.code == codes.UNKNOWN_TOPIC_OR_PARTITION
        said = not_there(parts) if gone else leaderless(parts)
        return escape(f"Error: {said} {group}")
    if error.code is not None and rows[0].new is not None:
        names = ", ".join(map(str, parts))
        said = f"Failed altering group offsets for the following partitions: [{names}]: "
        return sentence(error._replace(message=f"{said}{error.message} {group}"))
    if len(rows) == 1 or str(parts[0]) in error.message:
        return sentence(error)
    names = listed(parts, _LINES)
    return sentence(error._replace(message=f"{names}: {error.message} {group}"))
