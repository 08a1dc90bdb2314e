"""Applying a cleanup plan, in batches that are read again, checked, journaled and changed.

For the command and the Python API.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kgtool.changes.cleanup import verify
from kgtool.changes.cleanup.facts import SLACK_MS
from kgtool.changes.cleanup.plan_file import DELETE_GROUP, DELETE_OFFSETS, CleanupPlan, PlanItem
from kgtool.changes.cleanup.progress import PlanProgress
from kgtool.changes.driver import NOT_REACHED
from kgtool.changes.hidden_offsets import HiddenOffsets
from kgtool.changes.restore.from_journal import check_cluster
from kgtool.changes.session import Session
from kgtool.client.ops import cut
from kgtool.errors import ConfigError, KgError
from kgtool.model import CommittedOffset, ItemError, Target, TopicPartition
from kgtool.queries.groups.list import list_groups
from kgtool.queries.log.commit_times import commit_times
from kgtool.queries.log.reader import LogReader
from kgtool.queries.offsets.fetch import Committed, fetch_committed

GROUPS_AT_ONCE = 250


def places(item: PlanItem) -> list[TopicPartition]:
    """Return all partitions that an item names."""
    return [offset.at for offset in (*item.offsets, *item.keep)]


def size(items: Sequence[PlanItem]) -> tuple[list[str], int]:
    """Return the groups of items, and how many offsets they name."""
    return [item.group for item in items], sum(len(places(item)) for item in items)


class Blind(KgError):
    """It is unknown whether the groups of a plan were used since it was made."""

    name = "BLIND"


def blind(error: KgError) -> Blind:
    """Return the error of groups whose log can't be read."""
    hint = f"{error.hint} " if error.hint else ""
    return Blind(
        f"Whether the group was used since the plan was made is unknown: {error.message}",
        hint=f"{hint}--skip-activity-check (allow_blind=True) goes on anyway.",
    )


class ItemResult(NamedTuple):
    """One item: ``deleted``, ``rebuilt``, ``gone`` (somebody else deleted it), ``skipped`` (it has
    changed, see ``error``), ``failed``, ``waiting``, ``done-before``, ``would-delete``,
    ``would-rebuild`` or ``not-reached``.

    ``rows``: of the deletion, for the driver and the journal."""

    item: PlanItem
    status: str
    error: ItemError | None = None
    rows: Sequence[Any] = ()

    @property
    def group(self) -> str:
        """The group's name."""
        return self.item.group


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
        session: Session,
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
                raise blind(errors[0])
            return
        self.say(f"Warning: {blind(errors[0]).message}")
        whole = [item.group for item in items if item.action != DELETE_OFFSETS]
        self.session.run(self.hidden.search(cluster, whole))
        self.hidden.warn(filter(self.hidden.is_blind, whole))

    def noting(
        self, progress: PlanProgress, report: Callable[[list[ItemResult]], None]
    ) -> Callable[[list[ItemResult]], None]:
        """Return what notes results in the progress of the plan before it reports them."""

        def note(results: list[ItemResult]) -> None:
            results = list(map(_final, results))
            problem = progress.finish({result.item.key: result.status for result in results})
            if problem is not None:
                self.say(f"Note: {progress.path} can't be written: {problem.strerror}.")
            report(results)

        return note


_FINISHED = ("deleted", "rebuilt", "gone")
_UNKNOWN = "This plan deleted it before; whether it exists again is unknown: "


def _final(result: ItemResult) -> ItemResult:
    """Return a result, also of a group behind a canary that stopped the change."""
    is_reached = not any(row.error and row.error.name == NOT_REACHED for row in result.rows)
    return result if is_reached else ItemResult(result.item, "not-reached")


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
