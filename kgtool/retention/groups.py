"""Groups from their records: GroupMetadata, and the records of the KIP-848 family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any, NamedTuple

from kgtool.records import Record, types
from kgtool.records.subscription import subscribed_topics
from kgtool.retention import rules as r
from kgtool.retention.rules import GroupSnapshot, RuleSet

TYPE_OF_RECORD = {
    types.GROUP_METADATA: r.TYPE_CLASSIC,
    **dict.fromkeys(types.CONSUMER_TYPES, r.TYPE_CONSUMER),
    **dict.fromkeys(types.SHARE_TYPES, r.TYPE_SHARE),
    **dict.fromkeys(types.STREAMS_TYPES, r.TYPE_STREAMS),
}


class GroupDetail(NamedTuple):
    """The content of a group's own record; fields that its type does not have are None."""

    protocol_type: str | None = None
    generation: int | None = None
    state_since_ms: int | None = None
    members: int | None = None
    member: str | None = None
    topics: Collection[str] | None = None
    """Of a classic group: the union over its members, None if one can't be read."""
    regex: str | None = None
    is_static: bool | None = None
    """Of a classic group: whether a member has a ``group.instance.id`` (KIP-345)."""


def read_detail(record: Record) -> GroupDetail:
    """Read the fields of a group's own record that ``Group`` needs."""
    key, value = record.key, record.value
    if record.type == types.GROUP_METADATA and value is not None:
        group = classic_snapshot(value)
        return GroupDetail(
            group.protocol_type,
            group.generation,
            group.state_since_ms,
            len(value.members),
            topics=group.subscribed_topics,
            is_static=any(member.group_instance_id is not None for member in value.members),
        )
    topics: Collection[str] | None = None
    if record.type == types.STREAMS_TOPOLOGY and value is not None:
        topics = _source_topics(value)
    elif record.type == types.REGULAR_EXPRESSION and value is not None:
        topics = value.topics
    elif record.type in types.MEMBER_TYPES:
        topics = getattr(value, "subscribed_topic_names", None)
    member, regex = (getattr(key, name, None) for name in ("member_id", "regular_expression"))
    return GroupDetail(member=member, topics=topics, regex=regex)


