"""A group as the retention rules see it, from its description and what the log says of it."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from kgtool.model import GroupDescription
from kgtool.queries.log.scan import GroupLog
from kgtool.retention import rules as r
from kgtool.retention.groups import classic_snapshot
from kgtool.retention.rules import GroupSnapshot


class Unread(Enum):
    """That what it takes is in a part of the log that was not read."""

    UNREAD = 0


UNREAD: Final = Unread.UNREAD


class GroupState(NamedTuple):
    """``snapshot`` None: the coordinator does not know the group.

    ``may_subscribe_more``: a member's regular expression may stand for more topics than are known.
    """

    snapshot: GroupSnapshot | None | Unread
    may_subscribe_more: bool = False


def state_of(
    description: GroupDescription,
    log: GroupLog | None,
    is_whole: bool,
    topology: frozenset[str] | None = None,
) -> GroupState:
    """Put together the group's state and subscriptions.

    :param log: what was read of the group's partition.
    :param is_whole: the whole partition was, so that what it doesn't say does not exist.
    :param topology: what a streams group reads.
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


def _streams(description: GroupDescription, topology: frozenset[str] | None) -> GroupState:
    if description.is_empty:
        return GroupState(GroupSnapshot(r.TYPE_STREAMS))
    if topology is None:
        return GroupState(UNREAD)
    return GroupState(GroupSnapshot(r.TYPE_STREAMS, r.STATE_STABLE, subscribed_topics=topology))


def _consumer(description: GroupDescription, log: GroupLog | None, is_whole: bool) -> GroupState:
    if description.is_empty:
        return GroupState(GroupSnapshot(r.TYPE_CONSUMER))
    topics: set[str] = set()
    is_open = False
    for member in description.members:
        topics.update(member.subscribed or ())
        if member.subscribed_regex:
            # The coordinator resolves it, and says to what in its log only (record type 16); but
            # what it has handed out on the strength of it shows.
            topics.update(topic for topic, _ in (*member.assignment, *(member.target or ())))
            found = log.regex_topics(description.group, member.subscribed_regex) if log else None
            topics.update(found or ())
            is_open = is_open or (found is None and not is_whole)
    snapshot = GroupSnapshot(r.TYPE_CONSUMER, r.STATE_STABLE, subscribed_topics=frozenset(topics))
    return GroupState(snapshot, is_open)


def _classic(description: GroupDescription, log: GroupLog | None, is_whole: bool) -> GroupState:
    state, protocol_type = description.state, description.protocol_type
    if state == r.STATE_EMPTY and protocol_type:
        return _empty_classic(description, log, is_whole)
    subscribed: frozenset[str] | None = frozenset()
    for member in description.members:
        if member.subscribed is None or subscribed is None:
            subscribed = None  # one that can't be read makes the whole group's unknown
        else:
            subscribed = subscribed.union(member.subscribed)
    return GroupState(
        GroupSnapshot(r.TYPE_CLASSIC, state, protocol_type, subscribed_topics=subscribed)
    )


def _empty_classic(
    description: GroupDescription, log: GroupLog | None, is_whole: bool
) -> GroupState:
    """The moment since which the group is Empty is only in its newest metadata record."""
    value = log.metadata(description.group) if log else None
    if value is None:
        return GroupState(UNREAD)
    if value.members:
        # The log is behind, or the group came to life after it was described: read on, then
        # believe the log.
        return GroupState(classic_snapshot(value) if is_whole else UNREAD)
    snapshot = classic_snapshot(value)
    return GroupState(snapshot._replace(protocol_type=description.protocol_type))
