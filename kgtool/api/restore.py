"""The methods of ``GroupAdmin`` that undo, back up, restore and compare: journals and backups.

All of it is long work: ``timeout_ms`` is then the longest time without progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kgtool.api import arguments
from kgtool.api.connection import AdminConnection, warn
from kgtool.client.ops import cut
from kgtool.clock import now_ms
from kgtool.errors import KgError, UsageError
from kgtool.held import hold
from kgtool.model import ItemError

if TYPE_CHECKING:
    from kgtool.changes.journal.history import JournalEntry
    from kgtool.changes.restore.decide import RestoreGroup
    from kgtool.changes.restore.diff import DiffRow

_GROUPS_AT_ONCE = 250


class Undone(NamedTuple):
    """The result of an ``undo``: offsets by group, or configs by group and name.

    A config's error is None where it has its earlier value again. ``damage``: the journal can't be
    read to its end, and later changes are not undone.
    """

    journal_id: str
    groups: list[RestoreGroup]
    configs: dict[tuple[str, str], ItemError | None]
    damage: ItemError | None = None

    @property
    def errors(self) -> list[ItemError]:
        """What could not be restored."""
        rows = [row.error for group in self.groups for row in group.rows]
        found = (*rows, *self.configs.values(), self.damage)
        return [error for error in found if error is not None]


class Saved(NamedTuple):
    """A written backup: its counts, and what could not be read. ``bytes``: size of the file."""

    path: Path
    groups: int
    offsets: int
    bytes: int
    errors: list[ItemError]


class RestoreMethods(AdminConnection):
    """The methods that undo, back up, restore and compare."""

    def history(self) -> list[JournalEntry]:
        """Return the changes that were made from this machine, on any cluster, newest first.

        Times are ms since the epoch; ``groups`` and ``changes`` are counts. Files that are not
        journals are left out. No broker is asked.
        """
        from kgtool.changes.journal import history

        return history.entries(self._journals, lambda problem: None)

    def undo(
        self,
        journal: str = "last",
        *,
        force: bool = False,
        as_member: bool = False,
        dry_run: bool = False,
    ) -> Undone:
        """Restore offsets or configs to what they were before a change, and verify it.

        Offsets that did not exist are deleted, deleted groups come back with their offsets. The
        expiry clock starts again, and a KIP-848 group's epochs do not come back. Needs READ on the
        groups and topics, and DELETE where offsets are deleted (OffsetCommit, KIP-496).

        :param journal: an id, as in ``last_journal_id`` and ``history()``, or its beginning;
            ``"last"``: the newest change of this cluster that is not undone yet.
        :param force: also where somebody committed since, or the topic or its log has changed.
        :param as_member: commit in a member's name for groups that have members, which fail
            otherwise (NON_EMPTY_GROUP, 68).
        :raises KgError: there is no such journal, it is undone already, it is another cluster's,
            or it can't be undone (``remove_members``).
        """
        from kgtool.changes.journal import history
        from kgtool.changes.kinds.restore_offsets import RestoreOffsets
        from kgtool.changes.restore import from_journal
        from kgtool.changes.restore.decide import RestorePolicy

        policy = RestorePolicy(force=force, exact=True, as_member=as_member)
        with self._long_session() as session:
            if journal == "last":
                entry = history.last(self.history(), session.cluster_id)
            else:
                entry = history.find(self._journals, journal)
            from_journal.check(entry, session.cluster_id, force=force)
            with self._change(
                session, "undo", entry.id, force=force, as_member=as_member
            ) as change:
                warnings, damage = from_journal.not_covered(entry.file)
                for warning in warnings:
                    warn(warning)
                groups: list[RestoreGroup] = []
                configs: dict[tuple[str, str], ItemError | None] = {}
                if history.is_about_configs(entry.file):
                    changes = history.changed_configs(entry.file)
                    altering = from_journal.earlier_configs(
                        changes, force=force, option="force=True"
                    )
                    done = self._carry_out(
                        session, change, altering, list(altering.wanted), dry_run
                    )
                    configs = {item.key: item.error for group in done for item in group.rows}
                else:
                    with RestoreOffsets(policy, from_journal.desired_groups(entry.file)) as kind:
                        groups = self._carry_out(session, change, kind, kind.groups, dry_run)
            undone = Undone(entry.id, groups, configs, damage)
            if not dry_run and not undone.errors:
                from_journal.mark_undone(entry, change.journal_id, now_ms(), warn)
            return undone

    def backup(self, groups: Iterable[str], path: str | Path, *, overwrite: bool = False) -> Saved:
        """Save the committed offsets of groups, active ones too, in one file (``kgtool backup``).

        It includes metadata, leader epochs, topic ids and log ranges. The file appears only when
        it is complete, with mode 0600; if no group could be read there is none. Needs DESCRIBE on
        the groups and their topics.

        :raises UsageError: the file exists, and ``overwrite`` is not given.
        :raises BackupError: it can't be written.
        """
        from kgtool.changes.restore.backup import BackupWriter, header_of, save

        out = Path(path)
        if out.exists() and not overwrite:
            raise UsageError(f"The file {out} exists: overwrite=True replaces it.")
        names = arguments.names(groups)
        errors: list[ItemError] = []
        with self._long_session() as session:
            header = header_of(session.cluster_id, now_ms(), {"groups": names})
            with BackupWriter(out, header) as writer:
                save(session, writer, names, errors.append)
                if writer.groups or not names:
                    writer.finish()
        return Saved(out, writer.groups, writer.offsets, writer.bytes, errors)

    def restore(
        self,
        path: str | Path,
        *,
        groups: Iterable[str] | None = None,
        group_names: Mapping[str, str] | None = None,
        topic_names: Mapping[str, str] | None = None,
        other_cluster: bool = False,
        create: bool = True,
        force: bool = False,
        as_member: bool = False,
        dry_run: bool = False,
    ) -> list[RestoreGroup]:
        """Restore the committed offsets of a backup, and read them back.

        Offsets that the backup does not have are left alone. Offsets outside of their log, of a
        re-created topic, or of a group with members fail, unless ``force`` or ``as_member`` allows
        them. ``undo`` reverts it. Needs READ on the groups and topics.

        :param groups: only these groups of the file (default: all).
        :param group_names: new names of groups; the others keep theirs.
        :param topic_names: new names of topics, for a migration.
        :param other_cluster: the file is of another cluster, whose topic ids mean nothing here.
        :param create: create missing groups.
        :raises ConfigError: the file is not a complete backup.
        :raises OtherCluster: it is another cluster's, and ``other_cluster`` is not given.
        """
        from kgtool.changes.kinds.restore_offsets import RestoreOffsets
        from kgtool.changes.restore import backup, from_journal
        from kgtool.changes.restore.backup import BackupSelection, open_backup
        from kgtool.changes.restore.decide import RestorePolicy

        found = open_backup(Path(path))
        wanted = None if groups is None else set(arguments.names(groups))
        selecting = BackupSelection(
            lambda name: wanted is None or name in wanted,
            lambda _: True,
            group_names or {},
            topic_names or {},
            other_cluster,
        )
        policy = RestorePolicy(force, create=create, as_member=as_member)
        with self._long_session() as session:
            if not (force or other_cluster):
                way_on = "other_cluster goes on anyway"
                from_journal.check_cluster(found.file, found.cluster_id, session.cluster_id, way_on)
            with self._change(
                session,
                "restore",
                force=force,
                as_member=as_member,
                other_cluster=other_cluster,
                no_create=not create,
                group=groups is not None,
                map_group=bool(group_names),
                map_topic=bool(topic_names),
            ) as change:
                desired = backup.desired_groups(found, selecting)
                with RestoreOffsets(policy, desired) as kind:
                    return self._carry_out(session, change, kind, kind.groups, dry_run)

    def recover(
        self,
        groups: Iterable[str],
        *,
        at_ms: int | None = None,
        source: str | Path | None = None,
        force: bool = False,
        as_member: bool = False,
        dry_run: bool = False,
    ) -> list[RestoreGroup]:
        """Restore offsets that are gone, from ``__consumer_offsets`` (``kgtool recover``).

        For each partition without an offset, the last value committed before its tombstone. One
        that has an offset again is left alone: its row is ``unchanged``. ``undo`` reverts it.
        Needs READ on ``__consumer_offsets``, the groups and the topics.

        :param at_ms: what stood at that time instead, also where it was overwritten since.
        :param source: an export, or segments of the log, instead of the living one.
        :raises UsageError: ``at_ms`` is before the log begins.
        :raises ConfigError: ``source`` is another cluster's (``force`` takes it), or is no log.
        :raises KgError: the log can't be read, or has no trace of a group (``NO_TRACE``).
        """
        from kgtool.changes.restore.decide import RestorePolicy
        from kgtool.changes.restore.from_journal import check_cluster
        from kgtool.changes.restore.recover import (
            RecoverOffsets,
            check_moment,
            desired_groups,
            known_groups,
            read_living,
        )
        from kgtool.queries.log.log_files import LogFiles

        names = arguments.names(groups)
        with self._long_session() as session:
            if source is None:
                found = session.run(read_living(session.cluster, names, at_ms))
            else:
                files = LogFiles(Path(source))
                if files.cluster_id is not None and not force:
                    session.connect()
                    check_cluster(files.path, files.cluster_id, session.cluster_id)
                found = dict(files.read(names, at_ms))
            gone = known_groups(found)
            check_moment(gone, at_ms)
            desired = desired_groups(gone, lambda _: True, any_left=at_ms is not None)
            policy = RestorePolicy(force, as_member=as_member)
            with (
                self._change(session, "recover", force=force, as_member=as_member) as change,
                RecoverOffsets(policy, desired, gone) as kind,
            ):
                return self._carry_out(session, change, kind, kind.groups, dry_run)

    def diff(self, path: str | Path) -> list[DiffRow]:
        """Compare the groups of a backup or journal with the cluster; leave out equal offsets.

        :raises ConfigError: the file is neither.
        :raises KgError: a group can't be read.
        """
        from kgtool.changes.restore.diff import GroupFile, compare
        from kgtool.changes.snapshot import read_groups

        file = GroupFile(hold(path))
        names = list(file.groups)
        rows: list[DiffRow] = []
        with self._long_session() as session:
            for part in cut(names, _GROUPS_AT_ONCE):
                for group, reading in session.run(read_groups(session.cluster, part)).items():
                    recorded = file.read(group)
                    if reading.errors:
                        raise KgError(reading.errors[0].message, hint=reading.errors[0].hint)
                    old = recorded.image.offsets if recorded else {}
                    rows += compare(group, old, reading.image.offsets)
        return rows
