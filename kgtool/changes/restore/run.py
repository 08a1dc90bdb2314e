"""Putting offsets back, a part of the groups at a time: look, write it down, write, read back.

What ``undo`` and ``restore`` do, in the commands and in the Python API. Groups are worked on in
parts, so that a file with ten thousand of them never has to fit into memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kgtool.changes.groups.delete import delete_groups
from kgtool.changes.journal.change import Change
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
    GroupChange,
    OffsetImage,
    read_groups,
    value_digest,
)
from kgtool.client.cluster import find_unsupported
from kgtool.errors import ConfigError, KgError, NotDone
from kgtool.model import (
    CommittedOffset,
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
    """Looks at parts, and puts them back.

    :param session: a connected session.
    :param verify: read back what was written.
    """

    def __init__(self, session: Any, policy: RestorePolicy, *, verify: bool = True) -> None:
        self._session = session
        self._policy = policy
        self._verify = verify
        self._agreed: dict[str, array[int]] = {}
        """A digest of what each partition of a group had in the plan; FAILED: it could not go."""
        self._whole: set[str] = set()
        """Groups that go whole: their brokers, before Kafka 2.4, can't delete single offsets."""

    def plan(self, part: Sequence[DesiredGroup]) -> list[RestoreGroup]:
        """Say what is to be done for each group; later only that is, of what is as it was."""
        groups = self.look(part)
        for group in groups:
            digests = (FAILED if row.error else value_digest(row.old) for row in group.rows)
            self._agreed[group.group] = array("q", digests)
        return groups

    def look(self, part: Sequence[DesiredGroup]) -> list[RestoreGroup]:
        """Say what is to be done for each group, as it is now."""
        partitions = {desired.group: list(desired.offsets) for desired in part}
        names = list(partitions)
        found = self._session.run(read_groups(self._session.cluster, names, partitions))
        groups = [decide(desired, found[desired.group], self._policy) for desired in part]
        return list(map(self._as_agreed, self._deletable(groups, self._made(part))))

    def _made(self, part: Sequence[DesiredGroup]) -> set[str]:
        """The groups that did not exist then."""
        return {w.group for w in part if self._policy.exact and not w.then.exists}

    def _deletable(self, groups: list[RestoreGroup], made: set[str]) -> list[RestoreGroup]:
        """Find the offsets that their brokers can't delete; only a group that is to go whole can.

        Brokers have OffsetDelete (KIP-496) since Kafka 2.4.
        """
        homes = {
            group.group: home.id
            for group in groups
            if any(row.status == "would-delete" for row in group.rows)
            and (home := group.reading.description.coordinator) is not None
        }
        lacks = self._session.run(
            find_unsupported(self._session.cluster, homes, offset_delete.Request)
        )
        only_whole = lacks.keys() & made
        self._whole = {g.group for g in groups if g.group in only_whole and _is_all_gone(g)}
        return [
            _undeletable(group, lacks[group.group])
            if group.group in lacks.keys() - self._whole
            else group
            for group in groups
        ]

    def _as_agreed(self, group: RestoreGroup) -> RestoreGroup:
        """Leave alone what the plan did not show as it is now."""
        agreed = self._agreed.get(group.group)
        if agreed is None:
            return group
        rows = [
            row if not row.is_open or digest == value_digest(row.old) else _not_agreed(row, digest)
            for row, digest in zip(group.rows, agreed, strict=True)
        ]
        return group._replace(rows=rows)

    def restore(self, part: Sequence[DesiredGroup], change: Change) -> list[RestoreGroup]:
        """Look once more, write down what is there, and change it. The groups are to be locked.

        :raises JournalError: it could not be written down: nothing of the part was changed.
        """
        groups, identities = self._identified(self.look(part))
        made = self._made(part)
        removed = {group.group for group in groups if group.group in made and _is_all_gone(group)}
        found = [_change(group, group.group in removed) for group in groups]
        changes = [each for each in found if each is not None]
        if changes:
            change.before(changes)
            groups = self._write(groups, identities)
            for group in groups:
                change.results(row for row in group.rows if row.status != "unchanged")
            self._remove_made([g for g in groups if g.group in removed - self._whole])
        return groups

    def _identified(
        self, groups: Sequence[RestoreGroup]
    ) -> tuple[list[RestoreGroup], dict[str, CommitIdentity]]:
        """Find a member for each living group that is to be written to."""
        living = [
            group.reading.description
            for group in groups
            if open_rows(group) and _has_members(group)
        ]
        if not living:
            return list(groups), {}
        found = self._session.run(find_identities(self._session.cluster, living))
        identities = {name: who for name, who in found.items() if isinstance(who, CommitIdentity)}
        errors = {name: who for name, who in found.items() if not isinstance(who, CommitIdentity)}
        return [
            _all_failed(group, errors[group.group]) if group.group in errors else group
            for group in groups
        ], identities

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
        """Delete groups that have nothing but the offsets that are to go."""
        had = {g.group: {row.at: row.old for row in open_rows(g)} for g in groups}
        had = {group: offsets for group, offsets in had.items() if offsets}

        def check(
            description: GroupDescription, committed: Committed | KgError
        ) -> ItemError | None:
            is_same = _has_just(committed, had[description.group])
            return None if is_same else _in_use(description, committed)

        done = self._session.run(delete_groups(self._session.cluster, list(had), check=check))
        return {row.group: dict.fromkeys(had[row.group], row.error) for row in done}

    def _remove_made(self, groups: Sequence[RestoreGroup]) -> None:
        """Remove groups that the change had made, once they have no offsets any more.

        The broker would do that by itself, in its own time; so it does not matter if it fails.
        One that another client has committed to since is left alone.
        """
        names = [group.group for group in groups if _is_all_gone(group)]
        if not names:
            return
        self._session.run(delete_groups(self._session.cluster, names, check=_in_use))


