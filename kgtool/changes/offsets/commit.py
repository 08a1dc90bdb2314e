"""OffsetCommit: requests for one coordinator, and its answers.

Only ``kgtool.changes.offsets.write`` sends them. The broker checks neither the log's range nor the
offset before: what may be written is for the caller to decide. With topic ids (v10) it refuses
offsets of a topic that was re-created since.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from kgtool.changes.offsets.batches import split, tombstone_bytes
from kgtool.client import denied
from kgtool.client.cluster import Cluster, version_of
from kgtool.client.ops import Call, Operation, pipelined
from kgtool.errors import KgError, OutcomeUnknown
from kgtool.model import CommittedOffset, TopicPartition
from kgtool.protocol.api import offset_commit
from kgtool.protocol.codes import broker_error
from kgtool.protocol.schema import NO_UUID

NAMES_VERSION = 9
"""The last version with topic names; v10 commits by topic id."""

REQUEST_BYTES = 256 * 1024
"""The offsets of one request become one record batch, which has to fit into the
``max.message.bytes`` of ``__consumer_offsets`` (1 MiB by default)."""

OffsetsToCommit = Mapping[TopicPartition, CommittedOffset]
TopicIds = Mapping[str, "UUID | None"]
"""The id that each topic had when it was read; None on brokers before 2.8."""
Outcomes = dict[TopicPartition, "KgError | None"]
"""The error of each partition; None where the coordinator has stored it."""


class CommitIdentity(NamedTuple):
    """Who commits: an administrator (the default) or a member.

    ``epoch`` is the generation of a classic group or the member epoch of a KIP-848 one.
    """

    member_id: str = ""
    epoch: int = -1
    instance_id: str | None = None


ADMIN = CommitIdentity()


def commit_on(
    cluster: Cluster,
    broker: int,
    asked: Mapping[str, OffsetsToCommit],
    identities: Mapping[str, CommitIdentity],
    ids: TopicIds,
) -> Operation[dict[str, Outcomes]]:
    """Commit on one coordinator, all requests pipelined; nothing is sent twice.

    :param ids: topics with an id are committed by it where the coordinator can (v10).
    """
    version = yield from version_of(broker, offset_commit.Request)
    if isinstance(version, KgError):
        return {group: dict.fromkeys(offsets, version) for group, offsets in asked.items()}
    usable = ids if version > NAMES_VERSION else {}
    parts: list[tuple[str, OffsetsToCommit, bool]] = []
    for group, offsets in asked.items():
        for by_id in (True, False):
            items = [
                (p, value) for p, value in offsets.items() if bool(usable.get(p.topic)) == by_id
            ]
            small = split(items, partial(_record_bytes, group), REQUEST_BYTES)
            parts += [(group, dict(part), by_id) for part in small]
    calls = []
    for group, part, by_id in parts:
        request = _request(group, part, identities.get(group, ADMIN), ids)
        calls.append(Call(broker, request, None if by_id else NAMES_VERSION))
    replies = yield from pipelined(calls)
    outcomes: dict[str, Outcomes] = {group: {} for group in asked}
    for (group, part, by_id), reply in zip(parts, replies, strict=True):
        names = {ids[p.topic]: p.topic for p in part} if by_id else None
        outcomes[group].update(_read(group, reply, part, names))
    return outcomes


def _record_bytes(group: str, item: tuple[TopicPartition, CommittedOffset]) -> int:
    """Estimate the bytes of one offset in ``__consumer_offsets``; metadata is at most 4 KiB."""
    partition, value = item
    metadata = (value.metadata or "").encode("utf-8", "surrogateescape")  # as it is sent
    return 80 + tombstone_bytes(group, partition) + len(metadata)


def _request(
    group: str, offsets: OffsetsToCommit, identity: CommitIdentity, ids: TopicIds
) -> offset_commit.Request:
    """Build a request with names and ids; the version decides which are sent."""
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
            offset_commit.RequestTopic(
                name=name, topic_id=ids.get(name) or NO_UUID, partitions=rows
            )
            for name, rows in topics.items()
        ],
    )


def _read(
    group: str, reply: Any, asked: OffsetsToCommit, names: Mapping[UUID | None, str] | None
) -> Outcomes:
    if isinstance(reply, KgError):
        return dict.fromkeys(asked, reply)
    missing = OutcomeUnknown("The coordinator's answer leaves this partition out.")
    found: Outcomes = dict.fromkeys(asked, missing)
    for topic in reply.topics:
        name = topic.name if names is None else names.get(topic.topic_id, "")
        for row in topic.partitions:
            error = None
            if row.error_code:
                error = denied.explain(
                    broker_error(row.error_code), denied.COMMIT, group=group, topic=name
                )
            found[TopicPartition(name, row.partition)] = error
    return found
