"""Writing offsets back to groups, or taking them away: ``restore``, ``undo`` and ``recover``.

The wanted offsets lie on disk, by group: a file with ten thousand groups never has to fit into
memory. A file that changes after the preview changes nothing: the copy is what is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kgtool.changes.driver import Before, look_and_carry_out
from kgtool.changes.kinds.delete_groups import DeleteGroups
from kgtool.changes.offsets.as_member import fenced_writes, find_identities, find_identities_again
from kgtool.changes.offsets.commit import CommitIdentity, Outcomes
from kgtool.changes.offsets.start_offsets import write_start_offsets
from kgtool.changes.offsets.verify import Write, changed_meanwhile
from kgtool.changes.offsets.write import write_offsets
from kgtool.changes.plan import DiskList, each_open, failed, open_rows
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
    Check,
    GroupChange,
    OffsetImage,
    read_groups,
    value_digest,
)
from kgtool.client.cluster import Cluster, find_unsupported
from kgtool.client.ops import Operation
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

if TYPE_CHECKING:
    from typing_extensions import Self

_STALE_TRIES = 5

Only = Mapping[tuple[str, str, int], tuple["int | None", "int | None"]]
"""From which offset to which one, by group, topic and partition."""


class RestoreOffsets:
    """Gives partitions the offsets that they are to have again, or none; a context manager.

    :param desired: read once, to its end.
    :param verify: read back what was written.
    :param only: restore these offsets only, from the offset and to the offset that are given.
    :raises ConfigError: a group appears twice.
    """

    def __init__(
        self,
        policy: RestorePolicy,
        desired: Iterable[DesiredGroup],
        *,
        verify: bool = True,
        only: Only | None = None,
    ) -> None:
        self._policy = policy
        self._verify = verify
        self._only = only
        self._desired = DiskList[DesiredGroup]()
        self._places: dict[str, int] = {}
        # Of the wave that was looked at last:
        self._created: set[str] = set()
        """Groups that the change to be undone has created."""
        self._whole: set[str] = set()
        """Groups to delete whole: their brokers, before Kafka 2.4, can't delete single offsets."""
        self._identities: dict[str, CommitIdentity] = {}
        try:
            self._keep(desired)
        except BaseException:
            self._desired.__exit__()
            raise

    def _keep(self, desired: Iterable[DesiredGroup]) -> None:
        for each in desired:
            if each.group in self._places:
                raise ConfigError(f"Group '{each.group}' appears twice: it can't have both.")
            self._places[each.group] = len(self._desired)
            self._desired.append(each)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._desired.__exit__()

    @property
    def groups(self) -> list[str]:
        """The groups, in the order in which they were given."""
        return list(self._places)

    def weigh(self, group: RestoreGroup) -> int:
        """Return how many partitions a group has."""
        return len(group.rows)

    # -- looking --------------------------------------------------------------------------

    def look(self, cluster: Cluster, groups: Sequence[str]) -> Operation[list[RestoreGroup]]:
        """Compare the wanted offsets with those of now."""
        return (yield from self._look(cluster, [self._desired[self._places[g]] for g in groups]))

    def _look(
        self, cluster: Cluster, desired: Sequence[DesiredGroup]
    ) -> Operation[list[RestoreGroup]]:
        partitions = {each.group: list(each.offsets) for each in desired}
        found = yield from read_groups(cluster, list(partitions), partitions)
        self._created = {e.group for e in desired if self._policy.exact and not e.then.exists}
        groups = [decide(each, found[each.group], self._policy) for each in desired]
        groups = yield from self._refuse_deletions(cluster, groups)
        groups = yield from self._find_identities(cluster, groups)
        return [each_open(group, self._as_only) for group in groups]

    def look_again(
        self, cluster: Cluster, plan: Sequence[RestoreGroup]
    ) -> Operation[list[RestoreGroup]]:
        """Compare groups and offsets with the plan; what it refused stays refused."""
        now = yield from self.look(cluster, [group.group for group in plan])
        return list(map(self._as_planned, plan, now))

    def _as_planned(self, plan: RestoreGroup, now: RestoreGroup) -> RestoreGroup:
        both = zip(plan.rows, now.rows, strict=True)
        return now._replace(rows=[self._row_as_planned(*rows) for rows in both])

    def _row_as_planned(self, plan: RestoreRow, now: RestoreRow) -> RestoreRow:
        if now.is_open and plan.error is not None:
            return failed(now, NotDone())
        return failed(now, CHANGED_SINCE) if now.is_open and not _same_values(plan, now) else now

    def _refuse_deletions(
        self, cluster: Cluster, groups: list[RestoreGroup]
    ) -> Operation[list[RestoreGroup]]:
        """Refuse to delete single offsets where the broker lacks OffsetDelete (before Kafka 2.4).

        A group that the change has created can be deleted whole.
        """
        homes = {
            group.group: home.id
            for group in groups
            if any(row.status == "would-delete" for row in group.rows)
            and (home := group.reading.description.coordinator) is not None
        }
        too_old = yield from find_unsupported(cluster, homes, offset_delete.Request)
        only_whole = too_old.keys() & self._created
        self._whole = {g.group for g in groups if g.group in only_whole and _leaves_nothing(g)}
        refused = too_old.keys() - self._whole
        return [_undeletable(g, too_old[g.group]) if g.group in refused else g for g in groups]

    def _find_identities(
        self, cluster: Cluster, groups: list[RestoreGroup]
    ) -> Operation[list[RestoreGroup]]:
        """Find a member for each group with members that is to be written to."""
        described = [group.reading.description for group in groups if open_rows(group)]
        living = [one for one in described if one.error is None and not one.is_empty]
        found = (yield from find_identities(cluster, living)) if living else {}
        self._identities = {g: one for g, one in found.items() if isinstance(one, CommitIdentity)}
        missing = {g: one for g, one in found.items() if isinstance(one, ItemError)}
        return [_refused(g, missing[g.group]) if g.group in missing else g for g in groups]

    def _as_only(self, row: RestoreRow) -> RestoreRow:
        if self._only is None:
            return row
        only = self._only.get((row.group, *row.at))
        if only == tuple(value and value.offset for value in (row.old, row.new)):
            return row
        return failed(row, NotDone() if only is None else CHANGED_SINCE)

    # -- changing -------------------------------------------------------------------------

    def before(self, cluster: Cluster, going: Sequence[RestoreGroup]) -> Operation[Before]:
        """Return the images, as just read."""
        yield from ()
        return Before([_change(group, self._is_removed(group)) for group in going])

    def _is_removed(self, group: RestoreGroup) -> bool:
        return group.group in self._created and _leaves_nothing(group)

    def send(
        self, cluster: Cluster, going: Sequence[RestoreGroup]
    ) -> Operation[list[RestoreGroup]]:
        """Write the offsets, or delete them; remove groups that the change had created."""
        whole = [group for group in going if group.group in self._whole]
        writes = {
            group.group: {row.at: Write(row.old, row.new) for row in open_rows(group)}
            for group in going
            if group.group not in self._whole
        }
        starts = {g.group: writes.pop(g.group) for g in going if g.is_share and g.group in writes}
        written = yield from self._write(cluster, writes)
        outcomes: dict[str, Mapping[TopicPartition, KgError | ItemError | None]] = {**written}
        outcomes.update((yield from write_start_offsets(cluster, starts)))
        outcomes.update((yield from _delete_whole(cluster, whole)))
        done = [each_open(g, lambda row: _outcome(row, outcomes[row.group][row.at])) for g in going]
        gone = [g.group for g in done if g.group in writes and self._is_removed(g)]
        # Brokers would do that by themselves, later: it doesn't matter if it fails. A group that
        # another client has committed to since is left alone.
        yield from _delete(cluster, gone, _in_use)
        return done

    def _write(
        self, cluster: Cluster, writes: Mapping[str, Mapping[TopicPartition, Write]]
    ) -> Operation[dict[str, Outcomes]]:
        identities, verify = self._identities, self._verify
        outcomes = yield from write_offsets(cluster, writes, identities, verify=verify)
        for _ in range(_STALE_TRIES if identities else 0):
            stale = fenced_writes(writes, outcomes)
            if not stale:
                break
            # The group has rebalanced since it was described: nothing was written.
            identities = yield from find_identities_again(cluster, list(stale))
            later = yield from write_offsets(cluster, stale, identities, verify=verify)
            for group, outcome in later.items():
                outcomes[group].update(outcome)
        return outcomes


