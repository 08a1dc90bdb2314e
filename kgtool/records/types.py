"""The record types of ``__consumer_offsets``: the versions of their keys.

The names are those of the ``*Key.json`` schemas in kafka-group-coordinator.
"""

from __future__ import annotations

from typing import Final

OFFSET_TYPES: Final = (0, 1)
"""Committed offsets: the legacy key, and today's."""
GROUP_METADATA: Final = 2
CONSUMER_GROUP: Final = 3
CONSUMER_MEMBER: Final = 5
CONSUMER_CURRENT: Final = 8
SHARE_MEMBER: Final = 10
SHARE_GROUP: Final = 11
SHARE_CURRENT: Final = 14
REGULAR_EXPRESSION: Final = 16
STREAMS_GROUP: Final = 17
STREAMS_MEMBER: Final = 19
STREAMS_CURRENT: Final = 22
STREAMS_TOPOLOGY: Final = 23

CONSUMER_TYPES: Final = (*range(CONSUMER_GROUP, 9), REGULAR_EXPRESSION)
SHARE_TYPES: Final = tuple(range(9, REGULAR_EXPRESSION))
STREAMS_TYPES: Final = (STREAMS_GROUP, *range(STREAMS_MEMBER, 24))
KNOWN_TYPES: Final = frozenset(
    (*OFFSET_TYPES, GROUP_METADATA, *CONSUMER_TYPES, *SHARE_TYPES, *STREAMS_TYPES)
)
"""Those that brokers up to 4.3 write."""

GROUP_TYPES: Final = (GROUP_METADATA, CONSUMER_GROUP, SHARE_GROUP, STREAMS_GROUP)
"""A tombstone of these ends the group."""
MEMBER_TYPES: Final = (CONSUMER_MEMBER, SHARE_MEMBER, STREAMS_MEMBER)
MEMBER_KEY_TYPES: Final = (*MEMBER_TYPES, 7, 8, 13, 14, 21, 22)
"""Their keys have a group and a member."""
CURRENT_ASSIGNMENT_TYPES: Final = (CONSUMER_CURRENT, SHARE_CURRENT, STREAMS_CURRENT)
"""Written for members only: a group that has one has a member."""
