"""Deleting groups with everything they have committed (DeleteGroups)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kgtool.admin.committed import Committed, fetch_committed, fetch_on
from kgtool.admin.groups import UNKNOWN_TYPES, describe_with_type
from kgtool.admin.hidden import HiddenOffsets
from kgtool.admin.images import BeforeChange, Check, GroupChange, announce_deletion
from kgtool.admin.pending import pending_transaction
from kgtool.admin.resend import (
    SEND_AGAIN,
    change_by_coordinator,
    is_unsettled,
)
from kgtool.admin.transactions import first_commits
from kgtool.client import denied
from kgtool.client.cluster import Cluster
from kgtool.client.ops import READING_SHARE, Operation, call, gather, within
from kgtool.errors import ChangedMeanwhile, KgError
from kgtool.model import GroupDeletion, GroupDescription, ItemError, Target
from kgtool.protocol import codes
from kgtool.protocol.api import delete_groups as delete_groups_api
from kgtool.protocol.codes import broker_error
from kgtool.words import counted


def delete_groups(
    cluster: Cluster,
    groups: Sequence[str],
    *,
    dry_run: bool = False,
    force: bool = False,
    before_change: BeforeChange | None = None,
    check: Check | None = None,
    hidden: HiddenOffsets | None = None,
) -> Operation[list[GroupDeletion]]:
    """Delete groups, each with its own outcome, in the order asked.

    What exists is looked at first: DeleteGroups itself is type-blind and would delete a share,
    streams or Connect group that happens to be empty. ``force`` deletes those too, and groups
    whose offsets a pending transaction is about to change.

    :param before_change: called with the images of the groups that are about to go.
    :param check: says of a group, as it was just read, why it must be left alone after all.
    :param hidden: looks for offsets that this login may not see; groups that have some are left
        alone, by default unless ``force``.
    """
    hidden = hidden or HiddenOffsets(groups, refuse=not force)
    outcomes: dict[str, GroupDeletion] = {}
    described, committed = yield from _read(cluster, groups, force)
    open_groups = [d.group for d in described if _undeletable(d, force) is None]
    yield from hidden.look(cluster, open_groups)
    for description in described:
        problem = check(description, committed[description.group]) if check is not None else None
        problem = problem or _undeletable(description, force)
        if problem is None and not force:
            problem = pending_transaction(description.group, committed[description.group])
        problem = problem or hidden.refusal(description.group)
        if problem is not None:
            outcomes[description.group] = GroupDeletion(description.group, "failed", problem)
        elif dry_run:
            outcomes[description.group] = GroupDeletion(description.group, "would-delete")
    rest = [description for description in described if description.group not in outcomes]
    if rest and before_change is not None:

        def announce(changes: Sequence[GroupChange]) -> None:
            before_change([c._replace(is_blind=hidden.is_blind(c.image.group)) for c in changes])

        unread = yield from announce_deletion(cluster, rest, committed, announce)
        outcomes.update({g: GroupDeletion(g, "failed", error) for g, error in unread.items()})
        rest = [description for description in rest if description.group not in unread]
    had = {d.group: found for d in rest if isinstance(found := committed[d.group], dict)}
    for group, answer in (yield from _delete(cluster, [d.group for d in rest], had)).items():
        error = ItemError.of(answer, Target(group=group)) if answer is not None else None
        outcomes[group] = GroupDeletion(group, "failed" if error else "deleted", error)
    return [outcomes[group] for group in dict.fromkeys(groups)]


def _read(
    cluster: Cluster, groups: Sequence[str], force: bool
) -> Operation[tuple[list[GroupDescription], dict[str, Committed | KgError]]]:
    """Read what the groups are and have, first commits that are still pending included."""
    both = gather([describe_with_type(cluster, groups), fetch_committed(cluster, groups)])
    described, committed = yield from within(both, READING_SHARE)
    asked = [] if force else [d.group for d in described if _undeletable(d, force) is None]
    for group, pending in (yield from within(first_commits(cluster, asked), 0.2)).items():
        found = committed[group]
        if isinstance(found, dict):
            found.update(pending)
    return described, committed


def _undeletable(description: GroupDescription, force: bool) -> ItemError | None:
    target = Target(group=description.group)
    if description.error is not None:
        return description.error
    tool = UNKNOWN_TYPES.get(description.type or "")
    if tool is not None and not force:
        return ItemError(
            target, None, "WRONG_GROUP_TYPE",
            f"Group '{description.group}' is a {description.type} group, not a consumer group.",
            f"Use {tool} for it, or --force to delete it all the same.",
        )  # fmt: skip
    if description.protocol_type not in ("", "consumer", "share", "streams") and not force:
        return ItemError(
            target, None, "WRONG_GROUP_TYPE",
            f"Group '{description.group}' is a '{description.protocol_type}' group, "
            "not a consumer group.",
            "Use the tool that made it, or --force to delete it all the same.",
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


def _delete(
    cluster: Cluster, groups: list[str], had: Mapping[str, Committed]
) -> Operation[dict[str, KgError | None]]:
    """Delete groups; ``had`` tells, where an answer got lost, whether it may be sent again."""
    asked: set[str] = set()

    def send(broker: int, ids: list[str]) -> Operation[dict[str, Any]]:
        reply = yield from call(broker, delete_groups_api.Request(group_ids=ids))
        if isinstance(reply, KgError):
            asked.update(ids)
            return dict.fromkeys(ids, reply)
        answers: dict[str, Any] = dict.fromkeys(ids, broker_error(codes.UNKNOWN_SERVER_ERROR))
        for row in reply.results:
            # Not found after an answer that got lost, or told of no more than trouble with the
            # log: it is the first request that deleted it.
            gone = row.error_code == codes.GROUP_ID_NOT_FOUND and row.group_id in asked
            done = row.error_code == codes.NONE or gone
            error = denied.explain(
                broker_error(row.error_code), denied.DELETE_GROUP, group=row.group_id
            )
            if is_unsettled(error):
                asked.add(row.group_id)
            answers[row.group_id] = None if done else error
        return answers

    def look(broker: int, ids: list[str]) -> Operation[dict[str, Any]]:
        now = yield from fetch_on(cluster, broker, [group for group in ids if group in had])
        return {group: _verdict(group, had.get(group), now.get(group)) for group in ids}

    return (yield from change_by_coordinator(cluster, groups, send, look, "it was deleted"))


def _verdict(group: str, before: Committed | None, now: Committed | KgError | None) -> Any:
    """Say whether DeleteGroups may be sent again; a group without offsets is no loss."""
    if isinstance(now, KgError):
        return now
    if before is None or now is None:
        return ChangedMeanwhile(
            f"It is not known whether '{group}' was deleted: the answer got lost.",
            hint="Look with kgtool list.",
        )
    if now and now != before:
        return ChangedMeanwhile(
            f"Somebody has committed to '{group}' since; the answer to the deletion got lost, and "
            "it was not sent again.",
            hint="Look with kgtool describe, and repeat the command if it is to go.",
        )
    return SEND_AGAIN
