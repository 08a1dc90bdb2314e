"""What other brokers would have left of the same log: the specification of a what-if.

A log is what clients did, and what the broker removed because of its rules and its retention. The
second half is taken out (the causes are those of ``audit``), and ``simulation`` plays another
broker over the first:

* Removals by hand stay: OffsetDelete, DeleteGroups, a topic's deletion, and the tombstones whose
  cause the log does not tell. DeleteGroups leaves nothing of a group, so it also takes what this
  broker would have removed before and another one has still got.
* A group that changed its type stays changed.
* Up to 2.0 every value has an expire timestamp, filled in by the broker where the client sent no
  retention time. One that is commit timestamp + the retention of that time was filled in, so
  another retention would have filled in another.

Not told by any log, so not imitated: what a consumer would have committed after it had lost its
offsets, and what OffsetDelete or a topic's deletion would have hit that was gone already.
"""

from __future__ import annotations

from collections.abc import Iterable

from kgtool.records import Record
from kgtool.records.types import GROUP_TYPES, OFFSET_TYPES
from kgtool.retention import rules as r
from kgtool.retention.audit import audit
from kgtool.retention.doubts import INTERVAL_MS
from kgtool.retention.history import Entry, History
from kgtool.retention.rules import RuleSet
from tests.retention.simulation import GroupDeleted

_BY_THE_BROKER = (r.CAUSE_EXPIRED, r.CAUSE_GROUP_EMPTY)


def without_expiry(
    entries: Iterable[Entry], rules: RuleSet, retention_ms: int, interval_ms: int = INTERVAL_MS
) -> list[Entry | GroupDeleted]:
    """The log as its clients alone would have written it, for ``simulation.simulate``.

    ``rules``, ``retention_ms`` and ``interval_ms`` are those of the broker that did write it.
    """
    ordered = sorted(entries, key=lambda entry: (entry.partition, entry.offset))
    removals = audit(ordered, rules, retention_ms, interval_ms)
    causes = {(row.log_partition, row.log_offset): row.cause for row in removals}
    history = History(rules, retention_ms)
    kept: list[Entry | GroupDeleted] = []
    for entry in ordered:
        history.feed(entry)
        cause = causes.get((entry.partition, entry.offset))
        if cause in _BY_THE_BROKER:
            continue
        record = entry.record
        if isinstance(record, Record) and record.value is None and record.type in GROUP_TYPES:
            group = record.key.group
            if cause == r.CAUSE_EXPLICIT and not history.offsets(group):
                kept.append(GroupDeleted(entry.timestamp_ms, group))
        kept.append(_as_sent(entry, retention_ms) if rules.fixed_at_commit else entry)
    return kept


def _as_sent(entry: Entry, retention_ms: int) -> Entry:
    """Take out an expire timestamp that the broker filled in."""
    record = entry.record
    if not isinstance(record, Record) or record.type not in OFFSET_TYPES or record.value is None:
        return entry
    value = record.value
    if record.version != 1 or value.expire_timestamp != value.commit_timestamp + retention_ms:
        return entry
    # Version 3 is what a later broker would have written: it has no such field.
    return entry._replace(
        record=record._replace(version=3, value=value.replace(expire_timestamp=-1))
    )
