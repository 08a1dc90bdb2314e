"""Applying a cleanup plan, in batches that are read again, checked, journaled and changed.

For the command and the Python API.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kgtool.changes.cleanup import execute, verify
from kgtool.changes.cleanup.facts import SLACK_MS
from kgtool.changes.cleanup.plan_file import (
    DELETE_GROUP,
    DELETE_OFFSETS,
    REBUILD_GROUP,
    CleanupPlan,
    PlanItem,
)
from kgtool.changes.cleanup.progress import PlanProgress
from kgtool.changes.hidden_offsets import HiddenOffsets
from kgtool.changes.journal.change import Change
from kgtool.changes.kinds.delete_groups import DeleteGroups
from kgtool.changes.restore.from_journal import check_cluster
from kgtool.changes.snapshot import GroupChange
from kgtool.client.cluster import fetch_metadata
from kgtool.client.ops import cut
from kgtool.errors import ConfigError, KgError
from kgtool.model import (
    CommittedOffset,
    GroupDeletion,
    GroupDescription,
    ItemError,
    Target,
    TopicPartition,
)
from kgtool.queries.groups.list import list_groups
from kgtool.queries.log.commit_times import commit_times
from kgtool.queries.log.reader import LogReader
from kgtool.queries.offsets.fetch import Committed, fetch_committed

GROUPS_AT_ONCE = 250
_CHANGED = ("NON_EMPTY_GROUP", "GROUP_SUBSCRIBED_TO_TOPIC")
"""The answers of a coordinator where a group has changed after the last read."""


def places(item: PlanItem) -> list[TopicPartition]:
    """Return all partitions that an item names."""
    return [offset.at for offset in (*item.offsets, *item.keep)]


def size(items: Sequence[PlanItem]) -> tuple[list[str], int]:
    """Return the groups of items, and how many offsets they name."""
    return [item.group for item in items], sum(len(places(item)) for item in items)


class Blind(KgError):
    """It is unknown whether the groups of a plan were used since it was made."""

    name = "BLIND"


def _blind(error: KgError) -> Blind:
    hint = f"{error.hint} " if error.hint else ""
    return Blind(
        f"Whether the group was used since the plan was made is unknown: {error.message}",
        hint=f"{hint}--skip-activity-check (allow_blind=True) goes on anyway.",
    )


class ItemResult(NamedTuple):
    """One item: ``deleted``, ``rebuilt``, ``gone`` (somebody else deleted it), ``skipped`` (it has
    changed, see ``error``), ``failed``, ``waiting``, ``done-before``, ``would-delete``,
    ``would-rebuild`` or ``not-reached``."""

    item: PlanItem
    status: str
    error: ItemError | None = None


class PlanRun:
    """One run of a plan on the cluster that a session is connected to.

    :param where: the file of the plan, for messages.
    :param say: called with warnings.
    :param allow_blind: whether to go on where the log can't be read.
    :raises ConfigError: the plan does not say which cluster it is about.
    :raises OtherCluster: it is about another one.
    """

    def __init__(
        self,
        session: Any,
        plan: CleanupPlan,
        where: Path,
        say: Callable[[str], None],
        *,
        allow_blind: bool = False,
    ) -> None:
        header, cluster_id = plan.header, session.cluster_id
        if header.cluster_id is None:
            raise ConfigError(
                f"{where} does not say which cluster it is about.",
                hint=f'For this cluster, add "cluster_id": "{cluster_id}" to it.',
            )
        way_on = "kgtool cleanup plan makes a plan of this cluster"
        check_cluster(where, header.cluster_id, cluster_id, way_on)
        self.session = session
        self.plan = plan
        self.say = say
        self.allow_blind = allow_blind
        self.since_ms = header.since_ms
        groups = {item.group: places(item) for item in plan.items if item.changes}
        self.watch = LogReader(groups, header.since_ms - SLACK_MS)
        """Reads what groups did since the plan was made."""
        self.hidden = HiddenOffsets(groups, say)

    def open_items(self, results: Mapping[str, str]) -> tuple[list[PlanItem], list[ItemResult]]:
        """Return the open items, and the results of the others.

        :param results: what earlier runs have finished (``PlanProgress.results``).
        """
        returned = self._returned(results)
        left: list[PlanItem] = []
        done: list[ItemResult] = []
        for item in self.plan.items:
            result = _earlier_result(item, results, returned)
            if result is None:
                left.append(item)
            else:
                done.append(result)
        return left, done

    def _returned(self, results: Mapping[str, str]) -> dict[str, ItemError]:
        """Find what earlier runs have removed and that exists again, as after an undo, by group."""
        done = [item for item in self.plan.items if results.get(item.key) in _FINISHED]
        whole = {item.group for item in done if item.action == DELETE_GROUP}
        found = self._recreated_groups(whole) if whole else {}
        for part in cut([item for item in done if item.group not in whole], GROUPS_AT_ONCE):
            reading = fetch_committed(self.session.cluster, [item.group for item in part])
            committed = self.session.run(reading)
            for item in part:
                error = _offsets_again(item, committed[item.group])
                if error is not None:
                    found[item.group] = error
        return found

    def _recreated_groups(self, deleted: Collection[str]) -> dict[str, ItemError]:
        """Find groups that exist again, or of which that is unknown."""
        listing = self.session.run(list_groups(self.session.cluster))
        exist = {row.group for row in listing.groups}
        found = {group: _again(group, "it exists") for group in deleted if group in exist}
        for error in listing.errors[:1]:  # its groups are missing in the listing
            for group in set(deleted) - exist:
                target = error.target._replace(group=group)
                found[group] = error._replace(target=target, message=_UNKNOWN + error.message)
        return found

    def check_log(self, items: Sequence[PlanItem]) -> None:
        """Read the log before the question, and warn where it can't be read.

        :raises Blind: it can't be read for any of the groups, without ``allow_blind``.
        """
        cluster = self.session.cluster
        wanted = {item.group: places(item) for item in items}
        read = self.session.run(self.watch.read(cluster, list(wanted))) if wanted else {}
        found = commit_times(read, wanted)
        errors = [each for each in found.values() if isinstance(each, KgError)]
        if not errors:
            return
        if not self.allow_blind:
            if len(errors) == len(found):
                raise _blind(errors[0])
            return
        self.say(f"Warning: {_blind(errors[0]).message}")
        whole = [item.group for item in items if item.action != DELETE_OFFSETS]
        self.session.run(self.hidden.search(cluster, whole))
        self.hidden.warn(filter(self.hidden.is_blind, whole))

    def look(self, items: Sequence[PlanItem]) -> list[ItemResult]:
        """Foresee the results of some items, each of another group."""
        return Batch(self, items).look()

    def apply(
        self, items: Sequence[PlanItem], change: Change, progress: PlanProgress
    ) -> list[ItemResult]:
        """Read some items again, each of another group, and apply those that are unchanged."""
        with change.locked(item.group for item in items):
            results = Batch(self, items, progress.begun).apply(change, progress)
        problem = progress.finish({result.item.key: result.status for result in results})
        if problem is not None:
            self.say(f"Note: {progress.path} can't be written: {problem.strerror}.")
        return results


_FINISHED = ("deleted", "rebuilt", "gone")
_UNKNOWN = "This plan deleted it before; whether it exists again is unknown: "


def _again(group: str, what: str) -> ItemError:
    said = f"This plan deleted it before, and {what} again."
    hint = "It is left alone; a new plan would include it."
    return ItemError(Target(group=group), None, verify.CHANGED, said, hint)


def _offsets_again(item: PlanItem, committed: Committed | KgError) -> ItemError | None:
    """Return the error of offsets that were deleted and exist again, or may exist."""
    values: list[CommittedOffset | KgError] = []
    if isinstance(committed, KgError):
        values = [committed]
    else:
        values = [committed[offset.at] for offset in item.offsets if offset.at in committed]
    for value in values:
        if isinstance(value, KgError):
            error = ItemError.of(value, Target(group=item.group))
            return error._replace(message=_UNKNOWN + error.message)
        if value.offset is not None:
            return _again(item.group, "offsets of it exist")
    return None


def _earlier_result(
    item: PlanItem, results: Mapping[str, str], returned: Mapping[str, ItemError]
) -> ItemResult | None:
    if not item.changes:
        return ItemResult(item, "waiting")
    if results.get(item.key) not in _FINISHED:
        return None
    error = returned.get(item.group)
    if error is None:
        return ItemResult(item, "done-before")
    return ItemResult(item, "skipped" if error.name == verify.CHANGED else "failed", error)


class Batch:
    """Some items of a plan, each of another group.

    :param begun: the keys of what earlier runs had begun.
    """

    def __init__(self, run: PlanRun, items: Sequence[PlanItem], begun: Iterable[str] = ()) -> None:
        self._run = run
        self._session = run.session
        self._items = {item.group: item for item in items}
        self._begun = set(begun)
        self._since: dict[str, Any] = {}
        self._skipped: dict[str, ItemError] = {}
        self._unwritable: dict[str, ItemError] = {}
        self._half: dict[str, execute.Kept] = {}

    def look(self) -> list[ItemResult]:
        """Foresee the results."""
        self._read()
        whole, single = self._sorted()
        cluster = self._session.cluster
        kind = DeleteGroups(whole, check=self._check, hidden=self._run.hidden)
        looked = self._session.run(kind.look(cluster, whole)) if whole else []
        rows = {row.group: row for row in looked}
        offsets = self._session.run(execute.remove_offsets(cluster, single, None, self._check))
        return [
            self._result(item, rows.get(group), offsets.get(group), is_dry=True)
            for group, item in self._items.items()
        ]

    def apply(self, change: Change, progress: PlanProgress) -> list[ItemResult]:
        """Change the groups."""
        self._read()
        whole, single = self._sorted()
        cluster = self._session.cluster

        def before(changes: Sequence[GroupChange]) -> None:
            change.before(changes)
            keys = [self._items[each.image.group].key for each in changes]
            progress.begin(keys, change.journal_id)

        rows = self._session.run(
            execute.remove_groups(cluster, whole, before, self._check, self._keep, self._run.hidden)
        )
        change.results(rows.values())
        offsets = self._session.run(execute.remove_offsets(cluster, single, before, self._check))
        for found, _ in offsets.values():
            change.results(found)
        rows.update(self._finish_begun(change))
        return [
            self._result(item, rows.get(group), offsets.get(group))
            for group, item in self._items.items()
        ]

    # -- looking --------------------------------------------------------------------------

    def _read(self) -> None:
        """Read the commits since the plan was made, just before the groups themselves."""
        cluster = self._session.cluster
        wanted = {group: places(item) for group, item in self._items.items()}
        names = sorted({at.topic for parts in wanted.values() for at in parts})
        if names:
            self._session.run(fetch_metadata(cluster, names))
        read = self._session.run(self._run.watch.read(cluster, list(wanted)))
        self._since = commit_times(read, wanted)
        rebuilt = {
            group: {offset.topic for offset in item.keep}
            for group, item in self._items.items()
            if item.action == REBUILD_GROUP
        }
        self._unwritable = self._session.run(execute.unwritable(cluster, rebuilt))

    def _sorted(self) -> tuple[list[str], dict[str, list[Any]]]:
        whole = [g for g, item in self._items.items() if item.action != DELETE_OFFSETS]
        single = {
            group: [offset.at for offset in item.offsets]
            for group, item in self._items.items()
            if item.action == DELETE_OFFSETS
        }
        return whole, single

    def _check(self, description: GroupDescription, committed: Any) -> ItemError | None:
        """Compare a group with the plan: the ``check`` of the operations."""
        item = self._items[description.group]
        half = verify.left_to_restore(item, committed) if self._may_be_half(item) else None
        if half is not None:
            problem = verify.recreated(item, half, self._topic_id)
            if problem is not None:
                return problem
            self._half[item.group] = half
            return ItemError(Target(group=item.group), None, verify.GONE, "It is restored only.")
        error = self._compare(description, committed)
        if error is not None:
            self._skipped[item.group] = error
        return error or self._unwritable.get(item.group)

    def _compare(self, description: GroupDescription, committed: Any) -> ItemError | None:
        since = self._since.get(description.group)
        error = verify.changed(
            self._items[description.group],
            description,
            committed,
            self._topic_id,
            None if isinstance(since, KgError) else since,
            self._run.since_ms,
        )
        if error is None and isinstance(since, KgError) and not self._run.allow_blind:
            return ItemError.of(_blind(since), Target(group=description.group))
        return error

    def _topic_id(self, name: str) -> str | None:
        return execute.topic_id(self._session.cluster, name)

    def _may_be_half(self, item: PlanItem) -> bool:
        """Whether an earlier run may have deleted a group without restoring all of it."""
        return item.action == REBUILD_GROUP and item.key in self._begun

    def _keep(self, change: GroupChange) -> execute.Kept | None:
        item = self._items[change.image.group]
        if item.action != REBUILD_GROUP:
            return None
        return verify.kept(item, {p: o.committed for p, o in change.image.offsets.items()})

    # -- results --------------------------------------------------------------------------

    def _finish_begun(self, change: Change) -> dict[str, GroupDeletion]:
        """Restore the rest of groups that an earlier run had deleted."""
        if not self._half:
            return {}
        left = {group: kept for group, kept in self._half.items() if kept}
        rows = {group: GroupDeletion(group, "rebuilt") for group in self._half}
        rows |= self._session.run(execute.restore(self._session.cluster, left))
        change.results(rows.values())
        return rows

    def _result(
        self, item: PlanItem, row: GroupDeletion | None, offsets: Any, *, is_dry: bool = False
    ) -> ItemResult:
        skipped = self._skipped.get(item.group)
        if skipped is not None:
            if skipped.name != verify.GONE:
                return ItemResult(item, "skipped", skipped)
            # A run that was killed had sent the request: it was that one, then.
            return ItemResult(item, "deleted" if item.key in self._begun else "gone")
        error = row.error if row is not None else offsets[1]
        if error is not None:
            is_changed = error.name in _CHANGED
            return ItemResult(item, "skipped" if is_changed else "failed", error)
        if is_dry:
            is_rebuild = item.action == REBUILD_GROUP
            return ItemResult(item, "would-rebuild" if is_rebuild else "would-delete")
        return ItemResult(item, row.status if row is not None else "deleted")
