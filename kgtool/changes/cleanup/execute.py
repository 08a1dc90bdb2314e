"""What ``cleanup apply`` does to groups that are rebuilt: delete, and restore what is kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kgtool.changes.driver import Before
from kgtool.changes.kinds.delete_groups import DeleteGroups
from kgtool.changes.offsets.verify import Write
from kgtool.changes.offsets.write import write_offsets
from kgtool.changes.snapshot import GroupChange
from kgtool.client import denied
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation, gather
from kgtool.errors import KgError
from kgtool.model import CommittedOffset, GroupDeletion, ItemError, Target, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.codes import broker_error
from kgtool.protocol.wire import id_text
from kgtool.queries.cluster.permissions import Operations, permissions

Kept = Mapping[TopicPartition, CommittedOffset]
Keep = Callable[[GroupChange], "Kept | None"]
"""Returns the offsets to restore to a group that is deleted; None: it is not restored."""


class NotRestored(KgError):
    """A group was deleted, and not all of its kept offsets could be restored."""

    name = "NOT_RESTORED"


def topic_id(cluster: Cluster, name: str) -> str | None:
    """Return the current id of a topic; None where it is unknown or deleted."""
    topic = cluster.topics.get(name)
    return None if topic is None or topic.error is not None else id_text(topic.topic_id)


def unwritable(
    cluster: Cluster, groups: Mapping[str, Collection[str]]
) -> Operation[dict[str, ItemError]]:
    """Return the groups for which this login may not commit these topics, and why."""
    asked = [permissions(cluster, group, sorted(topics)) for group, topics in groups.items()]
    found: dict[str, ItemError] = {}
    for (group, topics), allowed in zip(groups.items(), (yield from gather(asked)), strict=True):
        missing = [t for t in sorted(topics) if not _may_read(allowed.topics.get(t))]
        if not _may_read(allowed.group):
            error = broker_error(codes.GROUP_AUTHORIZATION_FAILED, f"{_NOT_AGAIN}.")
            explained = denied.explain(error, denied.COMMIT, group=group)
            found[group] = ItemError.of(explained, Target(group=group))
        elif allowed.errors:
            found[group] = ItemError.of(allowed.errors[0], Target(group=group))
        elif missing:
            error = broker_error(
                codes.TOPIC_AUTHORIZATION_FAILED, f"{_NOT_AGAIN} of topic {missing[0]}."
            )
            explained = denied.explain(error, denied.COMMIT, topic=missing[0])
            found[group] = ItemError.of(explained, Target(group, missing[0]))
    return found


_NOT_AGAIN = "The group is left alone: this login may not restore the offsets"


def _may_read(allowed: Operations | None) -> bool:
    """Whether READ, which a commit takes, is allowed or unknown."""
    return allowed is None or "READ" in allowed


class RebuildGroups(DeleteGroups):
    """Deletes groups, and restores at once the offsets to keep.

    :param keep: called with each group just before it is deleted.
    """

    def __init__(self, groups: Sequence[str], keep: Keep, **more: Any) -> None:
        super().__init__(groups, **more)
        self._keep = keep
        self._kept: dict[str, Kept] = {}

    def before(self, cluster: Cluster, going: Sequence[GroupDeletion]) -> Operation[Before]:
        """Return the images of groups that are about to go, and what comes back."""
        wave = yield from super().before(cluster, going)
        return Before(list(map(self._with_kept, wave.groups)))

    def _with_kept(self, change: GroupChange) -> GroupChange:
        found = self._keep(change)
        if found is None:
            return change
        self._kept[change.image.group] = found
        return change._replace(after={at: found.get(at) for at in change.after})

    def send(
        self, cluster: Cluster, going: Sequence[GroupDeletion]
    ) -> Operation[list[GroupDeletion]]:
        """Delete groups, and restore what is kept of those that are gone."""
        rows = yield from super().send(cluster, going)
        gone = {row.group for row in rows if row.error is None}
        kept = {group: found for group, found in self._kept.items() if group in gone}
        self._kept.clear()
        restored = yield from restore(cluster, kept)
        return [restored.get(row.group, row) for row in rows]


def restore(cluster: Cluster, groups: Mapping[str, Kept]) -> Operation[dict[str, GroupDeletion]]:
    """Commit the kept offsets of deleted groups, and verify them."""
    writes = {g: {p: Write(None, value) for p, value in kept.items()} for g, kept in groups.items()}
    outcomes = yield from write_offsets(cluster, writes)
    found: dict[str, GroupDeletion] = {}
    for group in groups:
        failed = [(p, error) for p, error in outcomes[group].items() if error is not None]
        found[group] = GroupDeletion(group, "rebuilt")
        if failed:
            partition, error = failed[0]
            lost = NotRestored(
                f"Group '{group}' was deleted, and {len(failed)} of its offsets could not be "
                f"restored: {partition.typed}: {error.message}",
                hint="kgtool undo restores them.",
            )
            gone = ItemError.of(lost, Target(group=group))
            found[group] = GroupDeletion(group, "failed", gone)
    return found
