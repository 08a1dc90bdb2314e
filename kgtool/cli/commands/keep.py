"""``kgtool keep``: make committed offsets outlive a freeze."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kgtool.cli.app.help import examples
from kgtool.cli.confirm import consent
from kgtool.cli.describe.expiry import NEVER, UNKNOWN, explain_rules, now_ms
from kgtool.cli.flows.change import Change
from kgtool.cli.flows.course import Course, not_reached
from kgtool.cli.options.choose import choose
from kgtool.cli.options.group_selection import Selection
from kgtool.cli.options.shared import (
    change_options,
    connection_options,
    output_options,
    positions,
    selection_options,
)
from kgtool.cli.output.output import Output, error_object, sentence
from kgtool.cli.output.tables import draw, draw_for
from kgtool.columns import NAME, STATUS, Column
from kgtool.model import Target
from kgtool.text import counted, moment

if TYPE_CHECKING:
    from kgtool.changes.offsets.keep import GroupKeep, KeepPlan, KeepRow
    from kgtool.config import Settings
    from kgtool.net.session import Session

KEYS = (
    "group", "topic", "partition", "offset", "rule", "old_expires_at_ms", "new_expires_at_ms",
    "how", "status", "error",
)  # fmt: skip
_EXPLAINED = {
    "would-keep": "would be kept",
    "kept": "kept",
    "not-needed": "not needed",
    "failed": "failed",
    "changed-meanwhile": "changed meanwhile",
    "unknown": "unknown",
}


def _time(key: str) -> Any:
    def text(row: Any) -> str:
        if row[key] is not None:
            return moment(row[key])
        if key == "new_expires_at_ms" and row["status"] != "kept":
            return "-"
        return NEVER if row["rule"] is not None else UNKNOWN

    return text


COLUMNS = (
    Column("group", "GROUP", NAME),
    Column("topic", "TOPIC", NAME),
    Column("partition", "PARTITION"),
    Column("offset", "OFFSET"),
    Column("rule", "RULE"),
    Column("old_expires_at_ms", "OLD-EXPIRES-AT", text=_time("old_expires_at_ms")),
    Column("new_expires_at_ms", "NEW-EXPIRES-AT", text=_time("new_expires_at_ms")),
    Column("status", "STATUS", STATUS, text=lambda row: _EXPLAINED[row["status"]]),
)


@click.command(
    "keep",
    epilog=examples(
        "kgtool keep billing --dry-run",
        "kgtool keep billing --join --yes",
        "kgtool keep --all-groups --state Empty --join",
    ),
)
@selection_options
@positions
@click.option(
    "--join",
    is_flag=True,
    help="Join and leave groups for which only the time counts since when they are Empty.",
)
@change_options
@connection_options()
@output_options
def command(
    settings: Settings,
    output: Output,
    selection: Selection,
    join: bool,
    dry_run: bool,
    yes: bool,
) -> int:
    """Keep committed offsets for another full retention.

    Offsets whose own time counts are committed once more, as they are: those of standalone
    consumers and of KIP-848 groups. A classic group that has gone Empty is kept with --join: only
    since when it is Empty counts there, and joining and leaving it restarts that clock.
    """
    selection.check("keep")
    consent.require(yes, dry_run)
    from kgtool.changes.offsets.keep import open_rows, plan_keep
    from kgtool.net.session import Session

    with Session(settings, progress=True) as session:
        groups = choose(session, output, selection, KEYS).groups
        plan = session.run(plan_keep(session.cluster, groups, now_ms(), join=join))
        for problem in plan.expiries.errors:
            output.failed(problem)
        for line in explain_rules(g.broker for g in plan.expiries.groups.values()):
            output.note(line)
        wanted = open_rows(plan.groups)
        if dry_run or not wanted:
            _report(output, plan.groups)
            return output.finish()
        _show(output, wanted)
        touched = {row.group for row in wanted}
        consent.ask(session, output, _question(wanted), yes, groups=touched, offsets=len(wanted))
        done = _execute(session, output, plan, yes)
    _report(output, done)
    return output.finish()


def _execute(session: Session, output: Output, plan: KeepPlan, yes: bool) -> list[GroupKeep]:
    """Do it, with a journal of what was there; there is nothing to undo: offsets stay the same."""
    from kgtool.changes.offsets.keep import execute_keep, open_rows

    touched = {(row.group, row.at) for row in open_rows(plan.groups)}
    names = {group for group, _ in touched}
    going = [group for group in plan.groups if group.description.group in names]
    course = Course(session, output, len(going), yes=yes)
    with Change(session, output) as change:

        def work(part: list[GroupKeep]) -> list[GroupKeep]:
            done: list[GroupKeep] = session.run(
                execute_keep(session.cluster, part, now_ms, change.before)
            )
            change.results(
                row for group in done for row in group.rows if (row.group, row.at) in touched
            )
            return done

        change.lock(names)
        done = course.run(going, work, _has_failed, _left)
    change.say()
    outcome = {group.description.group: group for group in done}
    return [outcome.get(group.description.group, group) for group in plan.groups]


def _has_failed(group: GroupKeep) -> bool:
    return group.error is not None or any(row.error is not None for row in group.rows)


def _left(group: GroupKeep) -> GroupKeep:
    error = not_reached(group.description.group)
    rows = [
        row._replace(status="failed", error=error) if row.is_open else row for row in group.rows
    ]
    return group._replace(rows=rows)


def _question(rows: Sequence[KeepRow]) -> str:
    commits = sum(row.how == "commit" for row in rows)
    joins = len({row.group for row in rows if row.how == "join"})
    parts = []
    if commits:
        parts.append(f"Commit {counted(commits, 'offset')} once more")
    if joins:
        verb = "join and leave" if parts else "Join and leave"
        parts.append(f"{verb} {counted(joins, 'group')}")
    return f"{' and '.join(parts)}?"


def _show(output: Output, rows: Sequence[KeepRow]) -> None:
    """Say on stderr what is about to happen."""
    output.note("Committed offsets to keep:")
    output.note(draw(COLUMNS, [_row(row) for row in rows]), end="")


def _row(row: KeepRow) -> dict[str, Any]:
    fields = {key: getattr(row, key) for key in KEYS if key not in ("offset", "error")}
    fields["offset"] = row.value.offset
    fields["error"] = error_object(row.error) if row.error is not None else None
    return {key: fields[key] for key in KEYS}


def _report(output: Output, groups: Sequence[GroupKeep]) -> None:
    rows = [row for group in groups for row in group.rows]
    if rows and output.is_text:
        output.text(draw_for(output, COLUMNS, [_row(row) for row in rows]), end="")
    said: set[tuple[str, str]] = set()
    for group in groups:
        if group.error is not None:
            output.failed(group.error)
        elif not group.rows:
            output.done += 1
            output.note(f"Note: group {group.description.group} has no committed offset.")
        for row in group.rows:
            if row.error is None:
                output.done += 1
                output.row(_row(row))
                continue
            if (row.group, row.error.message) not in said:  # it mostly concerns the whole group
                said.add((row.group, row.error.message))
                output.note(sentence(row.error._replace(target=Target(group=row.group))))
            output.failed(row.error, row=_row(row), quiet=True)
