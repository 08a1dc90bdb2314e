"""OffsetDelete requests (KIP-496): in parts, none repeated without a look."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kgtool.changes.doubt import AS_BEFORE, Attempt, Doubts, Items, Outcome, Seen
from kgtool.changes.offsets.batches import batch_bytes, send_parts, split
from kgtool.changes.offsets.batches import tombstone_bytes as _bytes
from kgtool.changes.offsets.verify import changed_meanwhile
from kgtool.changes.snapshot import value_digest
from kgtool.client.answers import left_out
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Call, Operation, grouped
from kgtool.errors import ChangedMeanwhile, KgError
from kgtool.model import CommittedOffset, TopicPartition
from kgtool.protocol.api import offset_delete
from kgtool.protocol.codes import broker_error
from kgtool.queries.offsets.fetch import Committed, fetch_on, selected_on

Answer = KgError | dict[TopicPartition, KgError | None]
"""The outcome of each partition of a group, or one error for all of them."""


def delete_partitions(
    cluster: Cluster, wanted: Mapping[str, list[TopicPartition]], had: Mapping[str, Committed]
) -> Operation[dict[str, Answer]]:
    """Delete offsets of groups, the requests for one coordinator pipelined.

    :param had: the offsets before. They are compared with the current ones just before the
        request, and where an answer was lost they tell what has been deleted.
    """
    most = max((sum(_bytes(g, at) for at in parts) for g, parts in wanted.items()), default=0)
    limit = yield from batch_bytes(most)
    attempt = Attempt(cluster, wanted, _Deletions(cluster, had, limit))
    yield from attempt.run()
    yield from attempt.last_look("its offsets were deleted")
    return attempt.answers()


class _Deletions(NamedTuple):
    """OffsetDelete; a batch of ``limit`` bytes of tombstones at most."""

    cluster: Cluster
    had: Mapping[str, Committed]
    limit: int

    def look(
        self, broker: int, items: Items[TopicPartition], doubts: Doubts[TopicPartition]
    ) -> Operation[dict[str, KgError | dict[TopicPartition, Seen]]]:
        """Compare offsets with those before; among all of a group, -1 differs from none."""
        fresh = {group: parts for group, parts in items.items() if not doubts[group]}
        doubtful = [group for group in items if doubts[group]]
        now = (yield from selected_on(self.cluster, broker, fresh, {})) if fresh else {}
        if doubtful:
            now.update((yield from fetch_on(self.cluster, broker, doubtful)))
        return {
            group: found
            if isinstance(found := now[group], KgError)
            else {
                at: _judge(group, self.had[group].get(at), found.get(at), at in doubts[group])
                for at in parts
            }
            for group, parts in items.items()
        }

    def send(
        self, broker: int, items: Items[TopicPartition]
    ) -> Operation[dict[str, dict[TopicPartition, Outcome]]]:
        """Send requests for all partitions."""
        parts = [
            part
            for group, partitions in items.items()
            for part in split([(group, at) for at in partitions], lambda i: _bytes(*i), self.limit)
        ]
        found = yield from send_parts(parts, lambda part: Call(broker, _request(part)), _read)
        return {
            group: {at: _outcome(found[group, at]) for at in partitions}
            for group, partitions in items.items()
        }


def _outcome(answer: Any) -> Outcome:
    """Return a partition's code, or the error of its request, as its outcome."""
    if isinstance(answer, KgError):
        return Outcome(answer, is_final=False)
    return Outcome(broker_error(answer) if answer else None)


Value = CommittedOffset | KgError | None


def _judge(group: str, old: Value, now: Value, is_in_doubt: bool) -> Seen:
    """Distinguish unchanged, deleted and newly committed offsets."""
    if now is None and is_in_doubt:
        return None
    if value_digest(now) == value_digest(old) or (not is_in_doubt and not value_digest(now)):
        return AS_BEFORE
    if not is_in_doubt:
        return changed_meanwhile(old, now)  # type: ignore[arg-type]
    return ChangedMeanwhile(
        f"The answer of group '{group}' to the deletion was lost, and there is another offset now.",
        hint="Check with kgtool describe, and repeat the command if it should still go.",
    ).after_sending()


_Item = tuple[str, TopicPartition]
"""A group and one of its partitions."""


def _request(part: list[_Item]) -> offset_delete.Request:
    rows = ((at.topic, offset_delete.RequestPartition(partition=at.partition)) for _, at in part)
    return offset_delete.Request(
        group_id=part[0][0],
        topics=[
            offset_delete.RequestTopic(name=name, partitions=mine)
            for name, mine in grouped(rows).items()
        ],
    )


def _read(part: list[_Item], reply: Any) -> dict[_Item, Any]:
    """Return a code for each partition, or the error of all of them."""
    if isinstance(reply, KgError):
        return dict.fromkeys(part, reply)
    if reply.error_code:
        return dict.fromkeys(part, broker_error(reply.error_code))
    found = {
        TopicPartition(topic.name, row.partition): row.error_code
        for topic in reply.topics
        for row in topic.partitions
    }
    return {
        item: found[item[1]] if item[1] in found else left_out(offset_delete.Request, str(item[1]))
        for item in part
    }
