"""What ``GroupAdmin`` can take back, save and compare: journals and backups.

All of it is long work: ``timeout_ms`` is then the longest time without progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kgtool.api import targets
from kgtool.api.connection import Connected, journal_folder, warn
from kgtool.changes.restore.decide import GroupWish, Policy, PutGroup
from kgtool.client.ops import cut
from kgtool.clock import now_ms
from kgtool.errors import KgError
from kgtool.model import ItemError

if TYPE_CHECKING:
    from kgtool.changes.journal.change import Change
    from kgtool.changes.journal.history import Entry
    from kgtool.changes.restore.diff import DiffRow
    from kgtool.net.session import Session

_GROUPS_AT_ONCE = 250


class Undone(NamedTuple):
    """What came of an ``undo``: offsets by group, or configs by group and name.

    A config's error is None where it is as it was. ``damage``: the journal can't be read to its
    end, and changes behind that are not undone.
    """

    journal_id: str
    groups: list[PutGroup]
    configs: dict[tuple[str, str], ItemError | None]
    damage: ItemError | None = None

    @property
    def errors(self) -> list[ItemError]:
        """What could not be put back."""
        rows = [row.error for group in self.groups for row in group.rows]
        found = (*rows, *self.configs.values(), self.damage)
        return [error for error in found if error is not None]


class Saved(NamedTuple):
    """What is in a backup, and what could not be read. ``bytes``: the size of the file."""

    path: Path
    groups: int
    offsets: int
    bytes: int
    errors: list[ItemError]


class Restoring(Connected):
    """The methods that take back, save and compare."""

    def history(self) -> list[Entry]:
        """Return the changes that were made from this machine, on any cluster, newest first.

        Times are ms since the epoch; ``groups`` and ``changes`` are counts. Files that are no
        journals are left out. No broker is asked.
        """
        from kgtool.changes.journal.history import entries

        return entries(journal_folder(self._journal), lambda problem: None)

    def undo(
        self,
        journal: str = "last",
        *,
        force: bool = False,
        as_member: bool = False,
        dry_run: bool = False,
    ) -> Undone:
        """Put offsets or configs back where they were before a change, and verify it.

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
        from kgtool.changes.journal.history import find, last
        from kgtool.changes.restore.from_journal import check, mark_undone

        policy = Policy(force=force, exact=True, as_member=as_member)
        with self._long_session() as session:
            if journal == "last":
                entry = last(self.history(), session.cluster_id)
            else:
                entry = find(journal_folder(self._journal), journal)
            check(entry, session.cluster_id, force=force)
            with self._change(
                session, "undo", entry.id, force=force, as_member=as_member
            ) as change:
                done = _take_back(session, change, entry, policy, dry_run)
            if not dry_run and not done.errors:
                mark_undone(entry, change.journal_id, now_ms(), warn)
            return done

    def backup(
        self, groups: Iterable[str], path: str | Path, *, overwrite: bool = False
    ) -> Saved:  # fmt: skip
        """Save the committed offsets of groups, active ones too, in one file (``kgtool backup``).

        With them go metadata, leader epochs, topic ids and the ends of the logs. The file appears
        only when it is whole, readable by nobody else; without any group that could be read there
        is none. Needs DESCRIBE on the groups and their topics.

        :raises UsageError: the file exists, and ``overwrite`` is not given.
        :raises BackupError: it can't be written.
        """
        from kgtool.changes.restore.backup import BackupWriter, header_of, save
        from kgtool.errors import UsageError

        out = Path(path)
        if out.exists() and not overwrite:
            raise UsageError(f"The file {out} exists: overwrite=True replaces it.")
        names = targets.names(groups)
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
    ) -> list[PutGroup]:
        """Give groups the committed offsets of a backup, and read them back.

        Offsets that the backup does not have are left alone. Out of a log's range, of a topic that
        was created anew, or of a group with members they fail, unless ``force`` or ``as_member``
        lets them pass. ``undo`` takes it back. Needs READ on the groups and topics.

        :param groups: only these groups of the file (default: all).
        :param group_names: new names of groups; the others keep theirs.
        :param topic_names: new names of topics, for a migration.
        :param other_cluster: the file is of another cluster, whose topic ids mean nothing here.
        :param create: make groups that do not exist.
        :raises ConfigError: the file is no whole backup.
        :raises OtherCluster: it is another cluster's, and ``other_cluster`` is not given.
        """
        from kgtool.changes.restore.backup import open_backup
        from kgtool.changes.restore.from_backup import Selecting, wishes
        from kgtool.changes.restore.from_journal import check_cluster

        found = open_backup(Path(path))
        wanted = None if groups is None else set(targets.names(groups))
        selecting = Selecting(
            lambda name: wanted is None or name in wanted, lambda _: True, group_names or {},
            topic_names or {}, other_cluster,
        )  # fmt: skip
        policy = Policy(force, create=create, as_member=as_member)
        with self._long_session() as session:
            if not (force or other_cluster):
                way_on = "other_cluster goes on anyway"
                check_cluster(found.path, found.cluster_id, session.cluster_id, way_on)
            with self._change(
                session, "restore", force=force, as_member=as_member, other_cluster=other_cluster
            ) as change:
                return _put_back(session, change, lambda: wishes(found, selecting), policy, dry_run)

    def diff(self, path: str | Path) -> list[DiffRow]:
        """Compare the groups of a backup or journal with what they have now; equal ones are left
        out.

        :raises ConfigError: the file is neither.
        :raises KgError: a group can't be read.
        """
        from kgtool.changes.restore.diff import GroupFile, compare
        from kgtool.changes.snapshot import read_groups

        file = GroupFile(Path(path))
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


