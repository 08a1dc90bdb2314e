"""Restoring offsets, a part of the groups at a time: read, journal, write, read back.

For ``undo`` and ``restore``, in the commands and in the Python API. A file with ten thousand
groups never has to fit into memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kgtool.changes.driver import look_and_carry_out
from kgtool.changes.journal.change import Change
from kgtool.changes.kinds.delete_groups import DeleteGroups
from kgtool.changes.offsets.as_member import fenced_writes, find_identities, find_identities_again
from kgtool.changes.offsets.commit import CommitIdentity
from kgtool.changes.offsets.verify import Write, changed_meanwhile
from kgtool.changes.offsets.write import write_offsets
from kgtool.changes.plan_rows import each_open, failed, open_rows
from kgtool.changes.restore.decide import (
    STOP_OR_SPEAK,
    DesiredGroup,
    RestoreGroup,
    RestorePolicy,
    RestoreRow,
    decide,
)
from kgtool.changes.snapshot import (
    CHANGED_SINCE,
    FAILED,
    Check,
    GroupChange,
    OffsetImage,
    read_groups,
    value_digest,
)
from kgtool.client.cluster import find_unsupported
from kgtool.errors import ConfigError, KgError, NotDone
from kgtool.model import (
    CommittedOffset,
    GroupDeletion,
    GroupDescription,
    ItemError,
    Target,
    TopicPartition,
    same_commit,
)
from kgtool.protocol import codes
from kgtool.protocol.api import offset_delete
from kgtool.queries.offsets.fetch import Committed

_GROUPS_AT_ONCE = 250
_OFFSETS_AT_ONCE = 20_000
_STALE_TRIES = 5


def parts(groups: Iterable[DesiredGroup]) -> Iterator[list[DesiredGroup]]:
    """Divide groups into parts that fit into memory.

    :raises ConfigError: a group appears twice.
    """
    part: list[DesiredGroup] = []
    size = 0
    seen: set[str] = set()
    for desired in groups:
        if desired.group in seen:
            raise ConfigError(f"Group '{desired.group}' appears twice: it can't have both.")
        seen.add(desired.group)
        part.append(desired)
        size += len(desired.offsets)
        if len(part) >= _GROUPS_AT_ONCE or size >= _OFFSETS_AT_ONCE:
            yield part
            part, size = [], 0
    if part:
        yield part


class Restorer:
    """Plans and restores parts.

    :param session: a connected session.
    :param verify: read back what was written.
    :param only: restore these offsets only, from the offset and to the offset that are given.
    """

    def __init__(
        self,
        session: Any,
        policy: RestorePolicy,
        *,
        verify: bool = True,
        only: Mapping[tuple[Any, ...], tuple[Any, Any]] | None = None,
    ) -> None:
        self._session = session
        self._policy = policy
        self._verify = verify
        self._only = only
        self._agreed: dict[str, array[int]] = {}
        """By group, a digest of each partition's offset in the plan; FAILED: it was refused."""
        self._whole: set[str] = set()
        """Groups to delete whole: their brokers, before Kafka 2.4, can't delete single offsets."""

    def plan(self, part: Sequence[DesiredGroup]) -> list[RestoreGroup]:
        """Plan a part; later only that is restored, where the offset has not changed since."""
        groups = self.look(part)
        for group in groups:
            self._agreed[group.group] = array("q", map(agreed_digest, group.rows))
        return groups

    def look(self, part: Sequence[DesiredGroup]) -> list[RestoreGroup]:
        """Plan a part as of now, compared with ``plan`` if that was called."""
        partitions = {desired.group: list(desired.offsets) for desired in part}
        names = list(partitions)
        found = self._session.run(read_groups(self._session.cluster, names, partitions))
        groups = [decide(desired, found[desired.group], self._policy) for desired in part]
        return list(map(self._as_agreed, self._refuse_deletions(groups, self._created(part))))

    def _created(self, part: Sequence[DesiredGroup]) -> set[str]:
        """Return the groups that the change has created."""
        return {each.group for each in part if self._policy.exact and not each.then.exists}

    def _refuse_deletions(
        self, groups: list[RestoreGroup], created: set[str]
    ) -> list[RestoreGroup]:
        """Refuse to delete single offsets where the broker lacks OffsetDelete (before Kafka 2.4).

        A group that the change has created can be deleted whole.
        """
        homes = {
            group.group: home.id
            for group in groups
            if any(row.status == "would-delete" for row in group.rows)
            and (home := group.reading.description.coordinator) is not None
        }
        too_old = self._session.run(
            find_unsupported(self._session.cluster, homes, offset_delete.Request)
        )
        only_whole = too_old.keys() & created
        self._whole = {g.group for g in groups if g.group in only_whole and _leaves_nothing(g)}
        refused = too_old.keys() - self._whole
        return [_undeletable(g, too_old[g.group]) if g.group in refused else g for g in groups]

    def _as_agreed(self, group: RestoreGroup) -> RestoreGroup:
        if self._only is not None:
            group = each_open(group, self._as_only)
        agreed = self._agreed.get(group.group)
        if agreed is None:
            return group
        rows = [
            row if not row.is_open or digest == agreed_digest(row) else _not_agreed(row, digest)
            for row, digest in zip(group.rows, agreed, strict=True)
        ]
        return group._replace(rows=rows)

    def _as_only(self, row: RestoreRow) -> RestoreRow:
        only = (self._only or {}).get((row.group, *row.at))
        if only == tuple(value and value.offset for value in (row.old, row.new)):
            return row
        return failed(row, NotDone() if only is None else CHANGED_SINCE)

    def restore(self, part: Sequence[DesiredGroup], change: Change) -> list[RestoreGroup]:
        """Read a part again, journal it, and restore it. The groups are locked.

        :raises JournalError: it can't be written: nothing of the part was changed.
        """
        groups, identities = self._find_identities(self.look(part))
        created = self._created(part)
        removed = {g.group for g in groups if g.group in created and _leaves_nothing(g)}
        changes = [_change(g, g.group in removed) for g in groups if open_rows(g)]
        if changes:
            change.before(changes)
            groups = self._write(groups, identities)
            for group in groups:
                change.results(row for row in group.rows if row.status != "unchanged")
            self._remove_created([g for g in groups if g.group in removed - self._whole])
        return groups

    def _find_identities(
        self, groups: list[RestoreGroup]
    ) -> tuple[list[RestoreGroup], dict[str, CommitIdentity]]:
        """Find a member for each group with members that is to be written to."""
        described = [group.reading.description for group in groups if open_rows(group)]
        living = [one for one in described if one.error is None and not one.is_empty]
        if not living:
            return groups, {}
        found = self._session.run(find_identities(self._session.cluster, living))
        identities = {name: one for name, one in found.items() if isinstance(one, CommitIdentity)}
        checked = []
        for group in groups:
            error = found.get(group.group)
            if isinstance(error, ItemError):
                rows = [row._replace(status="failed", error=error) for row in group.rows]
                group = group._replace(rows=rows, error=error)
            checked.append(group)
        return checked, identities

    def _write(
        self, groups: Sequence[RestoreGroup], identities: dict[str, CommitIdentity]
    ) -> list[RestoreGroup]:
        cluster, verify = self._session.cluster, self._verify
        writes = {
            group.group: {row.at: Write(row.old, row.new) for row in rows}
            for group in groups
            if (rows := open_rows(group)) and group.group not in self._whole
        }
        outcomes = self._session.run(write_offsets(cluster, writes, identities, verify=verify))
        for _ in range(_STALE_TRIES if identities else 0):
            stale = fenced_writes(writes, outcomes)
            if not stale:
                break
            # The group has rebalanced since it was described: nothing was written.
            again = self._session.run(find_identities_again(cluster, list(stale)))
            later = write_offsets(cluster, stale, again, verify=verify)
            for group, outcome in self._session.run(later).items():
                outcomes[group].update(outcome)
        outcomes.update(self._delete_whole([g for g in groups if g.group in self._whole]))
        return [
            each_open(group, lambda row: _outcome(row, outcomes[row.group][row.at]))
            for group in groups
        ]

    def _delete_whole(self, groups: Sequence[RestoreGroup]) -> dict[str, dict[Any, Any]]:
        """Delete groups that have no other offsets than those to delete."""
        had = {g.group: {row.at: row.old for row in open_rows(g)} for g in groups}
        had = {group: offsets for group, offsets in had.items() if offsets}

        def check(
            description: GroupDescription, committed: Committed | KgError
        ) -> ItemError | None:
            is_same = _has_just(committed, had[description.group])
            return None if is_same else _in_use(description, committed)

        done = self._delete(list(had), check)
        return {row.group: dict.fromkeys(had[row.group], row.error) for row in done}

    def _remove_created(self, groups: Sequence[RestoreGroup]) -> None:
        """Remove groups that the change had created, once they have no offsets any more.

        The broker would do that by itself, later; so a failure does not matter. One that another
        client has committed to since is left alone.
        """
        names = [group.group for group in groups if _leaves_nothing(group)]
        if not names:
            return
        self._delete(names, check=_in_use)

    def _delete(self, names: list[str], check: Check) -> list[GroupDeletion]:
        """Delete groups that are in the journal already."""
        kind = DeleteGroups(names, check=check)
        deleting = look_and_carry_out(self._session.cluster, kind, names, lambda _: None)
        done: list[GroupDeletion] = self._session.run(deleting)
        return done


