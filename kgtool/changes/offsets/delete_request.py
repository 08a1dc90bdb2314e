"""OffsetDelete requests (KIP-496): in parts, none repeated without a look."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kgtool.changes.offsets.batches import batch_bytes, send_parts, split
from kgtool.changes.offsets.batches import tombstone_bytes as _bytes
from kgtool.changes.offsets.verify import changed_meanwhile
from kgtool.changes.snapshot import value_digest
from kgtool.client.answers import left_out
from kgtool.client.cluster import Cluster
from kgtool.client.lost_replies import SEND_AGAIN, change_by_coordinator, is_unsettled
from kgtool.client.ops import Call, Operation, grouped
from kgtool.errors import ChangedMeanwhile, KgError
from kgtool.model import CommittedOffset, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import offset_delete
from kgtool.protocol.codes import broker_error
from kgtool.queries.offsets.fetch import Committed, fetch_on, selected_on


def delete_partitions(
    cluster: Cluster, wanted: Mapping[str, list[TopicPartition]], had: Mapping[str, Committed]
) -> Operation[dict[str, Any]]:
    """Delete offsets of groups, the requests for one coordinator pipelined.

    The answer of each group is an error code (or a ``KgError``) for each partition, or one error
    for all of them.

    :param had: the offsets before. They are compared with the current ones just before the
        request, and where an answer was lost they tell what has been deleted.
    """
    left = {group: list(partitions) for group, partitions in wanted.items() if partitions}
    settled: dict[str, dict[TopicPartition, Any]] = {group: {} for group in wanted}

    most = max((sum(_bytes(g, at) for at in parts) for g, parts in left.items()), default=0)
    limit = yield from batch_bytes(most)

    def send(broker: int, ids: list[str]) -> Operation[dict[str, Any]]:
        parts = [
            part
            for group in ids
            for part in split([(group, at) for at in left[group]], lambda i: _bytes(*i), limit)
        ]
        found = yield from send_parts(parts, lambda part: Call(broker, _request(part)), _read)
        return {group: _sort(group, left, settled[group], found) for group in ids}

    def judge(group: str, now: Committed | KgError, verdict: Judge) -> Any:
        return _judge(group, left, settled[group], had[group], now, verdict)

    def first_look(broker: int, ids: list[str]) -> Operation[dict[str, Any]]:
        now = yield from selected_on(cluster, broker, {group: left[group] for group in ids}, {})
        found = {group: judge(group, now[group], _at_first) for group in ids}
        return {group: answer for group, answer in found.items() if answer is not SEND_AGAIN}

    def look(broker: int, ids: list[str]) -> Operation[dict[str, Any]]:
        now = yield from fetch_on(cluster, broker, ids)
        return {group: judge(group, now[group], _after_a_lost_answer) for group in ids}

    what = "its offsets were deleted"
    answers = yield from change_by_coordinator(cluster, list(left), send, look, what, first_look)
    for group, answer in answers.items():
        if isinstance(answer, dict):
            settled[group].update(answer)
        elif settled[group]:
            settled[group].update(dict.fromkeys(left[group], answer))
        else:
            continue
        answers[group] = settled[group]
    return {**settled, **answers}


Value = CommittedOffset | KgError | None
Judge = Callable[[str, Value, Value], Any]
"""Takes a group, its offset before and its offset now. Returns ``SEND_AGAIN`` if the two are the
same, else the partition's answer."""


def _judge(
    group: str,
    left: dict[str, list[TopicPartition]],
    settled: dict[TopicPartition, Any],
    had: Committed,
    now: Committed | KgError,
    verdict: Judge,
) -> Any:
    """Settle the partitions of a group that have changed; keep the others in ``left``."""
    if isinstance(now, KgError):
        return now
    found = {at: verdict(group, had.get(at), now.get(at)) for at in left[group]}
    settled.update({at: answer for at, answer in found.items() if answer is not SEND_AGAIN})
    left[group] = [at for at, answer in found.items() if answer is SEND_AGAIN]
    return SEND_AGAIN if left[group] else {}


def _at_first(_group: str, old: Value, now: Value) -> Any:
    """Find commits since the first read: images and journal in between may take their time."""
    if value_digest(now) in (0, value_digest(old)):
        return SEND_AGAIN
    return changed_meanwhile(old, now)  # type: ignore[arg-type]


def _after_a_lost_answer(group: str, old: Value, now: Value) -> Any:
    """Distinguish deleted, unchanged and newly committed offsets."""
    if now is None:
        return codes.NONE
    if value_digest(now) == value_digest(old):
        return SEND_AGAIN
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


def _sort(
    group: str,
    left: dict[str, list[TopicPartition]],
    settled: dict[TopicPartition, Any],
    found: Mapping[_Item, Any],
) -> Any:
    """Return the codes of a group's partitions, or the error that left some of them open."""
    answers = {at: found[group, at] for at in left[group]}
    errors = {at: answer for at, answer in answers.items() if isinstance(answer, KgError)}
    if not errors:
        return answers
    settled.update({at: answer for at, answer in answers.items() if at not in errors})
    left[group] = list(errors)
    return next(filter(is_unsettled, errors.values()), next(iter(errors.values())))