def _same_values(one: RestoreRow, other: RestoreRow) -> bool:
    """Whether two rows lead from the same offset to the same one."""
    return [value_digest(v) for v in one[3:5]] == [value_digest(v) for v in other[3:5]]


def _delete_whole(
    cluster: Cluster, groups: Sequence[RestoreGroup]
) -> Operation[dict[str, dict[TopicPartition, ItemError | None]]]:
    """Delete groups that have no other offsets than those to delete."""
    had = {group.group: {row.at: row.old for row in open_rows(group)} for group in groups}

    def check(description: GroupDescription, committed: Committed | KgError) -> ItemError | None:
        is_same = _has_just(committed, had[description.group])
        return None if is_same else _in_use(description, committed)

    done = yield from _delete(cluster, list(had), check)
    return {row.group: dict.fromkeys(had[row.group], row.error) for row in done}


def _delete(cluster: Cluster, names: list[str], check: Check) -> Operation[list[GroupDeletion]]:
    """Delete groups that are in the journal already."""
    kind = DeleteGroups(names, check=check)
    return (yield from look_and_carry_out(cluster, kind, names, lambda _: None))


def _has_just(
    committed: Committed | KgError, offsets: Mapping[TopicPartition, CommittedOffset | None]
) -> bool:
    if isinstance(committed, KgError) or committed.keys() != offsets.keys():
        return False
    return all(
        not isinstance(now, KgError) and same_commit(now, offsets[at])
        for at, now in committed.items()
    )


def _in_use(description: GroupDescription, committed: Committed | KgError) -> ItemError | None:
    """Refuse to remove a group that has any offset, also one that is only pending."""
    if committed == {}:
        return None
    found = committed if isinstance(committed, KgError) else next(iter(committed.values()))
    error = found if isinstance(found, KgError) else changed_meanwhile(None, found)
    return ItemError.of(error, Target(group=description.group))


def _undeletable(group: RestoreGroup, why: KgError) -> RestoreGroup:
    """Fail the offsets of a group that its broker can't delete."""
    hint = "It stays: that broker deletes whole groups only (kgtool delete)."

    def refused(row: RestoreRow) -> RestoreRow:
        error = ItemError.of(why, Target(row.group, *row.at))._replace(hint=hint)
        is_deletion = row.status == "would-delete"
        return row._replace(status="failed", error=error, note=None) if is_deletion else row

    return each_open(group, refused)


def _refused(group: RestoreGroup, error: ItemError) -> RestoreGroup:
    rows = [row._replace(status="failed", error=error) for row in group.rows]
    return group._replace(rows=rows, error=error)


def _leaves_nothing(group: RestoreGroup) -> bool:
    """Whether no offset of a group is to remain."""
    return not group.error and all(row.error is None and row.new is None for row in group.rows)


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
