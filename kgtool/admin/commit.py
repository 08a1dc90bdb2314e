"""Committing offsets for groups (OffsetCommit), as an administrator or in a member's name.

The broker checks neither the log's range nor what was there before: what may be written is for
the caller to decide. Retries follow the Java AdminClient (``AlterConsumerGroupOffsetsHandler``):
14 and 27 on the same coordinator, 15 and 16 with the coordinator looked up again, everything else
is final for its partition. What a broker has acknowledged once is not sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kgtool.client import denied
from kgtool.client.cluster import Cluster, by_coordinator, pipelined
from kgtool.client.ops import Call, DeadlineExceeded, Operation, backoff
from kgtool.errors import BrokerError, KgError, NetworkError, ProtocolError
from kgtool.model import CommittedOffset, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import offset_commit
from kgtool.protocol.codes import broker_error

NAMES_VERSION = 9
"""The last version with topic names; v10 commits by topic id."""

REQUEST_BYTES = 256 * 1024
"""The offsets of one request become one record batch, which has to fit into the
``max.message.bytes`` of ``__consumer_offsets`` (1 MiB unless somebody made it smaller)."""

REBALANCE_TRIES = 10
"""How often a member's commit is tried again while its group rebalances (27)."""

Offsets = Mapping[TopicPartition, CommittedOffset]
Outcome = dict[TopicPartition, "KgError | None"]
"""What came of each partition: None where the coordinator has stored it."""

_ON_ITS_WAY = (
    codes.COORDINATOR_LOAD_IN_PROGRESS, codes.COORDINATOR_NOT_AVAILABLE, codes.NOT_COORDINATOR,
)  # fmt: skip


class Identity(NamedTuple):
    """In whose name to commit: nobody's (an administrator, the default) or a member's.

    ``epoch`` is the generation of a classic group or the member epoch of a KIP-848 one.
    """

    member_id: str = ""
    epoch: int = -1
    instance_id: str | None = None


ADMIN = Identity()


def commit_offsets(
    cluster: Cluster,
    offsets: Mapping[str, Offsets],
    identities: Mapping[str, Identity] | None = None,
) -> Operation[dict[str, Outcome]]:
    """Store offsets with their leader epochs and metadata; each partition has its own outcome.

    An administrator's commit to a group that has members is answered with UNKNOWN_MEMBER_ID (25);
    a group that does not exist is made. A ``CommittedOffset`` without an offset can't be written.

    :param identities: the groups in which a member commits; ``ADMIN`` in all others.
    """
    names = identities or {}
    left = {group: dict(parts) for group, parts in offsets.items()}
    lost: set[str] = set()
    outcomes: dict[str, Outcome] = {group: {} for group in offsets}

    def work(broker: int, ids: list[str]) -> Operation[dict[str, Any]]:
        answers: dict[str, Any] = {}
        asked = {group: left[group] for group in ids}
        for group, outcome in (yield from _commit_on(broker, asked, names)).items():
            outcomes[group].update(outcome)
            for partition, error in outcome.items():
                if error is None:
                    del left[group][partition]
                elif error.maybe_done:
                    lost.add(group)
            answers[group] = _worth_another_try(outcome)
        return answers

    groups = [group for group in left if left[group]]
    for group, answer in (yield from by_coordinator(cluster, groups, work)).items():
        if isinstance(answer, KgError):
            # An earlier answer may have got lost where the last try did not even get through.
            answer = answer.after_sending() if group in lost else answer
            for partition in left[group]:
                if not isinstance(outcomes[group].get(partition), BrokerError):
                    outcomes[group][partition] = answer
    return outcomes


def _commit_on(
    broker: int, asked: Mapping[str, Offsets], names: Mapping[str, Identity]
) -> Operation[dict[str, Outcome]]:
    """Commit on one coordinator, all requests pipelined; wait out the rebalance of a member."""
    outcomes: dict[str, Outcome] = {group: {} for group in asked}
    rest = dict(asked)
    for attempt in range(REBALANCE_TRIES):
        requests = [(g, part) for g, offsets in rest.items() for part in _parts(g, offsets)]
        calls = [
            Call(broker, _request(group, part, names.get(group, ADMIN)), NAMES_VERSION)
            for group, part in requests
        ]
        replies = yield from pipelined(calls)
        for (group, part), reply in zip(requests, replies, strict=True):
            outcomes[group].update(_read(group, reply, part))
        rest = {group: _rebalancing(outcomes[group], offsets) for group, offsets in asked.items()}
        if not any(rest.values()):
            break
        yield backoff(attempt)
    return outcomes


def _parts(group: str, offsets: Offsets) -> Iterator[dict[TopicPartition, CommittedOffset]]:
    """Cut a group's offsets into requests that are small enough."""
    part: dict[TopicPartition, CommittedOffset] = {}
    size = 0
    for partition, value in offsets.items():
        part[partition] = value
        size += _record_bytes(group, partition, value)
        if size >= REQUEST_BYTES:
            yield part
            part, size = {}, 0
    if part:
        yield part


def _record_bytes(group: str, partition: TopicPartition, value: CommittedOffset) -> int:
    """About what one offset takes in ``__consumer_offsets``; metadata is at most 4 KiB each."""
    names = len(group.encode()) + len(partition.topic.encode())
    return 100 + names + len((value.metadata or "").encode())


def _request(group: str, offsets: Offsets, identity: Identity) -> offset_commit.Request:
    topics: dict[str, list[Any]] = {}
    for partition, value in offsets.items():
        if value.offset is None:
            raise ValueError(f"{partition} has no offset to commit")
        row = offset_commit.RequestPartition(
            partition=partition.partition,
            offset=value.offset,
            leader_epoch=-1 if value.leader_epoch is None else value.leader_epoch,
            metadata=value.metadata,
        )
        topics.setdefault(partition.topic, []).append(row)
    return offset_commit.Request(
        group_id=group,
        generation_id_or_member_epoch=identity.epoch,
        member_id=identity.member_id,
        group_instance_id=identity.instance_id,
        topics=[
            offset_commit.RequestTopic(name=name, partitions=rows) for name, rows in topics.items()
        ],
    )


def _read(group: str, reply: Any, asked: Iterable[TopicPartition]) -> Outcome:
    if isinstance(reply, KgError):
        return dict.fromkeys(asked, reply)
    found: Outcome = dict.fromkeys(asked, broker_error(codes.UNKNOWN_SERVER_ERROR))
    for topic in reply.topics:
        for row in topic.partitions:
            error = None
            if row.error_code:
                error = denied.explain(
                    broker_error(row.error_code), denied.COMMIT, group=group, topic=topic.name
                )
            found[TopicPartition(topic.name, row.partition)] = error
    return found


def _rebalancing(outcome: Outcome, offsets: Offsets) -> dict[TopicPartition, CommittedOffset]:
    return {
        partition: offsets[partition]
        for partition, error in outcome.items()
        if isinstance(error, BrokerError) and error.code == codes.REBALANCE_IN_PROGRESS
    }


def _worth_another_try(outcome: Outcome) -> KgError | None:
    """Return a failure that ``by_coordinator`` knows how to overcome, if there is one."""
    for error in outcome.values():
        if isinstance(error, BrokerError) and error.code in _ON_ITS_WAY:
            return error
        if isinstance(error, ProtocolError) and error.maybe_done:
            return error
        if isinstance(error, NetworkError) and not isinstance(error, DeadlineExceeded):
            return error
    return None
