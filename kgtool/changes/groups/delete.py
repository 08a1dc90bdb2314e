"""Deleting groups with everything they have committed (DeleteGroups), some at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.changes.hidden import HiddenOffsets
from kgtool.changes.offsets.agreed import group_digest
from kgtool.changes.offsets.batches import (
    BATCH_BYTES,
    batch_bytes,
    is_too_large,
    send_parts,
    split,
    tombstone_bytes,
)
from kgtool.changes.offsets.delete_request import delete_partitions
from kgtool.changes.snapshot import (
    BeforeChange,
    Check,
    GroupChange,
    announce_deletion,
    offsets_of,
    unreadable,
)
from kgtool.client import denied
from kgtool.client.answers import left_out
from kgtool.client.cluster import Cluster
from kgtool.client.lost_replies import (
    SEND_AGAIN,
    change_by_coordinator,
    is_unsettled,
)
from kgtool.client.ops import READING_SHARE, Call, Operation, gather, within
from kgtool.errors import ChangedMeanwhile, KgError
from kgtool.model import GroupDeletion, GroupDescription, ItemError, Target
from kgtool.protocol import codes
from kgtool.protocol.api import delete_groups as delete_groups_api
from kgtool.protocol.codes import broker_error
from kgtool.queries.cluster.pending import pending_transaction
from kgtool.queries.cluster.transactions import first_commits
from kgtool.queries.groups.describe import UNKNOWN_TYPES, describe_with_type
from kgtool.queries.groups.unlisted import listed_on, unlisted
from kgtool.queries.offsets.adaptive_batches import Waves
from kgtool.queries.offsets.fetch import Committed, fetch_committed, fetch_on
from kgtool.text import counted

Told = Callable[[Sequence[GroupDeletion]], None]
"""Called with the rows of each wave as soon as they are known."""


Pending = Mapping[str, "Committed | KgError"]


class DeletionPlan(NamedTuple):
    """What would be deleted, in the order asked; ``agreed``: a digest of what each group that
    would go has, as it was when the plan was shown; ``offsets``: how many go with them."""

    rows: list[GroupDeletion]
    agreed: Mapping[str, int]
    offsets: int


class PartlyDeleted(KgError):
    """A group too large for one batch: some of its offsets are gone, and the group is not."""

    name = "PARTLY_DELETED"


class _Rules(NamedTuple):
    """What decides, besides the group itself, whether it may go."""

    force: bool
    check: Check | None
    hidden: HiddenOffsets


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
    force: bool = False,
    check: Check | None = None,
    hidden: HiddenOffsets | None = None,
    told: Told | None = None,
) -> Operation[DeletionPlan]:
    """Say of groups whether they can be deleted, without doing it."""
    rules = _Rules(force, check, hidden or HiddenOffsets(groups, refuse=not force))
    rows: dict[str, GroupDeletion] = {}
    agreed: dict[str, int] = {}
    offsets = 0
    waves = Waves(list(dict.fromkeys(groups)))
    while names := waves.next():
        seen = yield from _look(cluster, names, rules)
        waves.learn(len(names), seen.offsets)
        agreed.update({one.group: group_digest(seen.committed[one.group]) for one in seen.good})
        offsets += sum(len(offsets_of(seen.committed[one.group])) for one in seen.good)
        found = {name: _row(name, seen.refused.get(name), "would-delete") for name in names}
        rows.update(found)
        if told is not None:
            told(list(found.values()))
    return DeletionPlan([rows[group] for group in dict.fromkeys(groups)], agreed, offsets)


def delete_groups(
    cluster: Cluster,
    groups: Sequence[str],
    *,
    agreed: Mapping[str, int] | None = None,
    force: bool = False,
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
    :param before_change: called with the images of the groups of a wave that are about to go.
    :param check: says of a group, as it was just read, why it must be left alone after all.
    :param hidden: looks for offsets that this login may not see; groups that have some are left
        alone, by default unless ``force``.
    """
    hidden = hidden or HiddenOffsets(groups, refuse=not force)
    rules = _Rules(force, check, hidden)
    rows: dict[str, GroupDeletion] = {}

    def announce(changes: Sequence[GroupChange]) -> None:
        if before_change is not None:
            before_change([hidden.marked(change) for change in changes])

    waves = Waves(list(dict.fromkeys(groups)))
    while names := waves.next():
        seen = yield from _look(cluster, names, rules)
        waves.learn(len(names), seen.offsets)
        if agreed is not None:
            seen.refused.update(_moved(seen, agreed))
        if seen.good and before_change is not None:
            yield from announce_deletion(cluster, seen.good, seen.committed, announce)
        answers = yield from _delete(cluster, {d.group: _had(d, seen) for d in seen.good})
        errors = dict(seen.refused)
        for group, answer in answers.items():
            if answer is not None:
                errors[group] = ItemError.of(answer, Target(group=group))
        found = [_row(name, errors.get(name), "deleted") for name in names]
        rows.update({row.group: row for row in found})
        if told is not None:
            told(found)
    return [rows[group] for group in dict.fromkeys(groups)]


