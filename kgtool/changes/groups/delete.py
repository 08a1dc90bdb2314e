"""Deleting groups with everything they have committed (DeleteGroups), some at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kgtool.changes.groups.delete_request import Answers, send_deletions
from kgtool.changes.hidden import HiddenOffsets
from kgtool.changes.plan_rows import failed, settle, skip
from kgtool.changes.snapshot import (
    BeforeChange,
    Check,
    GroupChange,
    group_digest,
    take_images,
)
from kgtool.client.cluster import Cluster, unable
from kgtool.client.ops import READING_SHARE, Operation, gather, within
from kgtool.errors import ChangedMeanwhile, KgError
from kgtool.model import GroupDeletion, GroupDescription, ItemError, Target, has_failed
from kgtool.protocol import codes
from kgtool.protocol.api import delete_groups as delete_groups_api
from kgtool.protocol.codes import broker_error
from kgtool.queries.cluster.transactions import first_commits, pending_transaction
from kgtool.queries.groups.describe import UNKNOWN_TYPES, describe_with_type, wrong_type
from kgtool.queries.groups.list import unlisted
from kgtool.queries.log.reader import pending_in_log
from kgtool.queries.offsets.adaptive_batches import AdaptiveBatches
from kgtool.queries.offsets.fetch import Committed, fetch_committed, offsets_of
from kgtool.text import counted

Told = Callable[[Sequence[GroupDeletion]], None]
"""Called with the rows of each wave as soon as they are known."""


Pending = Mapping[str, "Committed | KgError"]


class DeletionPlan(NamedTuple):
    """What would be deleted, in the order asked; ``agreed``: a digest of what each group that
    would go has, as it was when the plan was shown; ``offsets``: how many go with them;
    ``has_share``: whether a share group would go."""

    rows: list[GroupDeletion]
    agreed: Mapping[str, int]
    offsets: int
    has_share: bool = False


class _Rules(NamedTuple):
    """What decides, besides the group itself, whether it may go."""

    force: bool
    check: Check | None
    hidden: HiddenOffsets
    agreed: Mapping[str, int] | None = None


class _Seen(NamedTuple):
    """The groups of one wave as they are now, and those that must not be deleted."""

    described: list[GroupDescription]
    committed: dict[str, Committed | KgError]
    refused: dict[str, ItemError]

    @property
    def good(self) -> list[GroupDescription]:
        return [one for one in self.described if one.group not in self.refused]

    @property
    def offsets(self) -> int:
        return sum(len(found) for found in self.committed.values() if isinstance(found, dict))


def plan_deletions(
    cluster: Cluster,
    groups: Sequence[str],
    *,
    agreed: Mapping[str, int] | None = None,
    force: bool = False,
    check: Check | None = None,
    hidden: HiddenOffsets | None = None,
    told: Told | None = None,
) -> Operation[DeletionPlan]:
    """Say of groups whether they can be deleted, without doing it.

    :param agreed: of an earlier plan: a group that has something else now can't.
    """
    rules = _Rules(force, check, hidden or HiddenOffsets(groups, refuse=not force), agreed)
    rows: list[GroupDeletion] = []
    digests: dict[str, int] = {}
    offsets, has_share = 0, False
    waves = AdaptiveBatches(list(dict.fromkeys(groups)))
    while names := waves.next():
        seen = yield from _look(cluster, names, rules)
        waves.learn(len(names), seen.offsets)
        digests.update({one.group: group_digest(seen.committed[one.group]) for one in seen.good})
        offsets += sum(len(offsets_of(seen.committed[one.group])) for one in seen.good)
        has_share |= any(one.type == "share" for one in seen.good)
        found = _foreseen(names, seen)
        rows += found
        if told is not None:
            told(found)
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
    told: Told | None = None,
) -> Operation[list[GroupDeletion]]:
    """Delete groups, each with its own outcome, in the order asked.

    What exists is looked at first: DeleteGroups itself is type-blind and would delete a share,
    streams or Connect group that happens to be empty. ``force`` deletes those too, and groups
    whose offsets a pending transaction is about to change.

    :param agreed: of a plan: a group that has something else now is left alone.
    :param all_or_nothing: delete nothing if any of the groups must be left alone. Once deleting has
        begun, what fails does not take back the rest.
    :param before_change: called with the images of the groups of a wave that are about to go.
    :param check: says of a group, as it was just read, why it must be left alone after all.
    :param hidden: looks for offsets that this login may not see, and tells of those that go with
        a group; groups that have some are left alone, by default unless ``force``.
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
            if told is not None:
                told(rows)
            return rows
    while names := waves.next():
        seen = yield from _look(cluster, names, rules)
        waves.learn(len(names), seen.offsets)
        found = settle(_foreseen(names, seen), all_or_nothing)
        going = {row.group for row in found if row.is_open}
        good = [one for one in seen.described if one.group in going]
        if good and before_change is not None:
            # Share groups keep their offsets elsewhere: there is nothing to put back from here.
            had = [(d, offsets_of(_had(d, seen) if d.type != "share" else {})) for d in good]
            images = yield from take_images(cluster, had)
            changes = [GroupChange(image, dict.fromkeys(image.offsets), True) for image in images]
            hidden.tell(one.group for one in good)
            before_change(list(map(hidden.marked, changes)))
        answers = yield from send_deletions(cluster, {d.group: _had(d, seen) for d in good})
        found = [_done(row, answers) if row.is_open else row for row in found]
        rows += found
        if told is not None:
            told(found)
    return rows


