"""The cause of every tombstone in the log: which removals were expiry.

A tombstone has no cause. It is inferred from the state just before it:

* An offset that was due is ``expired``, any other is ``explicit``: a broker is never early. An
  offset that never expires (orphans, share, subscribed, live) can only be deleted explicitly.
* A group that the next check would have removed anyway is ``group-empty``; one whose records
  continue as another type of group in the same write is ``converted``; any other is ``explicit``.
* All removals of one group in one write have one cause. A check removes nothing that is not due,
  so one offset that was not due makes the whole write ``explicit``: so DeleteGroups on a group
  with some due offsets is recognised, and its group tombstone is not taken for an empty group's.
  All records of one append have the same timestamp.

The log can't show an OffsetDelete, DeleteGroups or topic deletion that only removes what was
already due, before the next check: that counts as expiry. A late removal is no other cause:
restarts and moved coordinators delay checks by hours, which is more frequent than a deletion of
what is long overdue; ``latency_ms`` shows it. Where the removed record itself is missing (compacted
away), the cause is ``None``.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from kgtool.records import Record
from kgtool.records.types import GROUP_TYPES, OFFSET_TYPES
from kgtool.retention import rules as r
from kgtool.retention.groups import TYPE_OF_RECORD
from kgtool.retention.history import Entry, History, Key, LiveOffset, Stored
from kgtool.retention.rules import RuleSet, group_may_go


class Removal(NamedTuple):
    """One tombstone; topic and partition are ``None`` for that of a group."""

    group: str
    topic: str | None
    partition: int | None
    removed_at_ms: int
    """The tombstone's timestamp."""
    cause: str | None
    """One of rules.CAUSE_…; ``None`` where the removed record is missing."""
    expires_at_ms: int | None
    """The earliest moment at which a check could have removed it; ``None``: never, or not
    applicable (a group that was not removed by a check)."""
    latency_ms: int | None
    """``removed_at_ms`` − ``expires_at_ms``: negative for what was removed before its time."""
    log_partition: int
    log_offset: int
    stored: Stored | None = None
    """The offset that was removed; ``None`` for a group, and where its record is missing."""
    rule: str | None = None
    """The rule that the offset was under, one of rules.RULE_…"""

    @property
    def offset(self) -> int | None:
        """The offset that was removed."""
        return None if self.stored is None else self.stored.value.offset

    @property
    def commit_timestamp_ms(self) -> int | None:
        """When it was committed."""
        return None if self.stored is None else self.stored.committed.commit_timestamp_ms


def audit(entries: Iterable[Entry], rules: RuleSet, retention_ms: int) -> list[Removal]:
    """Return every offset's and group's tombstone, by partition and offset of the log."""
    history = History(rules, retention_ms)
    removals: list[Removal] = []
    ordered = sorted(entries, key=lambda entry: (entry.partition, entry.offset))
    for _, write in groupby(ordered, key=lambda e: (e.partition, e.timestamp_ms)):
        removals += _Write(history, list(write)).explain()
    return removals


class _Write:
    """A run of records with one timestamp in one partition."""

    def __init__(self, history: History, entries: list[Entry]) -> None:
        self.history = history
        self.entries = entries
        self.rows: dict[str, list[Removal]] = {}
        self.cleared_before: dict[str, int | None] = {}

    def explain(self) -> list[Removal]:
        for at, entry in enumerate(self.entries):
            record = entry.record
            if isinstance(record, Record) and record.value is None:
                if record.type in OFFSET_TYPES:
                    self._offset(entry, record)
                elif record.type in GROUP_TYPES:
                    self._group(entry, record, self.entries[at + 1 :])
            self.history.feed(entry)
        found = [row for rows in self.rows.values() for row in _one_cause(rows)]
        return sorted(found, key=lambda row: row.log_offset)

    def _add(
        self,
        entry: Entry,
        key: Key | str,
        cause: str | None,
        expires_at_ms: int | None,
        live: LiveOffset | None = None,
    ) -> None:
        group, topic, partition = key if isinstance(key, Key) else (key, None, None)
        at = entry.timestamp_ms
        latency = None if expires_at_ms is None else at - expires_at_ms
        row = Removal(
            group,
            topic,
            partition,
            at,
            cause,
            expires_at_ms,
            latency,
            entry.partition,
            entry.offset,
            None if live is None else live.stored,
            None if live is None else live.verdict.rule,
        )
        self.rows.setdefault(group, []).append(row)

    def _offset(self, entry: Entry, record: Record) -> None:
        key = Key(record.key.group, record.key.topic, record.key.partition)
        self.cleared_before.setdefault(key.group, self.history.cleared_ms(key.group))
        live = self.history.live_offset(key)
        if live is None:
            # Only DeleteGroups, OffsetDelete and topic deletion remove pending offsets.
            held = self.history.is_pending(key.group, key)
            self._add(entry, key, r.CAUSE_EXPLICIT if held else None, None)
            return
        due = live.verdict.expires_at_ms
        if due is None or due > entry.timestamp_ms:
            self._add(entry, key, r.CAUSE_EXPLICIT, live.expires_at_ms, live)
            return
        # The clocks of two coordinators may differ by more than the time between their records.
        at = min(live.expires_at_ms or due, entry.timestamp_ms)
        self._add(entry, key, r.CAUSE_EXPIRED, at, live)

    def _group(self, entry: Entry, record: Record, rest: list[Entry]) -> None:
        group, history = record.key.group, self.history
        if _is_converted(group, TYPE_OF_RECORD[record.type], rest):
            self._add(entry, group, r.CAUSE_CONVERTED, None)
            return
        snapshot = history.snapshot(group)
        if snapshot is None:
            self._add(entry, group, None, None)
            return
        rows = self.rows.get(group, [])
        left = bool(history.offsets(group))
        goes = group_may_go(
            history.rules,
            snapshot,
            offsets_before=left or bool(rows),
            offsets_left=left,
            pending=history.is_pending(group),
        )
        if not goes:
            self._add(entry, group, r.CAUSE_EXPLICIT, None)
            return
        cleared = self.cleared_before.get(group, history.cleared_ms(group))
        times = [history.empty_since_ms(group), cleared, *(row.expires_at_ms for row in rows)]
        at = max((time for time in times if time is not None), default=entry.timestamp_ms)
        self._add(entry, group, r.CAUSE_GROUP_EMPTY, min(at, entry.timestamp_ms))


def _is_converted(group: str, was: str, rest: list[Entry]) -> bool:
    """Whether the same write makes the group one of another type."""
    records = (entry.record for entry in rest if isinstance(entry.record, Record))
    # Offset records have no group type.
    return any(
        record.value is not None
        and record.key.group == group
        and TYPE_OF_RECORD.get(record.type, was) != was
        for record in records
    )


def _one_cause(rows: list[Removal]) -> list[Removal]:
    """Make all removals of one group in one write explicit if one of them is."""
    if all(row.cause != r.CAUSE_EXPLICIT for row in rows):
        return rows
    found = []
    for row in rows:
        if row.cause in (r.CAUSE_EXPIRED, r.CAUSE_GROUP_EMPTY):
            row = row._replace(cause=r.CAUSE_EXPLICIT)
            if row.topic is None:
                row = row._replace(expires_at_ms=None, latency_ms=None)
        found.append(row)
    return found
