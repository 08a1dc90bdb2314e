"""The removals of one write of the log: what decides their common cause."""

from __future__ import annotations

from typing import NamedTuple

from kgtool.records import Record
from kgtool.records.types import GROUP_METADATA, GROUP_TYPES, OFFSET_TYPES
from kgtool.retention import rules as r
from kgtool.retention.doubts import RACE_MS, Checks, Early, explained_until_ms
from kgtool.retention.groups import TYPE_OF_RECORD
from kgtool.retention.history import Entry, History, Key, LiveOffset, Stored
from kgtool.retention.rules import group_may_go


class Removal(NamedTuple):
    """One tombstone; topic and partition are ``None`` for that of a group."""

    group: str
    topic: str | None
    partition: int | None
    removed_at_ms: int
    """The tombstone's timestamp."""
    cause: str | None
    """One of rules.CAUSE_…; ``None`` where it can't be known."""
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


def doubt_raced(writes: list[list[Row]], found: list[list[Removal]]) -> None:
    """Take the causes of groups' removals that may have overtaken those of their offsets."""
    following: dict[str, Removal] = {}
    for rows, removals in zip(reversed(writes), reversed(found), strict=True):
        last, after = removals[-1], following.get(removals[-1].group)
        may_be_raced = rows[-1].has_left and last.cause == r.CAUSE_EXPLICIT
        if may_be_raced and after is not None and after.topic is not None:
            soon = after.removed_at_ms - last.removed_at_ms <= RACE_MS
            removals[-1] = last._replace(cause=None) if soon else last
        following[last.group] = removals[0]


class Row(NamedTuple):
    """A removal, and what decides in case of doubt."""

    removal: Removal
    explained_ms: int
    """When something happened that may have delayed it."""
    old_ms: int | None = None
    """Since when an offset was older than the retention, that came before its time."""
    future: Future | None = None
    is_consumer: bool = False
    is_until_load: bool = False
    has_left: bool = False
    """Of a group's removal: whether the group still had offsets."""
    keeps_older: bool = False
    """Whether the group keeps an offset that any check would have removed first."""
    is_of_age: bool = False
    """Whether it came before its time, but at an age that may have been the brokers' retention."""

    def is_late(self, interval_ms: int) -> bool:
        """Whether something else than a check may have removed it, as that long after its time."""
        row = self.removal
        if row.cause != r.CAUSE_EXPIRED or row.expires_at_ms is None:
            return False
        since = max(row.expires_at_ms, self.explained_ms)
        return since < row.removed_at_ms - explained_until_ms(interval_ms)

    def doubted(self) -> Row:
        """The same without a cause."""
        return self._replace(removal=self.removal._replace(cause=None))

    def decide(self, checks: Checks) -> tuple[Row, bool]:
        """The row with its cause if it came early, and whether that is in doubt."""
        if self.old_ms is None or self.future is None:
            return self, False
        at_ms, after = self.removal.removed_at_ms, self.future.generation_ms
        is_dated = self.removal.rule == r.RULE_EMPTY_SINCE
        # Topics change when a generation begins, which is some time before its record.
        comes = after is not None and (is_dated or self.future.since_ms <= at_ms)
        in_ms = after - at_ms if after is not None and comes else None
        early = Early(at_ms, in_ms, self.is_consumer, is_dated, self.is_until_load)
        cause = checks.cause(early)
        row = self.removal._replace(cause=cause)
        if cause == r.CAUSE_EXPIRED:
            latency_ms = at_ms - self.old_ms
            row = row._replace(expires_at_ms=self.old_ms, latency_ms=latency_ms, rule=r.RULE_COMMIT)
        return self._replace(removal=row), cause is None


def compared(rows: list[Row], history: History) -> list[Row]:
    """Those of one group in one write, with what it has kept: a check removes the older first."""
    kept = map(history.live_offset, history.offsets(rows[0].removal.group))
    dues = [each.expires_at_ms for each in kept if each and each.verdict.rule != r.RULE_EXPLICIT]
    oldest = min((due for due in dues if due is not None), default=r.MAX_TIMESTAMP_MS)
    return [row._replace(keeps_older=oldest <= (row.removal.expires_at_ms or 0)) for row in rows]