def _foreseen(groups: Sequence[str], seen: _Seen) -> list[GroupDeletion]:
    """Return the rows of a wave as they are before anything is sent."""
    rows = (GroupDeletion(group, "would-delete") for group in groups)
    return [
        failed(row, seen.refused[row.group]) if row.group in seen.refused else row for row in rows
    ]


def _done(row: GroupDeletion, answers: Answers) -> GroupDeletion:
    error = answers[row.group]
    if error is None:
        return row._replace(status="deleted")
    return failed(row, ItemError.of(error, Target(group=row.group)))


def _look(cluster: Cluster, groups: Sequence[str], rules: _Rules) -> Operation[_Seen]:
    """Read what the groups are and have, and judge them, also by the plan that was shown."""
    reads = [
        describe_with_type(cluster, groups),
        fetch_committed(cluster, groups),
        rules.hidden.find_guards(cluster, groups),
        *([] if rules.force else [_pending_of(cluster, groups)]),
    ]
    # Side by side: a broker that does not answer costs its time once.
    described, committed, _, *first = yield from within(gather(reads), READING_SHARE)
    seen = _Seen(described, committed, {})
    yield from _judge(cluster, seen, rules, *first)
    if rules.agreed is not None:
        seen.refused.update(_moved(seen, rules.agreed))
    return seen


def _pending_of(
    cluster: Cluster, groups: Sequence[str]
) -> Operation[dict[str, Committed | KgError]]:
    """Return what the offsets of groups do not show: first commits, and all before Kafka 2.5."""
    found = yield from first_commits(cluster, groups)
    return {**found, **(yield from pending_in_log(cluster, groups))}


def _judge(
    cluster: Cluster, seen: _Seen, rules: _Rules, pending: Pending | None = None
) -> Operation[None]:
    """Add the groups that must not be deleted, and why; ``pending``: their ``_pending_of``.

    The one place that decides: the plan asks it, and the change asks it again of what it reads
    under the lock.
    """
    for one in seen.described:
        found = seen.committed[one.group]
        problem = rules.check(one, found) if rules.check is not None else None
        problem = problem or _undeletable(one, rules.force) or _unread(one, found)
        if problem is not None:
            seen.refused[one.group] = problem
    homes = {one.group: one.coordinator.id for one in seen.good if one.coordinator}
    lacks = yield from unable(cluster, homes, delete_groups_api.Request)
    seen.refused.update({g: ItemError.of(why, Target(group=g)) for g, why in lacks.items()})
    bare = [one for one in seen.good if not seen.committed[one.group]]
    seen.refused.update((yield from unlisted(bare)))
    yield from rules.hidden.look(cluster, [one.group for one in seen.good])
    for one in seen.good:
        hidden = rules.hidden.refusal(one.group)
        if hidden is not None:
            seen.refused[one.group] = hidden
    if pending is not None:
        seen.refused.update(_pending(seen, pending))


def _pending(seen: _Seen, first: Pending) -> dict[str, ItemError]:
    """Return the groups whose offsets a transaction is about to change."""
    found: dict[str, ItemError] = {}
    for one in seen.good:
        pending = first.get(one.group, {})
        if isinstance(pending, KgError):
            found[one.group] = _unasked(one.group, pending)
            continue
        problem = pending_transaction(one.group, {**_had(one, seen), **pending})
        if problem is not None:
            found[one.group] = problem
    return found


def _unread(description: GroupDescription, found: Committed | KgError) -> ItemError | None:
    """Return why offsets that are about to go can't be kept for an undo; None where they can."""
    if description.type == "share":
        return None
    if isinstance(found, KgError):
        bad = [ItemError.of(found, Target(group=description.group))]
    else:
        all_ = [(Target(description.group, *at), value) for at, value in found.items()]
        bad = [ItemError.of(value, at) for at, value in all_ if isinstance(value, KgError)]
    hint = "What can't be read can't be restored, so it is not deleted."
    return bad[0]._replace(hint=hint) if bad else None


def _unasked(group: str, error: KgError) -> ItemError:
    """Say that a transaction is open, and whether it is about this group can't be found out."""
    said = f"Whether a transaction is about to change offsets of group '{group}' is unknown: "
    hint = "Try again later, or give --force."
    return ItemError.of(error, Target(group=group))._replace(
        message=said + error.message, hint=hint
    )


def _moved(seen: _Seen, agreed: Mapping[str, int]) -> dict[str, ItemError]:
    """Return the groups that have something else now than when the plan was shown."""
    return {
        one.group: ItemError.of(
            ChangedMeanwhile(
                f"Somebody has committed to it after the plan was shown: '{one.group}' is left "
                "alone.",
                hint="Check with kgtool describe, and repeat the command if it should still go.",
            ),
            Target(group=one.group),
        )
        for one in seen.good
        if agreed.get(one.group) != group_digest(seen.committed[one.group])
    }


def _had(description: GroupDescription, seen: _Seen) -> Committed:
    found = seen.committed[description.group]
    return found if isinstance(found, dict) else {}


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
