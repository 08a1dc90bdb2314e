"""``kgtool delete-offsets``: take committed offsets away from groups (KIP-496)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from kgtool.cli import consent, render, rows, stakes
from kgtool.cli.choose import choose
from kgtool.cli.escape import escape
from kgtool.cli.help import examples
from kgtool.cli.journaled import WAY_BACK, Change
from kgtool.cli.options import (
    TopicSpecType,
    change_options,
    connection_options,
    output_options,
    positions,
    selection_options,
)
from kgtool.cli.output import Output, hint_of, sentence
from kgtool.cli.selection import Selection
from kgtool.errors import UsageError
from kgtool.model import (
    GroupOffsetDeletions,
    GroupOffsets,
    OffsetDeletion,
    TopicPartition,
    TopicSpec,
)
from kgtool.protocol.codes import CODES
from kgtool.words import counted

if TYPE_CHECKING:
    from kgtool.config import Settings
    from kgtool.net.session import Session

PARTITION_ERROR = "Error: Encountered some partition-level error, see the follow-up details."

_STATUS = {
    "deleted": "Successful",
    "no-offset": "Successful (there was no offset)",
    "would-delete": "Would be deleted",
}


@click.command(
    "delete-offsets",
    epilog=examples(
        "kgtool delete-offsets --group billing --topic payments:0,1",
        "kgtool delete-offsets --match 'billing-*' --topic payments --dry-run",
        "kgtool delete-offsets --all-groups --topic payments --yes -o json",
    ),
)
@selection_options
@positions
@click.option("--topic", "topics", multiple=True, type=TopicSpecType(), metavar="TOPIC[:0,1]",
              help="A topic, or some of its partitions; repeatable.")  # fmt: skip
@click.option(
    "--force",
    is_flag=True,
    help="Also groups of other protocol types (connect), and offsets with a transaction pending.",
)
@change_options
@connection_options()
@output_options
def command(
    settings: Settings,
    output: Output,
    selection: Selection,
    topics: tuple[TopicSpec, ...],
    force: bool,
    dry_run: bool,
    yes: bool,
) -> int:
    """Delete committed offsets of groups, living ones too (KIP-496)."""
    if not selection.is_given or not topics:
        raise UsageError("Option [delete-offsets] takes the following options: [group], [topic]")
    selection.check("delete-offsets")
    consent.require(yes, dry_run)
    from kgtool.net.session import Session

    with Session(settings) as session:
        groups = choose(session, output, selection, rows.DELETE_OFFSETS).groups
        results = _plan(session, output, groups, topics, dry_run, force)
        wanted = [group for group, result in results.items() if _would_delete(result)]
        if wanted and not dry_run:
            count = sum(len(_would_delete(results[group])) for group in wanted)
            used = None if yes else stakes.say(session, output, _going(results), selection)
            consent.ask(session, output, f"Delete {counted(count, 'committed offset')}?", yes, used)
            change, deleted = _delete(session, output, wanted, topics, force)
            results.update(deleted)
    _report(output, results.values(), is_kafka_form=False)
    if wanted and not dry_run:
        change.say()
    return output.finish()


def _going(results: Mapping[str, GroupOffsetDeletions]) -> stakes.Partitions:
    """Return the offsets that are about to go."""
    found = {
        group: [TopicPartition(r.topic, r.partition or 0) for r in _would_delete(result)]
        for group, result in results.items()
    }
    return {group: partitions for group, partitions in found.items() if partitions}


def _would_delete(result: GroupOffsetDeletions) -> list[OffsetDeletion]:
    return [row for row in result.rows if row.status == "would-delete"]


def _delete(
    session: Session,
    output: Output,
    groups: Sequence[str],
    topics: Sequence[TopicSpec],
    force: bool,
) -> tuple[Change, dict[str, GroupOffsetDeletions]]:
    """Delete offsets, with a journal of what was there."""
    from kgtool.admin.offsets import delete_offsets

    requests = dict.fromkeys(groups, list(topics))
    with Change(session, output) as change:
        change.lock(groups)
        done: dict[str, GroupOffsetDeletions] = session.run(
            delete_offsets(
                session.cluster, requests, False, force=force, before_change=change.before
            )
        )
        for result in done.values():
            change.results(result.rows)
    return change, done


def _foresee(
    session: Session, groups: Sequence[str], topics: Sequence[TopicSpec], force: bool
) -> dict[str, GroupOffsetDeletions]:
    from kgtool.admin.offsets import delete_offsets

    requests = dict.fromkeys(groups, list(topics))
    result: dict[str, GroupOffsetDeletions] = session.run(
        delete_offsets(session.cluster, requests, True, force=force)
    )
    return result


def _plan(
    session: Session,
    output: Output,
    groups: Sequence[str],
    topics: Sequence[TopicSpec],
    dry_run: bool,
    force: bool,
) -> dict[str, GroupOffsetDeletions]:
    """Foresee the outcome; show on stderr the offsets that are about to go."""
    from kgtool.admin.offsets import describe_offsets

    results = _foresee(session, groups, topics, force)
    affected = [group for group, result in results.items() if _would_delete(result)]
    if not affected:
        return results
    # What is only shown must not take the time of what is to be done.
    looked = describe_offsets(session.cluster, affected, list(topics), starts=False, share=0.3)
    now = session.run(looked)
    goes = {
        (row.group, row.topic, row.partition)
        for group in affected
        for row in _would_delete(results[group])
    }
    output.note("Committed offsets to delete:")
    table = render.table(
        ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LAG"),
        [
            (row.group, row.topic, row.partition, row.current_offset, row.lag)
            for found in now
            for row in found.rows
            if (row.group, row.topic, row.partition) in goes
        ],
    )
    output.note(table, end="")
    if not dry_run:
        _warn(output, now)
    return results


def _warn(output: Output, now: Iterable[GroupOffsets]) -> None:
    output.note(WAY_BACK)
    for found in now:
        description = found.description
        if description.error is None and not description.is_empty:
            members = counted(len(description.members), "member")
            output.note(
                f"Warning: group {escape(description.group)} has {members}: this can be undone "
                "only while it is empty."
            )


def kafka_form(
    settings: Settings,
    output: Output,
    selection: Selection,
    topics: Sequence[TopicSpec],
    dry_run: bool,
    force: bool,
) -> int:
    """Delete as ``kafka-consumer-groups.sh --delete-offsets`` does: without asking."""
    from kgtool.net.session import Session

    with Session(settings) as session:
        groups = choose(session, output, selection, rows.DELETE_OFFSETS).groups
        if dry_run:
            foreseen = _foresee(session, groups, topics, force)
            _report(output, foreseen.values(), is_kafka_form=True)
            return output.finish()
        change, results = _delete(session, output, groups, topics, force)
    _report(output, results.values(), is_kafka_form=True)
    change.say()
    return output.finish()


def _report(
    output: Output, results: Iterable[GroupOffsetDeletions], *, is_kafka_form: bool
) -> None:
    for result in results:
        _headline(output, result)
        if is_kafka_form:
            output.text(render.offset_deletions(result.rows), end="")
        elif result.rows:
            output.text("\n" + _table(result.rows), end="")
        for row in result.rows:
            if row.error is None:
                output.done += 1
                output.row(rows.offset_deletion(row))
            elif result.error is not None:  # said once, for the whole group
                output.row(rows.offset_deletion(row))
            else:
                output.failed(row.error, row=rows.offset_deletion(row), quiet=True)
        if result.error is not None:
            output.failed(result.error, row=None if result.rows else _empty(result), quiet=True)


def _empty(result: GroupOffsetDeletions) -> dict[str, object]:
    row = OffsetDeletion(result.group, "", None, "failed", result.error)
    return {**rows.offset_deletion(row), "topic": None}


def _headline(output: Output, result: GroupOffsetDeletions) -> None:
    """Say how it went in the words of Kafka's tool, but call no failure a success (F9)."""
    group = escape(result.group)
    if result.error is not None:
        known = CODES.get(result.error.code) if result.error.code is not None else None
        if known is None:
            output.note(sentence(result.error))
        else:
            output.note(f"Error: {known.message} (group {group}){hint_of(result.error)}")
        return
    failed = [row.error for row in result.rows if row.error is not None]
    if failed:
        output.note(PARTITION_ERROR)
        for error in failed:
            output.note(sentence(error, prefix="* "))
    elif any(row.status == "would-delete" for row in result.rows):
        output.text(f"Dry run: nothing was deleted from group {group}.")
    else:
        output.text(f"Request succeeded for deleting offsets from group {group}.")
    missing = [f"{row.topic}-{row.partition}" for row in result.rows if row.status == "no-offset"]
    if missing:
        output.note(f"Note: group {group} had no committed offset for {escape(_some(missing))}.")


def _some(names: Sequence[str], limit: int = 10) -> str:
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")


def _table(result_rows: Sequence[OffsetDeletion]) -> str:
    return render.table(
        ("GROUP", "TOPIC", "PARTITION", "STATUS"),
        [(row.group, row.topic, row.partition, _status(row)) for row in result_rows],
    )


def _status(row: OffsetDeletion) -> str:
    if row.error is not None:
        return f"Error: {row.error.name}: {row.error.message}"
    return _STATUS[row.status]