class Future:
    """When the group's next generation with members was written; None: not, or another record."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.generation_ms: int | None = None
        self.since_ms = r.MAX_TIMESTAMP_MS
        """Since when that generation was being made; unknown: never."""


_BY_CHECK = (r.CAUSE_EXPIRED, r.CAUSE_GROUP_EMPTY)


def certain(rows: list[Row], interval_ms: int) -> list[int]:
    """When a check has certainly removed offsets."""
    if any(row.removal.cause == r.CAUSE_EXPLICIT for row in rows):
        return []
    expired = [row for row in rows if row.removal.cause == r.CAUSE_EXPIRED]
    return [row.removal.removed_at_ms for row in expired if not row.is_late(interval_ms)]


def decided(rows: list[Row], checks: Checks, interval_ms: int) -> list[Removal]:
    """The removals of one group in one write: all have one cause."""
    unsure = False
    if not any(row.removal.cause == r.CAUSE_EXPLICIT and row.old_ms is None for row in rows):
        # A check removes nothing else of that write that is not due.
        decided = [row.decide(checks) for row in rows]
        rows, unsure = [row for row, _ in decided], any(doubt for _, doubt in decided)
    if all(row.is_of_age for row in rows if row.removal.cause == r.CAUSE_EXPLICIT):
        unsure = unsure or any(row.is_of_age for row in rows)
        rows = [row.doubted() if row.is_of_age else row for row in rows]
    latest = _latest(*(row.removal.expires_at_ms for row in rows if row.removal.topic is not None))
    rows = [_redated(row, latest) for row in rows]
    if not checks.is_at(rows[0].removal.removed_at_ms):
        unsure = unsure or any(row.is_late(interval_ms) for row in rows)
    by_hand = any(row.removal.cause == r.CAUSE_EXPLICIT for row in rows)
    if not by_hand and not unsure:
        return [row.removal for row in rows]
    cause = r.CAUSE_EXPLICIT if by_hand else None
    return [_caused(row.removal, cause) for row in rows]


def _latest(*times_ms: int | None) -> int | None:
    return max((time for time in times_ms if time is not None), default=None)


def _caused(row: Removal, cause: str | None) -> Removal:
    if row.cause not in _BY_CHECK:
        return row
    row = row._replace(cause=cause)
    return row if row.topic is not None else row._replace(expires_at_ms=None, latency_ms=None)


def _redated(row: Row, latest_ms: int | None) -> Row:
    """A group's removal is due when the last of its offsets is, too."""
    found = row.removal
    if found.cause != r.CAUSE_GROUP_EMPTY:
        return row
    since = _latest(found.expires_at_ms, latest_ms)
    at = found.removed_at_ms if since is None else min(since, found.removed_at_ms)
    found = found._replace(expires_at_ms=at, latency_ms=found.removed_at_ms - at)
    return row._replace(removal=found)


