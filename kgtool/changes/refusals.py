"""What changes of a group would be refused, and why: for ``queries.explain``."""

from __future__ import annotations

from collections.abc import Mapping

from kgtool.changes.kinds.delete_groups import DeleteGroups
from kgtool.changes.kinds.delete_offsets import DeleteOffsets
from kgtool.changes.reset.rows import refusal
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation, gather, grouped
from kgtool.model import CommittedOffset, GroupDescription, TopicPartition, TopicSpec
from kgtool.protocol import codes
from kgtool.queries.explain import Refusals


def refusals(
    cluster: Cluster,
    description: GroupDescription,
    committed: Mapping[TopicPartition, CommittedOffset],
) -> Operation[Refusals]:
    """Plan the deletion of the group, and of its offsets one by one, and a reset of them."""
    group, reset = description.group, refusal(description, can_create=False)
    if description.error is not None:
        return Refusals(description.error, {}, reset)
    topics = grouped((partition.topic, partition.partition) for partition in committed)
    specs = [TopicSpec(topic, tuple(numbers)) for topic, numbers in topics.items()]
    deleting, names = DeleteOffsets({group: specs}), [group] if specs else []
    plans = [DeleteGroups([group]).look(cluster, [group]), deleting.look(cluster, names)]
    (deletion,), offsets = yield from gather(plans)
    rows = [row for one in offsets for row in one.rows]
    # Of a deletion's refusals only a pending transaction refuses a reset too.
    code = deletion.error.code if deletion.error is not None else None
    pending = deletion.error if code == codes.UNSTABLE_OFFSET_COMMIT else None
    return Refusals(
        deletion.error,
        {TopicPartition(row.topic, row.partition or 0): row.error for row in rows},
        reset or pending,
    )
