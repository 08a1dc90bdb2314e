"""What groups with records of their own were, had no check of any broker removed them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import NONE, Bools, Ints
from kgtool.analysis.fold.group_life import Event, GroupLife
from kgtool.analysis.fold.scene import Scene
from kgtool.analysis.fold.whatif.story import COMMIT, OWN, PEND, Events, Puts
from kgtool.records.types import GROUP_METADATA
from kgtool.retention import rules as r
from kgtool.retention.rules import RuleSet


class Timeline(NamedTuple):
    """States by group and position; one array entry each."""

    group: Ints
    position: Ints
    clock_ms: Ints
    until_ms: Ints
    of: rc.Group
    generation: Ints
    topics: Ints
    """Which set of topics its members hold: an index into ``sets``."""
    armed: Bools
    """Whether the record makes a group of one that a check had removed."""
    leftover: Bools
    """Whether a group that begins again would lack something that this one has."""
    sets: tuple[frozenset[str], ...]
    has_own: Bools
    """Which groups are in it; one entry a group."""


class Past(NamedTuple):
    """Everything that somebody other than the broker's checks did."""

    scene: Scene
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


def timeline(scene: Scene, events: Events, rules: RuleSet, end_ms: Ints) -> Timeline:
    """The fold of the groups' own records; ``end_ms`` is where each group's checks end."""
    log = scene.log
    has_own = np.zeros(log.size, dtype=np.bool_)
    has_own[events.group[events.what == OWN]] = True
    # A commit makes a group of what was none; the decoder marks those that may.
    creates = (events.what == COMMIT) | (events.what == PEND)
    creates[creates] = log.offsets.creates[events.row[creates]]
    some = events.only(has_own[events.group] & ((events.what == OWN) | creates))
    sets: dict[frozenset[str], int] = {}
    rows = [
        (*numbers, sets.setdefault(topics, len(sets)))
        for topics, numbers in _states(scene, some, rules)
    ]
    place, known, kind, state, protocol, since, reads, generation, armed, leftover, topic = (
        np.array([row[at] for row in rows], dtype=np.int64) for at in range(11)
    )
    group, clock = some.group[place], some.clock_ms[place]
    until = end_ms[group]
    until[:-1] = np.where(group[1:] == group[:-1], clock[1:], until[:-1])
    of = rc.Group(known > 0, kind, state, protocol, since, reads > 0)
    return Timeline(
        group, some.position[place], clock, until, of, generation, topic, armed > 0, leftover > 0,
        tuple(sets), has_own,
    )  # fmt: skip


def _states(
    scene: Scene, events: Events, rules: RuleSet
) -> Iterator[tuple[frozenset[str], tuple[int, ...]]]:
    """Topics and the other columns of each state, with the place of the event that began it."""
    own = scene.log.own.events()
    columns = (events.group, events.what, events.row, events.at_ms, events.position)
    group, life, before = -1, GroupLife(rules), ()
    for place, (number, what, row, at_ms, position) in enumerate(
        zip(*(column.tolist() for column in columns), strict=True)
    ):
        if number != group:
            group, life, before = number, GroupLife(rules), ()
        is_own = what == OWN
        event = own[row]._replace(timestamp_ms=at_ms) if is_own else Event(at_ms, position)
        life.apply(event)
        # Whether this coordinator reads it.
        armed = is_own and not event.tombstone
        armed &= rules.new_coordinator or event.key_type == GROUP_METADATA
        now = _state(life)
        if armed or now != before:
            before = now
            topics, numbers, leftover = now
            yield topics, (place, *numbers, armed, leftover)


def _state(life: GroupLife) -> Any:
    topics = life.topics if life.member_count else frozenset()
    begins_with_more = (life.type == r.TYPE_CONSUMER and bool(life.resolved)) or (
        life.type == r.TYPE_STREAMS and bool(life.topics)
    )
    numbers = (
        life.known, rc.TYPE[life.type], rc.STATE[life.state], rc.protocol(life.protocol_type),
        NONE if life.state_since_ms is None else life.state_since_ms, topics is not None,
        life.generation or 0,
    )  # fmt: skip
    return topics or frozenset(), numbers, begins_with_more
