"""Feeds a log, as ``retention.counterfactual`` leaves it, to the replay of a what-if."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from kgtool.analysis.decode import group_records
from kgtool.analysis.fold.group_life import GroupEvent
from kgtool.analysis.fold.whatif.replay import OFFSET, TOMBSTONE, Commit, GroupReplay, Interval
from kgtool.analysis.input.broker_settings import Scenario
from kgtool.protocol.plan import encode
from kgtool.records import Record
from kgtool.records.control import COMMIT, Marker
from kgtool.records.types import GROUP_TYPES, OFFSET_TYPES
from kgtool.retention.history import Entry
from kgtool.retention.rules import CommittedOffset
from tests.retention.simulation import GroupDeleted, Removed


class Player:
    """All groups of one partition in one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.groups: dict[str, GroupReplay] = {}
        self.pending: dict[int, set[tuple[str, str, int]]] = {}
        self.wiped: set[str] = set()

    def see(self, event: Entry | GroupDeleted) -> None:
        if isinstance(event, GroupDeleted):
            self.wiped.add(event.group)
        elif isinstance(event.record, Marker):
            for group, *key in sorted(self.pending.pop(event.producer_id, ())):
                self.group(group).end_transaction(
                    event.timestamp_ms,
                    (key[0], key[1]),
                    event.producer_id,  # type: ignore[arg-type]
                    committed=event.record.type == COMMIT,
                )
        elif isinstance(event.record, Record):
            if event.record.type in OFFSET_TYPES:
                self.offset(event, event.record)
            else:
                self.own(event, event.record)

    def group(self, name: str) -> GroupReplay:
        if name not in self.groups:
            self.groups[name] = GroupReplay(self.scenario)
        return self.groups[name]

    def offset(self, entry: Entry, record: Record) -> None:
        group, key = self.group(record.key.group), (record.key.topic, record.key.partition)
        if record.value is None:
            group.delete(entry.timestamp_ms, key)
            return
        value = record.value
        own = value.expire_timestamp if record.version == 1 else None
        committed = CommittedOffset(value.commit_timestamp, own)
        put = Commit(committed, value.offset, entry.offset, entry.timestamp_ms)
        if entry.transactional:
            self.pending.setdefault(entry.producer_id, set()).add((record.key.group, *key))
            group.transactional_commit(entry.timestamp_ms, key, put, entry.producer_id)
        else:
            group.commit(entry.timestamp_ms, key, put)

    def own(self, entry: Entry, record: Record) -> None:
        if record.type not in group_records.DECODED_TYPES:
            return
        key = struct.pack(">h", record.type) + encode(record.key, 0)
        value = None
        if record.value is not None:
            assert record.version is not None
            value = struct.pack(">h", record.version) + encode(record.value, record.version)
        name, detail = group_records.decode(record.type, key, value)
        event = GroupEvent(entry.timestamp_ms, entry.offset, record.type, value is None, detail)
        ends = record.type in GROUP_TYPES and value is None
        wipe = ends and name in self.wiped
        self.wiped.discard(name if wipe else "")
        self.group(name).group_record(event, deletes_group=wipe)


def play(
    events: Iterable[Entry | GroupDeleted], scenario: Scenario, end_ms: int
) -> list[tuple[str, Interval]]:
    """Everybody's lives until ``end_ms``."""
    player = Player(scenario)
    for event in events:
        player.see(event)
    return [(name, life) for name, group in player.groups.items() for life in group.finish(end_ms)]


def removed(lives: Iterable[tuple[str, Interval]]) -> list[Removed]:
    """What checks removed, as ``simulate`` tells it, sorted."""
    rows = [
        Removed(life.until_ms or 0, group, *(life.key or (None, None)))
        for group, life in lives
        if (life.role == OFFSET and life.expired) or life.role == TOMBSTONE
    ]
    return in_order(rows)


def in_order(rows: Iterable[Removed]) -> list[Removed]:
    return sorted(
        rows, key=lambda row: (row.at_ms, row.group, row.topic or "~", row.partition or 0)
    )
