"""``kgtool undo``: restore offsets to what they were before a change."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from kgtool.changes.journal import history
from kgtool.changes.journal.folder import JournalError
from kgtool.changes.journal.remote_copy import RemoteCopy, fetch
from kgtool.changes.kinds.restore_offsets import RestoreOffsets
from kgtool.changes.restore.decide import RestorePolicy
from kgtool.changes.restore.from_journal import (
    check,
    desired_groups,
    earlier_configs,
    mark_undone,
    not_covered,
)
from kgtool.cli.change import confirm
from kgtool.cli.change.journaled import journal_folder
from kgtool.cli.change.restore import RestoreOptions, RestoreRun, restore_options
from kgtool.cli.commands import history as history_command
from kgtool.cli.commands.configs import ConfigRun
from kgtool.cli.options.change import ChangeOptions, all_or_nothing_option, change_options
from kgtool.cli.options.declare import FILE, added, declare, flag, option
from kgtool.cli.options.shared import given_connection, make_settings, no_cluster, open_session
from kgtool.cli.output.output import Output
from kgtool.clock import now_ms
from kgtool.columns.changes import CONFIGS_ALTER, RESTORE
from kgtool.config import Settings
from kgtool.errors import UsageError
from kgtool.held import hold
from kgtool.net.session import Session
from kgtool.text import escape, moment

LAST = "last"


def living_options(function: Any) -> Any:
    """Add the options about groups that have members, and ``--all-or-nothing``."""
    return all_or_nothing_option(
        added(
            function,
            flag("--as-member", "Commit in a member's name for groups that have members."),
            option(
                "--wait-empty",
                "TIME",
                "Wait up to this long (60s, 5m) for the groups to become empty.",
            ),
        )
    )


@declare("undo", "kgtool undo last --dry-run", "kgtool undo last --wait-empty 60s")
@click.argument("journal", required=False, metavar="[ID|last]")
@option(
    "--from path",
    "FILE|URL",
    "A journal's file, or URL/ID of its --journal-copy.",
    type=click.Path(),
)
@flag("--force", "Even if another client committed since, or topic or log changed.")
@flag("--list list_", "Show the changes that can be undone, as kgtool history does.")
@option("--agreed", "FILE", "Only what the JSON of a dry run shows.", type=FILE, hidden=True)
@living_options
@change_options(required=False)
def command(
    settings: Settings | None,
    output: Output,
    journal: str | None,
    path: str | None,
    force: bool,
    list_: bool,
    agreed: Path | None,
    as_member: bool,
    wait_empty: str | None,
    change: ChangeOptions,
) -> None:
    """Restore offsets to what they were before a change.

    ID is shown after a change, and by kgtool history; its beginning is enough. `last` is the newest
    change of this cluster that is not undone yet. Offsets that did not exist before are deleted;
    deleted groups come back with their offsets. What another client has changed since is left
    alone and named. An undo has a journal too, so it can be undone.

    Without --bootstrap-server it connects to where the change was made.
    """
    if list_:
        output.command = "history"
        history_command.show(output, None, dry_run=False)
        return
    if (journal is None) == (path is None):
        raise UsageError(
            "undo takes a journal's ID, or last, or --from FILE. kgtool undo --list shows the IDs."
        )
    policy = RestorePolicy(force=force, exact=True, as_member=as_member)
    options = restore_options(policy, change, wait_empty, agreed=agreed)
    url = path if path is not None and "://" in path else None
    with ExitStack() as stack:
        if url is not None:
            folder_ = stack.enter_context(TemporaryDirectory(prefix="kgtool-"))
            path = str(fetch(url, Path(folder_)))  # the copy of --journal-copy
        entry = None  # the last one of the cluster
        if path is not None:
            entry = history.read_entry(Path(path), hold(path, settings and settings.timeout_ms))
        elif journal != LAST:
            entry = history.find(journal_folder(), str(journal))
        _run(settings, output, entry, options, url)


def _run(
    settings: Settings | None,
    output: Output,
    entry: history.JournalEntry | None,
    options: RestoreOptions,
    url: str | None,
) -> None:
    confirm.require(options.change)
    with open_session(settings or _where(entry), progress=True) as session:
        session.connect()
        output.begin(RESTORE, session.cluster_id)
        entry = entry or _last(session, output)
        size = entry.path.stat().st_size if url is not None else 0
        _undo(session, output, entry, options)
    marks = entry.path.read_bytes()[size:] if url is not None else b""
    if url is not None and marks:
        try:
            RemoteCopy(url, goes_on=True).put(marks)
        except JournalError as error:  # the undo itself is done
            output.note(escape(f"Note: {url} can't be marked as undone: {error.message}"))


def _where(entry: history.JournalEntry | None) -> Settings:
    """Return the settings of the change that the journal is of, with the options that were given.

    :raises UsageError: a login would go to an address that only a file names (``--from``).
    """
    if entry is None or (entry.context is None and entry.bootstrap_server is None):
        raise no_cluster()
    is_elsewhere = entry.file is not entry.path and entry.context is None
    if is_elsewhere and "command_config" in given_connection():
        raise UsageError(
            f"The file names the brokers {entry.bootstrap_server}, and a login goes only to "
            f"brokers that you name: add --bootstrap-server {entry.bootstrap_server}."
        )
    address = entry.bootstrap_server if entry.context is None else None
    settings: Settings = make_settings(True, address, entry.context)
    return settings


def _last(session: Session, output: Output) -> history.JournalEntry:
    known = history.entries(journal_folder(), lambda error: output.note(escape(f"Note: {error}")))
    return history.last(known, session.cluster_id)


def _undo(
    session: Session, output: Output, entry: history.JournalEntry, options: RestoreOptions
) -> None:
    check(entry, session.cluster_id, force=options.policy.force)
    when = moment(entry.at_ms)
    reason = entry.header.get("reason")
    output.note(
        escape(
            f"Undoing {entry.id}: {entry.command} of {when} by {entry.header.get('user')} on "
            f"{entry.header.get('host')}, {entry.state}" + (f" ({reason})." if reason else ".")
        )
    )
    warnings, lost = not_covered(entry.file)
    if lost is not None:
        output.failed(lost)
    for warning in warnings:
        output.note(escape(warning))
    if history.is_about_configs(entry.file):
        output.begin(CONFIGS_ALTER, session.cluster_id)
        changes, force = history.changed_configs(entry.file), options.policy.force
        altering = earlier_configs(changes, force=force, only=options.only)
        configs = ConfigRun(session, output, altering, list(altering.wanted), options.change)
        configs.undoes = entry.id
        configs.run()
        has_failed, journal_id = configs.has_failed, configs.journal_id
    else:
        desired = desired_groups(entry.file)
        with RestoreOffsets(options.policy, desired, only=options.only) as kind:
            run = RestoreRun(session, output, options, kind, undoes=entry.id)
            run.run()
        has_failed, journal_id = run.failed > 0, run.journal_id
        if not run.done and not has_failed:
            output.note("There is nothing to restore.")
    if not (options.change.dry_run or has_failed or lost):
        mark_undone(entry, journal_id, now_ms(), output.note)