def _row(group: str, error: ItemError | None, good: str) -> GroupDeletion:
    return GroupDeletion(group, good if error is None else error.status, error)


def _look(cluster: Cluster, groups: Sequence[str], rules: _Rules) -> Operation[_Seen]:
    """Read what the groups are and have, and judge them."""
    reads = [
        describe_with_type(cluster, groups),
        fetch_committed(cluster, groups),
        rules.hidden.find_guards(cluster, groups),
        *([] if rules.force else [first_commits(cluster, groups)]),
    ]
    # Side by side: a broker that does not answer costs its time once.
    described, committed, _, *first = yield from within(gather(reads), READING_SHARE)
    seen = _Seen(described, committed, {})
    yield from _judge(cluster, seen, rules, *first)
    return seen


def _judge(
    cluster: Cluster, seen: _Seen, rules: _Rules, pending: Pending | None = None
) -> Operation[None]:
    """Add the groups that must not be deleted, and why; ``pending``: their ``first_commits``.

    The one place that decides: the plan asks it, and the change asks it again of what it reads
    under the lock.
    """
    for one in seen.described:
        found = seen.committed[one.group]
        problem = rules.check(one, found) if rules.check is not None else None
        problem = problem or _undeletable(one, rules.force) or _unread(one, found)
        if problem is not None:
            seen.refused[one.group] = problem
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
    # Share groups keep their offsets elsewhere: there is nothing to put back from here.
    return None if description.type == "share" else unreadable(description.group, found)


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
    target = Target(group=description.group)
    if description.error is not None:
        return description.error
    tool = UNKNOWN_TYPES.get(description.type or "")
    if tool is not None and not force:
        return ItemError(
            target, None, "WRONG_GROUP_TYPE",
            f"Group '{description.group}' is a {description.type} group, not a consumer group.",
            f"Use {tool} for it, or --force to delete it anyway.",
        )  # fmt: skip
    if description.protocol_type not in ("", "consumer", "share", "streams") and not force:
        return ItemError(
            target, None, "WRONG_GROUP_TYPE",
            f"Group '{description.group}' is a '{description.protocol_type}' group, "
            "not a consumer group.",
            "Use the tool that made it, or --force to delete it anyway.",
        )  # fmt: skip
    if not description.is_empty:
        return ItemError.of(
            broker_error(codes.NON_EMPTY_GROUP, hint=_stop_members(description)), target
        )
    return None


def _stop_members(description: GroupDescription) -> str:
    count = len(description.members)
    hosts = ", ".join(sorted({f"{m.client_id} on {m.host}" for m in description.members})[:3])
    if not count:
        return f"It is {description.state}; wait until its members have left."
    return (
        f"Stop its {counted(count, 'member')} first: {hosts}; kgtool remove-members takes out who "
        "is stuck."
    )


# -- sending ----------------------------------------------------------------------------------

Answers = dict[str, "KgError | None"]


def _delete(cluster: Cluster, had: Mapping[str, Committed]) -> Operation[Answers]:
    """Delete groups; ``had`` tells, where an answer got lost, whether it may be sent again."""
    sizes = {group: _bytes(group, found) for group, found in had.items()}
    limit = yield from batch_bytes(sum(sizes.values()))
    large = [group for group, size in sizes.items() if size > limit]
    rest = {group: found for group, found in had.items() if sizes[group] <= limit}
    answers = yield from _send(cluster, rest, limit)
    # Refused although it should fit: the batches of this cluster are smaller than Kafka's own.
    large += [g for g, answer in answers.items() if is_too_large(answer) and len(had[g]) > 1]
    if large:
        answers.update((yield from _delete_large(cluster, {g: had[g] for g in large})))
    return answers


