"""Start offsets of share groups (KIP-932): AlterShareGroupOffsets and DeleteShareGroupOffsets.

Brokers take both only while a group is empty, so that between two looks only another admin can
change an offset. As commits are, they are compared just before, looked up where an answer was
lost, and read back. The share coordinator forgets the delivery state of a partition whose offset
is set. Only whole topics can be deleted: a partition of one that stays has its offset taken away
(-1), as before its first reader. A group that does not exist is created.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kgtool.changes.offsets.commit import Outcome
from kgtool.changes.offsets.verify import Write, Writes, changed_meanwhile, shown
from kgtool.changes.offsets.write import write_offsets
from kgtool.client import denied
from kgtool.client.answers import left_out
from kgtool.client.cluster import Cluster, pipelined
from kgtool.client.lost_replies import SEND_AGAIN, change_by_coordinator, is_unsettled
from kgtool.client.ops import Call, Operation, gather, grouped
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
) -> Operation[dict[str, Outcome]]:
    """Write the offsets of groups: those of ``share`` groups are start offsets."""
    starts = {group: writes for group, writes in wanted.items() if group in share}
    commits = {group: writes for group, writes in wanted.items() if group not in share}
    both = gather([write_offsets(cluster, commits), write_start_offsets(cluster, starts)])
    committed, started = yield from both
    return {**committed, **started}


def write_start_offsets(
    cluster: Cluster, wanted: Mapping[str, Writes]
) -> Operation[dict[str, Outcome]]:
    """Write start offsets, and no others; each partition has its own outcome.

    :param wanted: by group; an offset whose ``Write.new`` is None is deleted.
    """
    left = {group: dict(writes) for group, writes in wanted.items() if writes}
    outcomes = yield from _Writing(cluster, left).run()
    return {group: outcomes.get(group, {}) for group in wanted}


class _Writing:
    """The offsets that are still to be written, and the outcomes."""

    def __init__(self, cluster: Cluster, left: dict[str, dict[TopicPartition, Write]]) -> None:
        self._cluster = cluster
        self._left = left
        self._writes = {group: dict(writes) for group, writes in left.items()}
        self._now: dict[str, Committed] = {}
        self._outcomes: dict[str, Outcome] = {group: {} for group in left}

    def run(self) -> Operation[dict[str, Outcome]]:
        """Compare, send, look up what is in doubt, and read back."""
        what = "its start offsets were changed"
        answers = yield from change_by_coordinator(
            self._cluster, list(self._left), self._send, self._look, what, self._look_first
        )
        for group, answer in answers.items():
            if isinstance(answer, KgError):
                self._outcomes[group].update(dict.fromkeys(self._left[group], answer))
        yield from self._read_back()
        return self._outcomes

    # -- comparing ------------------------------------------------------------------------

    def _look_first(self, broker: int, groups: list[str]) -> Operation[dict[str, Any]]:
        found = yield from self._look(broker, groups)
        return {group: answer for group, answer in found.items() if answer is not SEND_AGAIN}

    def _look(self, broker: int, groups: list[str]) -> Operation[dict[str, Any]]:
        now = yield from start_offsets_on(broker, groups)
        return {group: self._judge(group, now[group]) for group in groups}

    def _judge(self, group: str, now: Committed | KgError) -> Any:
        """Settle what is done already, and what another client has changed."""
        if isinstance(now, KgError):
            return now
        self._now[group] = now
        for at, write in list(self._left[group].items()):
            value = now.get(at)
            is_same = not isinstance(value, KgError) and same_commit(value, write.old)
            if isinstance(value, KgError):
                self._settle(group, at, value)
            elif _is_done(write, value, is_same):
                self._settle(group, at, None)
            elif not is_same:
                self._settle(group, at, changed_meanwhile(write.old, value))
        return SEND_AGAIN if self._left[group] else {}

    def _settle(self, group: str, at: TopicPartition, error: KgError | None) -> None:
        self._outcomes[group][at] = error
        del self._left[group][at]

    # -- sending --------------------------------------------------------------------------

    def _send(self, broker: int, groups: list[str]) -> Operation[dict[str, Any]]:
        asked = [(group, request) for group in groups for request in self._requests(group)]
        replies = yield from pipelined([Call(broker, request) for _, request in asked])
        answers: dict[str, Any] = {group: {} for group in groups}
        for (group, request), reply in zip(asked, replies, strict=True):
            error = self._take(group, request, reply)
            # What may have been done is looked up, whatever the other request's answer.
            if error is not None and not is_unsettled(answers[group]):
                answers[group] = error
        return answers

    def _requests(self, group: str) -> list[Any]:
        """Return what sets the offsets of a group, and what deletes those of whole topics."""
        left, now = self._left[group], self._now[group]
        staying = {at.topic for at in now if at not in left or left[at].new is not None}
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

    def _take(self, group: str, request: Any, reply: Any) -> KgError | None:
        """Settle what is answered; return the error of the rest."""
        if isinstance(reply, KgError):
            return reply
        is_deletion = isinstance(request, delete_share_group_offsets.Request)
        need = denied.DELETE_OFFSETS if is_deletion else denied.COMMIT
        if reply.error_code:
            refused = broker_error(reply.error_code, reply.error_message)
            return denied.explain(refused, need, group=group)
        names = {topic.topic_name for topic in request.topics}
        found = _answers(reply, need)
        open_error = None
        for at in [at for at in self._left[group] if at.topic in names]:
            key = TopicPartition(at.topic, -1) if is_deletion else at
            error = found.get(key, left_out(request, str(at)))
            if is_unsettled(error):
                open_error = error
            else:
                self._settle(group, at, error)
        return open_error

    def _read_back(self) -> Operation[None]:
        """Compare what brokers have accepted; where it can't be read, their answer stands."""
        done = [group for group, found in self._outcomes.items() if None in found.values()]
        now = (yield from fetch_start_offsets(self._cluster, done)) if done else {}
        for group, found in now.items():
            for at, error in self._outcomes[group].items():
                value = found if isinstance(found, KgError) else found.get(at)
                if error is None and not isinstance(value, KgError):
                    self._outcomes[group][at] = _verified(self._writes[group][at], value)


def _is_done(write: Write, now: CommittedOffset | None, is_same: bool) -> bool:
    """Whether nothing is left to do; an offset is set again, to forget the delivery state."""
    return (now is None and write.new is None) or (same_commit(now, write.new) and not is_same)


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
