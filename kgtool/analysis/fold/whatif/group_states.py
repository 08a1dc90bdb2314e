"""What groups with records of their own were, had no check of any broker removed them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import Bools, Ints
from kgtool.analysis.fold.folded_log import FoldedLog
from kgtool.analysis.fold.group_life import Event, State
from kgtool.analysis.fold.group_states import applied, groups_of, ints_of
from kgtool.analysis.fold.whatif.client_events import COMMIT, OWN, PEND, Events, Puts
from kgtool.records.types import GROUP_METADATA
from kgtool.retention import rules as r
from kgtool.retention.rules import RuleSet


class Timeline(NamedTuple):
    """GroupStates by group and position; one array entry each."""

    group: Ints
    position: Ints
    clock_ms: Ints
    until_ms: Ints
    of: rc.Group
    generation: Ints
    rows: tuple[State, ...]
    armed: Bools
    """Whether the record makes a group of one that a check had removed."""
    leftover: Bools
    """Whether a group that begins again would lack something that this one has."""
    has_own: Bools
    """Which groups are in it; one entry a group."""


class Past(NamedTuple):
    """Everything that somebody other than the broker's checks did."""

    folded: FoldedLog
    events: Events
    end_ms: Ints
    """Where each group's checks end."""
    timelines: dict[bool, Timeline]
    """By whether the coordinator is the new one."""


class Story(NamedTuple):
    """What is the same in every scenario."""

    past: Past
    puts: Puts
    """Without commits that no check can come near, but for the first and last of such a row."""
    rows: Ints
    """Those of ``puts`` that a check of some scenario may remove."""


def timeline(folded: FoldedLog, events: Events, rules: RuleSet, end_ms: Ints) -> Timeline:
    """The fold of the groups' own records; ``end_ms`` is where each group's checks end."""
    log = folded.log
    has_own = np.zeros(log.size, dtype=np.bool_)
    has_own[events.group[events.what == OWN]] = True
    # A commit makes a group of what was none; the decoder marks those that may.
    creates = (events.what == COMMIT) | (events.what == PEND)
    creates[creates] = log.offsets.creates[events.row[creates]]
    some = events.only(has_own[events.group] & ((events.what == OWN) | creates))
    found = list(_states(folded, some, rules))
    place, armed, leftover = (
        np.array([row[at] for row in found], dtype=np.int64) for at in range(3)
    )
    rows = tuple(row for *_, row in found)
    group, clock = some.group[place], some.clock_ms[place]
    until = end_ms[group]
    until[:-1] = np.where(group[1:] == group[:-1], clock[1:], until[:-1])
    return Timeline(
        group, some.position[place], clock, until, groups_of(rows), ints_of(rows, "generation"),
        rows, armed > 0, leftover > 0, has_own,
    )  # fmt: skip


def _states(
    folded: FoldedLog, events: Events, rules: RuleSet
) -> Iterator[tuple[int, bool, bool, State]]:
    """The place of the event that began each state, ``armed``, ``leftover`` and the state."""
    own = folded.log.own.events()
    columns = (events.what, events.row, events.at_ms, events.position)
    happened = [
        own[row]._replace(timestamp_ms=at_ms) if what == OWN else Event(at_ms, position)
        for what, row, at_ms, position in zip(*(each.tolist() for each in columns), strict=True)
    ]
    state = State()
    numbered = zip(events.group.tolist(), happened, strict=True)
    for place, (_, life, new) in enumerate(applied(numbered, rules)):
        event, state = happened[place], new or state
        # Whether this coordinator reads it.
        armed = event.key_type is not None and not event.tombstone
        armed &= rules.new_coordinator or event.key_type == GROUP_METADATA
        if armed or new is not None:
            more = life.resolved if life.type == r.TYPE_CONSUMER else life.topics
            leftover = life.type in (r.TYPE_CONSUMER, r.TYPE_STREAMS) and bool(more)
            yield place, armed, leftover, state
