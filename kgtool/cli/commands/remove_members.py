"""``kgtool remove-members``: remove stuck, static and departed members from a group."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kgtool import timespec
from kgtool.changes.groups import members as removal
from kgtool.changes.groups.members import GroupRemovals, MemberChoice, MemberRemoval
from kgtool.changes.plan_rows import skip
from kgtool.changes.reset.rows import members
from kgtool.cli.change import confirm
from kgtool.cli.change.canary import Canary, rows_not_reached
from kgtool.cli.change.journaled import CommandChange, wait_until_empty
from kgtool.cli.options.declare import declare, flag, option, repeatable
from kgtool.cli.options.group_selection import Selection, choose_in_order
from kgtool.cli.options.shared import change_options, group_arguments, open_session
from kgtool.cli.output.errors import error_object
from kgtool.cli.output.output import Output
from kgtool.cli.output.rows import build_row
from kgtool.cli.output.tables import preview, show_table
from kgtool.columns import shown
from kgtool.columns.changes import MEMBERS
from kgtool.config import Settings
from kgtool.errors import UsageError
from kgtool.model import GroupDescription, ItemError, Target
from kgtool.net.session import Session
from kgtool.text import counted, escape

NO_UNDO = (
    "This can't be undone: running clients rejoin by themselves, the others have to be started. "
    "The group rebalances, and its committed offsets stay as they are."
)


@declare(
    "remove-members",
    "kgtool remove-members billing --instance-id billing-3",
    "kgtool remove-members billing --client-id old-host --dry-run",
    "kgtool remove-members billing --all --wait-empty 60s --yes",
)
@group_arguments
@repeatable(
    "--instance-id instance_ids", "ID", "A static member, by its group.instance.id; repeatable."
)
@repeatable(
    "--member-id member_ids", "ID", "A member, by the id that describe --members shows; repeatable."
)
@repeatable("--client-id client_ids", "ID", "All members with this client.id; repeatable.")
@flag("--all all_members", "All members.")
@option(
    "--wait-empty", "TIME", "Then wait up to this long (60s, 5m) for the groups to become empty."
)
@change_options(all_or_nothing=True)
def command(
    settings: Settings,
    output: Output,
    selection: Selection,
    wait_empty: str | None,
    all_or_nothing: bool,
    dry_run: bool,
    yes: bool,
    **chosen: Any,
) -> None:
    """Remove members from a group: stuck, static and departed ones.

    Members block a reset, an undo or a deletion. A static member stays for its session timeout
    after its client has died, a stuck one for its poll interval. Running clients rejoin by
    themselves: stop them first. Members of KIP-848 groups can be removed too; those of share and
    streams groups can't. It needs READ on the group, and can't be undone.
    """
    choice = MemberChoice(**chosen)
    if not any(choice):
        raise UsageError("Which members? --instance-id, --member-id, --client-id, or --all.")
    wait = timespec.waiting_seconds(wait_empty)
    confirm.require(yes, dry_run)
    with open_session(settings) as session:
        groups = choose_in_order(session, output, selection, MEMBERS)
        found = _find(session, output, groups, choice)
        names = [group.group for group in found]
        if all_or_nothing and output.errors:
            _report(output, skip(found))
            return
        if dry_run or not found:
            _report(output, found)
            confirm.note_refusal(session, output, names)
            return
        _report(output, _remove(session, output, found, yes, all_or_nothing))
        if wait:
            _wait(session, output, names, wait)


def _find(
    session: Session, output: Output, names: Sequence[str], choice: MemberChoice
) -> list[GroupRemovals]:
    """Describe the groups; report failures, and return the groups with members to remove."""
    found = []
    unique = list(dict.fromkeys(names))
    for group in session.run(removal.plan_removals(session.cluster, unique, choice)):
        description = group.description
        if group.error is not None:
            output.failed(group.error, row=_empty(description, group.error))
            continue
        for error in removal.missing(description, choice):
            output.failed(error, row=_empty(description, error))
        if group.rows:
            found.append(group)
        elif choice.all_members:
            output.done += 1
            output.note(f"Group {escape(group.group)} has no members.")
    return found


def _empty(description: GroupDescription, error: ItemError) -> dict[str, Any]:
    return {"group": description.group, "status": "failed", "error": error_object(error)}


def _remove(
    session: Session,
    output: Output,
    found: Sequence[GroupRemovals],
    yes: bool,
    all_or_nothing: bool,
) -> list[GroupRemovals]:
    rows = [_row(row) for group in found for row in group.rows]
    names = [group.group for group in found]
    output.note("Members to remove:")
    preview(output, shown(MEMBERS)[:-1], rows)
    output.note(NO_UNDO)
    confirm.ask(session, output, f"Remove {counted(len(rows), 'member')}?", yes, groups=names)
    reason = f"kgtool remove-members: {output.reason}" if output.reason else "kgtool remove-members"
    canary = Canary(session, output, len(found), yes=yes)
    with CommandChange(session, output) as change:

        def remove(part: list[GroupRemovals]) -> list[GroupRemovals]:
            removing = removal.journaled_removals(
                session.cluster, change, part, reason, all_or_nothing=all_or_nothing
            )
            return session.run(removing)

        change.lock(names)
        removed = canary.run(found, remove, rows_not_reached, lambda done: _report(output, done))
    change.say()
    return removed


def _row(row: MemberRemoval) -> dict[str, Any]:
    return build_row(row, MEMBERS, **removal.recorded(row.group, row.member))


def _report(output: Output, groups: Sequence[GroupRemovals]) -> None:
    removals = [row for group in groups for row in group.rows]
    rows = list(map(_row, removals))
    show_table(output, shown(MEMBERS), rows)
    for row, item in zip(rows, removals, strict=True):
        output.item(row, item.error)


def _wait(session: Session, output: Output, groups: list[str], seconds: float) -> None:
    """Wait until the groups have no members; members left after that are failures."""
    busy = wait_until_empty(session, groups, time.monotonic() + seconds)
    if not busy:
        output.note("No members are left. Running clients rejoin within seconds.")
    for group in busy:
        error = ItemError(
            Target(group=group.group),
            None,
            "NON_EMPTY_GROUP",
            f"Group '{group.group}' is still {group.state}. {members(group)}",
            "Their clients are running and rejoin: stop them.",
        )
        output.failed(error, row=_empty(group, error))