def agreed_digest(row: RestoreRow) -> int:
    """Return the digest of what is agreed to: from which value to which; FAILED if refused."""
    return FAILED if row.error else hash((value_digest(row.old), value_digest(row.new)))


def _not_agreed(row: RestoreRow, digest: int) -> RestoreRow:
    return failed(row, NotDone() if digest == FAILED else CHANGED_SINCE)


def _has_just(
    committed: Committed | KgError, offsets: Mapping[TopicPartition, CommittedOffset | None]
) -> bool:
    if isinstance(committed, KgError) or committed.keys() != offsets.keys():
        return False
    return all(
        not isinstance(now, KgError) and same_commit(now, offsets[at])
        for at, now in committed.items()
    )


def _undeletable(group: RestoreGroup, why: KgError) -> RestoreGroup:
    """Fail the offsets of a group that its broker can't delete."""
    hint = "It stays: that broker deletes whole groups only (kgtool delete)."
    rows = []
    for row in group.rows:
        if row.status == "would-delete":
            error = ItemError.of(why, Target(row.group, *row.at))._replace(hint=hint)
            row = row._replace(status="failed", error=error, note=None)
        rows.append(row)
    return group._replace(rows=rows)


def _leaves_nothing(group: RestoreGroup) -> bool:
    """Whether no offset of a group is to remain."""
    return not group.error and all(row.error is None and row.new is None for row in group.rows)


