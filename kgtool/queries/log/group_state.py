"""A group as the retention rules see it, from its description and its log."""

from __future__ import annotations

from typing import NamedTuple

from kgtool.model import GroupDescription
from kgtool.queries.log.scan import GroupLog
from kgtool.retention import rules as r
from kgtool.retention.groups import classic_snapshot
from kgtool.retention.rules import GroupSnapshot


class GroupState(NamedTuple):
    """``snapshot`` None: the coordinator does not know the group.

    ``may_subscribe_more``: a member's regular expression may match more topics than are known.
    """

    snapshot: GroupSnapshot | None
    may_subscribe_more: bool = False


def state_of(
    description: GroupDescription,
    log: GroupLog | None,
    is_whole: bool,
    topology: frozenset[str] | None = None,
) -> GroupState | None:
    """Combine the group's state and subscriptions; None: they are in a part of the log not read.

    :param log: what was read of the group's partition.
    :param is_whole: that was the whole partition.
    :param topology: the topics of a streams group.
    """
    if description.error is not None:
        return GroupState(None)
    if description.type == r.TYPE_SHARE:
        return GroupState(GroupSnapshot(r.TYPE_SHARE))
    if description.type == r.TYPE_STREAMS:
        return _streams(description, topology)
    if description.type == r.TYPE_CONSUMER:
        return _consumer(description, log, is_whole)
    return _classic(description, log, is_whole)


def _streams(description: GroupDescription, topology: frozenset[str] | None) -> GroupState | None:
    if description.is_empty:
        return GroupState(GroupSnapshot(r.TYPE_STREAMS))
    if topology is None:
        return None
    return GroupState(GroupSnapshot(r.TYPE_STREAMS, r.STATE_STABLE, subscribed_topics=topology))


def _consumer(description: GroupDescription, log: GroupLog | None, is_whole: bool) -> GroupState:
    if description.is_empty:
        return GroupState(GroupSnapshot(r.TYPE_CONSUMER))
    topics: set[str] = set()
    is_open = False
    for member in description.members:
        topics.update(member.subscribed or ())
        if member.subscribed_regex:
            # The coordinator resolves it, and writes the topics to its log only (record type 16);
            # but those that it has assigned are known.
            topics.update(topic for topic, _ in (*member.assignment, *(member.target or ())))
            found = log.regex_topics(description.group, member.subscribed_regex) if log else None
            topics.update(found or ())
            is_open = is_open or (found is None and not is_whole)
    snapshot = GroupSnapshot(r.TYPE_CONSUMER, r.STATE_STABLE, subscribed_topics=frozenset(topics))
    return GroupState(snapshot, is_open)


def _classic(
    description: GroupDescription, log: GroupLog | None, is_whole: bool
) -> GroupState | None:
    state, protocol_type = description.state, description.protocol_type
    if state == r.STATE_EMPTY and protocol_type:
        return _empty_classic(description, log, is_whole)
    subscriptions = [member.subscribed for member in description.members]
    known = [topics for topics in subscriptions if topics is not None]
    # One subscription that can't be read makes the whole group's unknown.
    topics = frozenset().union(*known) if len(known) == len(subscriptions) else None
    by_load: frozenset[str] | None = frozenset()
    if any(member.instance_id is not None for member in description.members):
        # A static member that came back may have brought other topics than the coordinator's.
        written = log.classic(description.group, is_whole=is_whole) if log else None
        if written is None and not is_whole:
            return None
        if written is not None and written.state == r.STATE_STABLE:
            topics, by_load = written.subscribed_topics, written.by_load
    return GroupState(
        GroupSnapshot(
            r.TYPE_CLASSIC, state, protocol_type, subscribed_topics=topics, by_load=by_load
        )
    )


def _empty_classic(
    description: GroupDescription, log: GroupLog | None, is_whole: bool
) -> GroupState | None:
    """Since when the group is Empty is only in its newest metadata record."""
    value = log.metadata(description.group) if log else None
    if value is None:
        return None
    if value.members:
        # The log is behind, or members joined after the group was described: read more, then
        # believe the log.
        return GroupState(classic_snapshot(value)) if is_whole else None
    snapshot = classic_snapshot(value)
    loaded = log.classic(description.group, is_whole=True) if log else None
    if loaded is not None:
        snapshot = loaded  # which may have lost its date
    return GroupState(snapshot._replace(protocol_type=description.protocol_type))
