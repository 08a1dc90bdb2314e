"""The state of groups from their records, in log order.

``History`` is what a coordinator has in memory after replaying the log: groups, committed offsets,
the pending commits of open transactions. The replay depends on the generation
(``RuleSet.new_coordinator``):

* The new coordinator (``OffsetMetadataManager.replay``, ``GroupMetadataManager.replay``) applies
  record by record. A commit for an unknown group makes a simple group; a group's tombstone leaves
  its offsets behind, as *orphans* until a later commit revives the group.
* The Scala coordinator (``doLoadGroupsAndOffsets``) collects offsets first and attaches groups at
  the end, so nothing is ever orphaned: offsets without a group record have a simple group. It
  skips the records of KIP-848 groups.

Rebalances in progress (a classic group is Empty without members, else Stable) and commits in
flight are not in the log. Up to 3.3 an unknown key type made a broker stop loading the whole
partition; that is not imitated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kgtool.records import Record, UnknownRecord, control, decode
from kgtool.records.types import GROUP_METADATA, OFFSET_TYPES
from kgtool.retention import rules as r
from kgtool.retention.groups import Group, read_detail
from kgtool.retention.rules import CommittedOffset, GroupSnapshot, RuleSet, Verdict, verdict


class Entry(NamedTuple):
    """One decoded record of ``__consumer_offsets``, with the producer of its batch."""

    partition: int
    offset: int
    timestamp_ms: int
    record: Record | UnknownRecord | control.Marker
    producer_id: int = -1
    transactional: bool = False
    base_offset: int | None = None
    """Of the batch; ``None`` where it is unknown."""
    leader_epoch: int = -1
    """Of the batch; -1 where it is unknown."""


class Key(NamedTuple):
    """The key of a committed offset."""

    group: str
    topic: str
    partition: int


class Stored(NamedTuple):
    """A committed offset as the coordinator holds it."""

    committed: CommittedOffset
    value: Any
    """The OffsetCommitValue."""
    position: int
    """Its position in the log: the newer of two commits wins."""


class LiveOffset(NamedTuple):
    """A committed offset that was not removed."""

    key: Key
    stored: Stored
    group: GroupSnapshot | None
    is_pending: bool
    verdict: Verdict
    expires_at_ms: int | None
    """The earliest moment at which the broker may remove it: not before the verdict's time, and
    not before the record that ended its last protection."""


class _Judged(NamedTuple):
    """The last verdict on an offset, and since when nothing stronger protects it."""

    verdict: Verdict
    free_since_ms: int


def read_entry(
    partition: int,
    offset: int,
    timestamp_ms: int,
    key: bytes,
    value: bytes | None,
    *,
    producer_id: int = -1,
    transactional: bool = False,
    is_control: bool = False,
    base_offset: int | None = None,
    leader_epoch: int = -1,
) -> Entry:
    """Decode one record as it stands in the log.

    :raises DecodeError: key or value can't be read.
    """
    record = control.decode_marker(key, value) if is_control else decode(key, value)
    return Entry(
        partition,
        offset,
        timestamp_ms,
        record,
        producer_id,
        transactional,
        base_offset,
        leader_epoch,
    )


class History:
    """Replays the log of one or more ``__consumer_offsets`` partitions, each in its own order.

    ``retention_ms`` is only needed for the times in ``live``; the state does not depend on it.
    """

    def __init__(self, rules: RuleSet, retention_ms: int) -> None:
        self.rules = rules
        self.retention_ms = retention_ms
        self._snapshots: dict[str, GroupSnapshot] = {}
        self._groups: dict[str, Group] = {}
        self._offsets: dict[str, dict[Key, Stored]] = {}
        self._judged: dict[Key, _Judged] = {}
        self._transactions: dict[tuple[int, int], dict[Key, Stored]] = {}
        self._holders: dict[str, dict[Key, set[tuple[int, int]]]] = {}
        self._marks: dict[str, set[tuple[int, int]]] = {}
        self._empty_since: dict[str, int] = {}
        self._cleared: dict[str, int] = {}
        self._epochs: dict[int, int] = {}
        self._moved: dict[int, int] = {}
        self._rebalanced: dict[str, int] = {}
        self._changes_on_load: dict[int, set[str]] = {}

    # --- questions ---------------------------------------------------------------------------

    def group_names(self) -> list[str]:
        """Return every group that a check covers, sorted."""
        names = set(self._snapshots)
        if not self.rules.new_coordinator:
            names.update(self._offsets, self._holders)
        return sorted(names)

    def snapshot(self, group: str) -> GroupSnapshot | None:
        """Return the group as the coordinator has it; ``None``: it has none."""
        return self._snapshots.get(group)

    def offsets(self, group: str) -> dict[Key, Stored]:
        """Return the committed offsets of a group, known to the coordinator or not."""
        return self._offsets.get(group, {})

    def is_pending(self, group: str, key: Key | None = None) -> bool:
        """Whether an open transaction holds a commit for the group, or for ``key``."""
        if key is not None:
            return key in self._holders.get(group, {})
        if self.rules.marks_outlive_offsets:
            return bool(self._marks.get(group))
        return group in self._holders

    def pending_keys(self, group: str) -> list[Key]:
        """Return the pending offsets of the group, sorted."""
        return sorted(self._holders.get(group, {}))

    def empty_since_ms(self, group: str) -> int | None:
        """Return when the group became Empty, if the log tells; ``None`` for simple groups."""
        snapshot = self._snapshots.get(group)
        if snapshot is not None and snapshot.state_since_ms is not None:
            return snapshot.state_since_ms
        return self._empty_since.get(group)

    def cleared_ms(self, group: str) -> int | None:
        """Return when the group last lost an offset or a pending one."""
        return self._cleared.get(group)

    def delayed_ms(self, partition: int, group: str) -> int:
        """Return when something last happened that delays checks: a move of the coordinator, or
        the end of a rebalance."""
        never = -r.MAX_TIMESTAMP_MS
        return max(self._moved.get(partition, never), self._rebalanced.get(group, never))

    def is_until_load(self, key: Key) -> bool:
        """Whether a load that the log does not show may have ended what protects the offset."""
        group = self._groups.get(key.group)
        return group is not None and (group.by_load is None or key.topic in group.by_load)

    def live_offset(self, key: Key) -> LiveOffset | None:
        """Return the offset committed for ``key``, with the current verdict."""
        stored = self._offsets.get(key.group, {}).get(key)
        if stored is None:
            return None
        judged = self._judged[key]
        at = judged.verdict.expires_at_ms
        return LiveOffset(
            key,
            stored,
            self.snapshot(key.group),
            self.is_pending(key.group, key),
            judged.verdict,
            None if at is None else max(at, judged.free_since_ms),
        )

    def live(self) -> Iterator[LiveOffset]:
        """Yield every committed offset, by group, topic and partition."""
        for group in sorted(self._offsets):
            for key in sorted(self._offsets[group]):
                found = self.live_offset(key)
                if found is not None:
                    yield found

    # --- replay ------------------------------------------------------------------------------

    def feed(self, entry: Entry) -> None:
        """Apply the next record of its partition."""
        self.move_on(entry)
        record = entry.record
        if isinstance(record, control.Marker):
            if record.type in (control.COMMIT, control.ABORT):
                self._end_transaction(entry, record.type == control.COMMIT)
        elif isinstance(record, UnknownRecord):
            return
        elif record.type in OFFSET_TYPES:
            self._feed_offset(entry, record)
        else:
            self._feed_group(entry, record)

    def move_on(self, entry: Entry) -> None:
        """Apply what a record shows of the coordinator: whether it has loaded the partition."""
        known = self._epochs.setdefault(entry.partition, entry.leader_epoch)
        if entry.leader_epoch > known:
            self._epochs[entry.partition] = entry.leader_epoch
            self._moved[entry.partition] = entry.timestamp_ms
            self.load(entry.partition, entry.timestamp_ms)

    def load(self, partition: int, now_ms: int) -> None:
        """Apply that a coordinator has loaded the partition: another one, or after a restart."""
        for name in sorted(self._changes_on_load.pop(partition, ())):
            self._groups[name].load()
            after = self._groups[name].snapshot()
            if after is not None:
                self._snapshots[name] = after
            self._judge(self.offsets(name), now_ms)

    def _feed_offset(self, entry: Entry, record: Record) -> None:
        key = Key(record.key.group, record.key.topic, record.key.partition)
        producer = (entry.partition, entry.producer_id)
        # The Scala coordinator tests the batch's transactional bit, the new one the producer id.
        new = self.rules.new_coordinator
        in_transaction = entry.producer_id != -1 if new else entry.transactional
        if record.value is None:
            self._remove_offset(entry, key, producer if in_transaction and not new else None)
            return
        revived = new and key.group not in self._snapshots
        if revived:
            self._group(key.group).commit()
            self._snapshots[key.group] = GroupSnapshot()
        stored = self._stored(entry, record)
        if in_transaction:
            self._transactions.setdefault(producer, {})[key] = stored
            self._holders.setdefault(key.group, {}).setdefault(key, set()).add(producer)
            self._marks.setdefault(key.group, set()).add(producer)
        else:
            self._put(key, stored)
        self._judge(self.offsets(key.group) if revived else [key], entry.timestamp_ms)

    def _stored(self, entry: Entry, record: Record) -> Stored:
        value = record.value
        own = value.expire_timestamp if record.version == 1 else None
        position = entry.offset
        if not self.rules.new_coordinator and entry.base_offset is not None:
            position = entry.base_offset
        return Stored(CommittedOffset(value.commit_timestamp, own), value, position)

    def _put(self, key: Key, stored: Stored) -> None:
        self._offsets.setdefault(key.group, {})[key] = stored
        self._judged.pop(key, None)

    def _remove_offset(self, entry: Entry, key: Key, producer: tuple[int, int] | None) -> None:
        if producer is not None:
            if self._transactions.get(producer, {}).pop(key, None) is not None:
                self._release(key, producer)
        else:
            self._drop(key)
            if self.rules.tombstone_drops_pending:
                for holder in list(self._holders.get(key.group, {}).get(key, ())):
                    self._transactions[holder].pop(key, None)
                    self._release(key, holder)
        self._cleared[key.group] = entry.timestamp_ms
        self._judge([key], entry.timestamp_ms)

    def _drop(self, key: Key) -> None:
        offsets = self._offsets.get(key.group, {})
        offsets.pop(key, None)
        self._judged.pop(key, None)
        if not offsets:
            self._offsets.pop(key.group, None)

    def _release(self, key: Key, producer: tuple[int, int]) -> None:
        held = self._holders[key.group]
        held[key].discard(producer)
        if not held[key]:
            del held[key]
        if not held:
            del self._holders[key.group]

    def _end_transaction(self, entry: Entry, is_commit: bool) -> None:
        producer = (entry.partition, entry.producer_id)
        for key, stored in self._transactions.pop(producer, {}).items():
            self._release(key, producer)
            self._marks[key.group].discard(producer)
            self._cleared[key.group] = entry.timestamp_ms
            present = self.offsets(key.group).get(key)
            newer = present is None or stored.position > present.position
            if is_commit and (newer or self.rules.commit_always_replaces):
                self._put(key, stored)
            self._judge([key], entry.timestamp_ms)

    def _feed_group(self, entry: Entry, record: Record) -> None:
        name = record.key.group
        if record.type == GROUP_METADATA:
            self._rebalanced[name] = entry.timestamp_ms
        before, group = self._snapshots.get(name), self._group(name)
        group.apply_record(record.type, read_detail(record), tombstone=record.value is None)
        after = group.snapshot()
        if group.changes_on_load:
            self._changes_on_load.setdefault(entry.partition, set()).add(name)
        if after is None:
            self._snapshots.pop(name, None)
            self._empty_since.pop(name, None)
        else:
            self._snapshots[name] = after
        if after != before:
            if after is not None and after.state == r.STATE_EMPTY:
                self._empty_since[name] = entry.timestamp_ms
            self._judge(self.offsets(name), entry.timestamp_ms)

    def _group(self, name: str) -> Group:
        if name not in self._groups:
            self._groups[name] = Group(self.rules)
        return self._groups[name]

    def _judge(self, keys: Any, now_ms: int) -> None:
        """Renew the verdicts on these offsets after a change."""
        for key in keys:
            stored = self._offsets.get(key.group, {}).get(key)
            if stored is None:
                continue
            found = verdict(
                self.rules,
                self._snapshots.get(key.group),
                stored.committed,
                key.topic,
                self.retention_ms,
                self.is_pending(key.group, key),
            )
            last = self._judged.get(key)
            since = now_ms
            if last is not None and not _is_sooner(found, last.verdict):
                since = last.free_since_ms
            self._judged[key] = _Judged(found, since)


def _is_sooner(new: Verdict, old: Verdict) -> bool:
    if new.expires_at_ms is None:
        return False
    return old.expires_at_ms is None or new.expires_at_ms < old.expires_at_ms
