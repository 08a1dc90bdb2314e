"""The operations of ``cleanup apply`` on the cluster, for a batch of a plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from kgtool.changes.driver import Before, look_and_carry_out
from kgtool.changes.hidden_offsets import HiddenOffsets
from kgtool.changes.kinds.delete_groups import DeleteGroups
from kgtool.changes.kinds.delete_offsets import DeleteOffsets
from kgtool.changes.offsets.verify import Write
from kgtool.changes.offsets.write import write_offsets
from kgtool.changes.snapshot import BeforeChange, Check, GroupChange
from kgtool.client import denied
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation, gather, grouped
from kgtool.errors import KgError
from kgtool.model import (
    CommittedOffset,
    GroupDeletion,
    ItemError,
    OffsetDeletion,
    Target,
    TopicPartition,
    TopicSpec,
)
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


def remove_groups(
    cluster: Cluster,
    groups: Sequence[str],
    before_change: BeforeChange,
    check: Check,
    keep: Keep,
    hidden: HiddenOffsets,
) -> Operation[dict[str, GroupDeletion]]:
    """Delete groups, and restore at once the offsets to keep.

    :param keep: called with each group just before it is deleted.
    """
    kept: dict[str, Kept] = {}

    def before(wave: Before) -> None:
        planned = []
        for change in wave.groups:
            found = keep(change)
            if found is not None:
                kept[change.image.group] = found
                change = change._replace(after={at: found.get(at) for at in change.after})
            planned.append(change)
        before_change(planned)

    kind = DeleteGroups(groups, check=check, hidden=hidden)
    deleted = yield from look_and_carry_out(cluster, kind, groups, before)
    rows = {row.group: row for row in deleted}
    again = {group: found for group, found in kept.items() if rows[group].error is None}
    return rows | (yield from restore(cluster, again))


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


def remove_offsets(
    cluster: Cluster,
    wanted: Mapping[str, Sequence[TopicPartition]],
    before_change: BeforeChange | None,
    check: Check,
) -> Operation[dict[str, tuple[list[OffsetDeletion], ItemError | None]]]:
    """Delete offsets of groups; return rows and first error of each. Dry without a journal."""
    requests = {
        group: [TopicSpec(topic, tuple(numbers)) for topic, numbers in grouped(places).items()]
        for group, places in wanted.items()
    }
    names = list(requests)
    kind = DeleteOffsets(requests, check=check, asks_broker=before_change is not None)
    if before_change is None:
        done = yield from kind.look(cluster, names)
    else:
        write = before_change
        done = yield from look_and_carry_out(cluster, kind, names, lambda b: write(b.groups))
    return {
        one.group: (one.rows, one.error or next((r.error for r in one.rows if r.error), None))
        for one in done
    }
