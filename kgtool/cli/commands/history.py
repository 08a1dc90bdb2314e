"""``kgtool history``: the journals of changes made on this machine."""

from __future__ import annotations

from typing import Any

from kgtool import timespec
from kgtool.changes.cleanup import progress
from kgtool.changes.journal.folder import sweep
from kgtool.changes.journal.history import JournalEntry, entries, prune
from kgtool.changes.journal.journal import RUNNING
from kgtool.cli.change.journaled import journal_folder
from kgtool.cli.options.declare import declare, flag, option
from kgtool.cli.options.shared import connection_params, output_options, rows_options
from kgtool.cli.output.output import Output
from kgtool.cli.output.rows import build_row
from kgtool.cli.output.tables import show_table
from kgtool.clock import now_ms
from kgtool.columns.changes import HISTORY, HISTORY_TEXT
from kgtool.model import ItemError, Target
from kgtool.text import counted


@declare("history", "kgtool history", "kgtool history --prune 90d --dry-run")
@option(
    "--prune",
    "AGE",
    "Remove journals older than this, such as 90d; their changes can no longer be undone.",
)
@flag("--dry-run", "With --prune: show what would be removed.")
@rows_options
@connection_params
@output_options
def command(output: Output, prune: str | None, dry_run: bool, **_connection: Any) -> None:
    """Show the changes that kgtool made on this machine, newest first.

    The journals are files in KGTOOL_JOURNAL_DIR or the user's state folder
    (~/.local/state/kgtool/journal): one for each change, as JSON Lines. A change is running, done,
    interrupted (what it did can still be undone), or undone.
    """
    show(output, prune, dry_run)


def show(output: Output, prune: str | None, dry_run: bool) -> None:
    """Show the journals; with ``prune`` (an age) remove old ones, and show those."""
    output.begin(HISTORY)
    folder = journal_folder()
    # A bare number is refused: 90, meant as days, would be 90 s.
    age_ms = None if prune is None else timespec.span_ms(prune, "prune", least_ms=0)
    found = entries(folder, lambda error: output.failed(ItemError.of(error, Target())))
    if age_ms is not None:
        found = _prune(output, found, now_ms() - age_ms, dry_run)
    for entry in found:
        output.item(build_row(entry, HISTORY))
    show_table(
        output,
        HISTORY_TEXT,
        [
            build_row(
                entry,
                HISTORY_TEXT,
                reason=entry.header.get("reason"),
                by=f"{entry.header.get('user')}@{entry.header.get('host')}",
            )
            for entry in found
        ],
    )
    if not found and age_ms is None:
        output.note(f"Nothing has been changed from this machine yet: no journal in {folder}.")


def _prune(
    output: Output, found: list[JournalEntry], before_ms: int, dry_run: bool
) -> list[JournalEntry]:
    """Remove old journals; return those that are (or would be) removed."""
    if dry_run:
        removed = [e for e in found if e.at_ms < before_ms and e.state != RUNNING]
        output.note(f"Dry run: {counted(len(removed), 'journal')} would be removed.")
        return removed
    sweep(journal_folder())
    progress.prune(journal_folder(), before_ms)
    removed, problems = prune(found, before_ms)
    for problem in problems:
        output.failed(ItemError.of(problem, Target()))
    output.note(f"{counted(len(removed), 'journal')} removed, {len(found) - len(removed)} kept.")
    return removed
