"""``kgtool remove-members``: remove stuck, static and departed members from a group."""

from __future__ import annotations

import time

from kgtool import timespec
from kgtool.changes.groups.members import GroupRemovals, MemberChoice, MemberRemoval, recorded
from kgtool.changes.kinds.remove_members import RemoveMembers
from kgtool.changes.plan import open_rows
from kgtool.changes.reset.rows import members
from kgtool.cli.change import confirm
from kgtool.cli.change.journaled import wait_until_empty
from kgtool.cli.change.run import ChangeRun
from kgtool.cli.options.change import ChangeOptions, change_options
from kgtool.cli.options.declare import declare, flag, option, repeatable
from kgtool.cli.options.group_selection import Selection, choose_in_order
from kgtool.cli.options.shared import group_arguments, line_of, open_session
from kgtool.cli.output.errors import error_object
from kgtool.cli.output.output import Output
from kgtool.cli.output.rows import build_row
from kgtool.cli.output.tables import preview, show_table
from kgtool.columns import Row, shown
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
@line_of(MemberChoice, name="choice")
def command(
    settings: Settings,
    output: Output,
    selection: Selection,
    wait_empty: str | None,
    change: ChangeOptions,
    choice: MemberChoice,
) -> None:
    """Remove members from a group: stuck, static and departed ones.

    Members block a reset, an undo or a deletion. A static member stays for its session timeout
    after its client has died, a stuck one for its poll interval. Running clients rejoin by
    themselves: stop them first. Members of KIP-848 groups can be removed too; those of share and
    streams groups can't. It needs READ on the group, and can't be undone.
    """
    if not any(choice):
        raise UsageError("Which members? --instance-id, --member-id, --client-id, or --all.")
    wait = timespec.waiting_seconds(wait_empty)
    confirm.require(change)
    reason = f"kgtool remove-members: {change.reason}" if change.reason else "kgtool remove-members"
    with open_session(settings) as session:
        groups = choose_in_order(session, output, selection, MEMBERS)
        run = _RemoveRun(session, output, RemoveMembers(choice, reason), groups, change)
        run.run()
        if wait and run.is_changed:
            _wait(session, output, list(run.plan.groups), wait)


class _RemoveRun(ChangeRun[GroupRemovals]):
    doing = "Removing"
    is_changed = False

    def show(self, wave: list[GroupRemovals]) -> None:
        output = self.output
        for error in _errors(wave):
            output.note(output.sentence(error))
        for group in wave:
            if not group.rows and group.error is None:
                output.done += 1
                output.note(f"Group {escape(group.group)} has no members.")
        rows = list(map(_row, open_rows(*wave)))
        if rows and not self.options.dry_run:
            output.note_once("Members to remove:")
            preview(output, shown(MEMBERS)[:-1], rows)

    def show_plan(self) -> None:
        self.output.note(NO_UNDO)

    def question(self) -> str:
        return f"Remove {counted(self.plan.offsets, 'member')}?"

    def change(self, *, is_planned: bool = True) -> None:
        self.is_changed = True
        super().change(is_planned=is_planned)

    def report(self, wave: list[GroupRemovals]) -> None:
        output = self.output
        show_table(
            output, shown(MEMBERS), [_row(row) for g in wave for row in g.rows if row.member]
        )
        for group in wave:
            if group.error is not None:
                output.failed(group.error, row=_empty(group.description, group.error), quiet=True)
            for row in group.rows:
                if row.member is not None:
                    output.item(_row(row), row.error)
                elif row.error is not None:
                    output.failed(row.error, row=_empty(group.description, row.error), quiet=True)


def _errors(wave: list[GroupRemovals]) -> list[ItemError]:
    """Return what can't be done."""
    found = (error for group in wave for error in (group.error, *(r.error for r in group.rows)))
    return [error for error in found if error is not None]


def _empty(description: GroupDescription, error: ItemError) -> Row:
    return {"group": description.group, "status": "failed", "error": error_object(error)}


def _row(row: MemberRemoval) -> Row:
    return build_row(row, MEMBERS, **recorded(row))


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
