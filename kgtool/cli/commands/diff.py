"""``kgtool diff``: compare the offsets of two files, a file and a cluster, or two clusters."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import click

from kgtool import config
from kgtool.changes.restore.backup import of_file
from kgtool.changes.restore.diff import DiffRow, GroupFile, compare
from kgtool.changes.snapshot import OffsetImage, read_groups
from kgtool.cli.app import exits
from kgtool.cli.options.declare import declare, option
from kgtool.cli.options.group_selection import Selection, name_test
from kgtool.cli.options.shared import cluster_options, name_options, open_session
from kgtool.cli.output.output import Output
from kgtool.cli.output.rows import moved_row
from kgtool.cli.output.tables import TableStream
from kgtool.client.ops import cut
from kgtool.columns import shown
from kgtool.columns.changes import DIFF
from kgtool.config import Settings
from kgtool.errors import ConfigError, KgError, UsageError
from kgtool.held import SILENT_MS, HeldFile, hold
from kgtool.model import ItemError, Target, TopicPartition
from kgtool.net.session import Session
from kgtool.queries.groups.list import list_groups
from kgtool.text import java_order

GroupOffsets = dict[TopicPartition, OffsetImage]
Side: TypeAlias = "FileSide | ClusterSide"
_GROUPS_AT_ONCE = 250


@declare(
    "diff",
    "kgtool diff before.jsonl after.jsonl",
    "kgtool diff before.jsonl --match 'billing-*' -o json",
)
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[A] [B]")
@name_options
@option("--cluster-b", "HOST:PORT,...", "Compare with this cluster instead of a file B.")
@option("--context-b", "NAME", "The same, by the name of its context.")
@option(
    "--command-config-b", "FILE", "The client configuration for --cluster-b.", type=click.Path()
)
@cluster_options(required=False)
def command(
    settings: Settings | None,
    output: Output,
    files: tuple[Path, ...],
    selection: Selection,
    cluster_b: str | None,
    context_b: str | None,
    command_config_b: str | None,
) -> int:
    """Compare the offsets of two files, or of a file and a cluster.

    Two backups (A B), a backup and a cluster (A --bootstrap-server …), or two clusters
    (--bootstrap-server … --cluster-b …). Journals are taken too: what was there before a change.
    The exit status is 5 if anything is not the same.

    Each difference is one of: moved, went-backwards, vanished, new, changed (the same offset with
    other metadata or another leader epoch), topic-recreated.
    """
    other = None
    if cluster_b or context_b or command_config_b:
        named = (config.BOOTSTRAP_VARIABLE, config.CONTEXT_VARIABLE)  # these name the other one
        environ = {name: value for name, value in os.environ.items() if name not in named}
        timeout = settings.timeout_ms if settings else None
        other = config.settings(cluster_b, command_config_b, timeout, environ, context_b)
    if len(files) > 2 or len(files) == 2 and other is not None:
        raise UsageError("diff compares two things: files, clusters, or one of each.")
    with ExitStack() as stack:
        sides = _sides(stack, files, settings, other, selection)
        output.begin(DIFF, next((s.cluster_id for s in sides if s.cluster_id), None))
        with TableStream(output, shown(DIFF)) as table:
            counts = _compare(output, table, selection, *sides)
    return _finish(output, counts)


def _sides(
    stack: ExitStack,
    files: Sequence[Path],
    settings: Settings | None,
    other: Settings | None,
    selection: Selection,
) -> tuple[Side, Side]:
    """Open both sides, files first."""
    timeout_ms = settings.timeout_ms if settings else SILENT_MS
    opened = [FileSide(hold(path, timeout_ms), selection) for path in files]
    known = [one for one in (settings, other) if one is not None]
    clusters = known[: 2 - len(opened)] if other is None else known[-(2 - len(opened)) :]
    if len(opened) + len(clusters) != 2:
        raise UsageError(
            "diff compares two things: give two files, a file and --bootstrap-server, or "
            "--bootstrap-server and --cluster-b."
        )
    if not opened and not selection.is_given:
        raise UsageError("diff of two clusters takes --group, --match GLOB or --all-groups.")
    sides: list[Side] = list(opened)
    named: Sequence[str] = opened[0].groups() if opened and clusters else ()
    if opened and not selection.is_given:
        selection = opened[0].selection
    for one in clusters:
        session = stack.enter_context(open_session(one, progress=True))
        session.connect()
        sides.append(ClusterSide(session, selection, named))
    return sides[0], sides[1]


class FileSide:
    """A backup or a journal."""

    def __init__(self, file: HeldFile, selection: Selection) -> None:
        self.name = str(file)
        self.errors: list[ItemError] = []
        self._selection = selection
        self.selection = Selection()
        try:
            backup = of_file(file)
            self.cluster_id = backup.cluster_id
            self.selection = _selection_of(backup.header.get("selection"))
        except ConfigError as problem:
            from kgtool.changes.journal.history import read_header

            try:
                self.cluster_id = read_header(file).get("cluster_id")
            except KgError:
                raise problem from None
        self._file = GroupFile(file)

    def groups(self) -> list[str]:
        """Return the names of the chosen groups in the file."""
        return list(filter(name_test(self._selection), self._file.groups))

    def read(self, groups: Sequence[str]) -> dict[str, GroupOffsets | None]:
        """Read groups from the file; a group that is not in it has no offsets."""
        found = {group: self._file.read(group) for group in groups}
        return {g: dict(read.image.offsets) if read else {} for g, read in found.items()}


def _selection_of(raw: Any) -> Selection:
    """Read the selection of a backup; an empty one if it has none."""
    if not isinstance(raw, dict):
        return Selection()
    lists = {
        name: tuple(str(item) for item in raw.get(name) or ())
        for name in ("groups", "match", "exclude", "states", "types")
    }
    regex = raw.get("regex")
    return Selection(
        all_groups=bool(raw.get("all_groups")),
        regex=regex if isinstance(regex, str) else None,
        **lists,
    )


class ClusterSide:
    """A cluster as it is now."""

    def __init__(self, session: Session, selection: Selection, named: Sequence[str]) -> None:
        self._session = session
        self._selection = selection
        self._named = named
        self.cluster_id = session.cluster_id
        self.name = f"cluster {session.cluster_id}"
        self.errors: list[ItemError] = []

    def groups(self) -> list[str]:
        """Return the groups of the file, and those that the selection finds in the cluster."""
        names = dict.fromkeys(self._named)
        if self._selection.is_given:
            # States were those at the time of the backup.
            selection, listing = self._selection._replace(states=(), types=()), None
            if selection.needs_listing:
                listing = self._session.run(list_groups(self._session.cluster))
                self.errors += listing.errors
            names.update(dict.fromkeys(selection.resolve(listing)))
        return list(names)

    def read(self, groups: Sequence[str]) -> dict[str, GroupOffsets | None]:
        """Read groups from the cluster; a group that does not exist has no offsets."""
        found: dict[str, GroupOffsets | None] = {}
        for group, reading in self._session.run(read_groups(self._session.cluster, groups)).items():
            self.errors += reading.errors
            found[group] = None if reading.errors else dict(reading.image.offsets)
        return found


# ---------------------------------------------------------------------------------------------


def _compare(
    output: Output, table: TableStream, selection: Selection, one: Side, other: Side
) -> Counter[str]:
    """Put out the differences, group by group; a name that neither side has is an error."""
    same_cluster = one.cluster_id == other.cluster_id
    names = sorted({*one.groups(), *other.groups()}, key=java_order)
    if not names and selection.has_filter:
        output.note("No group matches.")
    counts: Counter[str] = Counter()
    for part in cut(names, _GROUPS_AT_ONCE):
        old, new = one.read(part), other.read(part)
        rows: list[DiffRow] = []
        for group in part:
            before, after = old[group], new[group]
            if group in selection.groups and before == after == {}:
                said = f"Neither {one.name} nor {other.name} has offsets of group '{group}'."
                output.failed(ItemError(Target(group), None, "NO_MATCH", said))
            elif before is not None and after is not None:
                output.done += 1
                rows += compare(group, before, after, with_topic_ids=same_cluster)
        fields = [moved_row(row, DIFF) for row in rows]
        for each in fields:
            output.row(each)
        table.add(fields)
        counts.update(row.status for row in rows)
    for error in (*one.errors, *other.errors):
        output.failed(error)
    return counts


def _finish(output: Output, counts: Counter[str]) -> int:
    if counts:
        said = [f"{count} {status}" for status, count in sorted(counts.items())]
        output.note(f"{', '.join(said)}.")
    elif not output.errors:
        output.text("No differences.")
    status = output.finish()
    return exits.FOUND if counts and status == exits.DONE else status
