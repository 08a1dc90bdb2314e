"""Domain records: what commands show, files contain and tests compare.

Plain named tuples that import nothing of kgtool but the errors. Times are integers in milliseconds
since the epoch and end in ``_ms``; ``None`` means "unknown" or "absent".
"""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from kgtool.errors import BrokerError, ChangedMeanwhile, KgError, OutcomeUnknown, UsageError


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Return it as Kafka writes it: ``orders-0``."""
        return f"{self.topic}-{self.partition}"

    @property
    def typed(self) -> str:
        """As kgtool writes it, and ``--topic`` takes it: ``orders:0``."""
        return f"{self.topic}:{self.partition}"


_MOST_PARTITIONS = 200_000
"""Of one range: more than any cluster has."""


class TopicSpec(NamedTuple):
    """A topic and some of its partitions (None: all of them), as in ``--topic``."""

    topic: str
    partitions: tuple[int, ...] | None = None

    def __str__(self) -> str:
        """Return it as ``--topic`` takes it: ``orders:0,1``."""
        numbers = "" if self.partitions is None else f":{','.join(map(str, self.partitions))}"
        return self.topic + numbers

    @classmethod
    def parse(cls, text: str, *, ranges: bool = True) -> TopicSpec:
        """Read ``t`` or ``t:0,1`` as ``ConsumerGroupCommand.parseTopicsWithPartitions`` does.

        >>> TopicSpec.parse("orders:1,0,1"), TopicSpec.parse("orders:0-2").partitions
        (TopicSpec(topic='orders', partitions=(1, 0)), (0, 1, 2))

        :param ranges: read ``t:0-2`` too, which Kafka's tool refuses.
        :raises UsageError: it is not one, in the words of Kafka's tool.
        """
        topic, colon, rest = text.partition(":")
        if not topic or ":" in rest or (colon and not rest):
            raise UsageError(f"Invalid topic arg '{text}', expected topic name and partitions")
        if not colon:
            return cls(topic)
        words = [word.strip() for word in (rest.rstrip(",") or rest).split(",")]
        found: list[int] = []
        for word in words:
            first, dash, last = word.partition("-") if ranges else (word, "", "")
            ends = [first, last] if dash else [first]
            if not all(end.isascii() and end.isdigit() and int(end) < 2**31 for end in ends):
                raise UsageError(f"Invalid partition '{word}' specified in topic arg '{text}''")
            between = range(int(ends[0]), int(ends[-1]) + 1)
            if not 0 < len(between) <= _MOST_PARTITIONS:
                raise UsageError(f"Invalid partitions '{word}' in '{text}': write FIRST-LAST.")
            found += between
        return cls(topic, tuple(dict.fromkeys(found)))

    def covers(self, topic: str, partition: int) -> bool:
        """Whether it includes a partition."""
        return topic == self.topic and (self.partitions is None or partition in self.partitions)


class Broker(NamedTuple):
    """One broker as the cluster advertises it."""

    id: int
    host: str
    port: int
    rack: str | None = None


class Target(NamedTuple):
    """The subject of an error; ``None`` where that part does not apply."""

    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None


_STATUSES = {ChangedMeanwhile.name: "changed-meanwhile", OutcomeUnknown.name: "unknown"}


class ItemError(NamedTuple):
    """One item that failed while others may have succeeded."""

    target: Target
    code: int | None
    name: str
    message: str
    hint: str | None = None
    unreachable: bool = False
    """No broker answered for the item (exit status 4 if nothing else could be done)."""
    maybe_done: bool = False
    """A request that changes the item may still arrive."""

    @property
    def status(self) -> str:
        """The status of a change's row: ``failed``, ``changed-meanwhile`` or ``unknown``."""
        return _STATUSES.get(self.name, "failed")

    @classmethod
    def of(cls, error: KgError, target: Target) -> ItemError:
        """Return an exception as the failure of one item."""
        code = error.code if isinstance(error, BrokerError) else None
        return cls(
            target,
            code,
            error.name,
            error.message,
            error.hint,
            unreachable=error.exit_code == 4,
            maybe_done=error.maybe_done,
        )


