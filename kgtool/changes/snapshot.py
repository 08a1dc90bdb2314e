"""Images of groups: their committed offsets, and all that is needed to restore them later.

An image keeps each offset with its leader epoch and metadata, the topic's id and the range of its
log, so that a restore can check whether the same records are still there. Journals and backups
are made of images (``kgtool.changes.journal.jsonl`` writes and reads them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kgtool.client.cluster import Cluster, ensure_topics, fetch_metadata
from kgtool.client.ops import READING_SHARE, Operation, within
from kgtool.errors import ChangedMeanwhile, KgError
from kgtool.model import CommittedOffset, GroupDescription, ItemError, Target, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.wire import id_text
from kgtool.queries.groups.share_and_streams import read_with_offsets
from kgtool.queries.groups.start_offsets import NO_START
from kgtool.queries.log.reader import mark_pending
from kgtool.queries.offsets.fetch import Committed
from kgtool.queries.offsets.list_offsets import log_ends


class OffsetImage(NamedTuple):
    """One partition of a group: its committed offset (None: none), and its log.

    ``topic_id`` is Kafka's text form (22 characters), None on brokers before 2.8 and where the
    topic is deleted; ``log_start`` and ``log_end`` are None where they are unknown. ``time_ms`` is
    the time of the last record before the offset, 0 where there is none; None: not read.
    """

    committed: CommittedOffset | None
    topic_id: str | None = None
    log_start: int | None = None
    log_end: int | None = None
    time_ms: int | None = None

    @property
    def misplaced(self) -> str | None:
        """``before-start`` or ``beyond-end`` where the offset lies outside of its log."""
        offset = self.committed.offset if self.committed else None
        if offset is None:
            return None
        if self.log_end is not None and offset > self.log_end:
            return "beyond-end"
        if self.log_start is not None and offset < self.log_start:
            return "before-start"
        return None


class GroupImage(NamedTuple):
    """One group; ``exists`` is False where there was no such group."""

    group: str
    type: str | None
    state: str
    protocol_type: str
    exists: bool
    offsets: Mapping[TopicPartition, OffsetImage]


class GroupChange(NamedTuple):
    """A change of a group: the image before, and the offsets after.

    ``after`` has every partition of the image, None where the offset is going to be deleted; it is
    empty in backups.
    """

    image: GroupImage
    after: Mapping[TopicPartition, CommittedOffset | None]
    deletes_group: bool = False
    is_blind: bool = False
    """Whether the group may have hidden offsets, which undo would not restore."""
    hidden: Mapping[str, int] | None = None
    """How many hidden offsets it has for certain, by topic."""


CommittedValues = Mapping[TopicPartition, "CommittedOffset | None"]
Check = Callable[[GroupDescription, "Committed | KgError"], "ItemError | None"]
"""Called with a group as just read, before it is changed; an error leaves it alone."""


class GroupReading(NamedTuple):
    """A group as just read: its description, its image, and what could not be read."""

    description: GroupDescription
    image: GroupImage
    errors: list[ItemError]


def image_of(
    description: GroupDescription, offsets: Mapping[TopicPartition, OffsetImage]
) -> GroupImage:
    """Make an image of a described group."""
    return GroupImage(
        description.group,
        description.type,
        description.state,
        description.protocol_type,
        description.error is None,
        offsets,
    )


def read_groups(
    cluster: Cluster,
    groups: Sequence[str],
    partitions: Mapping[str, Iterable[TopicPartition]] | None = None,
) -> Operation[dict[str, GroupReading]]:
    """Read images of groups, in any state, also of those that do not exist.

    :param partitions: only these of each group, with or without an offset; default: all offsets.
        Those that do not exist are among the errors then.
    """
    described, committed = yield from read_with_offsets(cluster, groups)
    if partitions is not None:
        yield from mark_pending(cluster, committed)
    found: list[tuple[GroupDescription, dict[TopicPartition, CommittedOffset | None]]] = []
    errors: dict[str, list[ItemError]] = {}
    for description in described:
        group = description.group
        wanted = None if partitions is None else partitions.get(group, ())
        values, errors[group] = _values(group, committed[group], wanted)
        if description.error is not None and description.error.code != codes.GROUP_ID_NOT_FOUND:
            errors[group].append(description.error)
        if wanted is None:
            errors[group] += yield from _hidden(cluster, description, values)
            error = description.error
            if error is not None and error.code == codes.TOPIC_AUTHORIZATION_FAILED:
                # Only a topic that may not be seen kept a KIP-848 group from being described.
                description = description._replace(error=None)
        found.append((description, values))
    images, missing = yield from _take_images(cluster, found)
    if partitions is not None:
        for description, values in found:
            for partition in values:
                if partition in missing:
                    target = Target(description.group, *partition)
                    errors[description.group].append(ItemError.of(missing[partition], target))
    return {
        description.group: GroupReading(description, image, errors[description.group])
        for (description, _), image in zip(found, images, strict=True)
    }


def _hidden(
    cluster: Cluster, description: GroupDescription, values: CommittedValues
) -> Operation[list[ItemError]]:
    """Return errors for topics that members hold and OffsetFetch has left out as not visible.

    Offsets that a group without members has in such topics stay unknown.
    """
    held = {topic for member in description.members for topic, _ in member.assignment}
    names = sorted(held - {partition.topic for partition in values})
    yield from ensure_topics(cluster, names)
    errors = []
    for name in names:
        error = cluster.topics[name].error
        if error is not None and error.code == codes.TOPIC_AUTHORIZATION_FAILED:
            said = f"{error.message.rstrip('.')}: the offsets committed there are hidden."
            target = Target(description.group, name)
            errors.append(ItemError.of(error, target)._replace(message=said))
    return errors


def _values(
    group: str, committed: Committed | KgError, wanted: Iterable[TopicPartition] | None
) -> tuple[dict[TopicPartition, CommittedOffset | None], list[ItemError]]:
    if isinstance(committed, KgError):
        return {}, [ItemError.of(committed, Target(group=group))]
    values: dict[TopicPartition, CommittedOffset | None] = {}
    errors = []
    for partition in sorted(committed) if wanted is None else wanted:
        value = committed.get(partition)
        if wanted is None and value == NO_START:
            continue
        if isinstance(value, KgError):
            errors.append(ItemError.of(value, Target(group, *partition)))
        else:
            # A first commit that is only pending is not an offset yet.
            values[partition] = None if value is None or value.offset is None else value
    return values, errors


def take_images(
    cluster: Cluster, groups: Sequence[tuple[GroupDescription, CommittedValues]]
) -> Operation[list[GroupImage]]:
    """Add topic ids and log ranges to offsets that have been read already."""
    images, _ = yield from _take_images(cluster, groups)
    return images


def _take_images(
    cluster: Cluster, groups: Sequence[tuple[GroupDescription, CommittedValues]]
) -> Operation[tuple[list[GroupImage], dict[TopicPartition, KgError]]]:
    """Return the images, and the partitions that do not exist."""
    partitions = sorted({partition for _, values in groups for partition in values})
    names = sorted({partition.topic for partition in partitions})
    if names:
        yield from fetch_metadata(cluster, names)
    ids = {name: id_text(cluster.topics[name].topic_id) for name in names}
    # A log whose leader doesn't answer has no range in the image; that does not stop a change.
    ends = yield from within(log_ends(cluster, partitions), READING_SHARE)
    known = {
        partition: (ids[partition.topic], log.start, log.end if isinstance(log.end, int) else None)
        for partition, log in ends.items()
    }
    images = [
        image_of(description, {p: OffsetImage(v, *known[p]) for p, v in values.items()})
        for description, values in groups
    ]
    errors = {p: log.end for p, log in ends.items() if isinstance(log.end, KgError)}
    unknown = codes.UNKNOWN_TOPIC_OR_PARTITION
    return images, {p: error for p, error in errors.items() if error.code == unknown}


# ---------------------------------------------------------------------------------------------
# What was agreed to: digests of the offsets that a plan has shown, to find those that change
# between the question and the change. A plan of ten thousand groups can't hold the offsets.


CHANGED_SINCE = ChangedMeanwhile(
    "The offset has changed since the plan was shown.",
    hint="Check with kgtool describe, and repeat the command if it should still change.",
)


def value_digest(value: CommittedOffset | KgError | None) -> int:
    """Return the digest of one offset; 0 where there is none.

    Equal means offset and metadata: some brokers don't return the leader epoch.
    """
    if not isinstance(value, CommittedOffset) or value.offset is None:
        return 0
    return hash((value.offset, value.metadata)) or 1


def group_digest(committed: Committed | KgError) -> int:
    """Return the digest of all offsets of a group; 0 where they can't be read."""
    if isinstance(committed, KgError):
        return 0
    digests = ((partition, value_digest(value)) for partition, value in committed.items())
    return hash(tuple(sorted(item for item in digests if item[1])))
