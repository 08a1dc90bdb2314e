"""Committed offsets from coordinators (OffsetFetch), many groups in one request.

With ``require_stable`` (KIP-447), so that a pending transaction shows as such instead of as the old
value; only the partitions that answer UNSTABLE_OFFSET_COMMIT (88) are asked again without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from kgtool.client import denied
from kgtool.client.answers import left_out
from kgtool.client.cluster import Cluster, version_of
from kgtool.client.ops import Call, Operation, grouped, pipelined
from kgtool.client.routing import by_coordinator
from kgtool.errors import BrokerError, KgError
from kgtool.model import CommittedOffset, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import offset_fetch
from kgtool.protocol.codes import broker_error

NAMES_VERSION = 9
"""The last version with topic names; v10 asks by topic id, and a null-topics reply has no names."""

STABLE = 7
"""The first version that reports pending transactions (KIP-447): Kafka 2.5."""

_new = tuple.__new__
"""Makes a named tuple without its constructor, for perhaps a million offsets."""

Committed = dict[TopicPartition, "CommittedOffset | KgError"]
"""A group's offsets; a partition that could not be read has its error."""

TopicIds = Mapping[str, "UUID | None"]


def offsets_of(
    committed: Committed | KgError, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, CommittedOffset]:
    """Return the offsets without errors, sorted or in the order of ``partitions``.

    A pending first commit is not an offset yet.
    """
    values: dict[TopicPartition, CommittedOffset] = {}
    known = {} if isinstance(committed, KgError) else committed
    for partition in sorted(known) if partitions is None else partitions:
        value = known.get(partition)
        if isinstance(value, CommittedOffset) and value.offset is not None:
            values[partition] = value
    return values


def fetch_committed(
    cluster: Cluster, groups: Sequence[str]
) -> Operation[dict[str, Committed | KgError]]:
    """Return all committed offsets of each group (null topics, KIP-88), or an error.

    A group that does not exist has none: OffsetFetch makes no difference.
    """
    return (yield from by_coordinator(cluster, groups, partial(fetch_on, cluster)))


def fetch_on(
    cluster: Cluster, broker: int, groups: list[str]
) -> Operation[dict[str, Committed | KgError]]:
    """Fetch the offsets of groups from their coordinator."""
    version = yield from version_of(broker, offset_fetch.Request)
    if isinstance(version, KgError):
        return dict.fromkeys(groups, version)
    return (yield from _fetch(broker, version, dict.fromkeys(groups), {}))


def _fetch(
    broker: int, version: int, groups: Mapping[str, Sequence[TopicPartition] | None], ids: TopicIds
) -> Operation[dict[str, Committed | KgError]]:
    """Fetch offsets of groups from their coordinator; ask again where a transaction is pending.

    :param groups: the partitions of each group; None is all with an offset.
    :param ids: asks by the topics' ids (v10). A topic that was re-created since answers
        UNKNOWN_TOPIC_ID (100). An offset that was committed for an earlier topic of the name is
        not found.
    """
    replies = yield from pipelined(_calls(broker, version, groups, version >= STABLE, ids))
    names = {topic_id: name for name, topic_id in ids.items()}
    found: dict[str, Any] = _read(version, list(groups), replies, names)
    pending = {
        group: parts
        for group, committed in found.items()
        if isinstance(committed, dict) and (parts := _unstable(committed))
    }
    if pending:
        again = yield from pipelined(_calls(broker, version, pending, False, {}))
        for group, old in _read(version, list(pending), again, {}).items():
            _mark_pending(found[group], pending[group], old)
    return found


def _unstable(committed: Committed) -> list[TopicPartition]:
    return [
        partition
        for partition, value in committed.items()
        if isinstance(value, BrokerError) and value.code == codes.UNSTABLE_OFFSET_COMMIT
    ]


def _mark_pending(committed: Committed, parts: list[TopicPartition], old: Any) -> None:
    for partition in parts:
        before = old.get(partition) if isinstance(old, dict) else old
        if isinstance(before, KgError):
            committed[partition] = before
        elif before is None:
            committed[partition] = CommittedOffset(None, None, None, is_pending=True)
        else:
            committed[partition] = before._replace(is_pending=True)


def _calls(
    broker: int, version: int, groups: Mapping[str, Any], stable: bool, ids: TopicIds
) -> list[Call]:
    """Return the requests: one from v8 on (KIP-709), else one for each group."""
    api = offset_fetch
    if version >= 8:
        rows = [
            api.RequestGroup(group_id=group, topics=_topics(api.RequestGroupTopic, parts, ids))
            for group, parts in groups.items()
        ]
        request = api.Request(groups=rows, require_stable=stable)
        return [Call(broker, request, None if ids else NAMES_VERSION)]
    requests = [
        api.Request(
            group_id=group, topics=_topics(api.RequestTopic, parts, {}), require_stable=stable
        )
        for group, parts in groups.items()
    ]
    return [Call(broker, request) for request in requests]


def _topics(row: Any, partitions: Sequence[TopicPartition] | None, ids: TopicIds) -> Any:
    if partitions is None:
        return None
    topics = grouped(partitions)
    if ids:
        return [row(topic_id=ids[name], partitions=numbers) for name, numbers in topics.items()]
    return [row(name=name, partitions=numbers) for name, numbers in topics.items()]