class GroupListing(NamedTuple):
    """One group as ListGroups shows it. ``type`` and ``state`` are None on brokers without them.

    Type and state are as on the wire of 4.x: ``classic``, ``consumer``, ``share``, ``streams``;
    ``Stable``, ``Empty``, ``PreparingRebalance``, …
    """

    group: str
    type: str | None
    state: str | None
    protocol_type: str
    coordinator: int

    @property
    def is_consumer_group(self) -> bool:
        """Whether Kafka's ``--list`` shows it (``ListConsumerGroupsOptions``)."""
        return self.type in (None, "classic", "consumer") and self.protocol_type in ("", "consumer")


class Listing(NamedTuple):
    """The answer of all brokers to ListGroups, sorted by name."""

    groups: list[GroupListing]
    errors: list[ItemError]

    @property
    def consumer_groups(self) -> dict[str, str]:
        """The groups that Kafka's ``--list`` shows, with their types ("" where unknown)."""
        return {one.group: one.type or "" for one in self.groups if one.is_consumer_group}


Assignment = tuple[tuple[str, tuple[int, ...]], ...]
"""Topics and partitions, each ascending: ``(("orders", (0, 1)),)``."""


class Member(NamedTuple):
    """One member of a group.

    Epochs and the target are None for members of classic groups. ``is_classic``: a member of a
    KIP-848 group that still uses the classic protocol (None where the broker doesn't say).
    ``subscribed`` is None where the subscription can't be read.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: Assignment
    subscribed: tuple[str, ...] | None
    subscribed_regex: str | None = None
    rack: str | None = None
    epoch: int | None = None
    target: Assignment | None = None
    is_classic: bool | None = None
    is_unread: bool = False
    """Whether it has an assignment that can't be read: ``assignment`` is empty then."""

    @property
    def partition_count(self) -> int:
        """How many partitions the member owns."""
        return sum(len(partitions) for _, partitions in self.assignment)


class GroupDescription(NamedTuple):
    """One group with its members, or the reason why it can't be described (``error``).

    A group that does not exist has error code 69 (GROUP_ID_NOT_FOUND), on old brokers too.
    """

    group: str
    type: str | None
    state: str
    protocol_type: str
    assignor: str
    coordinator: Broker | None
    members: tuple[Member, ...]
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    error: ItemError | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, so that its offsets can be written from outside."""
        return self.state in ("Empty", "Dead")

    @property
    def is_rebalancing(self) -> bool:
        """Whether the group is between two assignments."""
        return self.state in (
            "PreparingRebalance",
            "CompletingRebalance",
            "Assigning",
            "Reconciling",
        )


class CommittedOffset(NamedTuple):
    """A committed offset as its coordinator has it; the epoch is None where there is none.

    ``offset`` is None only where the first commit of a partition is still pending, and where a
    negative one is stored.
    """

    offset: int | None
    leader_epoch: int | None
    metadata: str | None
    is_pending: bool = False
    """A transaction is about to change it (error 88, UNSTABLE_OFFSET_COMMIT)."""


def same_commit(one: CommittedOffset | None, other: CommittedOffset | None) -> bool:
    """Whether two commits are the same: offset and metadata, and epoch where both know theirs.

    No epoch (-1) equals any: brokers before 2.1 have none (OffsetFetch before v5, KIP-320), and
    those that store commits in the format of 2.0 (inter.broker.protocol.version) lose it when the
    coordinator moves. So another client's commit of the same offset without an epoch counts as
    the same, as one with the same epoch does: its consumer continues from the same position. Null
    metadata reads back as empty. A pending transaction changes nothing until it ends.
    """
    if one is None or one.offset is None or other is None or other.offset is None:
        return (one is None or one.offset is None) and (other is None or other.offset is None)
    if (one.offset, one.metadata or "") != (other.offset, other.metadata or ""):
        return False
    return one.leader_epoch == other.leader_epoch or not (
        _is_known(one.leader_epoch) and _is_known(other.leader_epoch)
    )


def _is_known(epoch: int | None) -> bool:
    return epoch is not None and epoch >= 0


class OffsetRow(NamedTuple):
    """One partition of one group: a row of ``describe --offsets`` (contract, section 4).

    ``status``: ok, no-commit, beyond-end, before-start, unknown-topic, no-leader,
    pending-transaction, denied, or error (``error`` says which).
    """

    group: str
    topic: str
    partition: int
    current_offset: int | None
    log_start_offset: int | None
    log_end_offset: int | None
    lag: int | None
    leader_epoch: int | None
    metadata: str | None
    member_id: str | None
    host: str | None
    client_id: str | None
    subscribed: bool | None
    status: str
    lag_ms: int | None = None
    error: ItemError | None = None
    last_stable_offset: int | None = None
    """Where a reader with read_committed stops; only with ``--read-committed``."""
    is_pending: bool = False
    """A transaction is about to change it, whatever ``status`` says."""
    has_only_markers: bool = False
    """Nothing but transaction markers is left to read; known only with a time lag."""
    lost_at_ms: int | None = None
    """The earliest moment at which the first unread record may go; None: never, or not known."""

    @property
    def readable(self) -> int | None:
        """The records left that still exist: from the log's start, markers included."""
        left, offset, start = self.lag, self.current_offset, self.log_start_offset or 0
        if left is None or offset is None:
            return None
        if left <= 0 or self.has_only_markers:
            return 0
        return left if offset >= start else max(left - (start - offset), 0)

    @property
    def topic_partition(self) -> TopicPartition:
        """Its topic and partition."""
        return TopicPartition(self.topic, self.partition)