def _take_back(
    session: Session, change: Change, entry: Entry, policy: Policy, dry_run: bool
) -> Undone:
    from kgtool.changes.journal.history import is_about_configs
    from kgtool.changes.restore.from_journal import not_covered, wishes

    warnings, lost = not_covered(entry.path)
    for said in warnings:
        warn(said)
    if is_about_configs(entry.path):
        configs = _undo_configs(session, change, entry.path, policy.force, dry_run)
        return Undone(entry.id, [], configs, lost)
    done = _put_back(session, change, lambda: wishes(entry.path), policy, dry_run)
    return Undone(entry.id, done, {}, lost)


def _undo_configs(
    session: Session, change: Change, journal: Path, force: bool, dry_run: bool
) -> dict[tuple[str, str], ItemError | None]:
    """Set configs as they were before a change; what somebody has changed since is left alone."""
    from kgtool.changes.groups.config_plan import check, make
    from kgtool.changes.journal.history import changed_configs
    from kgtool.changes.restore.from_journal import plan_configs

    changes = changed_configs(journal)
    if not dry_run:
        change.lock({one.group for one in changes})  # what is compared now is what is changed
    plan = plan_configs(session.cluster, changes, force=force, option="force=True")
    items = session.run(check(session.cluster, session.run(plan)))
    done = items if dry_run else make(session, change, items)
    return {item.key: item.error for item in done}


def _put_back(
    session: Session, change: Change, wishes: Callable[[], Iterable[GroupWish]],
    policy: Policy, dry_run: bool,
) -> list[PutGroup]:  # fmt: skip
    """Put offsets back, a part of the groups at a time."""
    from kgtool.changes.restore.run import Putter, parts

    putter = Putter(session, policy)

    def count() -> tuple[list[str], int]:
        groups = [group for part in parts(wishes()) for group in putter.look(part)]
        rows = [row for group in groups for row in group.rows if row.is_open]
        return [row.group for row in rows], len(rows)

    for _ in parts(wishes()):
        pass  # what is wrong in the file is known before the first part is changed
    if not dry_run:
        change.foresee(count)
    done: list[PutGroup] = []
    for part in parts(wishes()):
        if dry_run:
            done += putter.look(part)
            continue
        with change.locked(wish.group for wish in part):
            done += putter.put(part, change)
    return done