def _read(
    version: int, groups: list[str], replies: list[Any], names: Mapping[UUID | None, str]
) -> dict[str, Any]:
    if version < 8:
        return {
            group: reply if isinstance(reply, KgError) else _committed(group, reply, {})
            for group, reply in zip(groups, replies, strict=True)
        }
    (reply,) = replies
    if isinstance(reply, KgError):
        return dict.fromkeys(groups, reply)
    rows = {row.group_id: row for row in reply.groups}
    return {
        group: _committed(group, rows[group], names)
        if group in rows
        else left_out(offset_fetch.Request, f"group {group}")
        for group in groups
    }


def _committed(group: str, row: Any, names: Mapping[UUID | None, str]) -> Committed | KgError:
    if row.error_code == codes.GROUP_ID_NOT_FOUND:
        return {}  # some brokers distinguish missing groups from those without offsets
    if row.error_code:
        return denied.explain(broker_error(row.error_code), denied.DESCRIBE, group=group)
    offsets: Committed = {}
    for topic in row.topics:
        name = names.get(topic.topic_id, "") if names else topic.name
        # By position, in the order of ``offset_fetch.Partition``: twice as fast as by name.
        for number, offset, epoch, metadata, error_code, _ in topic.partitions:
            at = _new(TopicPartition, (name, number))
            if error_code:
                error = broker_error(error_code)
                offsets[at] = denied.explain(error, denied.DESCRIBE, topic=name)
                continue
            offsets[at] = _new(
                CommittedOffset,
                # Brokers store negative offsets too; clients take them for no commit.
                (offset if offset >= 0 else None, epoch if epoch >= 0 else None, metadata, False),
            )
    return offsets


# ---------------------------------------------------------------------------------------------
# The committed offsets of chosen partitions (OffsetFetch with topics, KIP-88)


Partitions = Mapping[str, Sequence[TopicPartition]]
"""By group."""


def fetch_selected(
    cluster: Cluster, partitions: Partitions
) -> Operation[dict[str, Committed | KgError]]:
    """Return the offsets that groups have committed for some partitions, or an error.

    Unlike the offsets of a whole group (null topics), this shows topics that may not be read (29)
    and a pending transaction that is the first commit of its partition. Groups without partitions
    are left out.
    """

    def work(broker: int, groups: list[str]) -> Operation[dict[str, Any]]:
        return selected_on(cluster, broker, {group: partitions[group] for group in groups}, {})

    groups = [group for group, parts in partitions.items() if parts]
    return (yield from by_coordinator(cluster, groups, work))


def selected_on(
    cluster: Cluster, broker: int, partitions: Partitions, ids: TopicIds
) -> Operation[dict[str, Committed | KgError]]:
    """Return the offsets of groups of one coordinator for some partitions.

    :param ids: topics with an id are asked for by it where the coordinator can (v10).
    """
    version = yield from version_of(broker, offset_fetch.Request)
    if isinstance(version, KgError):
        return dict.fromkeys(partitions, version)
    found: dict[str, Committed | KgError] = {group: {} for group in partitions}
    usable = ids if version > NAMES_VERSION else {}
    for by_id in (True, False):
        chosen = {
            g: [p for p in parts if bool(usable.get(p.topic)) is by_id]
            for g, parts in partitions.items()
        }
        asked = {group: parts for group, parts in chosen.items() if parts}
        answers = (yield from _fetch(broker, version, asked, ids if by_id else {})) if asked else {}
        for group, more in answers.items():
            known = found[group]
            if isinstance(known, dict):
                found[group] = {**known, **more} if isinstance(more, dict) else more
    return found


# ---------------------------------------------------------------------------------------------
# Groups some at a time, so that the offsets of a million partitions are never held at once.


FIRST = 250
"""Groups in the first batch, when nothing is known of their size."""
OFFSETS = 50_000
"""Offsets held at a time, about: some tens of MB."""


class AdaptiveBatches:
    """Batches of groups; each is as large as the offsets of those before allow.

    :param at_most: how many groups a batch may have.
    """

    def __init__(
        self, groups: Sequence[str], offsets: int = OFFSETS, *, at_most: int | None = None
    ) -> None:
        self._groups = groups
        self._at_most = at_most
        self._max_offsets = offsets
        self._next = 0
        self._seen_groups = self._seen_offsets = 0

    @property
    def are_many(self) -> bool:
        """Whether it may take more than one."""
        return len(self._groups) > FIRST

    def next(self) -> Sequence[str]:
        """Return the next groups; none at the end."""
        size = FIRST
        if self._seen_groups:
            fitting = self._max_offsets * self._seen_groups // max(self._seen_offsets, 1)
            size = max(1, min(8 * FIRST, fitting))
        size = size if self._at_most is None else min(size, self._at_most)
        part = self._groups[self._next : self._next + size]
        self._next += len(part)
        return part

    def learn(self, groups: int, offsets: int) -> None:
        """Count the offsets that the groups of a batch had."""
        self._seen_groups += groups
        self._seen_offsets += offsets
