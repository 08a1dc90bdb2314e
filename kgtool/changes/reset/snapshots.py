"""Images of what a reset is about to change, from the rows of its plan: nothing is read again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kgtool.changes.reset.targets import GroupReset, ResetRow
from kgtool.changes.snapshot import GroupChange, OffsetImage, image_of
from kgtool.client.cluster import Cluster
from kgtool.model import CommittedOffset, TopicPartition
from kgtool.protocol.wire import id_text


def reset_changes(
    cluster: Cluster, plan: Iterable[GroupReset], rows: Sequence[ResetRow]
) -> list[GroupChange]:
    """Turn the rows that are about to be written into images with what they become.

    :param cluster: it knows the ids of the topics, whose logs the plan has looked at.
    """
    by_group: dict[str, list[ResetRow]] = {}
    for row in rows:
        by_group.setdefault(row.group, []).append(row)
    described = {reset.group: reset.description for reset in plan}
    changes = []
    for group, mine in by_group.items():
        description = described[group]
        if description is None:
            raise ValueError(f"the plan of {group}  has rows that were not looked at")
        after: dict[TopicPartition, CommittedOffset | None] = {row.at: row.new for row in mine}
        offsets = {row.at: _image(cluster, row) for row in mine}
        changes.append(GroupChange(image_of(description, offsets), after))
    return changes


def _image(cluster: Cluster, row: ResetRow) -> OffsetImage:
    topic = cluster.topics.get(row.topic)
    topic_id = id_text(topic.topic_id) if topic is not None else None
    if row.log is None:
        return OffsetImage(row.old, topic_id)
    return OffsetImage(row.old, topic_id, row.log.start.offset, row.log.end.offset)
