"""Groups from their records: GroupMetadata, and the records of the KIP-848 family."""

from __future__ import annotations

from typing import Any

from kgtool.records import Record, types
from kgtool.records.subscription import subscribed_topics
from kgtool.retention import rules as r
from kgtool.retention.rules import GroupSnapshot

TYPE_OF_RECORD = {
    types.GROUP_METADATA: r.TYPE_CLASSIC,
    **dict.fromkeys(types.CONSUMER_TYPES, r.TYPE_CONSUMER),
    **dict.fromkeys(types.SHARE_TYPES, r.TYPE_SHARE),
    **dict.fromkeys(types.STREAMS_TYPES, r.TYPE_STREAMS),
}


class Members:
    """The members and subscriptions of a KIP-848, share or streams group."""

    def __init__(self, type_: str) -> None:
        self.type = type_
        self.subscribed: dict[str, frozenset[str]] = {}
        self.regexes: dict[str, frozenset[str]] = {}
        self.topology: frozenset[str] = frozenset()

    def apply(self, record: Record) -> None:
        """Apply a record of the group, except the tombstone that ends it."""
        key, value = record.key, record.value
        if record.type in types.MEMBER_TYPES:
            if value is None:
                self.subscribed.pop(key.member_id, None)
            else:
                names = getattr(value, "subscribed_topic_names", ())
                self.subscribed[key.member_id] = frozenset(names)
        elif record.type in types.CURRENT_ASSIGNMENT_TYPES:
            if value is not None:
                self.subscribed.setdefault(key.member_id, frozenset())
        elif record.type == types.REGULAR_EXPRESSION:
            if value is None:
                self.regexes.pop(key.regular_expression, None)
            else:
                self.regexes[key.regular_expression] = frozenset(value.topics)
        elif record.type == types.STREAMS_TOPOLOGY:
            self.topology = frozenset() if value is None else _source_topics(value)

    def snapshot(self) -> GroupSnapshot:
        """Return the group; it subscribes to names, resolved expressions and its topology."""
        if not self.subscribed:
            return GroupSnapshot(self.type, r.STATE_EMPTY)
        topics = self.topology.union(*self.subscribed.values(), *self.regexes.values())
        return GroupSnapshot(self.type, r.STATE_STABLE, subscribed_topics=topics)


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