def _bytes(group: str, found: Committed) -> int:
    return sum(tombstone_bytes(group, at) for at in found)


def _delete_large(cluster: Cluster, had: Mapping[str, Committed]) -> Operation[Answers]:
    """Delete groups whose offsets do not fit into one batch: these first, part by part."""
    gone = yield from delete_partitions(cluster, {g: sorted(had[g]) for g in had}, had)
    now = yield from fetch_committed(cluster, list(had))
    answers: Answers = {}
    left: dict[str, Committed] = {}
    for group, outcome in gone.items():
        if isinstance(outcome, KgError):
            answers[group] = outcome
            continue
        rest = {at: had[group][at] for at, code in outcome.items() if code != codes.NONE}
        if group_digest(now[group]) == group_digest(rest):
            left[group] = rest
        else:
            answers[group] = _partly(group, len(outcome) - len(rest), "its offsets have changed")
    for group, error in (yield from _send(cluster, left, BATCH_BYTES, left)).items():
        count = len(had[group]) - len(left[group])
        answers[group] = error and _partly(group, count, error.message)
    return answers


def _partly(group: str, count: int, why: str) -> PartlyDeleted:
    return PartlyDeleted(
        f"'{group}' is too large for one batch: {counted(count, 'offset')} of it are deleted, the "
        f"group is not: {why}",
        hint="kgtool undo puts them back; or repeat the command.",
    )


def _send(
    cluster: Cluster, had: Mapping[str, Committed], limit: int, begun: Iterable[str] = ()
) -> Operation[Answers]:
    """Send DeleteGroups, in requests whose tombstones fit into a batch.

    :param limit: how many bytes of tombstones a request may make.
    :param begun: groups whose offsets were deleted before: before 4.0 the last one takes the group
        with it.
    """
    asked = set(begun)

    def read(ids: list[str], reply: Any) -> dict[str, Any]:
        if isinstance(reply, KgError):
            asked.update(ids)
            return dict.fromkeys(ids, reply)
        answers: dict[str, Any] = {
            group: left_out(delete_groups_api.Request, f"group '{group}'") for group in ids
        }
        told = {row.group_id for row in reply.results}
        asked.update(group for group in ids if group not in told)
        for row in reply.results:
            # Not found after an answer that got lost, or told of no more than trouble with the
            # log: it is the first request that deleted it.
            gone = row.error_code == codes.GROUP_ID_NOT_FOUND and row.group_id in asked
            done = row.error_code == codes.NONE or gone
            error = denied.explain(
                broker_error(row.error_code), denied.DELETE_GROUP, group=row.group_id
            )
            if is_unsettled(error) or is_too_large(error):
                asked.add(row.group_id)
            answers[row.group_id] = None if done else error
        return answers

    def send(broker: int, ids: list[str]) -> Operation[dict[str, Any]]:
        parts = split(ids, lambda group: _bytes(group, had[group]), limit)
        return (yield from send_parts(parts, lambda part: _request(broker, part), read))

    def look(broker: int, ids: list[str]) -> Operation[dict[str, Any]]:
        now = yield from fetch_on(cluster, broker, ids)
        is_bare = any(now[group] == {} == had[group] for group in ids)
        listed = (yield from listed_on(broker)) if is_bare else ()
        return {group: _verdict(group, had[group], now[group], listed) for group in ids}

    return (yield from change_by_coordinator(cluster, list(had), send, look, "it was deleted"))


def _request(broker: int, groups: list[str]) -> Call:
    return Call(broker, delete_groups_api.Request(group_ids=groups))


def _verdict(
    group: str, before: Committed, now: Committed | KgError, listed: Collection[str] | KgError
) -> Any:
    """Say whether DeleteGroups may be sent again; a group without offsets is no loss."""
    if isinstance(now, KgError):
        return now
    if before.keys() - now.keys() and not any(now.get(at) == old for at, old in before.items()):
        return None  # nothing has survived: it was deleted, whoever has committed to it since
    if now and group_digest(now) != group_digest(before):
        return ChangedMeanwhile(
            f"Somebody has committed to '{group}' since; the answer to the deletion got lost, and "
            "it was not sent again.",
            hint="Check with kgtool describe, and repeat the command if it should still go.",
        ).after_sending()
    if now or isinstance(listed, KgError):
        return SEND_AGAIN if now else listed
    return None if before or group not in listed else SEND_AGAIN
