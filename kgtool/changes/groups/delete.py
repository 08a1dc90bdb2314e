"""Deleting groups with everything they have committed (DeleteGroups), some at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kgtool.changes.groups.delete_request import Answers, send_deletions
from kgtool.changes.hidden_offsets import HiddenOffsets
from kgtool.changes.plan_rows import failed, settle, skip
from kgtool.changes.snapshot import BeforeChange, Check, GroupChange, group_digest, take_images
from kgtool.client.cluster import Cluster, find_unsupported
from kgtool.client.ops import READING_SHARE, Operation, gather, within
from kgtool.errors import ChangedMeanwhile, KgError
from kgtool.model import GroupDeletion, GroupDescription, ItemError, Target, has_failed
from kgtool.protocol import codes
from kgtool.protocol.api import delete_groups as delete_groups_api
from kgtool.protocol.codes import broker_error
from kgtool.queries.cluster.transactions import first_commits, pending_transaction
from kgtool.queries.groups.describe import UNKNOWN_TYPES, describe_with_type, wrong_type
from kgtool.queries.groups.list import find_unlisted
from kgtool.queries.log.reader import pending_in_log
from kgtool.queries.offsets.adaptive_batches import AdaptiveBatches
from kgtool.queries.offsets.fetch import Committed, fetch_committed, offsets_of
from kgtool.text import counted

OnRows = Callable[[Sequence[GroupDeletion]], None]
"""Called with the rows of each wave as soon as they are known."""


class DeletionPlan(NamedTuple):
    """The foreseen outcome of a deletion, in the order asked.

    ``agreed``: a digest of the offsets of each group that would go; ``offsets``: how many go with
    them; ``has_share``: whether a share group would go.
    """

    rows: list[GroupDeletion]
    agreed: Mapping[str, int]
    offsets: int
    has_share: bool = False


class _Rules(NamedTuple):
    """The arguments that decide whether a group may go."""

    force: bool
    check: Check | None
    hidden: HiddenOffsets
    agreed: Mapping[str, int] | None = None


class _Wave(NamedTuple):
    """The groups of one wave as just read, and those that must not be deleted."""

    described: list[GroupDescription]
    committed: dict[str, Committed | KgError]
    refused: dict[str, ItemError]

    @property
    def good(self) -> list[GroupDescription]:
        return [one for one in self.described if one.group not in self.refused]

    @property
    def offsets(self) -> int:
        return sum(len(found) for found in self.committed.values() if isinstance(found, dict))

    def had(self, group: str) -> Committed:
        found = self.committed[group]
        return found if isinstance(found, dict) else {}

    def rows(self, groups: Sequence[str]) -> list[GroupDeletion]:
        """Return the rows as foreseen, before anything is sent."""
        rows = (GroupDeletion(group, "would-delete") for group in groups)
        return [
            failed(row, self.refused[row.group]) if row.group in self.refused else row
            for row in rows
        ]


def plan_deletions(
    cluster: Cluster,
    groups: Sequence[str],
    *,
    agreed: Mapping[str, int] | None = None,
    force: bool = False,
    check: Check | None = None,
    hidden: HiddenOffsets | None = None,
    on_rows: OnRows | None = None,
) -> Operation[DeletionPlan]:
    """Foresee a deletion of groups, without doing it.

    :param agreed: from an earlier plan: a group that has changed since can't be deleted.
    """
    rules = _Rules(force, check, hidden or HiddenOffsets(groups, refuse=not force), agreed)
    rows: list[GroupDeletion] = []
    digests: dict[str, int] = {}
    offsets, has_share = 0, False
    waves = AdaptiveBatches(list(dict.fromkeys(groups)))
    while names := waves.next():
        wave = yield from _read(cluster, names, rules)
        waves.learn(len(names), wave.offsets)
        digests.update({one.group: group_digest(wave.committed[one.group]) for one in wave.good})
        offsets += sum(len(offsets_of(wave.committed[one.group])) for one in wave.good)
        has_share |= any(one.type == "share" for one in wave.good)
        found = wave.rows(names)
        rows += found
        if on_rows is not None:
            on_rows(found)
    return DeletionPlan(rows, digests, offsets, has_share)


def delete_groups(
    cluster: Cluster,
    groups: Sequence[str],
    *,
    agreed: Mapping[str, int] | None = None,
    force: bool = False,
    all_or_nothing: bool = False,
    before_change: BeforeChange | None = None,
    check: Check | None = None,
    hidden: HiddenOffsets | None = None,
    on_rows: OnRows | None = None,
) -> Operation[list[GroupDeletion]]:
    """Delete groups, each with its own outcome, in the order asked.

    Groups are read first: DeleteGroups itself is type-blind and would delete a share, streams or
    Connect group that happens to be empty. ``force`` deletes those too, and groups whose offsets a
    pending transaction is about to change.

    :param agreed: from a plan: a group that has changed since is left alone.
    :param all_or_nothing: delete nothing if any of the groups must be left alone. Once deleting has
        begun, a failure does not revert the rest.
    :param before_change: called with the images of the groups of a wave that are about to go.
    :param check: called with each group as just read; returns why it must be left alone.
    :param hidden: finds offsets that this login may not see, and warns of those that go with a
        group; groups that have some are left alone, by default unless ``force``.
    """
    hidden = hidden or HiddenOffsets(groups, refuse=not force)
    rules = _Rules(force, check, hidden, agreed)
    rows: list[GroupDeletion] = []

    waves = AdaptiveBatches(list(dict.fromkeys(groups)))
    if all_or_nothing and waves.are_many:
        foreseen = yield from plan_deletions(
            cluster, groups, agreed=agreed, force=force, check=check, hidden=hidden
        )
        if any(map(has_failed, foreseen.rows)):
            rows = skip(foreseen.rows)
            if on_rows is not None:
                on_rows(rows)
            return rows
    while names := waves.next():
        wave = yield from _read(cluster, names, rules)
        waves.learn(len(names), wave.offsets)
        found = settle(wave.rows(names), all_or_nothing)
        going = {row.group for row in found if row.is_open}
        good = [one for one in wave.described if one.group in going]
        if good and before_change is not None:
            # Share groups keep their offsets elsewhere: nothing can be restored from here.
            had = [(d, offsets_of(wave.had(d.group) if d.type != "share" else {})) for d in good]
            images = yield from take_images(cluster, had)
            changes = [GroupChange(image, dict.fromkeys(image.offsets), True) for image in images]
            hidden.warn(one.group for one in good)
            before_change(list(map(hidden.mark, changes)))
        answers = yield from send_deletions(cluster, {d.group: wave.had(d.group) for d in good})
        found = [_done(row, answers) if row.is_open else row for row in found]
        rows += found
        if on_rows is not None:
            on_rows(found)
    return rows


def _done(row: GroupDeletion, answers: Answers) -> GroupDeletion:
    error = answers[row.group]
    if error is None:
        return row._replace(status="deleted")
    return failed(row, ItemError.of(error, Target(group=row.group)))


def _read(cluster: Cluster, groups: Sequence[str], rules: _Rules) -> Operation[_Wave]:
    """Read groups and judge them, also by the plan that was shown."""
    reads = [
        describe_with_type(cluster, groups),
        fetch_committed(cluster, groups),
        rules.hidden.find_authorizers(cluster, groups),
        *([] if rules.force else [_read_pending(cluster, groups)]),
    ]
    # Side by side: a broker that does not answer costs its time once.
    described, committed, _, *pending = yield from within(gather(reads), READING_SHARE)
    wave = _Wave(described, committed, {})
    yield from _judge(cluster, wave, rules, *pending)
    if rules.agreed is not None:
        for one in wave.good:
            if rules.agreed.get(one.group) != group_digest(committed[one.group]):
                wave.refused[one.group] = _changed_since(one.group)
    return wave


def _read_pending(
    cluster: Cluster, groups: Sequence[str]
) -> Operation[dict[str, Committed | KgError]]:
    """Return pending commits that OffsetFetch does not show: first ones, and all before 2.5."""
    found = yield from first_commits(cluster, groups)
    return {**found, **(yield from pending_in_log(cluster, groups))}


def _judge(
    cluster: Cluster,
    wave: _Wave,
    rules: _Rules,
    pending: Mapping[str, Committed | KgError] | None = None,
) -> Operation[None]:
    """Add the groups that must not be deleted, and why; ``pending``: of ``_read_pending``.

    The one place that decides: for the plan, and again for the change under the lock.
    """
    for one in wave.described:
        found = wave.committed[one.group]
        problem = rules.check(one, found) if rules.check is not None else None
        problem = problem or _undeletable(one, rules.force) or _unread(one, found)
        if problem is not None:
            wave.refused[one.group] = problem
    homes = {one.group: one.coordinator.id for one in wave.good if one.coordinator}
    too_old = yield from find_unsupported(cluster, homes, delete_groups_api.Request)
    wave.refused.update({g: ItemError.of(why, Target(group=g)) for g, why in too_old.items()})
    bare = [one for one in wave.good if not wave.committed[one.group]]
    wave.refused.update((yield from find_unlisted(bare)))
    yield from rules.hidden.search(cluster, [one.group for one in wave.good])
    for one in wave.good:
        problem = rules.hidden.refusal(one.group)
        if problem is None and pending is not None:
            problem = _pending(one.group, wave.had(one.group), pending.get(one.group, {}))
        if problem is not None:
            wave.refused[one.group] = problem


def _pending(group: str, had: Committed, pending: Committed | KgError) -> ItemError | None:
    """Refuse a group whose offsets a transaction is, or may be, about to change."""
    if not isinstance(pending, KgError):
        return pending_transaction(group, {**had, **pending})
    said = f"Whether a transaction is about to change offsets of group '{group}' is unknown: "
    hint = "Try again later, or give --force."
    error = ItemError.of(pending, Target(group=group))
    return error._replace(message=said + pending.message, hint=hint)


def _unread(description: GroupDescription, found: Committed | KgError) -> ItemError | None:
    """Refuse a group whose offsets can't be read, and so not be restored by an undo."""
    if description.type == "share":
        return None
    values = found.items() if isinstance(found, dict) else [((), found)]
    for at, value in values:
        if isinstance(value, KgError):
            hint = "What can't be read can't be restored, so it is not deleted."
            return ItemError.of(value, Target(description.group, *at))._replace(hint=hint)
    return None