class GroupOffsets(NamedTuple):
    """One group's rows in Kafka's order: by member, then the partitions without an owner."""

    description: GroupDescription
    rows: list[OffsetRow]
    errors: list[ItemError]


def has_failed(group: Any) -> bool:
    """Whether a group, or one of its ``rows``, has an error."""
    rows = (*getattr(group, "rows", ()), *getattr(group, "topics", ()))
    return group.error is not None or any(row.error is not None for row in rows)


class InternalTopic(NamedTuple):
    """A repartition or changelog topic of a streams group: ``would-delete``, ``deleted``, ``kept``
    (no request to delete it was sent), ``unknown`` or ``failed``."""

    group: str
    topic: str
    topic_id: UUID | None
    partitions: int
    status: str = "would-delete"
    error: ItemError | None = None


class GroupDeletion(NamedTuple):
    """One group of ``delete``: status ``deleted``, ``changed-meanwhile``, ``unknown``, ``failed``,
    ``would-delete`` or ``skipped`` (others failed, and all or nothing was asked for)."""

    group: str
    status: str
    error: ItemError | None = None
    offsets: int = 0
    """How many offsets go with it."""
    agreed: int = 0
    """A digest of them, to find what has changed since a plan was shown."""
    topics: tuple[InternalTopic, ...] = ()
    """The internal topics of a streams group, which are deleted after it."""

    @property
    def is_open(self) -> bool:
        """Whether it is still to be done."""
        return self.status == "would-delete"


class OffsetDeletion(NamedTuple):
    """One partition of ``delete-offsets``.

    Status is ``deleted``, ``changed-meanwhile``, ``unknown`` (no answer, and it can't be looked
    up), ``no-offset`` (there was none, which counts as done), ``failed``, ``would-delete`` or
    ``skipped`` (others failed, and all or nothing was asked for); partition is None where a topic
    without partitions named does not exist.
    """

    group: str
    topic: str
    partition: int | None
    status: str
    error: ItemError | None = None
    old: CommittedOffset | None = None
    """The offset before; None: none. Brokers keep offset -1, too: ``old.offset`` is None then."""

    @property
    def key(self) -> tuple[str, int | None]:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def at(self) -> TopicPartition:
        """The partition; not for a row without one."""
        if self.partition is None:
            raise ValueError(f"{self.topic} has no partitions")
        return TopicPartition(self.topic, self.partition)

    @property
    def is_open(self) -> bool:
        """Whether it is still to be done."""
        return self.status == "would-delete"


class GroupOffsetDeletions(NamedTuple):
    """One group of ``delete-offsets``: its rows, and the error that made all of them fail."""

    group: str
    rows: list[OffsetDeletion]
    error: ItemError | None = None
    description: GroupDescription | None = None
