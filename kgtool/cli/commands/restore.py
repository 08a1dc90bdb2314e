"""``kgtool restore``: restore the committed offsets of a backup."""

from __future__ import annotations

from pathlib import Path

import click

from kgtool.changes.kinds.restore_offsets import RestoreOffsets
from kgtool.changes.restore import translate
from kgtool.changes.restore.backup import (
    Backup,
    BackupSelection,
    desired_groups,
    mapping,
    open_backup,
)
from kgtool.changes.restore.decide import RestorePolicy
from kgtool.changes.restore.from_journal import check_cluster
from kgtool.changes.restore.translate import Translator
from kgtool.cli.change import confirm
from kgtool.cli.change.restore import RestoreRun, restore_options
from kgtool.cli.commands.undo import living_options
from kgtool.cli.options.change import ChangeOptions, change_options
from kgtool.cli.options.declare import FILE, declare, flag, option, repeatable
from kgtool.cli.options.group_selection import Selection, name_test
from kgtool.cli.options.shared import name_options, open_session, topics_option
from kgtool.cli.output.output import Output
from kgtool.columns.changes import RESTORE
from kgtool.config import Settings
from kgtool.errors import UsageError
from kgtool.model import ItemError, Target, TopicSpec


@declare(
    "restore",
    "kgtool restore offsets.jsonl --dry-run",
    "kgtool restore offsets.jsonl --group billing --topic orders",
    "kgtool restore offsets.jsonl --group billing --map-group billing=billing-eu",
)
@click.argument("file", type=FILE)
@name_options
@topics_option("Only this topic of the file, or some of its partitions; repeatable.")
@repeatable("--map-group", "OLD=NEW", "Give the offsets of group OLD to group NEW; repeatable.")
@repeatable("--map-topic", "OLD=NEW", "Take the offsets of topic OLD for topic NEW; repeatable.")
@flag("--other-cluster", "The file is from another cluster, as in a migration.")
@flag("--by-time", "By the times of a backup --times: may repeat records, skips none.")
@option("--checkpoints", "TOPIC", "By MirrorMaker's checkpoints: SOURCE.checkpoints.internal.")
@flag("--create/--no-create", "Create missing groups.", default=True, show_default=True)
@flag(
    "--verify/--no-verify",
    "Read back what was written, and compare.",
    default=True,
    show_default=True,
)
@flag("--force", "Even if the cluster or topic differs, or the offset is out of range.")
@living_options
@change_options()
def command(
    settings: Settings,
    output: Output,
    file: Path,
    selection: Selection,
    topics: tuple[TopicSpec, ...],
    by_time: bool,
    checkpoints: str | None,
    map_group: tuple[str, ...],
    map_topic: tuple[str, ...],
    other_cluster: bool,
    create: bool,
    verify: bool,
    force: bool,
    as_member: bool,
    wait_empty: str | None,
    change: ChangeOptions,
) -> None:
    """Restore the committed offsets of groups from a backup.

    All groups of FILE, or those that --group, --match, --regex and --exclude choose by their name
    in the file. Before anything is written, the cluster's and the topics' ids are compared with
    those of the file, and each offset with the range of its log; what does not fit is refused with
    the reason. Offsets that the file does not have are left alone. It has a journal: kgtool undo
    takes a restore back.
    """
    policy = RestorePolicy(force, create=create, as_member=as_member)
    options = restore_options(policy, change, wait_empty, verify=verify)
    if by_time and checkpoints is not None:
        raise UsageError("Give --by-time or --checkpoints, not both.")
    backup = open_backup(file, settings.timeout_ms)
    selecting = BackupSelection(
        name_test(selection),
        lambda partition: not topics or any(spec.covers(*partition) for spec in topics),
        mapping(map_group, "map-group"),
        mapping(map_topic, "map-topic"),
        other_cluster,
    )
    confirm.require(change)
    with open_session(settings, progress=True) as session:
        session.connect()
        output.begin(RESTORE, session.cluster_id)
        if not (force or other_cluster):
            way_on = "--other-cluster goes on anyway"
            check_cluster(backup.file, backup.cluster_id, session.cluster_id, way_on)
        _name_missing(output, backup, selection)
        translator = None
        if by_time:
            translator = Translator(translate.by_time(session, backup), output.failed)
        elif checkpoints is not None:
            translator = Translator(translate.by_checkpoints(session, checkpoints), output.failed)

        desired = desired_groups(backup, selecting)
        if translator is not None:
            desired = translator.translate(desired)
        with RestoreOffsets(policy, desired, verify=options.verify) as kind:
            run = RestoreRun(session, output, options, kind)
            run.run()
    if not run.done and not run.failed and not output.errors:
        output.note("The file has no offsets for this selection: there is nothing to restore.")


def _name_missing(output: Output, backup: Backup, selection: Selection) -> None:
    """Report groups that were named and are not in the file."""
    missing = set(selection.groups)
    for recorded in backup.groups() if missing else ():
        missing.discard(recorded.image.group)
    for group in sorted(missing):
        said = f"The file {backup.file} has no group '{group}'."
        output.failed(ItemError(Target(group=group), None, "NOT_IN_FILE", said))