def _changed_since(group: str) -> ItemError:
    error = ChangedMeanwhile(
        f"Somebody has committed to it after the plan was shown: '{group}' is left alone.",
        hint="Check with kgtool describe, and repeat the command if it should still go.",
    )
    return ItemError.of(error, Target(group=group))


def _undeletable(description: GroupDescription, force: bool) -> ItemError | None:
    group, kind = description.group, description.protocol_type
    if description.error is not None:
        return description.error
    tool = UNKNOWN_TYPES.get(description.type or "")
    if tool is not None and not force:
        hint = f"Use {tool} for it, or --force to delete it anyway."
        return wrong_type(group, str(description.type), hint)
    if kind not in ("", "consumer", "share", "streams") and not force:
        hint = "Use the tool that made it, or --force to delete it anyway."
        return wrong_type(group, f"'{kind}'", hint)
    if not description.is_empty:
        error = broker_error(codes.NON_EMPTY_GROUP, hint=_stop_members(description))
        return ItemError.of(error, Target(group=group))
    return None


def _stop_members(description: GroupDescription) -> str:
    count = len(description.members)
    hosts = ", ".join(sorted({f"{m.client_id} on {m.host}" for m in description.members})[:3])
    if not count:
        return f"It is {description.state}; wait until its members have left."
    return (
        f"Stop its {counted(count, 'member')} first: {hosts}; kgtool remove-members "
        "evicts stuck ones."
    )