def _not_agreed(row: RestoreRow, digest: int) -> RestoreRow:
    return failed(row, NotDone() if digest == FAILED else CHANGED_SINCE)


def _has_just(
    committed: Committed | KgError, offsets: Mapping[TopicPartition, CommittedOffset | None]
) -> bool:
    """Whether a group has these offsets, and no others."""
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
            error = ItemError.of(why, Target(row.group, row.topic, row.partition))
            row = row._replace(status="failed", error=error._replace(hint=hint), note=None)
        rows.append(row)
    return group._replace(rows=rows)


def _is_all_gone(group: RestoreGroup) -> bool:
    """Whether nothing is to be left of a group."""
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


def _change(group: RestoreGroup, is_removed: bool) -> GroupChange | None:
    """Return what is about to change in a group, for the journal; None if nothing is.

    :param is_removed: the group itself goes too.
    """
    after = {row.at: row.new for row in open_rows(group)}
    if not after:
        return None
    image = group.reading.image
    offsets = {partition: image.offsets.get(partition, OffsetImage(None)) for partition in after}
    return GroupChange(image._replace(offsets=offsets), after, is_removed)


def _has_members(group: RestoreGroup) -> bool:
    description = group.reading.description
    return description.error is None and not description.is_empty


def _all_failed(group: RestoreGroup, error: ItemError) -> RestoreGroup:
    rows = [row._replace(status="failed", error=error) for row in group.rows]
    return group._replace(rows=rows, error=error)


def _outcome(row: RestoreRow, error: KgError | ItemError | None) -> RestoreRow:
    if error is None:
        return row._replace(status="deleted" if row.new is None else "restored")
    target = Target(row.group, row.topic, row.partition)
    item = ItemError.of(error, target) if isinstance(error, KgError) else error
    if item.code == codes.UNKNOWN_MEMBER_ID and item.hint is None:
        item = item._replace(hint=f"A member has joined. {STOP_OR_SPEAK}")
    return failed(row, item._replace(target=target))
