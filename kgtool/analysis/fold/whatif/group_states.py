"""The states of groups as if no broker's check had ever removed them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import Bools, Ints
from kgtool.analysis.fold.folded_log import FoldedLog
from kgtool.analysis.fold.group_life import LOAD, GroupEvent, GroupState
from kgtool.analysis.fold.group_states import apply_events, groups_of, ints_of
from kgtool.analysis.fold.whatif.client_events import (
    COMMIT,
    GROUP_RECORD,
    TRANSACTIONAL_COMMIT,
    ClientEvents,
)
from kgtool.records.types import GROUP_METADATA
from kgtool.retention import rules as r
from kgtool.retention.doubts import REBALANCE_MS
from kgtool.retention.rules import RuleSet


class GroupTimeline(NamedTuple):
    """States of the groups with own records, by group and position; one array entry each."""

    group: Ints
    position: Ints
    clock_ms: Ints
    until_ms: Ints
    of: rc.Group
    generation: Ints
    rows: tuple[GroupState, ...]
    recreates: Bools
    """Whether the record creates the group again if a check had removed it."""
    has_details: Bools
    """Whether a group that is created again would lack subscriptions that this one has."""
    has_own: Bools
    """Whether each group has own records; one entry a group."""


def timeline(
    folded: FoldedLog, events: ClientEvents, rules: RuleSet, end_ms: Ints
) -> GroupTimeline:
    """Fold the groups' own records; ``end_ms`` is where each group's checks end."""
    log, is_record = folded.log, events.kind == GROUP_RECORD
    has_own = np.zeros(log.size, dtype=np.bool_)
    has_own[events.group[is_record]] = True
    # Commits that may create their group: the decoder has marked them.
    creates = (events.kind == COMMIT) | (events.kind == TRANSACTIONAL_COMMIT)
    creates[creates] = log.offsets.creates[events.row[creates]]
    some = events.only(has_own[events.group] & (is_record | creates))
    states = list(_states(folded, some, rules))
    place, recreates, has_details = (
        np.array([each[at] for each in states], dtype=np.int64) for at in range(3)
    )
    group, clock = some.group[place], some.clock_ms[place]
    rows = _joined([state for *_, state in states], group, clock)
    until = end_ms[group]
    until[:-1] = np.where(group[1:] == group[:-1], clock[1:], until[:-1])
    return GroupTimeline(
        group,
        some.position[place],
        clock,
        until,
        groups_of(rows),
        ints_of(rows, "generation"),
        rows,
        recreates > 0,
        has_details > 0,
        has_own,
    )


def _joined(rows: list[GroupState], group: Ints, clock_ms: Ints) -> tuple[GroupState, ...]:
    """The states, where a group that is being joined for the first time has its members already.

    The new coordinator writes the first JoinGroup of a group as generation 0 without protocol type
    and members (``GroupMetadataManager.classicGroupJoinNewMember``). In memory the group is then in
    a rebalance, for group.initial.rebalance.delay.ms and longer, until the record with the members.
    """
    for at in np.flatnonzero((group[1:] == group[:-1]) & (np.diff(clock_ms) <= REBALANCE_MS)):
        row, after = rows[at], rows[at + 1]
        is_first = row.known and row.generation == 0 and not (row.protocol_type or row.members)
        if is_first and row.type == after.type == r.TYPE_CLASSIC and after.members:
            rows[at] = after
    return tuple(rows)


def _states(
    folded: FoldedLog, events: ClientEvents, rules: RuleSet
) -> Iterator[tuple[int, bool, bool, GroupState]]:
    """Index of the event, ``recreates``, ``has_details`` and the state from there on."""
    is_record = events.kind == GROUP_RECORD
    records = iter(folded.group_events(events.row[is_record]))
    columns = (is_record, events.at_ms, events.position)
    group_events = [
        next(records)._replace(timestamp_ms=at_ms) if own else GroupEvent(at_ms, position)
        for own, at_ms, position in zip(*(each.tolist() for each in columns), strict=True)
    ]
    state = GroupState()
    by_group = zip(events.group.tolist(), group_events, strict=True)
    for place, (_, life, new) in enumerate(apply_events(by_group, rules)):
        event, state = group_events[place], new or state
        recreates = event.key_type not in (None, LOAD) and not event.tombstone
        # The Scala coordinator skips all other records.
        recreates &= rules.new_coordinator or event.key_type == GROUP_METADATA
        if recreates or new is not None:
            more = life.resolved if life.type == r.TYPE_CONSUMER else life.topics
            has_details = life.type in (r.TYPE_CONSUMER, r.TYPE_STREAMS) and bool(more)
            yield place, recreates, has_details, state