class Write:
    """A run of records with one timestamp in one partition."""

    def __init__(
        self,
        history: History,
        entries: list[Entry],
        interval_ms: int,
        futures: dict[str, list[Future]],
    ) -> None:
        self.history = history
        self.entries = entries
        self.interval_ms = interval_ms
        self.futures = futures
        self.rows: dict[str, list[Row]] = {}
        self.cleared_before: dict[str, int | None] = {}

    def explain(self) -> list[list[Row]]:
        """Feed the history; return what was removed, by group."""
        for at, entry in enumerate(self.entries):
            record = entry.record
            self.history.move_on(entry)
            if isinstance(record, Record) and record.type == GROUP_METADATA:
                self._generation(entry, record)
            if isinstance(record, Record) and record.value is None:
                if record.type in OFFSET_TYPES:
                    self._offset(entry, record)
                elif record.type in GROUP_TYPES:
                    self._group(entry, record, self.entries[at + 1 :])
            self.history.feed(entry)
        return list(self.rows.values())

    def _add(
        self,
        entry: Entry,
        key: Key | str,
        cause: str | None,
        expires_at_ms: int | None,
        live: LiveOffset | None = None,
    ) -> None:
        group, topic, partition = key if isinstance(key, Key) else (key, None, None)
        at, place = entry.timestamp_ms, (entry.partition, entry.offset)
        latency = None if expires_at_ms is None else at - expires_at_ms
        row = Removal(group, topic, partition, at, cause, expires_at_ms, latency, *place)
        if live is not None:
            row = row._replace(stored=live.stored, rule=live.verdict.rule)
        found = Row(row, self.history.delayed_ms(entry.partition, group))
        self.rows.setdefault(group, []).append(found)

    def _offset(self, entry: Entry, record: Record) -> None:
        key = Key(record.key.group, record.key.topic, record.key.partition)
        self.cleared_before.setdefault(key.group, self.history.cleared_ms(key.group))
        live = self.history.live_offset(key)
        if live is None:
            # Only DeleteGroups, OffsetDelete and topic deletion remove pending offsets.
            held = self.history.is_pending(key.group, key) or self._is_second(key)
            self._add(entry, key, r.CAUSE_EXPLICIT if held else None, None)
            return
        due = live.verdict.expires_at_ms
        if due is None or due > entry.timestamp_ms:
            self._add(entry, key, r.CAUSE_EXPLICIT, live.expires_at_ms, live)
            self._early(entry, live)
            return
        # The clocks of two coordinators may differ by more than the time between their records.
        at = min(live.expires_at_ms or due, entry.timestamp_ms)
        self._add(entry, key, r.CAUSE_EXPIRED, at, live)

    def _is_second(self, key: Key) -> bool:
        """Whether this write has removed it already: a deletion writes one tombstone for what is
        committed and one for what is pending (OffsetMetadataManager.onPartitionsDeleted)."""
        rows = self.rows.get(key.group, ()) if self.history.rules.pending_protects_offset else ()
        return any((row.removal.topic, row.removal.partition) == key[1:] for row in rows)

    def _early(self, entry: Entry, live: LiveOffset) -> None:
        """Note an offset older than the retention that something else kept, if that may be gone."""
        group, rules = live.group, self.history.rules
        old = live.stored.committed.commit_timestamp_ms + self.history.retention_ms
        rule = live.verdict.rule
        if group is None or old > entry.timestamp_ms:
            return
        if rule not in (r.RULE_EMPTY_SINCE, r.RULE_SUBSCRIBED):
            return
        is_until_load = rule == r.RULE_SUBSCRIBED and self.history.is_until_load(live.key)
        bugs = (rules.forgets_date_on_load, rules.rebalancing_is_stable)
        if bugs == (False, False) and not is_until_load:
            return
        old_ms = max(old, entry.timestamp_ms - self.interval_ms)
        future = Future(group.generation)
        self.futures.setdefault(live.key.group, []).append(future)
        is_consumer = group.protocol_type == r.CONSUMER_PROTOCOL
        rows = self.rows[live.key.group]
        rows[-1] = rows[-1]._replace(
            old_ms=old_ms, future=future, is_consumer=is_consumer, is_until_load=is_until_load
        )

    def _generation(self, entry: Entry, record: Record) -> None:
        """Tell what was waiting for the group's next record."""
        value = record.value
        for future in self.futures.pop(record.key.group, ()):
            if value is not None and value.members and value.generation > future.generation:
                future.generation_ms = entry.timestamp_ms
                future.since_ms = value.current_state_timestamp

    def _group(self, entry: Entry, record: Record, rest: list[Entry]) -> None:
        group, history = record.key.group, self.history
        rows = self.rows.get(group, [])[:]
        self._add(entry, group, *self._cause_of_group(entry, record, rest, rows))
        left = bool(history.offsets(group))
        self.rows[group][-1] = self.rows[group][-1]._replace(has_left=left)

    def _cause_of_group(
        self, entry: Entry, record: Record, rest: list[Entry], rows: list[Row]
    ) -> tuple[str | None, int | None]:
        """Cause and time of a group's removal, after those rows of the same write."""
        group, history = record.key.group, self.history
        left = bool(history.offsets(group))
        if history.rules.new_coordinator and _is_converted(record, rest):
            return r.CAUSE_CONVERTED, None
        snapshot = history.snapshot(group)
        if snapshot is None:
            return None, None
        goes = group_may_go(
            history.rules,
            snapshot,
            offsets_before=left or bool(rows),
            offsets_left=left,
            pending=history.is_pending(group),
        )
        if not goes:
            return r.CAUSE_EXPLICIT, None
        cleared = self.cleared_before.get(group, history.cleared_ms(group))
        return r.CAUSE_GROUP_EMPTY, _latest(history.empty_since_ms(group), cleared)


def _is_converted(tombstone: Record, rest: list[Entry]) -> bool:
    """Whether the same write makes the group one of another type: brokers convert in one write.

    A later write does not tell: in a compacted log the rest of this one may be superseded by it.
    """
    group, was = tombstone.key.group, TYPE_OF_RECORD[tombstone.type]
    records = (entry.record for entry in rest if isinstance(entry.record, Record))
    # Offset records have no group type.
    return any(
        record.value is not None
        and record.key.group == group
        and TYPE_OF_RECORD.get(record.type, was) != was
        for record in records
    )
