"""DeleteGroups requests: they fit into the coordinator's batch; none is repeated without a look."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from kgtool.changes.doubt import AS_BEFORE, Attempt, Doubts, Items, Outcome, Seen, is_in_doubt
from kgtool.changes.offsets.batches import (
    BATCH_BYTES,
    batch_bytes,
    is_too_large,
    send_parts,
    split,
    tombstone_bytes,
)
from kgtool.changes.offsets.delete_request import delete_partitions
from kgtool.changes.snapshot import group_digest, value_digest
from kgtool.client import denied
from kgtool.client.answers import left_out
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Call, Operation
from kgtool.errors import BrokerError, ChangedMeanwhile, KgError
from kgtool.protocol import codes
from kgtool.protocol.api import delete_groups as delete_groups_api
from kgtool.protocol.codes import broker_error
from kgtool.queries.groups.listings import listed_on
from kgtool.queries.offsets.fetch import Committed, fetch_committed, fetch_on
from kgtool.text import counted


class PartlyDeleted(KgError):
    """A group too large for one batch: some of its offsets are deleted, the group is not."""

    name = "PARTLY_DELETED"


Answers = dict[str, "KgError | None"]


def send_deletions(cluster: Cluster, had: Mapping[str, Committed]) -> Operation[Answers]:
    """Delete groups; where an answer was lost, ``had`` tells whether to send it again."""
    sizes = {group: _bytes(group, found) for group, found in had.items()}
    limit = yield from batch_bytes(sum(sizes.values()))
    large = [group for group, size in sizes.items() if size > limit]
    rest = {group: found for group, found in had.items() if sizes[group] <= limit}
    answers = yield from _send(cluster, rest, limit)
    # Refused although it should fit: the batches of this cluster are smaller than Kafka's default.
    large += [g for g, answer in answers.items() if is_too_large(answer) and len(had[g]) > 1]
    if large:
        answers.update((yield from _delete_large(cluster, {g: had[g] for g in large})))
    return answers


def _bytes(group: str, found: Committed) -> int:
    return sum(tombstone_bytes(group, at) for at in found)


def _delete_large(cluster: Cluster, had: Mapping[str, Committed]) -> Operation[Answers]:
    """Delete groups whose offsets do not fit into one batch: first the offsets, in parts."""
    gone = yield from delete_partitions(cluster, {g: sorted(had[g]) for g in had}, had)
    now = yield from fetch_committed(cluster, list(had))
    answers: Answers = {}
    left: dict[str, Committed] = {}
    for group, outcome in gone.items():
        if isinstance(outcome, KgError):
            answers[group] = outcome
            continue
        rest = {at: had[group][at] for at, error in outcome.items() if error is not None}
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
        hint="kgtool undo restores them; or repeat the command.",
    )


def _send(
    cluster: Cluster, had: Mapping[str, Committed], limit: int, begun: Iterable[str] = ()
) -> Operation[Answers]:
    """Send DeleteGroups, in requests whose tombstones fit into a batch.

    :param limit: how many bytes of tombstones a request may cause.
    :param begun: groups whose offsets were deleted: before 4.0 the last one takes the group with
        it.
    """
    requests = _Deletions(cluster, had, limit, set(begun))
    attempt = Attempt(cluster, {group: [None] for group in had}, requests)
    yield from attempt.run()
    yield from attempt.last_look("it was deleted")
    return {group: outcomes[None] for group, outcomes in attempt.outcomes.items()}


class _Deletions(NamedTuple):
    """DeleteGroups. ``asked``: groups that an earlier request may have deleted."""

    cluster: Cluster
    had: Mapping[str, Committed]
    limit: int
    asked: set[str]

    def look(
        self, broker: int, items: Items[None], doubts: Doubts[None]
    ) -> Operation[dict[str, KgError | dict[None, Seen]]]:
        """Compare groups with what they had."""
        had, now = self.had, (yield from fetch_on(self.cluster, broker, list(items)))
        is_bare = any(doubts[group] and now[group] == {} == had[group] for group in items)
        listed = (yield from listed_on(broker)) if is_bare else ()
        found: dict[str, KgError | dict[None, Seen]] = {}
        for group in items:
            judge = partial(_verdict, listed) if doubts[group] else _changed
            seen = judge(group, had[group], now[group])
            if isinstance(seen, KgError) and not isinstance(seen, ChangedMeanwhile):
                found[group] = seen
            else:
                found[group] = {None: seen}
        return found

    def send(self, broker: int, items: Items[None]) -> Operation[dict[str, dict[None, Outcome]]]:
        """Send requests for all groups."""
        parts = split(list(items), lambda group: _bytes(group, self.had[group]), self.limit)
        found = yield from send_parts(parts, lambda part: _request(broker, part), self._read)
        answers = ((group, found[group]) for group in items)
        return {g: {None: Outcome(e, isinstance(e, BrokerError | None))} for g, e in answers}

    def _read(self, ids: list[str], reply: Any) -> Answers:
        if isinstance(reply, KgError):
            self.asked.update(ids)
            return dict.fromkeys(ids, reply)
        answers: Answers = {
            group: left_out(delete_groups_api.Request, f"group '{group}'") for group in ids
        }
        for row in reply.results:
            # Not found after an answer that was lost, or was about the log: an earlier request
            # deleted it.
            gone = row.error_code == codes.GROUP_ID_NOT_FOUND and row.group_id in self.asked
            error = broker_error(row.error_code, row.error_message)
            refused = denied.explain(error, denied.DELETE_GROUP, group=row.group_id)
            answers[row.group_id] = None if row.error_code == codes.NONE or gone else refused
        self.asked.update(g for g in ids if is_in_doubt(answers[g]) or is_too_large(answers[g]))
        return answers


def _request(broker: int, groups: list[str]) -> Call:
    return Call(broker, delete_groups_api.Request(group_ids=groups))


def _changed(group: str, before: Committed, now: Committed | KgError) -> Seen:
    """Find commits since a group was read: images and journal in between may take their time."""
    if isinstance(now, KgError):
        return now if before else AS_BEFORE  # share groups keep their offsets elsewhere
    if all(value_digest(value) in (0, value_digest(before.get(at))) for at, value in now.items()):
        return AS_BEFORE
    return ChangedMeanwhile(
        f"Group {group} has other commits than the journal: it is not deleted.",
        hint="Check with kgtool describe, and repeat the command if it should still go.",
    )


def _verdict(
    listed: Collection[str] | KgError, group: str, before: Committed, now: Committed | KgError
) -> Seen:
    """Decide whether DeleteGroups may be sent again; a group without offsets is no loss."""
    if isinstance(now, KgError):
        return now
    if before.keys() - now.keys() and not any(now.get(at) == old for at, old in before.items()):
        return None  # no old offset is left: it was deleted, and new ones were committed since
    if now and group_digest(now) != group_digest(before):
        return ChangedMeanwhile(
            f"The answer to the deletion of '{group}' was lost, and another client has "
            "committed since: it was not sent again.",
            hint="Check with kgtool describe, and repeat the command if it should still go.",
        ).after_sending()
    if now:
        return AS_BEFORE
    if isinstance(listed, KgError):
        return listed
    return None if before or group not in listed else AS_BEFORE