class Group:
    """A group while its own records are applied in log order, as its coordinator has it in memory.

    GroupMetadataManager.replay (new coordinator) and GroupMetadataManager.loadGroupsAndOffsets
    (Scala). What a coordinator has differs in two ways from what it has written, until another one
    (or the same after a restart) loads the partition, which is ``load``:

    * A static member (KIP-345) that comes back within its session starts no rebalance. The group is
      written again with the same generation, but the topics that it is judged by stay: both
      coordinators compute them in ``initNextGeneration`` and on loading only
      (GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin,
      GroupCoordinator.updateStaticMemberAndRebalance, which writes since 2.7).
    * With ``RuleSet.forgets_date_on_load`` a load loses since when the group is Empty.
    """

    def __init__(self, rules: RuleSet) -> None:
        self.rules = rules
        self.known = False
        self._reset()

    def _reset(self, group_type: str = r.TYPE_CLASSIC) -> None:
        self.type = group_type
        self.protocol_type = ""
        self.generation: int | None = None
        self.state_since_ms: int | None = None
        self.members: dict[str, Collection[str]] = {}
        self.member_count = 0
        self.names: Counter[str] = Counter()
        self.resolved: dict[str, Collection[str]] = {}
        self.topology: Collection[str] = ()
        self.topics: frozenset[str] | None = frozenset()
        self.written_topics: frozenset[str] | None = frozenset()
        """Of the newest record: the topics after the next load."""
        self.by_load: frozenset[str] | None = frozenset()
        """Topics of which a load since the generation began decides: some records of it have them,
        and some do not. None: of some the topics are not known, so it may be any."""

    @property
    def changes_on_load(self) -> bool:
        """Whether a load of the partition would change anything."""
        if not self.known or self.type != r.TYPE_CLASSIC:
            return False
        forgets = self.rules.forgets_date_on_load is True and not self.member_count
        return self.topics != self.written_topics or (forgets and self.state_since_ms is not None)

    def load(self) -> None:
        """Apply that a coordinator loads the partition."""
        self.by_load = frozenset()
        if self.changes_on_load:
            self.topics = self.written_topics
            if self.rules.forgets_date_on_load is True and not self.member_count:
                self.state_since_ms = None

    def commit(self) -> None:
        """Apply a commit, which creates a simple group if there is none."""
        if not self.known:
            self._reset()
            self.known = True

    def apply_record(self, key_type: int, detail: GroupDetail, *, tombstone: bool) -> None:
        """Apply an own record of the group; a tombstone of the group needs no detail."""
        group_type = TYPE_OF_RECORD[key_type]
        if not self.reads(group_type):
            return
        if tombstone and key_type in types.GROUP_TYPES:
            simple = self.type == r.TYPE_CLASSIC and not self.protocol_type
            if simple or group_type in (self.type, r.TYPE_CLASSIC):
                self._reset()
                self.known = False
        elif tombstone:
            if self.known and self.type == group_type:
                self._remove(key_type, detail)
        else:
            kept = self._keeps_topics(key_type, detail)
            topics, by_load = self.topics, self.by_load
            if key_type == types.GROUP_METADATA or not self.known or self.type != group_type:
                self._reset(group_type)
                self.known = True
            self._put(key_type, detail)
            if kept:
                self.topics = topics
                self.by_load = self._differing(by_load)

    def _differing(self, before: frozenset[str] | None) -> frozenset[str] | None:
        """Add to topics those by which what was written differs from what the coordinator has."""
        if self.topics is None or self.written_topics is None or before is None:
            return before if self.topics == self.written_topics else None
        return before | (self.topics ^ self.written_topics)

    def _keeps_topics(self, key_type: int, detail: GroupDetail) -> bool:
        """Whether a record is of a static member that is back: the same generation again."""
        is_classic = self.known and self.type == r.TYPE_CLASSIC and key_type == types.GROUP_METADATA
        same = self.generation == detail.generation and self.protocol_type == detail.protocol_type
        return bool(is_classic and same and self.member_count and detail.members)

    def reads(self, group_type: str) -> bool:
        """Whether the coordinator reads records of that group type: Scala skips KIP-848's."""
        return self.rules.new_coordinator or group_type == r.TYPE_CLASSIC

    def _remove(self, key_type: int, detail: GroupDetail) -> None:
        if key_type in types.MEMBER_TYPES:
            self.names.subtract(self.members.pop(detail.member or "", ()))
            self.member_count = len(self.members)
        elif key_type == types.REGULAR_EXPRESSION:
            self.resolved.pop(detail.regex or "", None)
        elif key_type == types.STREAMS_TOPOLOGY:
            self.topology = ()
        self._resolve()

    def _put(self, key_type: int, detail: GroupDetail) -> None:
        member, topics = detail.member or "", detail.topics
        if key_type == types.GROUP_METADATA:
            self.protocol_type = detail.protocol_type or ""
            self.generation, self.state_since_ms = detail.generation, detail.state_since_ms
            self.member_count = detail.members or 0
            self.topics = self.written_topics = None if topics is None else frozenset(topics)
            return
        if key_type in types.MEMBER_TYPES:
            self.names.subtract(self.members.pop(member, ()))
            self.members[member] = topics or ()
            self.names.update(topics or ())
        elif key_type in types.CURRENT_ASSIGNMENT_TYPES:
            # A member without a member record (yet) counts as a member.
            self.members.setdefault(member, ())
        elif key_type == types.REGULAR_EXPRESSION:
            self.resolved[detail.regex or ""] = topics or ()
        elif key_type == types.STREAMS_TOPOLOGY:
            self.topology = topics or ()
        self.member_count = len(self.members)
        self._resolve()

    def _resolve(self) -> None:
        """Update the subscriptions: names, topics of regular expressions, and the topology."""
        self.names = +self.names
        self.topics = frozenset(self.names).union(self.topology, *self.resolved.values())

    @property
    def state(self) -> str:
        """Stable with members, else Empty: rebalances are not in the log."""
        return r.STATE_STABLE if self.member_count else r.STATE_EMPTY

    def snapshot(self) -> GroupSnapshot | None:
        """Return the group for the rules; None: it does not exist."""
        if not self.known:
            return None
        return GroupSnapshot(
            self.type,
            self.state,
            self.protocol_type,
            self.state_since_ms,
            self.topics if self.member_count else frozenset(),
            self.generation or 0,
            self.by_load if self.member_count else frozenset(),
        )


def classic_snapshot(value: Any) -> GroupSnapshot:
    """Return the group of a GroupMetadataValue; its state is derived, as on loading."""
    members = value.members
    subscribed: frozenset[str] | None = frozenset()
    if members:
        # Without the consumer protocol, or without a chosen protocol, nothing can be parsed.
        readable = value.protocol_type == r.CONSUMER_PROTOCOL and value.protocol is not None
        subscribed = subscribed_topics(m.subscription for m in members) if readable else None
    since = value.current_state_timestamp
    return GroupSnapshot(
        type=r.TYPE_CLASSIC,
        state=r.STATE_STABLE if members else r.STATE_EMPTY,
        protocol_type=value.protocol_type,
        state_since_ms=None if since == -1 else since,
        subscribed_topics=subscribed,
        generation=value.generation,
    )


def _source_topics(value: Any) -> frozenset[str]:
    """Return the topics of a streams group (``StreamsTopology.sourceTopicMap``)."""
    parts = value.subtopologies
    inner = (topic.name for part in parts for topic in part.repartition_source_topics)
    return frozenset(inner).union(*(part.source_topics for part in parts))