def _in_use(description: GroupDescription, committed: Committed | KgError) -> ItemError | None:
    """Refuse to remove a group that has any offset, also one that is only pending."""
    if committed == {}:
        return None
    if isinstance(committed, KgError):
        return ItemError.of(committed, Target(group=description.group))
    found = next(value for value in committed.values())
    now = None if isinstance(found, KgError) else found
    return ItemError.of(changed_meanwhile(None, now), Target(group=description.group))


def _change(group: RestoreGroup, is_removed: bool) -> GroupChange:
    """Return a group's change for the journal; ``is_removed``: the group itself goes too."""
    after = {row.at: row.new for row in open_rows(group)}
    image = group.reading.image
    offsets = {partition: image.offsets.get(partition, OffsetImage(None)) for partition in after}
    return GroupChange(image._replace(offsets=offsets), after, is_removed)


def _outcome(row: RestoreRow, error: KgError | ItemError | None) -> RestoreRow:
    if error is None:
        return row._replace(status="deleted" if row.new is None else "restored")
    target = Target(row.group, *row.at)
    item = ItemError.of(error, target) if isinstance(error, KgError) else error
    if item.code == codes.UNKNOWN_MEMBER_ID and item.hint is None:
        item = item._replace(hint=f"A member has joined. {STOP_OR_SPEAK}")
    return failed(row, item._replace(target=target))
