"""A cluster made of dictionaries, for resets: it answers requests as a broker would.

``World.before`` sees every request first and may change the world (somebody else commits, a
member joins) or return the reply itself (an error, a lost answer).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kgtool.client.cluster import Cluster
from kgtool.model import Broker, CommittedOffset, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import (
    alter_share_group_offsets,
    consumer_group_describe,
    delete_share_group_offsets,
    describe_groups,
    describe_share_group_offsets,
    find_coordinator,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    share_group_describe,
    streams_group_describe,
)
from tests.support.script import Script


class Log:
    """A partition: offsets from ``start`` to ``end``, their timestamps and leader epochs.

    ``epochs``: ``(epoch, first offset)``, ascending, as in Kafka's leader-epoch-checkpoint.
    """

    def __init__(
        self,
        end: int = 0,
        start: int = 0,
        *,
        first_ms: int = 0,
        step_ms: int = 1,
        epochs: Iterable[tuple[int, int]] = ((0, 0),),
        leader: int = 1,
        error: int = 0,
    ) -> None:
        self.start, self.end = start, end
        self.first_ms, self.step_ms = first_ms, step_ms
        self.epochs = list(epochs)
        self.leader = leader
        self.error = error

    def epoch_at(self, offset: int) -> int:
        return max(epoch for epoch, first in self.epochs if first <= max(offset, self.start))

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """Offset and epoch, (-1, -1) where no record is that young."""
        if timestamp == -1:
            return self.end, self.epochs[-1][0]
        if timestamp == -2:
            return self.start, self.epoch_at(self.start)
        for offset in range(self.start, self.end):
            if self.first_ms + offset * self.step_ms >= timestamp:
                return offset, self.epoch_at(offset)
        return -1, -1

    def epoch_end(self, asked: int) -> tuple[int, int]:
        """``LeaderEpochFileCache.endOffsetFor``: the largest epoch up to it, and its end."""
        known = [(epoch, first) for epoch, first in self.epochs if epoch <= asked]
        later = [first for epoch, first in self.epochs if epoch > asked]
        if not later:
            return self.epochs[-1][0], self.end
        return (known[-1][0], later[0]) if known else (-1, -1)


class Group:
    """A group; offsets by partition, ``pending`` where a transaction is about to change them.

    Those of a share group are start offsets; -1: none yet.
    """

    def __init__(
        self,
        offsets: dict[tuple[str, int], Any] | None = None,
        *,
        state: str = "Empty",
        type: str = "classic",
        protocol_type: str = "consumer",
        members: Iterable[str] = (),
    ) -> None:
        self.offsets = {
            TopicPartition(*at): _commit(value) for at, value in (offsets or {}).items()
        }
        self.state, self.type, self.protocol_type = state, type, protocol_type
        self.members = list(members)
        self.pending: set[TopicPartition] = set()


def _commit(value: int | CommittedOffset) -> CommittedOffset:
    return value if isinstance(value, CommittedOffset) else CommittedOffset(value, 0, "m")


class Write(NamedTuple):
    group: str
    at: TopicPartition
    value: CommittedOffset


class World:
    """Topics and groups, and what was written to them."""

    def __init__(
        self, topics: dict[str, list[Log]] | None = None, groups: dict[str, Group] | None = None
    ) -> None:
        self.topics = topics or {}
        self.groups = groups or {}
        self.invalid_topics: dict[str, int] = {}
        self.commit_errors: dict[TopicPartition, int] = {}
        self.writes: list[Write] = []
        self.commits: list[offset_commit.Request] = []
        self.before: Callable[[Any], Any] = lambda _request: None
        self.script = Script(self.answer)

    def run(self, operation: Any) -> Any:
        return self.script.run(operation)

    def cluster(self) -> Cluster:
        cluster = Cluster()
        cluster.cluster_id = "cluster-1"
        cluster.brokers = {1: Broker(1, "b1", 9092)}
        return cluster

    def asked(self, api: Any) -> list[Any]:
        return [request for _, request in self.script.calls if isinstance(request, api.Request)]

    def answer(self, _to: int, request: Any) -> Any:
        reply = self.before(request)
        if reply is not None:
            return reply
        answer: Any = _ANSWERS[type(request)]
        return answer(self, request)

    def _log(self, topic: str, partition: int) -> Log | None:
        logs = self.topics.get(topic, [])
        return logs[partition] if partition < len(logs) else None

    # -- one method an API ----------------------------------------------------------------------

    def _metadata(self, request: Any) -> Any:
        topics = [self._topic(row.name) for row in request.topics or ()]
        brokers = [metadata.Broker(node_id=1, host="b1", port=9092)]
        return metadata.Response(brokers=brokers, cluster_id="cluster-1", topics=topics)

    def _topic(self, name: str) -> Any:
        if name not in self.topics:
            code = self.invalid_topics.get(name, codes.UNKNOWN_TOPIC_OR_PARTITION)
            return metadata.Topic(error_code=code, name=name)
        parts = [
            metadata.Partition(partition=number, leader_id=log.leader)
            for number, log in enumerate(self.topics[name])
        ]
        return metadata.Topic(name=name, partitions=parts)

    def _coordinators(self, request: Any) -> Any:
        rows = [
            find_coordinator.Coordinator(key=key, node_id=1, host="b1", port=9092)
            for key in request.coordinator_keys
        ]
        return find_coordinator.Response(coordinators=rows)

    def _list(self, _request: Any) -> Any:
        rows = [
            list_groups.Group(
                group_id=name,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.type,
            )
            for name, group in self.groups.items()
        ]
        return list_groups.Response(groups=rows)

    def _describe(self, request: Any) -> Any:
        return describe_groups.Response(groups=[self._classic(name) for name in request.groups])

    def _classic(self, name: str) -> Any:
        group = self.groups.get(name)
        if group is None or group.type != "classic":
            return describe_groups.Group(
                group_id=name,
                group_state="Dead",
                error_code=codes.GROUP_ID_NOT_FOUND,
                error_message=f"Group {name} not found.",
            )
        members = [
            describe_groups.Member(
                member_id=f"{client}-1", client_id=client, client_host="/10.0.0.1"
            )
            for client in group.members
        ]
        return describe_groups.Group(
            group_id=name,
            group_state=group.state,
            protocol_type=group.protocol_type,
            members=members,
        )

    def _describe_modern(self, request: Any) -> Any:
        rows = [self._modern(name) for name in request.group_ids]
        return consumer_group_describe.Response(groups=rows)

    def _modern(self, name: str) -> Any:
        group = self.groups.get(name)
        if group is None or group.type != "consumer":
            return consumer_group_describe.Group(
                group_id=name,
                error_code=codes.GROUP_ID_NOT_FOUND,
                error_message=f"Group {name} not found.",
            )
        members = [
            consumer_group_describe.Member(
                member_id=f"{client}-1", client_id=client, client_host="/10.0.0.1"
            )
            for client in group.members
        ]
        return consumer_group_describe.Group(
            group_id=name, group_state=group.state, members=members
        )

    def _fetch(self, request: Any) -> Any:
        rows = []
        for wanted in request.groups:
            group = self.groups.get(wanted.group_id, Group())
            group = Group() if group.type == "share" else group
            parts = sorted(group.offsets)
            if wanted.topics is not None:
                parts = [TopicPartition(t.name, p) for t in wanted.topics for p in t.partitions]
            topics = [
                offset_fetch.GroupTopic(
                    name=at.topic, partitions=[_fetched(group, at, request.require_stable)]
                )
                for at in parts
            ]
            rows.append(offset_fetch.Group(group_id=wanted.group_id, topics=topics))
        return offset_fetch.Response(groups=rows)

    def _offsets(self, request: Any) -> Any:
        topics = [
            list_offsets.Topic(
                name=topic.name,
                partitions=[self._offset(topic.name, row) for row in topic.partitions],
            )
            for topic in request.topics
        ]
        return list_offsets.Response(topics=topics)

    def _offset(self, topic: str, row: Any) -> Any:
        log = self._log(topic, row.partition)
        error = codes.UNKNOWN_TOPIC_OR_PARTITION if log is None else log.error
        if log is None or error:
            return list_offsets.Partition(partition=row.partition, error_code=error)
        offset, epoch = log.lookup(row.timestamp)
        return list_offsets.Partition(partition=row.partition, offset=offset, leader_epoch=epoch)

    def _epochs(self, request: Any) -> Any:
        topics = []
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                log = self.topics[topic.topic][row.partition]
                epoch, end = log.epoch_end(row.leader_epoch)
                rows.append(
                    offset_for_leader_epoch.Partition(
                        partition=row.partition, leader_epoch=epoch, end_offset=end
                    )
                )
            topics.append(offset_for_leader_epoch.Topic(topic=topic.topic, partitions=rows))
        return offset_for_leader_epoch.Response(topics=topics)

    def _commit(self, request: Any) -> Any:
        self.commits.append(request)
        topics = [
            offset_commit.Topic(
                name=topic.name,
                partitions=[self._stored(request, topic.name, row) for row in topic.partitions],
            )
            for topic in request.topics
        ]
        return offset_commit.Response(topics=topics)

    def _stored(self, request: Any, topic: str, row: Any) -> Any:
        at = TopicPartition(topic, row.partition)
        group = self.groups.get(request.group_id)
        error = self.commit_errors.get(at, 0)
        if group is not None and group.members and not request.member_id:
            error = codes.UNKNOWN_MEMBER_ID
        if not error:
            value = CommittedOffset(
                row.offset, None if row.leader_epoch < 0 else row.leader_epoch, row.metadata
            )
            self.groups.setdefault(request.group_id, Group(protocol_type="")).offsets[at] = value
            self.writes.append(Write(request.group_id, at, value))
        return offset_commit.Partition(partition=row.partition, error_code=error)

    # -- share groups ---------------------------------------------------------------------------

    def _describe_share(self, request: Any) -> Any:
        return share_group_describe.Response(groups=list(map(self._share, request.group_ids)))

    def _share(self, name: str) -> Any:
        group = self.groups.get(name)
        if group is None or group.type != "share":
            code = codes.GROUP_ID_NOT_FOUND
            return share_group_describe.Group(group_id=name, error_code=code)
        members = [
            share_group_describe.Member(
                member_id=f"{client}-1", client_id=client, client_host="/10.0.0.1"
            )
            for client in group.members
        ]
        return share_group_describe.Group(group_id=name, group_state=group.state, members=members)

    def _describe_streams(self, request: Any) -> Any:
        rows = [
            streams_group_describe.Group(group_id=name, error_code=codes.GROUP_ID_NOT_FOUND)
            for name in request.group_ids
        ]
        return streams_group_describe.Response(groups=rows)

    def _starts(self, request: Any) -> Any:
        api = describe_share_group_offsets
        groups = []
        for wanted in request.groups:
            assert wanted.topics is None, "a real broker may never answer that"
            group = self.groups.get(wanted.group_id, Group())
            topics = [
                api.Topic(
                    topic_name=at.topic,
                    partitions=[api.Partition(partition=at.partition, start_offset=value.offset)],
                )
                for at, value in (group.offsets.items() if group.type == "share" else ())
            ]
            groups.append(api.Group(group_id=wanted.group_id, topics=topics))
        return api.Response(groups=groups)

    def _alter_starts(self, request: Any) -> Any:
        api = alter_share_group_offsets
        group = self.groups.setdefault(request.group_id, Group(type="share"))
        if group.members:
            return api.Response(error_code=codes.NON_EMPTY_GROUP)
        topics = []
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                at = TopicPartition(topic.topic_name, row.partition)
                error = self.commit_errors.get(at, 0)
                if not error:
                    value = CommittedOffset(row.start_offset, None, None)
                    group.offsets[at] = value
                    self.writes.append(Write(request.group_id, at, value))
                rows.append(api.Partition(partition=row.partition, error_code=error))
            topics.append(api.Topic(topic_name=topic.topic_name, partitions=rows))
        return api.Response(topics=topics)

    def _delete_starts(self, request: Any) -> Any:
        api = delete_share_group_offsets
        group = self.groups[request.group_id]
        if group.members:
            return api.Response(error_code=codes.NON_EMPTY_GROUP)
        names = {topic.topic_name for topic in request.topics}
        group.offsets = {at: value for at, value in group.offsets.items() if at.topic not in names}
        return api.Response(topics=[api.Topic(topic_name=name) for name in sorted(names)])


def _fetched(group: Group, at: TopicPartition, stable: bool) -> Any:
    if stable and at in group.pending:
        return offset_fetch.GroupPartition(
            partition=at.partition, offset=-1, metadata="", error_code=codes.UNSTABLE_OFFSET_COMMIT
        )
    value = group.offsets.get(at)
    if value is None:
        return offset_fetch.GroupPartition(partition=at.partition, offset=-1, metadata="")
    epoch = -1 if value.leader_epoch is None else value.leader_epoch
    return offset_fetch.GroupPartition(
        partition=at.partition, offset=value.offset, leader_epoch=epoch, metadata=value.metadata
    )


_ANSWERS: dict[type[Any], Any] = {
    metadata.Request: World._metadata,
    find_coordinator.Request: World._coordinators,
    list_groups.Request: World._list,
    describe_groups.Request: World._describe,
    consumer_group_describe.Request: World._describe_modern,
    offset_fetch.Request: World._fetch,
    list_offsets.Request: World._offsets,
    offset_for_leader_epoch.Request: World._epochs,
    offset_commit.Request: World._commit,
    share_group_describe.Request: World._describe_share,
    streams_group_describe.Request: World._describe_streams,
    describe_share_group_offsets.Request: World._starts,
    alter_share_group_offsets.Request: World._alter_starts,
    delete_share_group_offsets.Request: World._delete_starts,
}
