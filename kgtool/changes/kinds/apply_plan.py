"""Applying a cleanup plan: groups are deleted or rebuilt, and offsets deleted.

A group is read again just before it is changed; what is not as the plan says is left alone. A plan
is resumed: ``begun`` has what earlier runs had begun, and may have half done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from kgtool.changes.cleanup import execute, verify
from kgtool.changes.cleanup.apply import ItemResult, PlanRun, blind, places
from kgtool.changes.cleanup.execute import RebuildGroups
from kgtool.changes.cleanup.plan_file import DELETE_OFFSETS, REBUILD_GROUP, PlanItem
from kgtool.changes.cleanup.progress import PlanProgress
from kgtool.changes.driver import NO_CANARY, Before, Canary, Driver, rows_of
from kgtool.changes.journal.change import Change
from kgtool.changes.kinds.delete_offsets import DeleteOffsets
from kgtool.changes.plan import open_rows
from kgtool.changes.snapshot import GroupChange, take_images
from kgtool.client.cluster import Cluster, fetch_metadata
from kgtool.client.ops import Operation, grouped
from kgtool.errors import KgError
from kgtool.model import (
    GroupDeletion,
    GroupDescription,
    GroupOffsetDeletions,
    ItemError,
    Target,
    TopicSpec,
)
from kgtool.queries.log.commit_times import CommitTimes, commit_times
from kgtool.queries.offsets.fetch import Committed

_CHANGED = ("NON_EMPTY_GROUP", "GROUP_SUBSCRIBED_TO_TOPIC")
"""The answers of a coordinator where a group has changed after the last read."""


class ApplyPlan:
    """Applies the items of a plan, each of another group.

    :param begun: the keys of what earlier runs had begun.
    :param begin: called with the keys of what is about to be changed, before the first request.
    :param is_dry: foresee the coordinator's answers.
    """

    def __init__(
        self,
        run: PlanRun,
        items: Sequence[PlanItem],
        begun: Iterable[str] = (),
        begin: Callable[[Collection[str]], None] = lambda _keys: None,
        *,
        is_dry: bool = False,
    ) -> None:
        self._run = run
        self._items = {item.group: item for item in items}
        self._begun = set(begun)
        self._begin = begin
        self._cluster = Cluster()
        names = [g for g, item in self._items.items() if item.action != DELETE_OFFSETS]
        self._whole = RebuildGroups(names, self._keep, check=self._check, hidden=run.hidden)
        specs = {group: _specs(item) for group, item in self._items.items()}
        self._single = DeleteOffsets(specs, check=self._check, asks_broker=not is_dry)
        # Of the wave that was looked at last:
        self._since: dict[str, CommitTimes | KgError] = {}
        self._skipped: dict[str, ItemError] = {}
        self._unwritable: dict[str, ItemError] = {}
        self._half: dict[str, tuple[GroupDescription, execute.Kept]] = {}
        self._deletions: dict[str, GroupOffsetDeletions] = {}

    def weigh(self, result: ItemResult) -> int:
        """Return how many partitions an item names."""
        return len(places(result.item))

    # -- looking --------------------------------------------------------------------------

    def look(self, cluster: Cluster, groups: Sequence[str]) -> Operation[list[ItemResult]]:
        """Compare groups with the plan."""
        items = [self._items[group] for group in groups]
        yield from self._read(cluster, items)
        whole = [item.group for item in items if item.action != DELETE_OFFSETS]
        single = [item.group for item in items if item.action == DELETE_OFFSETS]
        looked = (yield from self._whole.look(cluster, whole)) if whole else []
        self._deletions = {g.group: g for g in (yield from self._single.look(cluster, single))}
        seen = {row.group: row for row in looked} | self._deletions
        seen |= {group: GroupDeletion(group, "would-delete") for group in self._half}
        return [self._result(item, seen[item.group]) for item in items]

    def look_again(
        self, cluster: Cluster, plan: Sequence[ItemResult]
    ) -> Operation[list[ItemResult]]:
        """Compare groups with the plan again."""
        return (yield from self.look(cluster, [result.group for result in plan]))

    def _read(self, cluster: Cluster, items: Sequence[PlanItem]) -> Operation[None]:
        """Read the commits since the plan was made, just before the groups themselves."""
        self._skipped, self._half = {}, {}
        wanted = {item.group: places(item) for item in items}
        names = sorted({at.topic for parts in wanted.values() for at in parts})
        if names:
            yield from fetch_metadata(cluster, names)
        self._cluster = cluster
        read = yield from self._run.watch.read(cluster, list(wanted))
        self._since = commit_times(read, wanted)
        rebuilt = {i.group: {o.topic for o in i.keep} for i in items if i.action == REBUILD_GROUP}
        self._unwritable = yield from execute.unwritable(cluster, rebuilt)

    def _check(
        self, description: GroupDescription, committed: Committed | KgError
    ) -> ItemError | None:
        """Compare a group with the plan: the ``check`` of the deletions."""
        item = self._items[description.group]
        half = verify.left_to_restore(item, committed) if self._may_be_half(item) else None
        if half is not None:
            problem = verify.recreated(item, half, self._topic_id)
            if problem is not None:
                return problem
            self._half[item.group] = description, half
            return ItemError(Target(group=item.group), None, verify.GONE, "It is restored only.")
        error = self._compare(description, committed)
        if error is not None:
            self._skipped[item.group] = error
        return error or self._unwritable.get(item.group)

    def _compare(
        self, description: GroupDescription, committed: Committed | KgError
    ) -> ItemError | None:
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
            return ItemError.of(blind(since), Target(group=description.group))
        return error

    def _topic_id(self, name: str) -> str | None:
        return execute.topic_id(self._cluster, name)

    def _may_be_half(self, item: PlanItem) -> bool:
        """Whether an earlier run may have deleted a group without restoring all of it."""
        return item.action == REBUILD_GROUP and item.key in self._begun

    def _keep(self, change: GroupChange) -> execute.Kept | None:
        item = self._items[change.image.group]
        if item.action != REBUILD_GROUP:
            return None
        return verify.kept(item, {p: o.committed for p, o in change.image.offsets.items()})

    # -- changing -------------------------------------------------------------------------

    def before(self, cluster: Cluster, going: Sequence[ItemResult]) -> Operation[Before]:
        """Return the images of what is about to be deleted, or restored."""
        whole, single, half = self._sorted(going)
        values = [(self._half[group][0], dict.fromkeys(self._half[group][1])) for group in half]
        images = yield from take_images(cluster, values)
        changes = [GroupChange(image, self._half[image.group][1]) for image in images]
        if whole:
            changes += (yield from self._whole.before(cluster, whole)).groups
        if single:
            changes += (yield from self._single.before(cluster, single)).groups
        return Before(changes)

    def send(self, cluster: Cluster, going: Sequence[ItemResult]) -> Operation[list[ItemResult]]:
        """Delete groups and offsets, and restore what an earlier run has left."""
        whole, single, half = self._sorted(going)
        self._begin([result.item.key for result in going])
        deleted = (yield from self._whole.send(cluster, whole)) if whole else []
        done: dict[str, GroupDeletion | GroupOffsetDeletions] = {row.group: row for row in deleted}
        if single:
            done |= {g.group: g for g in (yield from self._single.send(cluster, single))}
        left = {group: kept for group in half if (kept := self._half[group][1])}
        done |= {group: GroupDeletion(group, "rebuilt") for group in half}
        done |= yield from execute.restore(cluster, left)
        return [self._result(result.item, done[result.group]) for result in going]

    def _sorted(
        self, going: Sequence[ItemResult]
    ) -> tuple[list[GroupDeletion], list[GroupOffsetDeletions], list[str]]:
        """Return the groups to delete, those to delete offsets of, and the half rebuilt ones."""
        groups = [result.group for result in going]
        single = [self._deletions[group] for group in groups if group in self._deletions]
        half = [group for group in groups if group in self._half]
        rows = [row for result in going for row in result.rows if isinstance(row, GroupDeletion)]
        return [row for row in rows if row.group not in self._half], single, half

    def _result(self, item: PlanItem, found: GroupDeletion | GroupOffsetDeletions) -> ItemResult:
        """Return the result of an item from the deletion's."""
        rows = rows_of(found)
        skipped = self._skipped.get(item.group)
        if skipped is not None:
            if skipped.name != verify.GONE:
                return ItemResult(item, "skipped", skipped)
            # A run that was killed had sent the request: it was that one, then.
            return ItemResult(item, "deleted" if item.key in self._begun else "gone")
        error = found.error or next((row.error for row in rows if row.error), None)
        if error is not None:
            is_changed = error.name in _CHANGED
            return ItemResult(item, "skipped" if is_changed else "failed", error, rows)
        if open_rows(found):
            is_rebuild = item.action == REBUILD_GROUP
            return ItemResult(item, "would-rebuild" if is_rebuild else "would-delete", None, rows)
        status = found.status if isinstance(found, GroupDeletion) else "deleted"
        return ItemResult(item, status, None, rows)


def foreseen(run: PlanRun, items: Sequence[PlanItem]) -> list[ItemResult]:
    """Return what would become of items."""
    kind = ApplyPlan(run, items, is_dry=True)
    return Driver(run.session, kind).preview([item.group for item in items])


def apply_items(
    run: PlanRun,
    items: Sequence[PlanItem],
    change: Change,
    progress: PlanProgress,
    report: Callable[[list[ItemResult]], None],
    canary: Canary = NO_CANARY,
    at_most: int | None = None,
) -> None:
    """Apply items, and note in ``progress`` what is begun and done."""
    kind = ApplyPlan(
        run, items, progress.begun, lambda keys: progress.begin(keys, change.journal_id)
    )
    driver = Driver(run.session, kind, at_most=at_most)
    groups = [item.group for item in items]
    driver.at_once(change, groups, run.noting(progress, report), canary)


def _specs(item: PlanItem) -> list[TopicSpec]:
    found = grouped(offset.at for offset in item.offsets)
    return [TopicSpec(topic, tuple(numbers)) for topic, numbers in found.items()]
