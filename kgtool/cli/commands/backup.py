"""``kgtool backup``: save the committed offsets of groups to one file."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from kgtool.changes.restore.backup import BackupWriter, header_of, save
from kgtool.cli.options.declare import FILE, declare, flag, option
from kgtool.cli.options.group_selection import Selection, choose
from kgtool.cli.options.shared import cluster_options, group_options, open_session
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import Meter
from kgtool.cli.output.rows import build_row
from kgtool.clock import now_ms
from kgtool.columns.changes import BACKUP
from kgtool.config import Settings
from kgtool.errors import ConfigError
from kgtool.text import counted, escape, shell_word

STDOUT = "-"


@declare(
    "backup",
    "kgtool backup --all-groups --out offsets.jsonl",
    "kgtool backup --match 'billing-*' --out - | gzip > billing.gz",
)
@group_options
@option("--out", "FILE", "The file to write; - is stdout.", required=True, type=FILE)
@flag("--overwrite", "FILE may exist.")
@flag("--times", "Also save the time of the last record before each offset, for restore --by-time.")
@cluster_options()
def command(
    settings: Settings,
    output: Output,
    selection: Selection,
    out: Path,
    overwrite: bool,
    times: bool,
) -> None:
    """Save committed offsets, of living groups too, to one file.

    With them go metadata, leader epochs, topic ids, the cluster's id, and where the logs begin and
    end, so that kgtool restore can tell whether they still mean the same records. The file is
    JSON Lines, 0600, and appears only when it is whole. Nothing on the cluster is changed.
    --timeout is the longest time without progress.
    """
    selection.check("backup")
    _check(output, out, overwrite)
    began = time.monotonic()
    with open_session(settings, progress=True) as session:
        groups, _, missing, _ = choose(session, output, selection, BACKUP)
        is_stream = str(out) == STDOUT
        header = header_of(session.cluster_id, now_ms(), selection._asdict(), times=times)
        with BackupWriter(out, header, sys.stdout.buffer if is_stream else None) as writer:
            for error in missing:
                writer.error(error)
            with Meter(output, "Saving", len(groups), count=lambda: writer.groups):
                save(session, writer, groups, output.failed, times=times)
            if not writer.groups and out.exists():
                output.note(escape(f"{out} stays as it is: there is no group to save."))
            if not writer.groups and (output.errors or out.exists()):
                return
            writer.finish()
    output.done += writer.groups
    if not is_stream:
        path, seconds = shell_word(str(out)), time.monotonic() - began
        output.row(build_row(writer, BACKUP, path=str(out), seconds=round(seconds, 3)))
        output.text(
            f"Saved {writer.offsets:,} committed offsets of {counted(writer.groups, 'group')} "
            f"to {out} ({writer.bytes:,} bytes, {seconds:.1f} s)."
        )
        output.text(f"Next: kgtool diff {path}, or kgtool restore {path}")


def _check(output: Output, out: Path, overwrite: bool) -> None:
    """Refuse a file that can't be written, before anything is sent."""
    if output.give_stdout("out", out):
        return
    if out.is_dir():
        raise ConfigError(f"{out} is a folder: name a file for the backup.")
    if out.exists() and not overwrite:
        raise ConfigError(f"The file {out} exists.", hint="--overwrite replaces it.")
    if not out.parent.is_dir():
        raise ConfigError(f"There is no folder {out.parent} for the backup.")
