"""Start offsets of share groups (KIP-932): AlterShareGroupOffsets and DeleteShareGroupOffsets.

Brokers take both only while a group is empty, so that between two looks only another admin can
change an offset. As commits are, they are compared just before, looked up where an answer was
lost, and read back. The share coordinator forgets the delivery state of a partition whose offset
is set. Only whole topics can be deleted: a partition of one that stays has its offset taken away
(-1), as before its first reader. A group that does not exist is created.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.changes.doubt import AS_BEFORE, Attempt, Doubts, Items, Outcome, Seen
from kgtool.changes.offsets.commit import Outcomes
from kgtool.changes.offsets.verify import Write, Writes, changed_meanwhile, shown
from kgtool.changes.offsets.write import write_offsets
from kgtool.client import denied
from kgtool.client.answers import left_out
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Call, Operation, gather, grouped, pipelined
from kgtool.errors import KgError, NotVerified
from kgtool.model import CommittedOffset, TopicPartition, same_commit
from kgtool.protocol.api import alter_share_group_offsets, delete_share_group_offsets
from kgtool.protocol.codes import broker_error
from kgtool.queries.groups.start_offsets import fetch_start_offsets, start_offsets_on
from kgtool.queries.offsets.fetch import Committed

NO_OFFSET = -1
"""What a partition has before its first reader (``PartitionFactory``)."""


def write_by_type(
    cluster: Cluster, wanted: Mapping[str, Writes], share: Collection[str]
) -> Operation[dict[str, Outcomes]]:
    """Write the offsets of groups: those of ``share`` groups are start offsets."""
    starts = {group: writes for group, writes in wanted.items() if group in share}
    commits = {group: writes for group, writes in wanted.items() if group not in share}
    both = gather([write_offsets(cluster, commits), write_start_offsets(cluster, starts)])
    committed, started = yield from both
    return {**committed, **started}


def write_start_offsets(
    cluster: Cluster, wanted: Mapping[str, Writes]
) -> Operation[dict[str, Outcomes]]:
    """Write start offsets, and no others; each partition has its own outcome.

    :param wanted: by group; an offset whose ``Write.new`` is None is deleted.
    """
    requests = _Requests(cluster, wanted, {})
    attempt = Attempt(cluster, wanted, requests)
    yield from attempt.run()
    yield from attempt.last_look("its start offsets were changed")
    yield from _read_back(cluster, wanted, attempt.outcomes)
    return attempt.outcomes


class _Requests(NamedTuple):
    """The two requests. ``now``: the offsets of each group as just read."""

    cluster: Cluster
    wanted: Mapping[str, Writes]
    now: dict[str, Committed]

    def look(
        self, broker: int, items: Items[TopicPartition], _doubts: Doubts[TopicPartition]
    ) -> Operation[dict[str, KgError | dict[TopicPartition, Seen]]]:
        """Find what is done already, and what another client has changed."""
        now = yield from start_offsets_on(broker, list(items))
        found: dict[str, KgError | dict[TopicPartition, Seen]] = {}
        for group, parts in items.items():
            offsets = now[group]
            if isinstance(offsets, KgError):
                found[group] = offsets
                continue
            self.now[group] = offsets
            writes = self.wanted[group]
            found[group] = {at: _judge(writes[at], offsets.get(at)) for at in parts}
        return found

    def send(
        self, broker: int, items: Items[TopicPartition]
    ) -> Operation[dict[str, dict[TopicPartition, Outcome]]]:
        """Send all requests, and read their answers."""
        asked = [(group, each) for group in items for each in self._requests(group, items[group])]
        replies = yield from pipelined([Call(broker, request) for _, request in asked])
        answers: dict[str, dict[TopicPartition, Outcome]] = {group: {} for group in items}
        for (group, request), reply in zip(asked, replies, strict=True):
            answers[group].update(_read(group, items[group], request, reply))
        return answers

    def _requests(self, group: str, parts: Sequence[TopicPartition]) -> list[Any]:
        """Return what sets the offsets of a group, and what deletes those of whole topics."""
        left = {at: self.wanted[group][at] for at in parts}
        staying = {at.topic for at in self.now[group] if at not in left or left[at].new is not None}
        whole = {at.topic for at, write in left.items() if write.new is None} - staying
        api, deletion = alter_share_group_offsets, delete_share_group_offsets
        rows = (
            (at.topic, api.RequestPartition(partition=at.partition, start_offset=_goal(write)))
            for at, write in left.items()
            if at.topic not in whole
        )
        topics = [
            api.RequestTopic(topic_name=name, partitions=mine)
            for name, mine in grouped(rows).items()
        ]
        requests: list[Any] = [api.Request(group_id=group, topics=topics)] if topics else []
        if whole:
            names = [deletion.RequestTopic(topic_name=name) for name in sorted(whole)]
            requests.append(deletion.Request(group_id=group, topics=names))
        return requests


def _judge(write: Write, now: CommittedOffset | KgError | None) -> Seen:
    """Compare an offset; one that is right already is set again: that forgets delivery state."""
    if isinstance(now, KgError):
        return now
    is_same = same_commit(now, write.old)
    if (now is None and write.new is None) or (same_commit(now, write.new) and not is_same):
        return None
    return AS_BEFORE if is_same else changed_meanwhile(write.old, now)


def _read(
    group: str, parts: Sequence[TopicPartition], request: Any, reply: Any
) -> dict[TopicPartition, Outcome]:
    """Return the answer for each partition that a request is about."""
    is_deletion = isinstance(request, delete_share_group_offsets.Request)
    need = denied.DELETE_OFFSETS if is_deletion else denied.COMMIT
    names = {topic.topic_name for topic in request.topics}
    mine = [at for at in parts if at.topic in names]
    if not isinstance(reply, KgError) and reply.error_code:
        refused = broker_error(reply.error_code, reply.error_message)
        reply = denied.explain(refused, need, group=group)
    if isinstance(reply, KgError):
        return dict.fromkeys(mine, Outcome(reply, is_final=False))
    found = _answers(reply, need)
    keys = {at: TopicPartition(at.topic, -1) if is_deletion else at for at in mine}
    return {at: Outcome(found.get(key, left_out(request, str(at)))) for at, key in keys.items()}


def _read_back(
    cluster: Cluster, wanted: Mapping[str, Writes], outcomes: dict[str, Outcomes]
) -> Operation[None]:
    """Compare what brokers have accepted; where it can't be read, their answer stands."""
    done = [group for group, found in outcomes.items() if None in found.values()]
    now = (yield from fetch_start_offsets(cluster, done)) if done else {}
    for group, found in now.items():
        for at, error in outcomes[group].items():
            value = found if isinstance(found, KgError) else found.get(at)
            if error is None and not isinstance(value, KgError):
                outcomes[group][at] = _verified(wanted[group][at], value)


def _answers(reply: Any, need: denied.Need) -> dict[TopicPartition, KgError | None]:
    """Return the answer for each partition, those for whole topics under partition -1."""
    found: dict[TopicPartition, KgError | None] = {}
    for topic in reply.topics:
        for row in getattr(topic, "partitions", (topic,)):
            error = broker_error(row.error_code, row.error_message)
            at = TopicPartition(topic.topic_name, getattr(row, "partition", -1))
            refused = denied.explain(error, need, topic=topic.topic_name)
            found[at] = refused if row.error_code else None
    return found


def _goal(write: Write) -> int:
    """Return the offset to set; without one a partition begins where ``share.auto.offset.reset``
    says.
    """
    return NO_OFFSET if write.new is None or write.new.offset is None else write.new.offset


def _verified(write: Write, now: CommittedOffset | None) -> KgError | None:
    if same_commit(now, write.new):
        return None
    return NotVerified(
        f"The coordinator accepted {shown(write.new)}, but {shown(now)} is read back.",
        hint="Another client has changed it right after: check with kgtool describe.",
    )
