"""Deleting groups with everything they have committed (DeleteGroups)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kgtool.changes.driver import Before
from kgtool.changes.groups.delete_request import send_deletions
from kgtool.changes.groups.internal_topics import (
    Found,
    delete_internal_topics,
    find_internal_topics,
)
from kgtool.changes.hidden_offsets import HiddenOffsets
from kgtool.changes.plan import failed
from kgtool.changes.snapshot import Check, GroupChange, group_digest, take_images
from kgtool.client.cluster import Cluster, find_unsupported
from kgtool.client.ops import READING_SHARE, Operation, gather, within
from kgtool.errors import ChangedMeanwhile, KgError
from kgtool.model import GroupDeletion, GroupDescription, InternalTopic, ItemError, Target
from kgtool.protocol import codes
from kgtool.protocol.api import delete_groups as delete_groups_api
from kgtool.protocol.codes import broker_error
from kgtool.queries.cluster.pending import first_commits, pending_transaction
from kgtool.queries.groups.describe import wrong_type
from kgtool.queries.groups.listings import find_unlisted
from kgtool.queries.groups.share_and_streams import read_with_offsets
from kgtool.queries.log.reader import pending_in_log
from kgtool.queries.offsets.fetch import Committed, offsets_of
from kgtool.text import counted


class _Wave(NamedTuple):
    """The groups of one wave as just read, and those that must not be deleted."""

    described: list[GroupDescription]
    committed: dict[str, Committed | KgError]
    refused: dict[str, ItemError]
    internal: Found

    @property
    def good(self) -> list[GroupDescription]:
        return [one for one in self.described if one.group not in self.refused]

    def had(self, group: str) -> Committed:
        found = self.committed[group]
        return found if isinstance(found, dict) else {}

    def topics(self, group: str, status: str) -> tuple[InternalTopic, ...]:
        """Return the internal topics of a streams group, with a status."""
        found = self.internal.get(group, ())
        topics = () if isinstance(found, KgError) else found
        return tuple(topic._replace(status=status) for topic in topics)

    def row(self, group: str, topics: tuple[InternalTopic, ...]) -> GroupDeletion:
        """Return the row as foreseen, before anything is sent."""
        found = self.committed[group]
        size, agreed = len(offsets_of(found)), group_digest(found)
        row = GroupDeletion(group, "would-delete", None, size, agreed, topics)
        return failed(row, self.refused[group]) if group in self.refused else row


class DeleteGroups:
    """Deletes groups, each with its own outcome.

    Groups are read first: DeleteGroups itself is type-blind and would delete a Connect group that
    happens to be empty.

    :param force: those too, and groups whose offsets a pending transaction is about to change.
    :param check: called with each group as just read; returns why it must be left alone.
    :param internal_topics: also the internal topics of streams groups, after their groups.
    :param hidden: finds offsets that this login may not see, and warns of those that go with a
        group; groups that have some are left alone, by default unless ``force``.
    """

    def __init__(
        self,
        groups: Sequence[str],
        *,
        force: bool = False,
        check: Check | None = None,
        hidden: HiddenOffsets | None = None,
        internal_topics: bool = False,
    ) -> None:
        self._force = force
        self._status = "would-delete" if internal_topics else "kept"
        self.deletes_topics = internal_topics
        self.kept_topics: set[str] = set()
        """Internal topics that somebody wants to keep after all."""
        self._check = check
        self._hidden = hidden or HiddenOffsets(groups, refuse=not force)
        self._seen = _Wave([], {}, {}, {})
        """The wave that was read last."""
        self.has_share = False
        """Whether a share group would go: it keeps its offsets elsewhere."""

    def weigh(self, group: GroupDeletion) -> int:
        """Return how many offsets a group has."""
        return group.offsets

    def look(self, cluster: Cluster, groups: Sequence[str]) -> Operation[list[GroupDeletion]]:
        """Read and judge groups."""
        self._seen = yield from self._read(cluster, groups)
        self.has_share |= any(one.type == "share" for one in self._seen.good)
        return [self._seen.row(g, self._seen.topics(g, self._status)) for g in groups]

    def look_again(
        self, cluster: Cluster, plan: Sequence[GroupDeletion]
    ) -> Operation[list[GroupDeletion]]:
        """Read and judge the groups that may go; one that has changed since is left alone."""
        names = [row.group for row in plan if row.is_open]
        now = (yield from self.look(cluster, names)) if names else []
        found = {row.group: row for row in now}
        return [_as_agreed(row, found[row.group]) if row.is_open else row for row in plan]

    def before(self, cluster: Cluster, going: Sequence[GroupDeletion]) -> Operation[Before]:
        """Return the images of groups that are about to go."""
        names = {row.group for row in going}
        good = [one for one in self._seen.described if one.group in names]
        had = [(d, offsets_of(self._seen.had(d.group))) for d in good]
        images = yield from take_images(cluster, had)
        changes = [GroupChange(image, dict.fromkeys(image.offsets), True) for image in images]
        self._hidden.warn(one.group for one in good)
        topics = [topic for row in going for topic in self._going_topics(row)]
        return Before(list(map(self._hidden.mark, changes)), topics=topics)

    def _going_topics(self, row: GroupDeletion) -> list[InternalTopic]:
        kept = self.kept_topics
        return [t for t in row.topics if t.status == "would-delete" and t.topic not in kept]

    def send(
        self, cluster: Cluster, going: Sequence[GroupDeletion]
    ) -> Operation[list[GroupDeletion]]:
        """Delete groups."""
        # What OffsetFetch will show: nothing of share groups, whose deletion a listing shows.
        share = {one.group for one in self._seen.described if one.type == "share"}
        had = {r.group: {} if r.group in share else self._seen.had(r.group) for r in going}
        answers = yield from send_deletions(cluster, had)
        errors = ((row, answers[row.group]) for row in going)
        done = [failed(r, e) if e is not None else r._replace(status="deleted") for r, e in errors]
        return (yield from self._delete_topics(cluster, done))

    def _delete_topics(
        self, cluster: Cluster, done: list[GroupDeletion]
    ) -> Operation[list[GroupDeletion]]:
        """Delete the internal topics of groups that are gone; they do not come back."""
        going = [t for row in done if row.error is None for t in self._going_topics(row)]
        deleted = (yield from delete_internal_topics(cluster, going)) if going else []
        found = {topic.topic: topic for topic in deleted}
        rows = []
        for row in done:
            topics = (found.get(t.topic) or t._replace(status="kept") for t in row.topics)
            rows.append(row._replace(topics=tuple(topics)))
        return rows

    def _read(self, cluster: Cluster, groups: Sequence[str]) -> Operation[_Wave]:
        reads = [
            read_with_offsets(cluster, groups),
            self._hidden.find_authorizers(cluster, groups),
            *([] if self._force else [_read_pending(cluster, groups)]),
        ]
        # Side by side: a broker that does not answer costs its time once.
        (described, committed), _, *pending = yield from within(gather(reads), READING_SHARE)
        wave = _Wave(described, committed, {}, {})
        yield from self._judge(cluster, wave, *pending)
        return wave

    def _judge(
        self,
        cluster: Cluster,
        wave: _Wave,
        pending: Mapping[str, Committed | KgError] | None = None,
    ) -> Operation[None]:
        """Add the groups that must not be deleted, and why; ``pending``: of ``_read_pending``."""
        for one in wave.described:
            found = wave.committed[one.group]
            problem = self._check(one, found) if self._check is not None else None
            problem = problem or _undeletable(one, self._force) or _unread(one, found)
            if problem is not None:
                wave.refused[one.group] = problem
        homes = {one.group: one.coordinator.id for one in wave.good if one.coordinator}
        too_old = yield from find_unsupported(cluster, homes, delete_groups_api.Request)
        wave.refused.update({g: ItemError.of(why, Target(group=g)) for g, why in too_old.items()})
        bare = [one for one in wave.good if not wave.committed[one.group]]
        wave.refused.update((yield from find_unlisted(bare)))
        yield from self._hidden.search(cluster, [one.group for one in wave.good])
        for one in wave.good:
            problem = self._hidden.refusal(one.group)
            if problem is None and pending is not None:
                problem = _pending(one.group, wave.had(one.group), pending.get(one.group, {}))
            if problem is not None:
                wave.refused[one.group] = problem
        streams = [one.group for one in wave.good if one.type == "streams"]
        wave.internal.update((yield from find_internal_topics(cluster, streams)))
        for group, topics in wave.internal.items():
            if isinstance(topics, KgError) and self._status != "kept":
                wave.refused[group] = ItemError.of(topics, Target(group=group))


def _as_agreed(plan: GroupDeletion, now: GroupDeletion) -> GroupDeletion:
    if not now.is_open or now.agreed == plan.agreed:
        ids = {topic.topic_id for topic in plan.topics}
        return now._replace(topics=tuple(t for t in now.topics if t.topic_id in ids))
    error = ChangedMeanwhile(
        f"Group {now.group} has other commits than the plan shows: it is not deleted.",
        hint="Check with kgtool describe, and repeat the command if it should still go.",
    )
    return failed(now, error)


def _read_pending(
    cluster: Cluster, groups: Sequence[str]
) -> Operation[dict[str, Committed | KgError]]:
    """Return pending commits that OffsetFetch does not show: first ones, and all before 2.5."""
    found = yield from first_commits(cluster, groups)
    return {**found, **(yield from pending_in_log(cluster, groups))}


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
    values = found.items() if isinstance(found, dict) else [((), found)]
    for at, value in values:
        if isinstance(value, KgError):
            hint = "What can't be read can't be restored, so it is not deleted."
            return ItemError.of(value, Target(description.group, *at))._replace(hint=hint)
    return None


def _undeletable(description: GroupDescription, force: bool) -> ItemError | None:
    group, kind = description.group, description.protocol_type
    if description.error is not None:
        return description.error
    if kind not in ("", "consumer", "share", "streams") and not force:
        hint = "Use the tool that made it, or --force to delete it anyway."
        return wrong_type(group, f"'{kind}'", hint)
    if not description.is_empty:
        return not_empty(description)
    return None


def not_empty(description: GroupDescription) -> ItemError:
    """Refuse a group that has members, and name them."""
    error = broker_error(codes.NON_EMPTY_GROUP, hint=_stop_members(description))
    return ItemError.of(error, Target(group=description.group))


def _stop_members(description: GroupDescription) -> str:
    count = len(description.members)
    hosts = ", ".join(sorted({f"{m.client_id} on {m.host}" for m in description.members})[:3])
    if not count:
        return f"It is {description.state}; wait until its members have left."
    evict = (
        ""
        if description.type in ("share", "streams")
        else "; kgtool remove-members evicts stuck ones"
    )
    return f"Stop its {counted(count, 'member')} first: {hosts}{evict}."
